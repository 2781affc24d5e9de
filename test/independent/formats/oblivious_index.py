"""The vectors of oblivious-index.md."""
import struct

from .blind_hash import derive, hash_of, hash_to_group, times
from .common import MADE_BY, flip, hmac_sha256, key_of, sha256
from .index_texts import column_text, compound, kept_bits
from .local_index import li_column_key, li_parts, lp

LABEL = b"eaas/oblivious-index/v1"


def oi_message(secret_name, model, column, kind, part, label=LABEL):
    return lp(label, secret_name, model, column, kind, part)


def oi_hash(hash_key, given):
    """blind-hash.md 6: what the client and the service compute together."""
    return hash_of(given, times(derive(hash_key)[0], hash_to_group(given)))


def oi_value(hash_key, model, column, kind, length, bits, texts, generation=1, application_secret=LABEL, message=oi_message, of=oi_hash):
    """What the column holds: one value, or a sorted list of them."""
    name = model if generation == 1 else f"{model}:{generation}"
    kind_name = kind if kind == "exact" else f"{kind}:{length}"
    made = [message(name, model, column, kind_name, part) for part in li_parts(model, column, texts, kind, length)]
    values = sorted({kept_bits(of(hash_key, hmac_sha256(application_secret, one))[:32], bits) for one in made})
    return values if kind == "ngram" else values[0]


