"""The vectors of local-index.md."""
import math
import struct

from .common import MADE_BY, flip, hmac_sha256, key_of, prefixed, sha256
from .codecs import date_text
from .envelope_v2 import hkdf
from .index_texts import column_text, compound, kept_bits


def lp(*parts):
    """local-index.md 2: a u32 length and the bytes, of each part."""
    return b"".join(prefixed(part if isinstance(part, bytes) else part.encode()) for part in parts)


def li_column_key(key, model, column, kind, label="eaas/index-column/v1"):
    return hkdf(key, lp(label, model, column, kind), 32)


def li_parts(model, column, texts, kind, length):
    if kind == "exact":
        return [column_text(model, column, texts)]
    text, = texts
    if kind == "range":
        return [bucket(text, length)]
    if kind == "prefix":
        return [text[:length]]
    return sorted({text[at : at + length] for at in range(max(1, len(text) - length + 1))})


def bucket(text, unit):
    """The number of the bucket of a date, given as its milliseconds, or of a number, as text."""
    if unit not in ("day", "month", "year"):
        return str(math.floor(float(text) / float(unit)))
    days = int(text) // 86_400_000
    if unit == "day":
        return str(days)
    year, month = int(date_text(int(text))[:-20]), int(date_text(int(text))[-19:-17])
    return str(year if unit == "year" else year * 12 + month - 1)


def li_value(key, model, column, kind, length, bits, texts, info=None):
    """What the column holds: one value, or a sorted list of them."""
    column_key = li_column_key(key, model, column, kind if kind == "exact" else f"{kind}:{length}") if info is None else hkdf(key, info, 32)
    values = sorted({kept_bits(hmac_sha256(column_key, part.encode()), bits) for part in li_parts(model, column, texts, kind, length)})
    return values if kind == "ngram" else values[0]


