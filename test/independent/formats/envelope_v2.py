"""The vectors of envelope-v2.md."""
import base64
import hmac
import struct

from .common import (
    DoesNotOpen, KEY, MADE_BY, MAX, NIL, OTHER_KEY, UUID_FORM, b64, flip, gcm_open, gcm_seal, hmac_sha256, iv_of,
    key_of, prefixed, stream, uuid_bytes,
)


V2 = b"eaas/envelope/v2"
V2_MEMBERS = ("ciphertext", "wrapped_key", "iv", "key_id", "key_version", "envelope_version", "commitment")


def hkdf(ikm, info, length, salt=b""):
    """RFC 5869 with SHA-256."""
    prk = hmac_sha256(salt or bytes(32), ikm)
    out, block = b"", b""
    for count in range(1, (length + 31) // 32 + 1):
        block = hmac_sha256(prk, block + info + bytes([count]))
        out += block
    return out[:length]


def v2_keys(dek, key_id=KEY, label=V2):
    okm = hkdf(dek, label + b"\0" + uuid_bytes(key_id), 64)
    return okm[:32], okm[32:]


def v2_context(context):
    """The pairs of a context as bytes, in their order. Raises ValueError for what is not a context."""
    if not isinstance(context, dict) or len(context) > 32:
        raise ValueError("context")
    pairs = []
    for name, value in context.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ValueError("context")
        name, value = name.encode(), value.encode()  # UnicodeEncodeError is a ValueError
        if not 1 <= len(name) <= 256 or len(value) > 4096:
            raise ValueError("context")
        pairs.append((name, value))
    return sorted(pairs)


def v2_aad(context, key_id=KEY, label=V2):
    return prefixed(label, uuid_bytes(key_id), *(part for pair in v2_context(context) for part in pair))


def v2_envelope(dek, context, plaintext, iv, key_id=KEY, aad=None, keys=None, **changes):
    key, commitment = keys or v2_keys(dek, key_id)
    sealed = gcm_seal(key, iv, v2_aad(context, key_id) if aad is None else aad, plaintext)
    envelope = {"ciphertext": b64(sealed), "wrapped_key": b64(b"opaque"), "iv": b64(iv), "key_id": key_id, "key_version": 1,
                "envelope_version": 2, "commitment": b64(commitment)}
    return {member: value for member, value in {**envelope, **changes}.items() if value is not ...}


def canonical(text, length=None, least=0):
    if not isinstance(text, str):
        raise ValueError("base64")
    data = base64.b64decode(text, validate=True)
    if b64(data) != text or (length is not None and len(data) != length) or len(data) < least:
        raise ValueError("base64")
    return data


def v2_open(envelope, dek, context):
    """The plaintext. Raises ValueError where the form is wrong, DoesNotOpen for every other cause."""
    if not isinstance(envelope, dict) or type(envelope.get("envelope_version")) is not int or envelope["envelope_version"] not in (1, 2):
        raise ValueError("envelope_version")
    key_id, version, wrapped = envelope.get("key_id"), envelope.get("key_version"), envelope.get("wrapped_key")
    if not isinstance(key_id, str) or not UUID_FORM.fullmatch(key_id):
        raise ValueError("key_id")
    if type(version) is not int or not 1 <= version < 2**31:
        raise ValueError("key_version")
    if not isinstance(wrapped, str) or wrapped == "":
        raise ValueError("wrapped_key")
    iv, sealed = canonical(envelope.get("iv"), 12), canonical(envelope.get("ciphertext"), least=16)
    if envelope["envelope_version"] == 1:
        raise DoesNotOpen()  # a context is demanded
    commitment = canonical(envelope.get("commitment"), 32)
    aad = v2_aad({} if context is None else context, key_id)
    key, expected = v2_keys(dek, key_id)
    if not hmac.compare_digest(expected, commitment):
        raise DoesNotOpen()
    return gcm_open(key, iv, aad, sealed)


def gf_multiply(a, b):
    """In the field of GCM (SP 800-38D 6.3), whose bits run from the left."""
    product = 0
    for at in range(127, -1, -1):
        if b >> at & 1:
            product ^= a
        a = a >> 1 ^ (0xE1 << 120 if a & 1 else 0)
    return product


def gf_inverse(a):
    result, power = 1 << 127, a
    for _ in range(127):  # a^(2^128 - 2)
        power = gf_multiply(power, power)
        result = gf_multiply(result, power)
    return result


def opens_under_both(first, second, iv, aad):
    """A ciphertext of one block, with a tag that is right under two keys of AES-GCM."""
    def tag_of(key, block):
        stream_ = gcm_seal(key, iv, aad, bytes(16))[:16]
        sealed = gcm_seal(key, iv, aad, bytes(a ^ b for a, b in zip(stream_, block)))
        return int.from_bytes(sealed[16:], "big")

    zero, one = bytes(16), b"\x80" + bytes(15)
    square = [tag_of(key, zero) ^ tag_of(key, one) for key in (first, second)]  # H^2 of each
    block = gf_multiply(tag_of(first, zero) ^ tag_of(second, zero), gf_inverse(square[0] ^ square[1])).to_bytes(16, "big")
    sealed = block + tag_of(first, block).to_bytes(16, "big")
    for key in (first, second):
        gcm_open(key, iv, aad, sealed)
    return sealed


def envelope_v2_vectors():
    dek, other = key_of("dek of v2"), key_of("another dek of v2")
    column = {"table": "users", "column": "iban", "row": "7"}
    contexts = [
        ("table, column, row", column),
        ("the same in another order", dict(reversed(column.items()))),
        ("no pair", {}),
        ("an empty value", {"row": ""}),
        ("beyond the BMP: by UTF-8, which UTF-16 sorts the other way", {"\U00010000": "a", "\uffff": "b"}),
        ("a name that begins another one", {"a": "1", "ab": "2", "a\0": "3"}),
        ("digits, which JavaScript sorts first", {"b": "1", "10": "2", "9": "3"}),
        ("names of every object", {"constructor": "1", "__proto__": "2", "toString": "3"}),
        ("accents as one character", {"name": "caf\u00e9"}),
        ("accents as two", {"name": "cafe\u0301"}),
        ("controls", {"\0": "\n\r\t\x7f"}),
        ("what looks like a length", {"a": "\0\0\0\1b"}),
        ("the longest name and value", {"n" * 256: "v" * 4096}),
        ("the longest in bytes", {"\u20ac" * 85: "\U0001f511" * 1024}),
        ("32 pairs", {f"n{at}": str(at) for at in range(32)}),
    ]
    derive = [{"name": name, "dek": key.hex(), "key_id": id_, "key": v2_keys(key, id_)[0].hex(), "commitment": v2_keys(key, id_)[1].hex()}
              for name, key, id_ in (("a DEK", dek, KEY), ("another key_id", dek, OTHER_KEY), ("another DEK", other, KEY), ("zeros but for the last bit", bytes(31) + b"\x01", NIL),
                                     ("ones", b"\xff" * 32, MAX))]
    aad = [{"name": name, "key_id": KEY, "context": context, "aad": v2_aad(context).hex()} for name, context in contexts]
    opened = [{"name": name, "dek": dek.hex(), "context": context, "plaintext": text.hex(),
               "envelope": v2_envelope(dek, context or {}, text, iv_of(f"v2 {name}"))}
              for name, context, text in [(name, context, "secret bancaire".encode()) for name, context in [*contexts, ("none given", None)]] + [
                  ("empty", column, b""), ("one byte", column, b"\0"), ("1,000 bytes", column, stream("v2", 1000))]]

    iv, text = iv_of("v2 refused"), "secret bancaire".encode()
    valid = v2_envelope(dek, column, text, iv)
    refuse = []

    def refused(name, error, envelope=valid, context=column, key=dek):
        try:
            v2_open(envelope, key, context)
        except DoesNotOpen:
            assert error == "decryption", name
        except ValueError:
            assert error == "format", name
        else:
            raise AssertionError(f"opens: {name}")
        refuse.append({"name": name, "error": error, "dek": key.hex(), "context": context, "envelope": envelope})

    def changed(**changes):
        return {member: value for member, value in {**valid, **changes}.items() if value is not ...}

    for member in V2_MEMBERS:
        if member != "envelope_version":
            refused(f"{member} is missing", "format", changed(**{member: ...}))
            refused(f"{member} is null", "format", changed(**{member: None}))
    for name, value in (("3", 3), ("0", 0), ("text", "2"), ("a half", 2.5), ("null", None), ("a list", [2]), ("true", True)):
        refused(f"envelope_version is {name}", "format", changed(envelope_version=value))
    key, commitment = v2_keys(dek)
    for name, value in (("empty", ""), ("31 bytes", b64(commitment[:31])), ("33 bytes", b64(commitment + b"\0")), ("hexadecimal", commitment.hex()),
                        ("without padding", b64(commitment).rstrip("=")), ("a number", 1), ("with a line feed", b64(commitment) + "\n"),
                        ("with bits that are not zero at its end", b64(b"\0" * 32)[:-2] + "B=")):
        refused(f"commitment is {name}", "format", changed(commitment=value))
    for name, changes in (("an iv of 11 bytes", {"iv": b64(bytes(11))}), ("an iv of 16 bytes", {"iv": b64(bytes(16))}),
                          ("a ciphertext of 15 bytes", {"ciphertext": b64(bytes(15))}), ("key_id in upper case", {"key_id": KEY.upper()}),
                          ("key_version 0", {"key_version": 0}), ("no wrapped key", {"wrapped_key": ""})):
        refused(name, "format", changed(**changes))

    for name, context in (
        ("none", None), ("no pair", {}), ("another row", {**column, "row": "8"}), ("another column", {**column, "column": "bic"}),
        ("another table", {**column, "table": "orders"}), ("the row is missing", {"table": "users", "column": "iban"}),
        ("one pair more", {**column, "tenant": "1"}), ("names and values exchanged", {value: name for name, value in column.items()}),
        ("two values exchanged", {**column, "table": "iban", "column": "users"}), ("a value in upper case", {**column, "table": "USERS"}),
        ("a name in upper case", {"Table": "users", "column": "iban", "row": "7"}), ("a blank behind a value", {**column, "row": "7 "}),
        ("a NUL behind a value", {**column, "row": "7\0"}), ("a zero in front of a value", {**column, "row": "07"}),
        ("the same digit in another script", {**column, "row": "\uff17"}),
        ("all in one pair", {"column": "iban\0\0\0\3row\0\0\0\0017", "table": "users"}),
    ):
        refused(f"context: {name}", "decryption", context=context)
    for name, sealed_under, given in (
        ("the border between name and value moved", {"ab": "c"}, {"a": "bc"}),
        ("the border between two pairs moved", {"a": "b", "c": "d"}, {"a": "bc", "d": ""}),
        ("composed where it was decomposed", {"name": "cafe\u0301"}, {"name": "caf\u00e9"}),
        ("an empty value where the pair was missing", {"a": "1"}, {"a": "1", "b": ""}),
        ("a missing pair where the value was empty", {"a": "1", "b": ""}, {"a": "1"}),
    ):
        refused(f"context: {name}", "decryption", v2_envelope(dek, sealed_under, text, iv), given)

    refused("another DEK", "decryption", key=other)
    refused("another key_id", "decryption", changed(key_id=OTHER_KEY))
    refused("the commitment of another DEK", "decryption", changed(commitment=b64(v2_keys(other)[1])))
    refused("the commitment of another key_id", "decryption", changed(commitment=b64(v2_keys(dek, OTHER_KEY)[1])))
    refused("K_enc as the commitment", "decryption", changed(commitment=b64(key)))
    refused("a commitment of zeros", "decryption", changed(commitment=b64(bytes(32))))
    for bit, at in ((0, 0), (7, 0), (3, 16), (0, 31)):
        refused(f"bit {bit} of byte {at} of the commitment", "decryption", changed(commitment=b64(flip(commitment, at, bit))))
    sealed = base64.b64decode(valid["ciphertext"])
    for name, data in (("first byte", flip(sealed, 0)), ("last byte of the tag", flip(sealed, len(sealed) - 1, 7)), ("shorter", sealed[:-1]),
                       ("longer", sealed + b"\0"), ("another message's", base64.b64decode(opened[0]["envelope"]["ciphertext"])), ("the tag alone", sealed[-16:])):
        refused(f"ciphertext: {name}", "decryption", changed(ciphertext=b64(data)))
    refused("another iv", "decryption", changed(iv=b64(flip(iv, 11))))
    salamander = opens_under_both(key, v2_keys(other)[0], iv, v2_aad(column))
    refused("authentic under two DEKs, committed to one, opened with the other", "decryption", changed(ciphertext=b64(salamander)), key=other)

    raw = gcm_seal(dek, iv, b"", text)
    refused("format v1", "decryption", changed(ciphertext=b64(raw), envelope_version=1, commitment=...))
    refused("format v1 with a commitment", "decryption", changed(ciphertext=b64(raw), envelope_version=1))
    refused("format v2 renamed to v1", "decryption", changed(envelope_version=1))
    refused("format v1 renamed to v2", "decryption", changed(ciphertext=b64(raw)))
    for name, changes in (
        ("the DEK as the key", {"keys": (dek, commitment)}),
        ("no AAD", {"aad": b""}),
        ("an AAD without lengths", {"aad": V2 + uuid_bytes(KEY) + b"".join(name + value for name, value in v2_context(column))}),
        ("an AAD without the label", {"aad": v2_aad(column)[4 + len(V2):]}),
        ("an AAD of another label", {"aad": v2_aad(column, label=b"eaas/envelope/v3")}),
        ("an AAD without key_id", {"aad": prefixed(V2, *(part for pair in v2_context(column) for part in pair))}),
        ("key_id as text in the AAD", {"aad": prefixed(V2, KEY.encode(), *(part for pair in v2_context(column) for part in pair))}),
        ("the pairs in the order in which they were written", {"aad": prefixed(V2, uuid_bytes(KEY), *(text.encode() for pair in column.items() for text in pair))}),
        ("the pairs in the reverse order", {"aad": prefixed(V2, uuid_bytes(KEY), *(part for pair in reversed(v2_context(column)) for part in pair))}),
        ("lengths as little-endian", {"aad": b"".join(struct.pack("<I", len(part)) + part for part in
                                                      [V2, uuid_bytes(KEY), *(part for pair in v2_context(column) for part in pair)])}),
        ("keys of another label", {"keys": v2_keys(dek, label=b"eaas/envelope/v3")}),
        ("keys without the NUL", {"keys": (lambda okm: (okm[:32], okm[32:]))(hkdf(dek, V2 + uuid_bytes(KEY), 64))}),
        ("keys without key_id", {"keys": (lambda okm: (okm[:32], okm[32:]))(hkdf(dek, V2, 64))}),
        ("keys in the other order", {"keys": (commitment, key)}),
        ("keys of HKDF without extraction", {"keys": (hmac_sha256(dek, V2 + b"\0" + uuid_bytes(KEY) + b"\1"), commitment)}),
    ):
        refused(f"sealed with {name}", "decryption", v2_envelope(dek, column, text, iv, **changes))

    refuse_context = []
    for name, context in (
        ("null", None), ("text", "row"), ("a number", 7), ("true", True), ("a list", ["row", "7"]), ("a list of pairs", [["row", "7"]]),
        ("a number as a value", {"row": 7}), ("null as a value", {"row": None}), ("true as a value", {"row": True}), ("a list as a value", {"row": ["7"]}),
        ("an object as a value", {"row": {"id": "7"}}), ("one value of two is no text", {"table": "users", "row": 7}), ("an empty name", {"": "7"}),
        ("a name of 257 bytes", {"n" * 257: "7"}), ("a name of 257 bytes in 129 characters", {"\u00e9" * 128 + "n": "7"}),
        ("a value of 4,097 bytes", {"row": "v" * 4097}), ("a value of 4,098 bytes in 1,366 characters", {"row": "\u20ac" * 1366}),
        ("33 pairs", {f"n{at}": str(at) for at in range(33)}), ("a lone surrogate in a value", {"row": "\ud800"}),
        ("a lone surrogate in a name", {"\udc00": "7"}), ("surrogates in the wrong order", {"row": "\udd11\ud83d"}),
    ):
        try:
            v2_context(context)
        except ValueError:
            refuse_context.append({"name": name, "context": context})
        else:
            raise AssertionError(f"is a context: {name}")
    for vector in opened:
        assert v2_open(vector["envelope"], dek, vector["context"]).hex() == vector["plaintext"]
    return {
        "format": "envelope v2",
        "about": "envelope-v2.md 8. `derive`: dek and key_id give key (K_enc) and commitment (K_com). `aad`: key_id and context give aad. `open`: the "
                 "envelope opens with dek and context to plaintext, and sealing plaintext with its iv gives its ciphertext. `refuse`: must not open "
                 "with dek and context. `refuse_context`: no context. Bytes outside of envelopes are hexadecimal.",
        "made_by": MADE_BY,
        "derive": derive,
        "aad": aad,
        "open": opened,
        "refuse": refuse,
        "refuse_context": refuse_context,
    }
