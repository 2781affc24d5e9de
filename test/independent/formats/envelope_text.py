"""The vectors of envelope-text.md."""
import base64
import json
import re
import struct

from .common import KEY, MADE_BY, MAX, NIL, b64, iv_of, stream, uuid_bytes
from .envelope_v2 import canonical


def to_text(envelope):
    """The text of an envelope. Raises ValueError where it has none."""
    wrapped = canonical(envelope["wrapped_key"], least=1)
    if len(wrapped) > 768:
        raise ValueError("wrapped_key")
    version = envelope.get("envelope_version", 1)
    data = uuid_bytes(envelope["key_id"]) + struct.pack(">IH", envelope["key_version"], len(wrapped)) + wrapped
    if version == 2:
        data += canonical(envelope["commitment"], 32)
    data += canonical(envelope["iv"], 12) + canonical(envelope["ciphertext"], least=16)
    return f"eaas.{version}." + base64url(data)


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def from_base64url(encoded):
    data = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    if base64url(data) != encoded:
        raise ValueError("base64url")
    return data


def from_text(text):
    """The envelope of a text. Raises ValueError where it is none."""
    match = re.fullmatch(r"eaas\.([12])\.([A-Za-z0-9_-]+)", text)
    if not match:
        raise ValueError("text")
    version, encoded = int(match[1]), match[2]
    data = from_base64url(encoded)
    if len(data) < 22:
        raise ValueError("short")
    key_version, length = struct.unpack_from(">IH", data, 16)
    if not 1 <= key_version < 2**31 or not 1 <= length <= 768:
        raise ValueError("header")
    id_, rest = data[:16].hex(), data[22:]
    sizes = [length, *([32] if version == 2 else []), 12]
    if len(rest) < sum(sizes) + 16:
        raise ValueError("short")
    parts = []
    for size in sizes:
        parts.append(b64(rest[:size]))
        rest = rest[size:]
    envelope = {"ciphertext": b64(rest), "wrapped_key": parts[0], "iv": parts[-1],
                "key_id": "-".join((id_[:8], id_[8:12], id_[12:16], id_[16:20], id_[20:])), "key_version": key_version, "envelope_version": version}
    return {**envelope, "commitment": parts[1]} if version == 2 else envelope