def oblivious_index_vectors():
    key, secret = key_of("hash key"), key_of("application secret")
    column, refuse_column = [], []

    def vector(name, texts, value, model, of_column, kind, length, bits, generation, with_secret):
        more = {"application_secret": secret.hex()} if with_secret else {}
        return {"name": name, "model": model, "generation": generation, "column": of_column, "kind": kind, "length": length, "bits": bits, "texts": texts, **more, "value": value}

    def right(texts, model, of_column, kind, length, bits, generation, with_secret, **mistake):
        return oi_value(key, model, of_column, kind, length, bits, texts, **{"generation": generation, "application_secret": secret if with_secret else LABEL, **mistake})

    def add(name, *texts, model="users", of_column="email_index", kind="exact", length=0, bits=256, generation=1, with_secret=False):
        about = (model, of_column, kind, length, bits, generation, with_secret)
        column.append(vector(name, list(texts), right(texts, *about), *about))

    ada = "ada@example.org"
    add("a value", ada)
    add("no text", "")
    add("the same in another column", ada, of_column="backup_index")
    add("the same in another model", ada, model="orders")
    add("names beyond ASCII", "Ren\u00e9e \U0001f510", model="\u00e9", of_column="\U0001f510")
    add("generation 2", ada, generation=2)
    add("a model with the name of a generation", ada, model="users:2")
    add("with the application's secret", ada, with_secret=True)
    add("several fields", "Ada", "Paris")
    add("16 bits", ada, bits=16)
    add("a prefix", "Lovelace", kind="prefix", length=3)
    add("a prefix of generation 2", "Lovelace", kind="prefix", length=3, generation=2)
    add("a prefix in a model with the name of a generation", "Lovelace", model="users:2", kind="prefix", length=3)
    add("parts, with the application's secret", "Lovelace", kind="ngram", length=3, bits=12, with_secret=True)
    add("a month", "1785542400000", kind="range", length="month")
    add("999.99 in steps of 1000", "999.99", kind="range", length="1000")

    def wrong(name, text, value=None, kind="exact", length=0, bits=256, generation=1, with_secret=False, **mistake):
        about = ("users", "email_index", kind, length, bits, generation, with_secret)
        made = right([text], *about, **mistake) if value is None else value
        assert made != right([text], *about), name
        refuse_column.append(vector(name, [text], made, *about))

    hashed = column_text("users", "email_index", [ada])
    given = hmac_sha256(LABEL, oi_message("users", "users", "email_index", "exact", hashed))
    wrong("the input itself", ada, given.hex())
    wrong("the last bytes of the hash", ada, oi_hash(key, given)[32:].hex())
    wrong("the hash of the hash", ada, sha256(oi_hash(key, given)).hex())
    wrong("under the hash key itself", ada, hmac_sha256(key, hashed.encode()).hex())
    wrong("under another hash key", ada, oi_value(key_of("another hash key"), "users", "email_index", "exact", 0, 256, [ada]))
    wrong("a local index with the hash key", ada, hmac_sha256(li_column_key(key, "users", "email_index", "exact"), hashed.encode()).hex())
    wrong("the message itself", ada, oi_hash(key, oi_message("users", "users", "email_index", "exact", hashed))[:32].hex())
    wrong("the text itself", ada, oi_hash(key, hashed.encode())[:32].hex())
    wrong("the SHA-256 of the message", ada, oi_hash(key, sha256(oi_message("users", "users", "email_index", "exact", hashed)))[:32].hex())
    wrong("another text", ada, oi_value(key, "users", "email_index", "exact", 0, 256, ["Ada@example.org"]))
    wrong("the text as if it were shared", ada, message=lambda name, model, of_column, kind, part: oi_message(name, model, of_column, kind, compound([ada])))
    wrong("without its label", ada, message=lambda *parts: lp(*parts))
    wrong("under another label", ada, message=lambda *parts: oi_message(*parts, label=b"eaas/oblivious-index/v2"))
    wrong("under the label of local indexes", ada, message=lambda *parts: oi_message(*parts, label=b"eaas/index-column/v1"))
    wrong("without the name of the secret", ada, message=lambda name, *parts: lp(LABEL, *parts))
    wrong("without the model", ada, message=lambda name, model, *parts: lp(LABEL, name, *parts))
    wrong("without the column", ada, message=lambda name, model, of_column, *parts: lp(LABEL, name, model, *parts))
    wrong("without the kind", ada, message=lambda name, model, of_column, kind, part: lp(LABEL, name, model, of_column, part))
    wrong("text before kind", ada, message=lambda name, model, of_column, kind, part: lp(LABEL, name, model, of_column, part, kind))
    wrong("without lengths", ada, message=lambda *parts: b"".join([LABEL, *(part.encode() for part in parts)]))
    wrong("lengths little-endian", ada, message=lambda *parts: b"".join(struct.pack("<I", len(one)) + one for one in [LABEL, *(part.encode() for part in parts)]))
    wrong("another generation", ada, oi_value(key, "users", "email_index", "exact", 0, 256, [ada], generation=3), generation=2)
    wrong("generation 2 as a part of its own", ada, message=lambda name, *parts: lp(LABEL, "users", "2", *parts), generation=2)
    wrong("generation 1 with its number", ada, message=lambda name, *parts: oi_message("users:1", *parts))
    wrong("without the application's secret", ada, with_secret=True, application_secret=LABEL)
    wrong("with a secret where there is none", ada, application_secret=secret)
    wrong("under another secret of the application", ada, with_secret=True, application_secret=key_of("another application secret"))
    wrong("the application's secret in the message", ada, with_secret=True, application_secret=LABEL, message=lambda *parts: oi_message(*parts) + secret)
    wrong("the hash under the application's secret", ada, hmac_sha256(secret, oi_hash(key, given)).hex(), with_secret=True)
    wrong("in capitals", ada, right([ada], "users", "email_index", "exact", 0, 256, 1, False).upper())
    wrong("one bit", ada, flip(bytes.fromhex(right([ada], "users", "email_index", "exact", 0, 256, 1, False)), 31).hex())
    wrong("the whole hash", ada, oi_hash(key, given).hex())
    wrong("the last bits instead of the first", ada, right([ada], "users", "email_index", "exact", 0, 256, 1, False)[-4:], bits=16)
    wrong("a prefix as a whole text", "Lovelace", oi_value(key, "users", "email_index", "exact", 0, 256, ["Lov"]), kind="prefix", length=3)
    wrong("a prefix without its length", "Lovelace", kind="prefix", length=3, message=lambda name, model, of_column, kind, part: oi_message(name, model, of_column, "prefix", part))
    wrong("a month as the whole date", "1785542400000", kind="range", length="month", message=lambda name, model, of_column, kind, part: oi_message(name, model, of_column, kind, "2026-08-01T00:00:00.000Z"))
    assert len(refuse_column) > len(column)
    return {
        "format": "oblivious index 1",
        "about": "oblivious-index.md 4. `column`: what the column holds with the hash key `hash_key`, and the application's secret where there is one. `refuse_column`: what it does not hold.",
        "made_by": MADE_BY,
        "hash_key": key.hex(),
        "column": column,
        "refuse_column": refuse_column,
    }
