"""The vectors of blind-index.md."""
import hashlib
import hmac
import json

from .common import MADE_BY, b64, flip, hmac_sha256, key_of, prefixed, sha256
from .envelope_v2 import hkdf


AWKWARD = {
    "empty": "",
    "ASCII": "jane@example.com",
    "upper case": "JANE@example.com",
    "a blank behind": "jane@example.com ",
    "a blank in front": " jane@example.com",
    "composed": "Ren\u00e9e",
    "decomposed": "Rene\u0301e",
    "right to left": "\u200f\u05e9\u05dc\u05d5\u05dd\u200e",
    "an emoji beyond the basic plane": "\U0001f510",
    "joined emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "the highest character": "\U0010ffff",
    "line and paragraph separators": "a\u2028b\u2029c",
    "a byte order mark": "\ufeffa",
    "the replacement character": "\ufffd",
    "quotes and backslash": "\"'\\",
    "control characters": "\t\n\r\x01\x1f\x7f\x80",
    "64 bytes, a block of the hash": "b" * 64,
    "65 bytes": "b" * 65,
    "10,000 characters": "\u00e4" * 10_000,
}


def index_secret(hash_key, name):
    """blind-index.md 4."""
    return hkdf(hash_key, prefixed(b"eaas/index-secret/v1", name.encode()), 32)


def secret_vectors(key, other):
    names = {"a model's name": "customers", "another name": "orders", "upper case": "Customers", "a blank behind": "customers ", "one character": "c",
             "composed": "Ren\u00e9e", "decomposed": "Rene\u0301e", "255 characters of four bytes": "\U0001f510" * 255}
    secret = [{"name": title, "hash_key": key.hex(), "of": name, "secret": b64(index_secret(key, name))} for title, name in names.items()]
    secret.append({"name": "another hash key", "hash_key": other.hex(), "of": "customers", "secret": b64(index_secret(other, "customers"))})
    label, name = b"eaas/index-secret/v1", b"customers"
    info, right = prefixed(label, name), index_secret(key, "customers")
    refuse = []
    for title, wrong in (
        ("HMAC of the info, as an index", hmac_sha256(key, info)), ("the index of the name", hmac_sha256(key, name)), ("another hash key", index_secret(other, "customers")),
        ("a hash key of one other bit", index_secret(flip(key, 0), "customers")), ("the hash key itself", key), ("another name", index_secret(key, "orders")),
        ("the name as the salt", hkdf(key, prefixed(label), 32, name)), ("the label as the salt", hkdf(key, prefixed(name), 32, label)),
        ("without lengths", hkdf(key, label + name, 32)), ("without the label", hkdf(key, prefixed(name), 32)), ("name before label", hkdf(key, prefixed(name, label), 32)),
        ("the label of a column", hkdf(key, prefixed(b"eaas/index-column/v1", name), 32)), ("the second block", hkdf(key, info, 64)[32:]),
    ):
        assert wrong != right, title
        refuse.append({"name": title, "hash_key": key.hex(), "of": "customers", "secret": b64(wrong)})
    return secret, refuse


def blind_index_vectors():
    key, other = key_of("hash key"), key_of("another hash key")
    index = [{"name": name, "hash_key": key.hex(), "value": value, "utf8_sha256": sha256(value.encode()).hex(),
              "index": hmac_sha256(key, value.encode()).hex()} for name, value in AWKWARD.items()]
    index.append({"name": "another hash key", "hash_key": other.hex(), "value": AWKWARD["ASCII"],
                  "utf8_sha256": sha256(AWKWARD["ASCII"].encode()).hex(),
                  "index": hmac_sha256(other, AWKWARD["ASCII"].encode()).hex()})
    import unicodedata

    def wrong(name, value, result):
        return {"name": name, "hash_key": key.hex(), "value": value, "index": result}

    text = AWKWARD["composed"]
    data = text.encode()
    refuse = [
        wrong("no key: SHA-256 of the value", text, sha256(data).hex()),
        wrong("SHA-256 of key and value", text, sha256(key + data).hex()),
        wrong("SHA-256 of value and key", text, sha256(data + key).hex()),
        wrong("another key", text, hmac_sha256(other, data).hex()),
        wrong("a key of one other bit", text, hmac_sha256(flip(key, 0), data).hex()),
        wrong("no key bytes", text, hmac_sha256(b"", data).hex()),
        wrong("the key in hexadecimal", text, hmac_sha256(key.hex().encode(), data).hex()),
        wrong("the key in base64", text, hmac_sha256(b64(key).encode(), data).hex()),
        wrong("the first 16 bytes of the key", text, hmac_sha256(key[:16], data).hex()),
        wrong("key and value exchanged", text, hmac_sha256(data, key).hex()),
        wrong("HMAC-SHA-512, cut", text, hmac.new(key, data, hashlib.sha512).hexdigest()[:64]),
        wrong("HMAC-SHA-1", text, hmac.new(key, data, hashlib.sha1).hexdigest()),
        wrong("upper case", text, hmac_sha256(key, data).hex().upper()),
        wrong("base64", text, b64(hmac_sha256(key, data))),
        wrong("cut to 16 bytes", text, hmac_sha256(key, data)[:16].hex()),
        wrong("bytes in reverse", text, hmac_sha256(key, data)[::-1].hex()),
        wrong("the value decomposed", text, hmac_sha256(key, unicodedata.normalize("NFD", text).encode()).hex()),
        wrong("the value composed", AWKWARD["decomposed"], hmac_sha256(key, data).hex()),
        wrong("the value in lower case", text, hmac_sha256(key, text.lower().encode()).hex()),
        wrong("the value in lower case, of one in capitals", "RENEE", hmac_sha256(key, b"renee").hex()),
        wrong("the value without its blanks", " a ", hmac_sha256(key, b"a").hex()),
        wrong("the value in UTF-16, little-endian", text, hmac_sha256(key, text.encode("utf-16-le")).hex()),
        wrong("the value in UTF-16, big-endian", text, hmac_sha256(key, text.encode("utf-16-be")).hex()),
        wrong("the value in Latin-1", text, hmac_sha256(key, text.encode("latin-1")).hex()),
        wrong("the value with a NUL behind", text, hmac_sha256(key, data + b"\x00").hex()),
        wrong("the value with a line feed behind", text, hmac_sha256(key, data + b"\n").hex()),
        wrong("the value as JSON", text, hmac_sha256(key, json.dumps(text, ensure_ascii=False).encode()).hex()),
        wrong("the value with its length in front", text, hmac_sha256(key, prefixed(data)).hex()),
        wrong("without the byte order mark", AWKWARD["a byte order mark"], hmac_sha256(key, b"a").hex()),
        wrong("an emoji as two surrogates of three bytes", AWKWARD["an emoji beyond the basic plane"],
              hmac_sha256(key, b"\xed\xa0\xbd\xed\xb4\x90").hex()),
        wrong("an emoji replaced", AWKWARD["an emoji beyond the basic plane"], hmac_sha256(key, b"\xef\xbf\xbd").hex()),
        wrong("twice", text, hmac_sha256(key, hmac_sha256(key, data)).hex()),
    ]
    secret, refuse_secret = secret_vectors(key, other)
    return {
        "format": "blind index",
        "about": "blind-index.md 5. Byte strings are lower-case hexadecimal, secrets base64. `index` and `secret` hold the right answers, `refuse` and "
                 "`refuse_secret` answers that one mistake leads to: none of them may come out.",
        "made_by": MADE_BY,
        "index": index,
        "refuse": refuse,
        "secret": secret,
        "refuse_secret": refuse_secret,
    }