def envelope_text_vectors():
    def one(name, size=15, wrapped=65, version=1, **changes):
        envelope = {"ciphertext": b64(stream(f"text {name}", size + 16)), "wrapped_key": b64(stream(f"wrapped {name}", wrapped)), "iv": b64(iv_of(name)),
                    "key_id": KEY, "key_version": 1, "envelope_version": version}
        if version == 2:
            envelope["commitment"] = b64(stream(f"commitment {name}", 32))
        return {member: value for member, value in {**envelope, **changes}.items() if value is not ...}

    encode = [{"name": name, "envelope": envelope, "text": to_text(envelope)} for name, envelope in (
        ("format v1", one("v1")), ("format v2", one("v2", version=2)), ("a bundle of server mode", one("bundle", envelope_version=...)),
        ("no plaintext", one("empty", 0)), ("no plaintext, v2", one("empty v2", 0, version=2)), ("one byte", one("one", 1)), ("two bytes", one("two", 2)),
        ("1,000 bytes", one("long", 1000)), ("a wrapped key of one byte", one("short key", wrapped=1)),
        ("a wrapped key of 768 bytes", one("long key", wrapped=768, version=2)), ("the highest version of a key", one("version", key_version=2**31 - 1)),
        ("the nil key", one("nil", key_id=NIL)), ("the max key", one("max", key_id=MAX)),
        ("bytes that standard base64 writes with + and /", one("plus", iv=b64(b"\xfb\xff" * 6), ciphertext=b64(b"\xfe\xff\xbf" * 10))),
    )]
    for vector in encode:
        assert from_text(vector["text"]) == {"envelope_version": 1, **vector["envelope"]}, vector["name"]

    text, text_2 = encode[0]["text"], encode[1]["text"]
    body = base64.urlsafe_b64decode(text[7:] + "=" * (-len(text[7:]) % 4))
    body_2 = base64.urlsafe_b64decode(text_2[7:] + "=" * (-len(text_2[7:]) % 4))
    plus = encode[-1]["text"]

    def of(data, version=1):
        return f"eaas.{version}." + base64.urlsafe_b64encode(data).decode().rstrip("=")

    assert of(body) == text and of(body_2, 2) == text_2
    loose = next(of(body + bytes(more)) for more in (1, 2) if (len(body) + more) % 3)
    refuse = []
    for name, wrong in (
        ("empty", ""), ("the prefix alone", "eaas.1."), ("another prefix", "eeas" + text[4:]), ("the prefix in capitals", "EAAS" + text[4:]),
        ("no prefix", text[7:]), ("version 0", "eaas.0." + text[7:]), ("version 3", "eaas.3." + text[7:]), ("version 10", "eaas.10." + text[7:]),
        ("no version", "eaas." + text[7:]), ("version in another script", "eaas.\u0661." + text[7:]),
        ("a blank in front", " " + text), ("a line feed behind", text + "\n"), ("a NUL behind", text + "\0"), ("a full stop behind", text + "."),
        ("in quotes", f'"{text}"'), ("twice", text + text), ("a line feed inside", text[:60] + "\n" + text[60:]), ("a blank inside", text[:60] + " " + text[60:]),
        ("a percent sign inside", text[:60] + "%20" + text[60:]), ("a letter with an accent", text[:60] + "\u00e9" + text[61:]),
        ("padding", loose + "=" * (-len(loose[7:]) % 4)),
        ("the alphabet of standard base64", plus[:7] + plus[7:].replace("-", "+").replace("_", "/")),
        ("bits behind the last byte", loose[:-1] + chr(ord(loose[-1]) + 1)),
        ("one character more than whole bytes", of(body[: len(body) // 3 * 3]) + "A"),
        ("no byte", of(b"")), ("a header that is cut", of(body[:21])), ("a header alone", of(body[:22])),
        ("cut in the wrapped key", of(body[:60])), ("cut in the iv", of(body[: 22 + 65 + 11])), ("cut in the tag", of(body[: 22 + 65 + 12 + 15])),
        ("v2 cut in the commitment", of(body_2[: 22 + 65 + 31], 2)), ("v2 cut in the iv", of(body_2[: 22 + 65 + 32 + 11], 2)),
        ("v2 cut in the tag", of(body_2[: 22 + 65 + 32 + 12 + 15], 2)),
        ("key_version 0", of(body[:16] + bytes(4) + body[20:])), ("key_version 2^31", of(body[:16] + b"\x80\0\0\0" + body[20:])),
        ("no wrapped key", of(body[:20] + bytes(2) + body[22 + 65:])), ("a wrapped key of 769 bytes", of(body[:20] + b"\x03\x01" + bytes(769) + body[22 + 65:])),
        ("a length beyond the end", of(body[:20] + b"\x03\0" + body[22:])), ("a length that leaves no room for the tag", of(body[:20] + b"\0\x60" + body[22:])),
        ("JSON", json.dumps(encode[0]["envelope"])), ("a plaintext", "+33 6 12 34 56 78"), ("a plaintext that begins alike", "eaas.1. is the prefix"),
    ):
        try:
            from_text(wrong)
        except ValueError:
            refuse.append({"name": name, "text": wrong})
        else:
            raise AssertionError(f"is a text: {name}")
    refuse_envelope = []
    for name, envelope in (("a wrapped key of 769 bytes", one("x", wrapped=769)), ("a wrapped key that is no base64", one("x", wrapped_key="not base64")),
                           ("a wrapped key in base64url", one("x", wrapped_key="-_-_")), ("a wrapped key without padding", one("x", wrapped_key="AAA")),
                           ("a wrapped key with bits behind its end", one("x", wrapped_key="AAB="))):
        try:
            to_text(envelope)
        except ValueError:
            refuse_envelope.append({"name": f"an envelope with {name}", "envelope": envelope})
        else:
            raise AssertionError(f"has a text: {name}")
    return {
        "format": "envelope text 1",
        "about": "envelope-text.md 4. `encode`: the envelope has this text, and the text gives the envelope, with envelope_version 1 where it had none. `refuse`: no "
                 "text of an envelope. `refuse_envelope`: has no text form.",
        "made_by": MADE_BY,
        "encode": encode,
        "refuse": refuse,
        "refuse_envelope": refuse_envelope,
    }
