"""The vectors of index-texts.md."""
import json

from .common import MADE_BY, b64, flip, hmac_sha256, key_of, prefixed, sha256


WHITE_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def normalized(text, normalizers):
    import unicodedata
    for name in normalizers:
        before = text
        text = {
            "trim": lambda: text.strip(WHITE_SPACE),
            "lowercase": lambda: text.lower(),
            "NFC": lambda: unicodedata.normalize("NFC", text),
            "NFKC": lambda: unicodedata.normalize("NFKC", text),
            "digits": lambda: "".join(character for character in text if character in "0123456789"),
        }[name]()
        if name == "digits" and before != "" and text == "":
            return None
    return text


def compound(texts, label="eaas/compound/v1"):
    return ":".join([label, *(f"{len(text.encode())}:{text}" for text in texts)])


def column_text(model, column, texts, label="eaas/index/v1"):
    """index-texts.md 2: what is hashed for a column that is not shared."""
    return compound([model, column, *texts], label)


def shared_text(texts):
    """index-texts.md 2: what is hashed for a shared column. None where no writer hashes the text."""
    if len(texts) > 1:
        return compound(texts)
    return None if texts[0].startswith(("eaas/index/", "eaas/compound/")) else texts[0]


def kept_bits(digest, bits):
    value = int.from_bytes(digest, "big") >> (256 - bits)
    digits = -(-bits // 4)
    return f"{value << (digits * 4 - bits):0{digits}x}"


def index_column_vectors():
    key = key_of("hash key")
    hash_of = lambda text: hmac_sha256(key, text.encode())
    column = []

    def text_of(texts, model, of_column, shared):
        return shared_text(texts) if shared else column_text(model, of_column, texts)

    def add(name, texts, bits=256, model="users", of_column="email_index", shared=False):
        text = text_of(texts, model, of_column, shared)
        column.append({"name": name, "hash_key": key.hex(), "model": model, "column": of_column, "shared": shared, "texts": texts, "bits": bits, "text": text,
                       "value": kept_bits(hash_of(text), bits)})

    add("one field", ["ada@example.org"])
    add("the same in another column", ["ada@example.org"], of_column="backup_index")
    add("the same in another model", ["ada@example.org"], model="orders")
    add("what is in two names must not slide", ["ada@example.org"], model="user", of_column="semail_index")
    add("names with colons and lengths", ["a"], model="users:1:x", of_column="1:y:")
    add("names beyond ASCII", ["Ren\u00e9e"], model="\u00e9", of_column="\U0001f510")
    add("no text", [""])
    add("text that looks like another column's", ["eaas/index/v1:5:users:11:email_index:3:Ada"])
    add("text that looks like several fields", ["eaas/compound/v1:3:Ada:5:Paris"])
    add("two fields", ["Ada", "Paris"])
    add("two fields in another order", ["Paris", "Ada"])
    add("colons", ["3:Ada", ":"])
    add("empty texts", ["", "", ""])
    add("lengths in bytes, not in characters", ["Ren\u00e9e", "\U0001f510"])
    add("a text of ten bytes and more", ["0123456789", "a" * 100])
    add("a name and a date", ["ada lovelace", "1815-12-10T00:00:00.000Z"])
    add("shared: one field", ["ada@example.org"], shared=True)
    add("shared: the same in another column of another model", ["ada@example.org"], model="orders", of_column="backup_index", shared=True)
    add("shared: the same in a model without a name", ["ada@example.org"], model="", shared=True)
    add("shared: no text", [""], shared=True)
    add("shared: two fields", ["Ada", "Paris"], shared=True)
    add("shared: empty texts", ["", "", ""], shared=True)
    add("shared: two fields that look like those of a column", ["eaas/index/v1", "eaas/compound/v1:3:Ada"], shared=True)
    for text in ("eaas/indexes", "Eaas/index/v1:", " eaas/compound/v1:3:Ada:5:Paris", "eaas/compound", "eaas/index"):
        add(f"shared: {text.strip()!r} is no reserved beginning", [text], shared=True)
    for bits in (4, 5, 6, 7, 8, 9, 31, 32, 33, 128, 255, 256):
        add(f"{bits} bits", ["ada@example.org"], bits)
    add("six bits of two fields", ["Ada", "Paris"], 6)
    plain = [(one["model"], one["column"], one["texts"]) for one in column if not one["shared"] and one["bits"] == 256]
    assert len({column_text(*one) for one in plain}) == len({json.dumps(one) for one in plain})

    normalize = [{"name": name, "normalize": normalizers, "text": text, "result": normalized(text, normalizers)} for name, normalizers, text in (
        ("nothing", [], " A\u0301 "), ("trim", ["trim"], "\t\n a b \u00a0\u3000\ufeff"), ("trim leaves what is no white space", ["trim"], "\u0085a\u200b\x1f"),
        ("lowercase", ["lowercase"], "\u00c4BC \u0394 \u0416"), ("lowercase of no locale", ["lowercase"], "I\u0130"),
        ("lowercase at the end of a word", ["lowercase"], "\u039f\u0394\u039f\u03a3 \u03a3"), ("lowercase leaves the sharp s", ["lowercase"], "STRA\u00dfE \u1e9e"),
        ("NFC", ["NFC"], "Rene\u0301e"), ("NFC leaves ligatures", ["NFC"], "\ufb01 \u00b2"), ("NFKC", ["NFKC"], "\ufb01 \u00b2 \uff21 e\u0301"),
        ("digits", ["digits"], "+33 (0)6-39 \u0661\u0662"), ("several, in their order", ["NFKC", "trim", "lowercase"], "\u3000\uff21da "),
        ("trim before NFKC", ["trim", "NFKC"], " \u00a8 "), ("digits of no text", ["digits"], ""),
        ("no digit", ["digits"], "unknown"), ("no digit 0 to 9", ["digits"], "\u0661\u0662\u0663"), ("white space has no digit", ["digits"], " "),
        ("white space that was removed before", ["trim", "digits"], " "), ("digits that NFKC makes", ["NFKC", "digits"], "\uff11\u00b2"),
    )]

    refuse_text = [{"name": name, "text": text} for name, text in (
        ("that of a column", column_text("users", "diagnosis_index", ["HIV positive"])), ("that of several fields", compound(["Ada", "Paris"])),
        ("that of several fields and more", compound(["Ada", "Paris"]) + "\n"), ("a column's, of a later version", "eaas/index/v2:5:users"),
        ("several fields', of a later version", "eaas/compound/v2:3:Ada"), ("a column's beginning alone", "eaas/index/"), ("several fields' beginning alone", "eaas/compound/"),
    )]
    assert all(shared_text([one["text"]]) is None for one in refuse_text)

    refuse = []

    def wrong(name, texts, value, bits=256, shared=False):
        assert value != kept_bits(hash_of(text_of(texts, "users", "email_index", shared)), bits), name
        refuse.append({"name": name, "hash_key": key.hex(), "model": "users", "column": "email_index", "shared": shared, "texts": texts, "bits": bits, "value": value})

    two = ["Ren\u00e9e", "Paris"]
    one = ["ada@example.org"]
    names = ["users", "email_index"]
    for name, texts, text in (
        ("the text alone", one, one[0]), ("without the model", one, compound(["email_index", *one], "eaas/index/v1")),
        ("without the column", one, compound(["users", *one], "eaas/index/v1")), ("another model", one, column_text("orders", "email_index", one)),
        ("another column", one, column_text("users", "backup_index", one)), ("the column before the model", one, column_text("email_index", "users", one)),
        ("an empty model", one, column_text("", "email_index", one)), ("names in capitals", one, column_text("USERS", "EMAIL_INDEX", one)),
        ("the texts before the names", one, compound([*one, *names], "eaas/index/v1")), ("under the label of shared fields", one, compound([*names, *one])),
        ("names without lengths", one, f"eaas/index/v1:users:email_index:15:{one[0]}"), ("a text without its length", one, f"eaas/index/v1:5:users:11:email_index:{one[0]}"),
        ("as if it were shared by several", one, compound(one)), ("an empty text more", one, column_text(*names, [*one, ""])),
        ("names as one", one, compound(["users.email_index", *one], "eaas/index/v1")), ("another split of the names", one, column_text("user", "semail_index", one)),
        ("texts without lengths", two, "eaas/index/v1:5:users:11:email_index:Ren\u00e9e:Paris"),
        ("texts joined", two, column_text(*names, ["".join(two)])),
        ("texts joined by a colon", two, column_text(*names, [":".join(two)])),
        ("texts joined as shared ones are, as one text", two, column_text(*names, [compound(two)])),
        ("texts as a JSON list", two, json.dumps([*names, *two], ensure_ascii=False, separators=(",", ":"))),
        ("no label", two, compound([*names, *two], "")[1:]),
        ("label of another format", two, column_text(*names, two, "eaas/index/v2")),
        ("label without a version", two, column_text(*names, two, "eaas/index")),
        ("label in upper case", two, column_text(*names, two, "EAAS/INDEX/V1")),
        ("lengths in characters", two, "eaas/index/v1:5:users:11:email_index:5:Ren\u00e9e:5:Paris"),
        ("lengths in decimal digits of two", two, "eaas/index/v1:05:users:11:email_index:06:Ren\u00e9e:05:Paris"),
        ("lengths behind", two, "eaas/index/v1:users:5:email_index:11:Ren\u00e9e:6:Paris:5"),
        ("the number of texts in front", two, "eaas/index/v1:2:5:users:11:email_index:6:Ren\u00e9e:5:Paris"),
        ("a colon at the end", two, column_text(*names, two) + ":"),
        ("a colon at the beginning", two, ":" + column_text(*names, two)),
        ("a line feed behind", two, column_text(*names, two) + "\n"),
        ("blanks after the colons", two, "eaas/index/v1: 5: users: 11: email_index: 6: Ren\u00e9e: 5: Paris"),
        ("texts in another order", two, column_text(*names, two[::-1])),
        ("the first text alone", two, column_text(*names, two[:1])),
        ("three texts", two, column_text(*names, [*two, ""])),
        ("texts decomposed", two, column_text(*names, ["Rene\u0301e", "Paris"])),
        ("texts in lower case", two, column_text(*names, ["ren\u00e9e", "paris"])),
        ("another split of the same letters", two, column_text(*names, ["Ren\u00e9eP", "aris"])),
    ):
        wrong(name, texts, hash_of(text).hex())
    for name, texts, text in (
        ("one field with the names", one, column_text(*names, one)), ("one field, joined as if it were several", one, compound(one)),
        ("several fields with the names", two, column_text(*names, two)), ("several fields under the label of columns", two, compound(two, "eaas/index/v1")),
        ("texts without lengths", two, "eaas/compound/v1:Ren\u00e9e:Paris"), ("texts joined", two, "".join(two)), ("no label", two, "6:Ren\u00e9e:5:Paris"),
        ("label of another format", two, compound(two, "eaas/compound/v2")), ("lengths in characters", two, "eaas/compound/v1:5:Ren\u00e9e:5:Paris"),
        ("texts in another order", two, compound(two[::-1])), ("an empty text more", two, compound([*two, ""])),
    ):
        wrong(f"shared: {name}", texts, hash_of(text).hex(), shared=True)
    right = column_text(*names, two)
    wrong("hashes joined", two, sha256(b"".join(hash_of(text) for text in two)).hex())
    wrong("the hash of hashes", two, hmac_sha256(key, b"".join(hash_of(text) for text in two)).hex())
    wrong("lengths as u32, as in an AAD", two, hmac_sha256(key, prefixed(*(text.encode() for text in [*names, *two]))).hex())
    wrong("another hash key", two, hmac_sha256(key_of("another hash key"), right.encode()).hex())
    wrong("no hash key", two, sha256(right.encode()).hex())
    digest = hash_of(column_text(*names, one))
    for name, bits, value in (
        ("5 bits: one digit", 5, digest.hex()[:1]), ("5 bits: two whole digits", 5, digest.hex()[:2]),
        ("5 bits: the last ones", 5, kept_bits((int.from_bytes(digest, "big") & 31).to_bytes(32, "big"), 5)),
        ("6 bits: as a number", 6, f"{digest[0] >> 2:02x}"), ("6 bits: in decimal", 6, str(digest[0] >> 2)),
        ("6 bits: in binary", 6, f"{digest[0] >> 2:06b}"), ("6 bits: all of it", 6, digest.hex()),
        ("8 bits: upper case", 8, digest.hex()[:2].upper() if digest.hex()[:2].upper() != digest.hex()[:2] else digest.hex()[:2] + "A"),
        ("8 bits: the last byte", 8, digest.hex()[-2:]), ("9 bits: two digits", 9, digest.hex()[:2]),
        ("32 bits: bytes in reverse", 32, digest[:4][::-1].hex()), ("32 bits: base64", 32, b64(digest[:4])),
        ("32 bits: padded to the whole length", 32, digest[:4].hex() + "0" * 56), ("32 bits: of another hash", 32, sha256(digest)[:4].hex()),
        ("255 bits: the last one not cleared", 255, flip(bytes.fromhex(kept_bits(digest, 255)), 31).hex()),
        ("256 bits: base64", 256, b64(digest)), ("256 bits: upper case", 256, digest.hex().upper()),
    ):
        wrong(name, one, value, bits)
    assert len(refuse) + len(refuse_text) > len(column) + len(normalize)
    return {
        "format": "index columns 1",
        "about": "index-texts.md 4. The hash key is lower-case hexadecimal. `column` holds the texts of the fields, already normalised, with the "
                 "text and the value of the column; `normalize` what the normalizers make of a text; `refuse` values that one mistake leads to: "
                 "none of them may come out; `refuse_text` texts that a shared column of one field refuses.",
        "made_by": MADE_BY,
        "column": column,
        "normalize": normalize,
        "refuse": refuse,
        "refuse_text": refuse_text,
    }
