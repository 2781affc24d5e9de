"""The vectors of wrapped-key.md."""
import base64
import struct

from .common import (
    KEY, MADE_BY, MAX, NIL, OTHER_KEY, OTHER_TENANT, TENANT, b64, flip, gcm_seal, iv_of, key_of, prefixed,
    uuid_bytes,
)


def wrapped_key_aad(tenant, key, version, label=b"eaas/wrapped-key/v1"):
    return prefixed(label, uuid_bytes(tenant), uuid_bytes(key), struct.pack(">I", version))


def token_of(version, iv, sealed, form=1):
    return bytes([form]) + struct.pack(">I", version) + iv + sealed


def wrapped_key_vectors():
    wrap = []
    for name, tenant, key, version, dek in (
        ("version 1", TENANT, KEY, 1, key_of("dek 1")),
        ("version 2", TENANT, KEY, 2, key_of("dek 2")),
        ("version 256", TENANT, KEY, 256, key_of("dek 256")),
        ("version 2^31 - 1", TENANT, KEY, 2**31 - 1, key_of("dek last")),
        ("another tenant", OTHER_TENANT, KEY, 1, key_of("dek 1")),
        ("another key", TENANT, OTHER_KEY, 1, key_of("dek 1")),
        ("lowest UUIDs, DEK of zeros", NIL, NIL, 1, bytes(32)),
        ("highest UUIDs, DEK of 0xff", MAX, MAX, 1, b"\xff" * 32),
    ):
        kek, iv, aad = key_of(f"kek {version}"), iv_of(f"wrap {name}"), wrapped_key_aad(tenant, key, version)
        sealed = gcm_seal(kek, iv, aad, dek)
        wrap.append({
            "name": name, "tenant_id": tenant, "key_id": key, "key_version": version, "kek": kek.hex(),
            "aad": aad.hex(), "iv": iv.hex(), "dek": dek.hex(), "ciphertext": sealed[:32].hex(),
            "tag": sealed[32:].hex(), "wrapped_key": b64(token_of(version, iv, sealed)),
        })

    versions = (1, 2, 3)
    keks = {version: key_of(f"kek {version}") for version in versions}
    iv, dek, aad = iv_of("refuse"), key_of("dek refuse"), wrapped_key_aad(TENANT, KEY, 2)
    sealed = gcm_seal(keks[2], iv, aad, dek)
    good = token_of(2, iv, sealed)
    text = b64(good)

    def sealed_with(kek=keks[2], aad=aad, dek=dek, iv=iv, version=2):
        return token_of(version, iv, gcm_seal(kek, iv, aad, dek))

    def unprefixed(*parts):
        return b"".join(parts)

    label = b"eaas/wrapped-key/v1"
    tenant, key, two = uuid_bytes(TENANT), uuid_bytes(KEY), struct.pack(">I", 2)
    little = b"".join(struct.pack("<I", len(part)) + part for part in (label, tenant, key, two))
    tokens = {
        "format 0": b"\x00" + good[1:],
        "format 2": b"\x02" + good[1:],
        "format 255": b"\xff" + good[1:],
        "no format byte": good[1:],
        "names version 1, which has another KEK": token_of(1, iv, sealed),
        "names version 3, which has another KEK": token_of(3, iv, sealed),
        "names version 0": token_of(0, iv, sealed),
        "names a version that the key does not have": token_of(4, iv, sealed),
        "names version 2^32 - 1": token_of(2**32 - 1, iv, sealed),
        "names version 258: the low byte alone is right": token_of(258, iv, sealed),
        "version in little-endian": good[:1] + struct.pack("<I", 2) + good[5:],
        "sealed under the KEK of version 1": sealed_with(kek=keks[1]),
        "sealed under another key's KEK": sealed_with(kek=key_of("another kek")),
        "sealed under a KEK of zeros": sealed_with(kek=bytes(32)),
        "sealed for another tenant": sealed_with(aad=wrapped_key_aad(OTHER_TENANT, KEY, 2)),
        "sealed for another key": sealed_with(aad=wrapped_key_aad(TENANT, OTHER_KEY, 2)),
        "sealed for version 1 under the KEK of 2": sealed_with(aad=wrapped_key_aad(TENANT, KEY, 1)),
        "sealed for version 1 under the KEK of 1, moved to 2": token_of(
            2, iv, gcm_seal(keks[1], iv, wrapped_key_aad(TENANT, KEY, 1), dek)),
        "tenant and key exchanged": sealed_with(aad=wrapped_key_aad(KEY, TENANT, 2)),
        "sealed without AAD": sealed_with(aad=b""),
        "label of another format": sealed_with(aad=wrapped_key_aad(TENANT, KEY, 2, b"eaas/wrapped-key/v2")),
        "label of a sealed secret": sealed_with(aad=wrapped_key_aad(TENANT, KEY, 2, b"eaas/secret/v1")),
        "AAD without a label": sealed_with(aad=prefixed(tenant, key, two)),
        "AAD without lengths": sealed_with(aad=unprefixed(label, tenant, key, two)),
        "AAD with lengths in little-endian": sealed_with(aad=little),
        "AAD with UUIDs as text": sealed_with(aad=prefixed(label, TENANT.encode(), KEY.encode(), two)),
        "AAD with the version as text": sealed_with(aad=prefixed(label, tenant, key, b"2")),
        "AAD with the version in little-endian": sealed_with(aad=prefixed(label, tenant, key, struct.pack("<I", 2))),
        "AAD in another order": sealed_with(aad=prefixed(label, two, key, tenant)),
        "nothing": b"",
        "one byte": good[:1],
        "only the header": good[:5],
        "last byte missing": good[:-1],
        "one byte more": good + b"\x00",
        "tag missing": good[:49],
        "tag of 12 bytes": good[:61],
        "a DEK of 16 bytes": sealed_with(dek=dek[:16]),
        "a DEK of 31 bytes": sealed_with(dek=dek[:31]),
        "a DEK of 33 bytes": sealed_with(dek=dek + b"\x00"),
        "no DEK": sealed_with(dek=b""),
        "first byte of the iv altered": flip(good, 5),
        "last byte of the iv altered": flip(good, 16, 7),
        "first byte of the ciphertext altered": flip(good, 17, 7),
        "last byte of the ciphertext altered": flip(good, 48),
        "first byte of the tag altered": flip(good, 49),
        "last byte of the tag altered": flip(good, 64, 7),
        "a tag of zeros": good[:49] + bytes(16),
        "ciphertext and tag exchanged": good[:17] + good[49:] + good[17:49],
        "the DEK itself in place of its ciphertext": good[:17] + dek + good[49:],
        "65 bytes of zeros": bytes(65),
    }
    texts = {
        "base64 without padding": text.rstrip("="),
        "base64 with too much padding": text + "=",
        "base64 with trailing bits": text[:-2] + chr(ord(text[-2]) + 1) + "=",
        "base64 with a line feed behind": text + "\n",
        "base64 with a blank in front": " " + text,
        "base64 in two lines": text[:44] + "\n" + text[44:],
        "hexadecimal": good.hex(),
    }
    alphabet = text.replace("+", "-").replace("/", "_")
    if alphabet == text:
        raise RuntimeError("the vector needs a character that URL-safe base64 writes otherwise")
    texts["URL-safe base64"] = alphabet
    reader = {"tenant_id": TENANT, "key_id": KEY, "keks": {str(version): kek.hex() for version, kek in keks.items()}}
    refuse = [{"name": name, "wrapped_key": b64(token)} for name, token in tokens.items()]
    refuse += [{"name": name, "wrapped_key": text} for name, text in texts.items()]
    elsewhere = [
        {"name": "read by another tenant", "tenant_id": OTHER_TENANT, "key_id": KEY, "kek": keks[2].hex()},
        {"name": "read as another key's", "tenant_id": TENANT, "key_id": OTHER_KEY, "kek": keks[2].hex()},
        {"name": "read with another KEK", "tenant_id": TENANT, "key_id": KEY, "kek": keks[3].hex()},
        {"name": "read with a KEK of one other bit", "tenant_id": TENANT, "key_id": KEY, "kek": flip(keks[2], 31).hex()},
    ]
    of_two = lambda change=lambda token: token: b64(change(base64.b64decode(text)))
    version = [{"name": name, "wrapped_key": wrapped, "key_version": beside, "version": taken} for name, wrapped, beside, taken in (
        ("the same in both", of_two(), 2, 2),
        ("a number beside it that was raised", of_two(), 2**31 - 1, 2),
        ("a number beside it that was raised by one", of_two(), 3, 2),
        ("a number beside it that was lowered", of_two(), 1, 1),
        ("format 2", of_two(lambda token: b"\x02" + token[1:]), 7, 2),
        ("another format", of_two(lambda token: b"\x03" + token[1:]), 7, 7),
        ("a byte less", of_two(lambda token: token[:-1]), 7, 7),
        ("a byte more", of_two(lambda token: token + b"\x00"), 7, 7),
        ("text that is no base64", "vault:v1:abc", 7, 7),
    )]
    return {
        "format": "wrapped key 1",
        "about": "wrapped-key.md 5. Byte strings are lower-case hexadecimal, wrapped_key is base64. `reader` holds the KEKs of "
                 "a key's versions 1 to 3; it opens `valid`, and must refuse each of `refuse`, which is `valid` with one "
                 "fault. Each reader of `elsewhere` has one thing other than `reader`, and must refuse `valid`. `version` has what "
                 "stands beside a wrapped key, and the version that a client takes.",
        "made_by": MADE_BY,
        "wrap": wrap,
        "reader": reader,
        "valid": {"wrapped_key": text, "key_version": 2, "dek": dek.hex()},
        "refuse": refuse,
        "elsewhere": elsewhere,
        "version": version,
    }