def local_index_vectors():
    key = key_of("index key")
    column = []

    def add(name, *value_texts, model="users", of_column="email_index", kind="exact", length=0, bits=256):
        column.append({"name": name, "model": model, "column": of_column, "kind": kind, "length": length, "bits": bits, "texts": value_texts,
                       "value": li_value(key, model, of_column, kind, length, bits, value_texts)})

    add("a value", "ada@example.org")
    add("no text", "")
    add("the same in another column", "ada@example.org", of_column="backup_index")
    add("the same in another model", "ada@example.org", model="orders")
    add("what is in two columns must not slide", "ada@example.org", model="user", of_column="semail_index")
    add("names beyond ASCII", "Ren\u00e9e \U0001f510", model="\u00e9", of_column="\U0001f510")
    add("several fields", "Ada", "Paris")
    add("text that looks like several fields", column_text("users", "email_index", ["Ada", "Paris"]))
    add("16 bits", "ada@example.org", bits=16)
    add("six bits", "ada@example.org", bits=6)
    add("a prefix", "Lovelace", kind="prefix", length=3)
    add("a longer prefix", "Lovelace", kind="prefix", length=5)
    add("a prefix of characters outside of the BMP", "\U0001f510\U0001f511ab", kind="prefix", length=2)
    add("a text shorter than the prefix", "Lo", kind="prefix", length=3)
    add("a prefix of 16 bits", "Lovelace", kind="prefix", length=3, bits=16)
    add("parts", "Lovelace", kind="ngram", length=3, bits=12)
    add("parts, whole", "Lovelace", kind="ngram", length=3)
    add("parts that repeat", "aaaa", kind="ngram", length=2, bits=12)
    add("a text shorter than its parts", "Lo", kind="ngram", length=3, bits=12)
    add("a text as long as its parts", "Ada", kind="ngram", length=3, bits=12)
    add("parts of characters outside of the BMP", "a\U0001f510b\U0001f511", kind="ngram", length=2, bits=12)

    for unit, name, ms in (("month", "the last millisecond", 1_785_542_399_999), ("month", "the first", 1_785_542_400_000), ("month", "before 1970", -1),
                           ("month", "the year -1", -62_167_219_200_001), ("day", "before 1970", -1), ("day", "now", 1_785_542_400_000),
                           ("year", "the year 10000", 253_402_300_800_000), ("year", "the year -1", -62_167_219_200_001)):
        add(f"a {unit}: {name}", str(ms), kind="range", length=unit)
    for number, step in (("999.99", "1000"), ("1000", "1000"), ("-0.5", "1000"), ("0.3", "0.1"), ("12345.6", "0.5")):
        add(f"{number} in steps of {step}", number, kind="range", length=step)
    add("a range of six bits", "1000", kind="range", length="1000", bits=6)

    refuse_column = []

    def wrong(name, value_text, right, model="users", of_column="email_index", kind="exact", length=0, bits=256, **mistake):
        texts = [value_text]
        value = li_value(key, model, of_column, kind, length, bits, texts, **mistake) if not isinstance(right, (str, list)) else right
        assert value != li_value(key, model, of_column, kind, length, bits, texts), name
        refuse_column.append({"name": name, "model": model, "column": of_column, "kind": kind, "length": length, "bits": bits, "texts": texts, "value": value})

    ada = "ada@example.org"
    hashed = column_text("users", "email_index", [ada]).encode()
    wrong("under the secret itself", ada, hmac_sha256(key, hashed).hex())
    wrong("its SHA-256", ada, sha256(hashed).hex())
    wrong("the service's hash", ada, hmac_sha256(key_of("hash key"), hashed).hex())
    wrong("the text without the names", ada, hmac_sha256(li_column_key(key, "users", "email_index", "exact"), ada.encode()).hex())
    wrong("the text as if it were shared by several", ada, hmac_sha256(li_column_key(key, "users", "email_index", "exact"), compound([ada]).encode()).hex())
    wrong("under the key of another column", ada, hmac_sha256(li_column_key(key, "users", "backup_index", "exact"), hashed).hex())
    wrong("the text of another column", ada, hmac_sha256(li_column_key(key, "users", "email_index", "exact"), column_text("users", "backup_index", [ada]).encode()).hex())
    wrong("under the key of another model", ada, hmac_sha256(li_column_key(key, "orders", "email_index", "exact"), hashed).hex())
    wrong("under another secret", ada, li_value(key_of("another"), "users", "email_index", "exact", 0, 256, [ada]))
    wrong("without lengths", ada, None, info=b"eaas/index-column/v1usersemail_indexexact")
    wrong("without its label", ada, None, info=lp("users", "email_index", "exact"))
    wrong("under the label of secrets", ada, None, info=lp("eaas/index-secret/v1", "users", "email_index", "exact"))
    wrong("without its kind", ada, None, info=lp("eaas/index-column/v1", "users", "email_index"))
    wrong("column before model", ada, None, info=lp("eaas/index-column/v1", "email_index", "users", "exact"))
    wrong("lengths little-endian", ada, None, info=b"".join(struct.pack("<I", len(part)) + part for part in (b"eaas/index-column/v1", b"users", b"email_index", b"exact")))
    wrong("in capitals", ada, li_value(key, "users", "email_index", "exact", 0, 256, [ada]).upper())
    wrong("one bit", ada, flip(bytes.fromhex(li_value(key, "users", "email_index", "exact", 0, 256, [ada])), 31).hex())
    wrong("the last bits instead of the first", ada, li_value(key, "users", "email_index", "exact", 0, 256, [ada])[-4:], bits=16)
    wrong("bits that are not cleared", ada, li_value(key, "users", "email_index", "exact", 0, 8, [ada]), bits=6)
    wrong("a prefix as a whole text", "Lovelace", li_value(key, "users", "email_index", "exact", 0, 256, ["Lov"]), kind="prefix", length=3)
    wrong("a prefix under the key of another length", "Lovelace", li_value(key, "users", "email_index", "prefix", 4, 256, ["Lov"]), kind="prefix", length=3)
    wrong("a prefix without its length in the key", "Lovelace", None, kind="prefix", length=3, info=lp("eaas/index-column/v1", "users", "email_index", "prefix"))
    wrong("a prefix of UTF-16 units", "\U0001f510\U0001f511ab", li_value(key, "users", "email_index", "prefix", 2, 256, ["\U0001f510"]), kind="prefix", length=2)
    wrong("a prefix of bytes", "\u00e9\u00e9\u00e9", hmac_sha256(li_column_key(key, "users", "email_index", "prefix:2"), "\u00e9".encode()).hex(), kind="prefix", length=2)
    wrong("a prefix that is filled up", "Lo", hmac_sha256(li_column_key(key, "users", "email_index", "prefix:3"), b"Lo ").hex(), kind="prefix", length=3)
    month = {"kind": "range", "length": "month"}
    first = "1785542400000"
    def of_range(kind, text):
        return hmac_sha256(li_column_key(key, "users", "email_index", kind), text.encode()).hex()
    for name, given in (("a month as ISO 8601", of_range("range:month", "2026-08")), ("a month from 1", of_range("range:month", str(2026 * 12 + 8))),
                        ("months since 1970", of_range("range:month", str(56 * 12 + 7))), ("the month before", of_range("range:month", str(2026 * 12 + 6))),
                        ("a month under the key of days", of_range("range:day", str(2026 * 12 + 7))), ("a month under the key of whole values", of_range("exact", str(2026 * 12 + 7))),
                        ("a month without its unit in the key", of_range("range", str(2026 * 12 + 7))), ("the whole date", of_range("range:month", "2026-08-01T00:00:00.000Z")),
                        ("the text of an exact column", of_range("range:month", column_text("users", "email_index", [str(2026 * 12 + 7)])))):
        wrong(name, first, given, **month)
    for name, number, given in (("rounded to the nearest", "999.99", of_range("range:1000", "1")), ("rounded towards zero", "-0.5", of_range("range:1000", "0")),
                                ("negative zero", "0", of_range("range:1000", "-0")), ("the lower bound", "1000", of_range("range:1000", "1000")),
                                ("a fraction behind it", "1000", of_range("range:1000", "1.0")), ("another step", "1000", of_range("range:500", "2")),
                                ("a step with a fraction", "1000", of_range("range:1000.0", "1")), ("the number itself", "999.99", of_range("range:1000", "999.99"))):
        wrong(name, number, given, kind="range", length="1000")
    parts = li_value(key, "users", "email_index", "ngram", 3, 12, ["Lovelace"])
    for name, given in (("parts in the order of the text", [kept_bits(hmac_sha256(li_column_key(key, "users", "email_index", "ngram:3"), "Lovelace"[at : at + 3].encode()), 12) for at in range(6)]),
                        ("a part that is missing", parts[1:]), ("a part twice", sorted(parts + parts[:1])), ("no part", []),
                        ("parts under the key of prefixes", sorted(kept_bits(hmac_sha256(li_column_key(key, "users", "email_index", "prefix:3"), "Lovelace"[at : at + 3].encode()), 12) for at in range(6))),
                        ("parts of two characters", li_value(key, "users", "email_index", "ngram", 2, 12, ["Lovelace"])),
                        ("parts that are not truncated", li_value(key, "users", "email_index", "ngram", 3, 256, ["Lovelace"])),
                        ("a last part that is shorter", sorted(parts + [kept_bits(hmac_sha256(li_column_key(key, "users", "email_index", "ngram:3"), b"ce"), 12)]))):
        wrong(name, "Lovelace", given, kind="ngram", length=3, bits=12)
    return {
        "format": "local index 1",
        "about": "local-index.md 4. `column`: what the column holds with the index secret `key`. `refuse_column`: what it does not hold.",
        "made_by": MADE_BY,
        "key": key.hex(),
        "column": column,
        "refuse_column": refuse_column,
    }
