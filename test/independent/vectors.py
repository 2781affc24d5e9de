"""Test vectors from a second hand: written from the .md specs alone, in another language, and importing nothing of ours.

    python3 vectors.py write   writes every vectors file in its place
    python3 vectors.py check   exits with 1 if a committed file is not what `write` would write
    python3 vectors.py seal    frames on standard input: key, iv, AAD, plaintext, again and again; answers sealed values
    python3 vectors.py open    frames: key, iv, AAD, sealed; answers 0x01 and the plaintext, or 0x00 when it does not open
    python3 vectors.py seal-v2 frames: DEK, context (JSON), iv, plaintext; answers envelopes of format v2 (JSON)
    python3 vectors.py open-v2 frames: DEK, context (JSON), envelope (JSON), nothing; answers as `open`
    python3 vectors.py seal-stream frames: DEK, context (JSON), salt, plaintext; answers streams
    python3 vectors.py open-stream frames: DEK, context (JSON), stream, nothing; answers as `open`
    python3 vectors.py index   frames: index key, column (JSON), text, nothing; answers what the column holds (JSON)
    python3 vectors.py serve   frames: the name of one of these seven, and all its frames as one; answers all its answers as one

A frame is a u32 (big-endian) length and that many bytes. Needs the standard library, and `cryptography` or else the
library of OpenSSL 3 (libcrypto). Nothing is random: every key is SHA-256 of its name, so the files come out the same.
"""
import base64
import hashlib
import hmac
import json
import math
import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE_BY = (
    "An independent program in Python, written from the specification and not from the code it tests; "
    "AES-256-GCM by OpenSSL, HMAC and SHA-256 by Python's standard library. test/independent/vectors.py"
)


# AES-256-GCM

class DoesNotOpen(Exception):
    pass


def gcm_of_cryptography():
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    def seal(key, iv, aad, plaintext):
        return AESGCM(key).encrypt(iv, plaintext, aad)

    def open_(key, iv, aad, sealed):
        try:
            return AESGCM(key).decrypt(iv, sealed, aad)
        except InvalidTag:
            raise DoesNotOpen() from None

    return seal, open_


def gcm_of_libcrypto():
    import ctypes
    import ctypes.util

    lib = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
    pointer, number, data = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    for name, result, arguments in (
        ("EVP_CIPHER_CTX_new", pointer, ()),
        ("EVP_CIPHER_CTX_free", None, (pointer,)),
        ("EVP_aes_256_gcm", pointer, ()),
        ("EVP_CIPHER_CTX_ctrl", number, (pointer, number, number, pointer)),
        ("EVP_CipherInit_ex", number, (pointer, pointer, pointer, data, data, number)),
        ("EVP_CipherUpdate", number, (pointer, pointer, pointer, data, number)),
        ("EVP_CipherFinal_ex", number, (pointer, pointer, pointer)),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    get_tag, set_tag, set_iv_length = 0x10, 0x11, 0x9

    def run(encrypts, key, iv, aad, text, tag):
        context = lib.EVP_CIPHER_CTX_new()
        try:
            out, length = ctypes.create_string_buffer(len(text) + 16), ctypes.c_int()
            size = ctypes.byref(length)
            steps = [
                lib.EVP_CipherInit_ex(context, lib.EVP_aes_256_gcm(), None, None, None, encrypts),
                lib.EVP_CIPHER_CTX_ctrl(context, set_iv_length, len(iv), None),
                lib.EVP_CipherInit_ex(context, None, None, key, iv, encrypts),
            ]
            if aad:
                steps.append(lib.EVP_CipherUpdate(context, None, size, aad, len(aad)))
            if text:
                steps.append(lib.EVP_CipherUpdate(context, out, size, text, len(text)))
            if not encrypts:
                steps.append(lib.EVP_CIPHER_CTX_ctrl(context, set_tag, 16, ctypes.create_string_buffer(tag, 16)))
            if not all(step == 1 for step in steps):
                raise RuntimeError("libcrypto refused a call")
            if lib.EVP_CipherFinal_ex(context, ctypes.create_string_buffer(16), size) != 1:
                raise DoesNotOpen()
            if not encrypts:
                return out.raw[: len(text)]
            made = ctypes.create_string_buffer(16)
            lib.EVP_CIPHER_CTX_ctrl(context, get_tag, 16, made)
            return out.raw[: len(text)] + made.raw
        finally:
            lib.EVP_CIPHER_CTX_free(context)

    def seal(key, iv, aad, plaintext):
        return run(1, key, iv, aad, plaintext, None)

    def open_(key, iv, aad, sealed):
        if len(sealed) < 16:
            raise DoesNotOpen()
        return run(0, key, iv, aad, sealed[:-16], sealed[-16:])

    return seal, open_


def find_gcm():
    try:
        return gcm_of_cryptography()
    except ImportError:
        return gcm_of_libcrypto()


gcm_seal, gcm_open = find_gcm()


# Ed25519 (RFC 8032)

def ed25519_of_cryptography():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    def public(seed):
        return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    def sign(seed, message):
        return Ed25519PrivateKey.from_private_bytes(seed).sign(message)

    return public, sign


def ed25519_of_libcrypto():
    import ctypes
    import ctypes.util

    lib = ctypes.CDLL(ctypes.util.find_library("crypto") or "libcrypto.so.3")
    lib.EVP_PKEY_new_raw_private_key.restype = lib.EVP_MD_CTX_new.restype = ctypes.c_void_p
    ed25519 = 1087  # NID_ED25519

    def key_of_seed(seed):
        return ctypes.c_void_p(lib.EVP_PKEY_new_raw_private_key(ed25519, None, seed, ctypes.c_size_t(len(seed))))

    def filled(length, call):
        out, size = ctypes.create_string_buffer(length), ctypes.c_size_t(length)
        if call(out, ctypes.byref(size)) != 1:
            raise RuntimeError("libcrypto refused a call")
        return out.raw

    def public(seed):
        return filled(32, lambda out, size: lib.EVP_PKEY_get_raw_public_key(key_of_seed(seed), out, size))

    def sign(seed, message):
        context = ctypes.c_void_p(lib.EVP_MD_CTX_new())
        lib.EVP_DigestSignInit(context, None, None, None, key_of_seed(seed))
        return filled(64, lambda out, size: lib.EVP_DigestSign(context, out, size, message, ctypes.c_size_t(len(message))))

    return public, sign


def find_ed25519():
    try:
        return ed25519_of_cryptography()
    except ImportError:
        return ed25519_of_libcrypto()


ed25519_public, ed25519_sign = find_ed25519()


# Bytes

def sha256(data):
    return hashlib.sha256(data).digest()


def hmac_sha256(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def key_of(name):
    """32 bytes that belong to a name."""
    return sha256(b"test key: " + name.encode())


def iv_of(name):
    return sha256(b"test iv: " + name.encode())[:12]


def stream(name, length):
    """`length` bytes that belong to a name: SHA-256 of the name and a counter (u32, big-endian), block after block."""
    blocks = (length + 31) // 32
    return b"".join(sha256(name.encode() + struct.pack(">I", at)) for at in range(blocks))[:length]


def prefixed(*parts):
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def uuid_bytes(uuid):
    return bytes.fromhex(uuid.replace("-", ""))


def b64(data):
    return base64.b64encode(data).decode()


def flip(data, at, bit=0):
    altered = bytearray(data)
    altered[at] ^= 1 << bit
    return bytes(altered)


TENANT = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
OTHER_TENANT = "7c9e6679-7425-40de-944b-e07fc1f90ae8"
KEY = "0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60"
UUID_FORM = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
OTHER_KEY = "0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f61"
NIL = "00000000-0000-0000-0000-000000000000"
MAX = "ffffffff-ffff-ffff-ffff-ffffffffffff"


# wrapped-key.md

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
        ("another format", of_two(lambda token: b"\x02" + token[1:]), 7, 7),
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


# key-hierarchy.md

def secret_aad(purpose, tenant="", id_="", version=0, label="eaas/secret/v1"):
    return prefixed(*(part.encode("ascii") for part in (label, purpose, tenant, id_, str(version))))


def place_of(purpose, tenant="", id_="", version=0):
    place = {"purpose": purpose}
    if tenant:
        place["tenant_id"] = tenant
    if id_:
        place["id"] = id_
    if version:
        place["version"] = version
    return place


def key_hierarchy_vectors():
    root = key_of("root")
    seal = []
    for name, place in (
        ("the pepper of the API keys", ("api-key-pepper",)),
        ("the seed of the signing key", ("signing-key",)),
        ("the audit key of a tenant", ("audit-key", TENANT)),
        ("the audit key of another tenant", ("audit-key", OTHER_TENANT)),
        ("the KEK of version 1", ("kek", TENANT, KEY, 1)),
        ("the KEK of version 2", ("kek", TENANT, KEY, 2)),
        ("the KEK of version 2147483647", ("kek", TENANT, KEY, 2**31 - 1)),
        ("the hash key of a key", ("hash-key", TENANT, KEY)),
    ):
        secret, iv, aad = key_of(f"secret: {name}"), iv_of(f"secret: {name}"), secret_aad(*place)
        sealed = gcm_seal(root, iv, aad, secret)
        seal.append({
            "name": name, "root_key": root.hex(), "place": place_of(*place), "aad": aad.hex(), "iv": iv.hex(),
            "secret": secret.hex(), "ciphertext": sealed[:32].hex(), "tag": sealed[32:].hex(),
            "sealed": (b"\x01" + iv + sealed).hex(),
        })

    place = ("kek", TENANT, KEY, 2)
    secret, iv = key_of("secret refuse"), iv_of("secret refuse")
    sealed = gcm_seal(root, iv, secret_aad(*place), secret)
    good = b"\x01" + iv + sealed

    def sealed_with(aad=secret_aad(*place), key=root, secret=secret):
        return b"\x01" + iv + gcm_seal(key, iv, aad, secret)

    label, purpose, version = b"eaas/secret/v1", b"kek", b"2"
    tenant, key = TENANT.encode(), KEY.encode()
    little = b"".join(struct.pack("<I", len(part)) + part for part in (label, purpose, tenant, key, version))
    refuse = [{"name": name, "place": place_of(*place), "sealed": value.hex()} for name, value in {
        "format 0": b"\x00" + good[1:],
        "format 2": b"\x02" + good[1:],
        "format 255": b"\xff" + good[1:],
        "no format byte": good[1:],
        "format byte twice": b"\x01" + good,
        "nothing": b"",
        "the format byte alone": good[:1],
        "iv alone": good[:13],
        "one byte too short for a tag": good[:28],
        "last byte missing": good[:-1],
        "one byte more": good + b"\x00",
        "first byte of the iv altered": flip(good, 1),
        "last byte of the iv altered": flip(good, 12, 7),
        "first byte of the ciphertext altered": flip(good, 13, 7),
        "last byte of the ciphertext altered": flip(good, 44),
        "first byte of the tag altered": flip(good, 45),
        "last byte of the tag altered": flip(good, 60, 7),
        "a tag of zeros": good[:45] + bytes(16),
        "the secret itself in place of its ciphertext": good[:13] + secret + good[45:],
        "sealed under another root key": sealed_with(key=key_of("another root")),
        "sealed under a root key of zeros": sealed_with(key=bytes(32)),
        "a secret of 31 bytes": sealed_with(secret=secret[:31]),
        "a secret of 33 bytes": sealed_with(secret=secret + b"\x00"),
        "a secret of 16 bytes": sealed_with(secret=secret[:16]),
        "no secret": sealed_with(secret=b""),
        "without AAD": sealed_with(aad=b""),
        "AAD without lengths": sealed_with(aad=label + purpose + tenant + key + version),
        "AAD with lengths in little-endian": sealed_with(aad=little),
        "AAD without a label": sealed_with(aad=prefixed(purpose, tenant, key, version)),
        "label of another format": sealed_with(aad=secret_aad(*place, label="eaas/secret/v2")),
        "label of a wrapped key": sealed_with(aad=secret_aad(*place, label="eaas/wrapped-key/v1")),
        "AAD with UUIDs of 16 bytes": sealed_with(
            aad=prefixed(label, purpose, uuid_bytes(TENANT), uuid_bytes(KEY), version)),
        "AAD with UUIDs in upper case": sealed_with(
            aad=prefixed(label, purpose, tenant.upper(), key.upper(), version)),
        "AAD with the version as u32": sealed_with(aad=prefixed(label, purpose, tenant, key, struct.pack(">I", 2))),
        "AAD with the version as 02": sealed_with(aad=prefixed(label, purpose, tenant, key, b"02")),
        "AAD in another order": sealed_with(aad=prefixed(label, purpose, key, tenant, version)),
        "a border slid: purpose kek7, tenant without its 7": sealed_with(
            aad=prefixed(label, b"kek7", tenant[1:], key, version)),
        "the pepper's AAD": sealed_with(aad=secret_aad("api-key-pepper")),
    }.items()]
    refuse += [{"name": f"moved to {name}", "place": place_of(*elsewhere), "sealed": good.hex()} for name, elsewhere in (
        ("another tenant", ("kek", OTHER_TENANT, KEY, 2)),
        ("another key", ("kek", TENANT, OTHER_KEY, 2)),
        ("version 1", ("kek", TENANT, KEY, 1)),
        ("version 3", ("kek", TENANT, KEY, 3)),
        ("version 22", ("kek", TENANT, KEY, 22)),
        ("no version", ("kek", TENANT, KEY)),
        ("no key", ("kek", TENANT, "", 2)),
        ("no tenant", ("kek", "", KEY, 2)),
        ("tenant and key exchanged", ("kek", KEY, TENANT, 2)),
        ("the purpose hash-key", ("hash-key", TENANT, KEY, 2)),
        ("the purpose audit-key", ("audit-key", TENANT, KEY, 2)),
        ("the purpose api-key-pepper", ("api-key-pepper", TENANT, KEY, 2)),
        ("the purpose signing-key", ("signing-key", TENANT, KEY, 2)),
        ("the pepper's place", ("api-key-pepper",)),
        ("the signing key's place", ("signing-key",)),
    )]
    audit_keys = [key_of("audit"), bytes(32), b"\xff" * 32]
    iv_label = b"eaas/iv-key/v1"
    iv_key = hmac_sha256(root, iv_label)
    random, aad, dek = stream("random of an iv", 16), wrapped_key_aad(TENANT, KEY, 2), key_of("dek of an iv")

    def seal_iv(*message, key=iv_key):
        return hmac_sha256(key, b"".join(message))[:12]

    def iv_vector(name, key, random, aad, plaintext):
        made = hmac_sha256(key, iv_label)
        return {"name": name, "key": key.hex(), "iv_key": made.hex(), "random": random.hex(), "aad": aad.hex(),
                "plaintext": plaintext.hex(), "iv": seal_iv(random, prefixed(aad), plaintext, key=made).hex()}

    return {
        "format": "sealed secret 1",
        "about": "key-hierarchy.md 7. Byte strings are lower-case hexadecimal. The root key opens `valid` at its place, and must "
                 "refuse each of `refuse`, which is `valid` with one fault, or at another place. `derive` holds audit "
                 "keys with the row keys that come of them, `refuse_derive` what must not come of the first; `iv` sealing "
                 "keys with their iv keys and ivs, `refuse_iv` what must not come of the first.",
        "made_by": MADE_BY,
        "root_key": root.hex(),
        "seal": seal,
        "valid": {"place": place_of(*place), "sealed": good.hex(), "secret": secret.hex()},
        "refuse": refuse,
        "derive": [{"audit_key": key.hex(), "row_key": hmac_sha256(key, b"eaas/row-key/v1").hex()} for key in audit_keys],
        "refuse_derive": [{"name": name, "row_key": value.hex()} for name, value in (
            ("the audit key itself", audit_keys[0]),
            ("SHA-256 of the audit key", sha256(audit_keys[0])),
            ("key and label exchanged", hmac_sha256(b"eaas/row-key/v1", audit_keys[0])),
            ("another label", hmac_sha256(audit_keys[0], b"eaas/row-key/v2")),
            ("the label with a NUL behind", hmac_sha256(audit_keys[0], b"eaas/row-key/v1\x00")),
            ("the audit key in hexadecimal", hmac_sha256(audit_keys[0].hex().encode(), b"eaas/row-key/v1")),
        )],
        "iv": [iv_vector(*each) for each in (
            ("a DEK that is wrapped", root, random, aad, dek),
            ("another DEK, with equal random bytes", root, random, aad, key_of("another dek of an iv")),
            ("the DEK for another key, with equal random bytes", root, random, wrapped_key_aad(TENANT, OTHER_KEY, 2), dek),
            ("the DEK again, with other random bytes", root, stream("other random of an iv", 16), aad, dek),
            ("without AAD, as in server mode", key_of("dek of server mode"), random, b"", "na\u00efve".encode()),
            ("no plaintext and no AAD", bytes(32), bytes(16), b"", b""),
            ("5,000 bytes", root, random, b"", bytes(5000)),
        )],
        "refuse_iv": [{"name": name, "iv": value.hex()} for name, value in (
            ("the random bytes themselves", random[:12]),
            ("under the sealing key itself", seal_iv(random, prefixed(aad), dek, key=root)),
            ("under an iv key of another label", seal_iv(random, prefixed(aad), dek, key=hmac_sha256(root, b"eaas/iv-key/v2"))),
            ("without random bytes", seal_iv(prefixed(aad), dek)),
            ("without AAD", seal_iv(random, prefixed(b""), dek)),
            ("AAD without its length", seal_iv(random, aad, dek)),
            ("AAD with its length in little-endian", seal_iv(random, struct.pack("<I", len(aad)), aad, dek)),
            ("without the plaintext", seal_iv(random, prefixed(aad))),
            ("plaintext with its length", seal_iv(random, prefixed(aad, dek))),
            ("plaintext before the AAD", seal_iv(random, dek, prefixed(aad))),
            ("the last 12 bytes of the HMAC", hmac_sha256(iv_key, random + prefixed(aad) + dek)[-12:]),
        )],
    }


# blind-index.md

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
    return {
        "format": "blind index",
        "about": "blind-index.md 4. Byte strings are lower-case hexadecimal. `index` holds the right answers, `refuse` answers "
                 "that one mistake leads to: none of them may come out.",
        "made_by": MADE_BY,
        "index": index,
        "refuse": refuse,
    }


# chain.md

ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def json_string(text):
    """RFC 8785 section 3.2.2.2."""
    return '"' + "".join(
        ESCAPES.get(character) or (f"\\u{ord(character):04x}" if character < " " else character) for character in text
    ) + '"'


def json_array(values):
    def item(value):
        if value is None:
            return "null"
        return json_string(value) if isinstance(value, str) else str(value)

    return ("[" + ",".join(item(value) for value in values) + "]").encode()


COLUMNS = ("tenant_id", "id", "action", "key_id", "key_version", "actor", "ip_address", "metadata", "created_at")


def entry_bytes(entry):
    return json_array(["eaas/audit/entry/v1", *(entry[column] for column in COLUMNS)])


def entry_hash(previous, entry):
    return sha256(b"eaas/audit/hash/v1" + previous + entry_bytes(entry))


def entry_mac(key, hash_):
    return hmac_sha256(key, b"eaas/audit/mac/v1" + hash_)


def genesis(tenant):
    return sha256(b"eaas/audit/genesis/v1" + tenant.encode("ascii"))


def head_bytes(head, label="eaas/audit/head/v1"):
    return json_array([label, head["tenant_id"], head["last_id"], head["hash"], head["policy_version"], head["created_at"]])


def chain_vectors():
    key = key_of("audit")
    actor = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f10"
    drafts = [
        ("nothing but what must be", "api_key.create", None, None, "system", None, None, 0),
        ("a call with everything", "key.create", KEY, 1, actor, "10.0.0.1", '{"name":"users"}', 1),
        ("an IPv6 address", "key.wrap", KEY, 1, actor, "2001:db8::1", None, 0),
        ("a high key version", "key.unwrap", KEY, 2**31 - 1, actor, "127.0.0.1", None, 999),
    ]
    awkward = {
        "quotes and backslashes": '{"a":"\\"\\\\"}',
        "two backslashes and a u": "\\u0041",
        "short escapes": "\b\t\n\f\r",
        "every other control character": "".join(chr(c) for c in range(1, 32) if chr(c) not in ESCAPES),
        "DEL and C1 controls": "\x7f\x80\x9f",
        "a slash, which is not escaped": "</script>",
        "line and paragraph separators": "\u2028\u2029",
        "an emoji beyond the basic plane": '{"emoji":"\U0001f510"}',
        "joined emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "the highest character": "\U0010ffff",
        "composed": "Ren\u00e9e",
        "decomposed": "Rene\u0301e",
        "right to left": "\u200f\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627\u200e",
        "an override of direction": "\u202etxt.exe\u202c",
        "a byte order mark": "\ufeff",
        "the replacement character": "\ufffd",
        "combining accents without a letter": "\u0301\u0302",
        "empty": "",
        "blanks": "  ",
        "null as text": "null",
        "a number as text": "1",
        "what would close the string": '","created_at":"',
        "an empty object": "{}",
        "sorted members": '{"a":1,"b":null,"c":true}',
        "10,000 characters": "\u00e4" * 10_000,
    }
    drafts += [(f"metadata: {name}", "tenant.update", None, None, actor, "127.0.0.1", text, at % 3)
               for at, (name, text) in enumerate(awkward.items())]
    drafts += [
        ("an actor in another writing", "key.export", KEY, 3, "\u00e4\u6f22\U0001f510\"", "::1", None, 0),
        ("an address that is no address", "decrypt", KEY, 3, actor, "unknown", None, 0),
        ("an empty actor and address", "encrypt", KEY, 3, "", "", "", 0),
        ("the last action", "audit.purge", None, None, "system", None, '{"entries":1000,"through":1000}', 0),
    ]
    hash_, entries, ms = genesis(TENANT), [], 0
    for at, (name, action, key_id, version, who, address, metadata, step) in enumerate(drafts):
        ms += step
        entry = {"tenant_id": TENANT, "id": at + 1, "action": action, "key_id": key_id, "key_version": version, "actor": who,
                 "ip_address": address, "metadata": metadata,
                 "created_at": f"2026-08-11T09:30:{ms // 1000:02d}.{ms % 1000:03d}Z"}
        data, hash_ = entry_bytes(entry), entry_hash(hash_, entry)
        row = {"name": name, "entry": entry, "bytes": data.hex(), "hash": hash_.hex(), "mac": entry_mac(key, hash_).hex()}
        if len(data) > 1000:
            row["bytes_sha256"] = sha256(data).hex()
            del row["bytes"]
        entries.append(row)

    def head(last_id, hash_, policy_version, created_at, tenant=TENANT):
        value = {"tenant_id": tenant, "last_id": last_id, "hash": hash_, "policy_version": policy_version,
                 "created_at": created_at}
        data = head_bytes(value)
        return {"head": value, "bytes": data.hex(), "mac": hmac_sha256(key, data).hex()}

    time_0 = entries[0]["entry"]["created_at"]
    heads = [
        {"name": "of a chain without entries", **head(0, genesis(TENANT).hex(), 1, time_0)},
        *({"name": f"after entry {row['entry']['id']}", **head(
            row["entry"]["id"], row["hash"], 1 + row["entry"]["id"] // 2, row["entry"]["created_at"])}
          for row in (*entries[:8], entries[-1])),
        {"name": "far on", **head(2**53 - 1, entries[-1]["hash"], 2**53 - 1, "9999-12-31T23:59:59.999Z")},
    ]
    return {
        "format": "audit chain 1",
        "about": "chain.md 7. Byte strings are lower-case hexadecimal; `bytes` of an entry or a head as in 1 and 5, long ones "
                 "as their SHA-256. `entries` is one chain, from `genesis` on. Each of `refuse` is an entry of it with one "
                 "fault, given with the hash before it, and each of `refuse_heads` a head with one: none may be taken as "
                 "the server's. `purge_marks` (chain.md 8) are two marks in a row, each of `refuse_purge_marks` the "
                 "second with one fault. `genesis_refuse` holds what is not the genesis of `tenant_id`.",
        "made_by": MADE_BY,
        "audit_key": key.hex(),
        "tenant_id": TENANT,
        "genesis": genesis(TENANT).hex(),
        "genesis_refuse": [{"name": name, "hash": value.hex()} for name, value in (
            ("of another tenant", genesis(OTHER_TENANT)),
            ("of the tenant's UUID as 16 bytes", sha256(b"eaas/audit/genesis/v1" + uuid_bytes(TENANT))),
            ("of the UUID in upper case", genesis(TENANT.upper())),
            ("without a label", sha256(TENANT.encode())),
            ("with the label of entries", sha256(b"eaas/audit/hash/v1" + TENANT.encode())),
            ("zeros", bytes(32)),
        )],
        "entries": entries,
        "heads": heads,
        **purge_marks(key, entries),
        "refuse": refused_entries(key, entries),
        "refuse_heads": refused_heads(key, heads, entries),
    }


MARK_COLUMNS = ("tenant_id", "purged_through", "hash", "entries", "cutoff", "created_at", "previous_mac")


def mark_mac(key, mark, label="eaas/audit/purge-mark/v1", columns=MARK_COLUMNS):
    return hmac_sha256(key, json_array([label, *(mark[column] for column in columns)]))


def purge_marks(key, entries):
    marks, previous = [], bytes(32)
    for through, taken in ((3, 3), (7, 4)):
        mark = {"tenant_id": TENANT, "purged_through": through, "hash": entries[through - 1]["hash"], "entries": taken,
                "cutoff": "2026-08-11T09:30:00.500Z", "created_at": "2031-08-11T09:30:00.000Z",
                "previous_mac": previous.hex()}
        previous = mark_mac(key, mark)
        marks.append({"mark": mark, "mac": previous.hex()})
    mark, mac = marks[1]["mark"], bytes.fromhex(marks[1]["mac"])
    refuse = []

    def add(name, changes=None, mac=mac):
        refuse.append({"name": name, "mark": {**mark, **(changes or {})}, "mac": mac.hex()})

    for column, value in (("tenant_id", OTHER_TENANT), ("purged_through", 8), ("purged_through", 3), ("hash", entries[7]["hash"]),
                          ("hash", ""), ("entries", 7), ("entries", 0), ("cutoff", "2026-08-11T09:30:00.501Z"),
                          ("created_at", "2031-08-11T09:30:00.001Z"), ("previous_mac", "00" * 32), ("previous_mac", "")):
        add(f"{column} altered to {json.dumps(value)}", {column: value})
    for column in MARK_COLUMNS:
        add(f"MAC without {column}", mac=mark_mac(key, mark, columns=[other for other in MARK_COLUMNS if other != column]))
    add("cut-off and time exchanged", {"cutoff": mark["created_at"], "created_at": mark["cutoff"]})
    add("last id and count exchanged", {"purged_through": mark["entries"], "entries": mark["purged_through"]})
    add("the MAC of the mark before", mac=bytes.fromhex(marks[0]["mac"]))
    add("the mark before with this MAC", marks[0]["mark"])
    add("under the label of heads", mac=mark_mac(key, mark, "eaas/audit/head/v1"))
    add("under another audit key", mac=mark_mac(key_of("another audit"), mark))
    add("under the row key", mac=mark_mac(hmac_sha256(key, b"eaas/row-key/v1"), mark))
    add("a MAC of zeros", mac=bytes(32))
    add("no MAC", mac=b"")
    add("the MAC cut", mac=mac[:-1])
    add("last bit altered", mac=flip(mac, 31, 7))
    return {"purge_marks": marks, "refuse_purge_marks": refuse}


def refused_entries(key, entries):
    at = 1  # the entry that has a value in every column
    entry = entries[at]["entry"]
    previous, hash_, mac = (bytes.fromhex(text) for text in (entries[at - 1]["hash"], entries[at]["hash"], entries[at]["mac"]))
    refuse = []

    def add(name, entry=entry, previous=previous, hash_=hash_, mac=mac):
        refuse.append({"name": name, "previous": previous.hex(), "entry": entry, "hash": hash_.hex(), "mac": mac.hex()})

    for column, values in {
        "tenant_id": [OTHER_TENANT, TENANT.upper()],
        "id": [1, 3, 20],
        "action": ["key.rotate", "key.create ", "Key.create", ""],
        "key_id": [None, OTHER_KEY, KEY.upper(), KEY.replace("-", ""), ""],
        "key_version": [None, 0, 2, 10],
        "actor": ["system", entry["actor"].upper(), ""],
        "ip_address": [None, "", "10.0.0.2", "::ffff:10.0.0.1", "10.0.0.1/32", "010.0.0.1"],
        "metadata": [None, "", "{}", '{"name": "users"}', '{"name":"Users"}', '{"name":"users"} ', '{"name":"\\u0075sers"}'],
        "created_at": ["2026-08-11T09:30:00.002Z", "2026-08-11T09:30:00Z", "2026-08-11T09:30:00.001+00:00",
                       "2026-08-11T09:30:00.001000Z", "2026-08-11 09:30:00.001Z"],
    }.items():
        for value in values:
            add(f"{column} altered to {json.dumps(value)}", {**entry, column: value})

    def slid(name, **changes):
        add(f"slid: {name}", {**entry, **changes})

    slid("the action's end is the key's beginning", action="key.creat", key_id="e" + KEY)
    slid("actor and address exchanged", actor=entry["ip_address"], ip_address=entry["actor"])
    slid("address and metadata exchanged", ip_address=entry["metadata"], metadata=entry["ip_address"])
    slid("the version as the actor", key_version=None, actor="1")

    def chained(name, data, previous_hash=previous, label=b"eaas/audit/hash/v1"):
        wrong = sha256(label + previous_hash + data)
        add(f"hash of {name}", hash_=wrong, mac=entry_mac(key, wrong))

    data, text = entry_bytes(entry), entry["metadata"]
    values = [entry[column] for column in COLUMNS]
    chained("an entry with its columns in another order", json_array(["eaas/audit/entry/v1", *reversed(values)]))
    chained("an entry without a label", json_array(values))
    chained("an entry of another format", json_array(["eaas/audit/entry/v2", *values]))
    chained("JSON with blanks", data.replace(b",", b", "))
    chained("a JSON object", json.dumps(entry, separators=(",", ":")).encode())
    chained("metadata as an object", data.replace(json_string(text).encode(), text.encode()))
    chained("the id as a string", data.replace(b",2,", b',"2",', 1))
    chained("an entry without its key", json_array(["eaas/audit/entry/v1", *(v for v in values if v != entry["key_id"])]))
    chained("an entry with a line feed behind", data + b"\n")
    chained("an entry without the hash before it", data, b"")
    chained("an entry after the genesis", data, genesis(TENANT))
    chained("an entry after zeros", data, bytes(32))
    chained("an entry after itself", data, hash_)
    chained("an entry under another label", data, previous, b"eaas/audit/genesis/v1")
    chained("an entry without that label", data, previous, b"")
    chained("an entry after the hash in hexadecimal", data, previous.hex().encode())

    def maced(name, value):
        add(f"MAC: {name}", mac=value)

    maced("under another audit key", entry_mac(key_of("another audit"), hash_))
    maced("under a key of zeros", entry_mac(bytes(32), hash_))
    maced("under the row key", entry_mac(hmac_sha256(key, b"eaas/row-key/v1"), hash_))
    maced("without a label", hmac_sha256(key, hash_))
    maced("of another label", hmac_sha256(key, b"eaas/audit/head/v1" + hash_))
    maced("of the hash in hexadecimal", hmac_sha256(key, b"eaas/audit/mac/v1" + hash_.hex().encode()))
    maced("of the bytes themselves", hmac_sha256(key, b"eaas/audit/mac/v1" + data))
    maced("of the entry before", bytes.fromhex(entries[at - 1]["mac"]))
    maced("the hash in its place", hash_)
    maced("zeros", bytes(32))
    maced("nothing", b"")
    maced("cut", mac[:-1])
    maced("one byte more", mac + b"\x00")
    maced("first bit altered", flip(mac, 0))
    maced("last bit altered", flip(mac, 31, 7))
    add("the hash of the entry before", hash_=previous)
    add("a hash of zeros", hash_=bytes(32))
    add("the hash cut", hash_=hash_[:-1])
    add("after another entry", previous=bytes.fromhex(entries[2]["hash"]))
    add("after the genesis of another tenant", previous=genesis(OTHER_TENANT))

    # Texts that look alike, or that a careless writer of JSON gives the same bytes.
    by_name = {row["name"]: row for row in entries}
    for name, other in (
        ("metadata: composed", "Rene\u0301e"),
        ("metadata: decomposed", "Ren\u00e9e"),
        ("metadata: two backslashes and a u", "A"),
        ("metadata: the replacement character", "\ufffd\ufffd"),
        ("metadata: an emoji beyond the basic plane", '{"emoji":"\ufffd"}'),
        ("metadata: line and paragraph separators", "\\u2028\\u2029"),
        ("metadata: empty", None),
        ("metadata: null as text", None),
        ("metadata: blanks", " "),
        ("metadata: a byte order mark", ""),
        ("metadata: sorted members", '{"b":null,"a":1,"c":true}'),
    ):
        row = by_name[name]
        before = entries[row["entry"]["id"] - 2]["hash"]
        add(f"{name}, altered to {json.dumps(other)}", {**row["entry"], "metadata": other}, bytes.fromhex(before),
            bytes.fromhex(row["hash"]), bytes.fromhex(row["mac"]))
    return refuse


def refused_heads(key, heads, entries):
    head, mac = heads[3]["head"], bytes.fromhex(heads[3]["mac"])
    refuse = []

    def add(name, changes=None, mac=mac):
        refuse.append({"name": name, "head": {**head, **(changes or {})}, "mac": mac.hex()})

    add("of another tenant", {"tenant_id": OTHER_TENANT})
    add("the id before", {"last_id": head["last_id"] - 1})
    add("the id after", {"last_id": head["last_id"] + 1})
    add("id 0", {"last_id": 0})
    add("the hash of the entry before", {"hash": entries[1]["hash"]})
    add("the genesis", {"hash": heads[0]["head"]["hash"]})
    add("a hash of zeros", {"hash": "00" * 32})
    add("no hash", {"hash": ""})
    add("a policy version before", {"policy_version": head["policy_version"] - 1})
    add("a policy version after", {"policy_version": head["policy_version"] + 1})
    add("id and policy version exchanged", {"last_id": head["policy_version"], "policy_version": head["last_id"]})
    add("a millisecond later", {"created_at": "2026-08-11T09:30:00.002Z"})
    add("the time of the genesis", {"created_at": heads[0]["head"]["created_at"]})
    add("the head before, with this head's MAC", heads[2]["head"])
    add("this head, with the MAC of the head before", mac=bytes.fromhex(heads[2]["mac"]))
    add("the MAC of the last entry: its domain is another", mac=bytes.fromhex(entries[2]["mac"]))
    add("the MAC of its hash alone", mac=hmac_sha256(key, b"eaas/audit/head/v1" + bytes.fromhex(head["hash"])))
    add("under the label of entries", mac=hmac_sha256(key, head_bytes(head, "eaas/audit/entry/v1")))
    add("under the label of MACs", mac=hmac_sha256(key, head_bytes(head, "eaas/audit/mac/v1")))
    add("under another audit key", mac=hmac_sha256(key_of("another audit"), head_bytes(head)))
    add("under the row key", mac=hmac_sha256(hmac_sha256(key, b"eaas/row-key/v1"), head_bytes(head)))
    add("of the SHA-256 of its bytes", mac=hmac_sha256(key, sha256(head_bytes(head))))
    add("of bytes without the policy version", mac=hmac_sha256(key, json_array(
        ["eaas/audit/head/v1", head["tenant_id"], head["last_id"], head["hash"], head["created_at"]])))
    add("no secret: SHA-256 of its bytes", mac=sha256(head_bytes(head)))
    add("a MAC of zeros", mac=bytes(32))
    add("no MAC", mac=b"")
    add("the MAC cut", mac=mac[:-1])
    add("one byte more", mac=mac + b"\x00")
    add("first bit altered", mac=flip(mac, 0))
    add("last bit altered", mac=flip(mac, 31, 7))
    return refuse


# checkpoint.md

ORIGIN = "eaas/audit/checkpoint/v1"
SIGNING_SEED = key_of("signing")
OTHER_SEED = key_of("another signing")
#: RFC 8032 section 5.1: the order of the group. A signature's second half is a number below it.
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493
CHECKPOINT_HASH = sha256(b"the last entry")
SIGNED_AT = "2026-08-11T09:30:00.000Z"


def note_key_id(public, name="eaas-audit", kind=b"\x01"):
    return sha256(name.encode() + b"\n" + kind + public)[:4]


def public_key_text(public, name="eaas-audit", kind=b"\x01", id_=None):
    return f"{name}+{(id_ or note_key_id(public, name, kind)).hex()}+{b64(kind + public)}"


def checkpoint_text(tenant=TENANT, last_id=42, hash_=CHECKPOINT_HASH, time=SIGNED_AT, origin=ORIGIN):
    return f"{origin}\n{tenant}\n{last_id}\n{b64(hash_)}\n{time}\n"


def stretch_text(tenant=TENANT, last_id=42, hash_=CHECKPOINT_HASH, head_id=50, head_hash=sha256(b"the head"), time=SIGNED_AT,
                 origin="eaas/audit/stretch/v1"):
    return f"{origin}\n{tenant}\n{last_id}\n{b64(hash_)}\n{head_id}\n{b64(head_hash)}\n{time}\n"


def signature_line(signature, key_id, name="eaas-audit", dash="\u2014"):
    return f"{dash} {name} {b64(key_id + signature)}\n"


def note_of(text, seed=SIGNING_SEED):
    return text + "\n" + signature_line(ed25519_sign(seed, text.encode()), note_key_id(ed25519_public(seed)))


def checkpoint_vectors():
    public, other = ed25519_public(SIGNING_SEED), ed25519_public(OTHER_SEED)
    sign = []
    for name, seed, statement in (
        ("of a log of 42 entries", SIGNING_SEED, {}),
        ("after the first entry", SIGNING_SEED, {"last_id": 1, "hash_": entry_hash(genesis(TENANT), {
            "tenant_id": TENANT, "id": 1, "action": "api_key.create", "key_id": None, "key_version": None,
            "actor": "system", "ip_address": None, "metadata": None, "created_at": SIGNED_AT})}),
        ("of the longest log", SIGNING_SEED, {"last_id": 2**53 - 1, "time": "9999-12-31T23:59:59.999Z"}),
        ("of another tenant", SIGNING_SEED, {"tenant": OTHER_TENANT}),
        ("with a hash of zeros, by another key", OTHER_SEED, {"hash_": bytes(32)}),
        ("with a hash of 0xff, by another key", OTHER_SEED, {"hash_": b"\xff" * 32, "tenant": MAX}),
    ):
        text = checkpoint_text(**statement)
        _, tenant, last_id, hash_, time, _ = text.split("\n")
        sign.append({
            "name": name, "seed": seed.hex(), "public_key": public_key_text(ed25519_public(seed)), "text": text,
            "statement": {"tenant_id": tenant, "last_id": int(last_id), "hash": base64.b64decode(hash_).hex(),
                          "created_at": time},
            "note": note_of(text, seed),
        })

    text = checkpoint_text()
    signature, key_id = ed25519_sign(SIGNING_SEED, text.encode()), note_key_id(public)
    good = note_of(text)
    encoded = b64(key_id + signature)
    line = signature_line(signature, key_id)
    lines = text.split("\n")[:5]

    def lined(*lines):
        return "".join(part + "\n" for part in lines)

    def altered(**statement):
        return checkpoint_text(**statement) + "\n" + line

    def signed(text):
        return note_of(text)

    def with_signature(signature, key_id=key_id):
        return text + "\n" + signature_line(signature, key_id)

    half = int.from_bytes(signature[32:], "little")
    refuse = {
        # What was signed is another text.
        "another tenant": altered(tenant=OTHER_TENANT),
        "the id before": altered(last_id=41),
        "the id after": altered(last_id=43),
        "an id with a digit more": altered(last_id=420),
        "another hash": altered(hash_=sha256(b"another entry")),
        "the first bit of the hash altered": altered(hash_=flip(CHECKPOINT_HASH, 0, 7)),
        "the last bit of the hash altered": altered(hash_=flip(CHECKPOINT_HASH, 31)),
        "a millisecond later": altered(time="2026-08-11T09:30:00.001Z"),
        "a year earlier": altered(time="2025-08-11T09:30:00.000Z"),
        # Signed, but not in the form: a reader that took it would take another text for the same statement.
        "signed: another first line": signed(checkpoint_text(origin="eaas/audit/checkpoint/v2")),
        "signed: no first line": signed(lined(*lines[1:])),
        "signed: the first line in capitals": signed(checkpoint_text(origin=ORIGIN.upper())),
        "signed: a blank behind the first line": signed(checkpoint_text(origin=ORIGIN + " ")),
        "signed: the tenant in upper case": signed(checkpoint_text(tenant=TENANT.upper())),
        "signed: the tenant without dashes": signed(checkpoint_text(tenant=TENANT.replace("-", ""))),
        "signed: the tenant's name": signed(checkpoint_text(tenant="acme")),
        "signed: no tenant": signed(checkpoint_text(tenant="")),
        "signed: the id 0": signed(checkpoint_text(last_id=0)),
        "signed: a negative id": signed(checkpoint_text(last_id=-42)),
        "signed: an id with a zero in front": signed(checkpoint_text(last_id="042")),
        "signed: an id with a plus": signed(checkpoint_text(last_id="+42")),
        "signed: an id with a fraction": signed(checkpoint_text(last_id="42.0")),
        "signed: an id with an exponent": signed(checkpoint_text(last_id="42e0")),
        "signed: an id in hexadecimal": signed(checkpoint_text(last_id="0x2a")),
        "signed: an id in other digits": signed(checkpoint_text(last_id="\u0664\u0662")),
        "signed: the id 2^53": signed(checkpoint_text(last_id=2**53)),
        "signed: an id that a double can't hold": signed(checkpoint_text(last_id=2**53 + 1)),
        "signed: an id of 17 digits": signed(checkpoint_text(last_id=10**16)),
        "signed: no id": signed(checkpoint_text(last_id="")),
        "signed: a hash of 31 bytes": signed(checkpoint_text(hash_=CHECKPOINT_HASH[:31])),
        "signed: a hash of 33 bytes": signed(checkpoint_text(hash_=CHECKPOINT_HASH + b"\x00")),
        "signed: a hash of 20 bytes": signed(checkpoint_text(hash_=CHECKPOINT_HASH[:20])),
        "signed: no hash": signed(checkpoint_text(hash_=b"")),
        "signed: the hash in hexadecimal": signed(text.replace(lines[3], CHECKPOINT_HASH.hex())),
        "signed: the hash without padding": signed(text.replace(lines[3], lines[3].rstrip("="))),
        "signed: the hash with trailing bits": signed(text.replace(lines[3], lines[3][:-2] + chr(ord(lines[3][-2]) + 1) + "=")),
        "signed: the time without milliseconds": signed(checkpoint_text(time="2026-08-11T09:30:00Z")),
        "signed: the time with microseconds": signed(checkpoint_text(time="2026-08-11T09:30:00.000000Z")),
        "signed: the time with an offset": signed(checkpoint_text(time="2026-08-11T09:30:00.000+00:00")),
        "signed: the time in small letters": signed(checkpoint_text(time="2026-08-11t09:30:00.000z")),
        "signed: the time in seconds": signed(checkpoint_text(time="1786440600")),
        "signed: a line less": signed(lined(*lines[:4])),
        "signed: a line more": signed(lined(*lines, "more")),
        "signed: an empty line more": signed(lined(*lines, "")),
        "signed: id and hash exchanged": signed(lined(lines[0], lines[1], lines[3], lines[2], lines[4])),
        "signed: lines ended by CRLF": signed(text.replace("\n", "\r\n")),
        "signed: a byte order mark in front": signed("\ufeff" + text),
        "signed: a blank in front": signed(" " + text),
        "signed: nothing": signed(""),
        "signed: a statement about a stretch": signed(stretch_text()),
        "signed: a statement about a stretch, with the first line of a checkpoint": signed(stretch_text(origin=ORIGIN)),
        # The note around the text.
        "nothing": "",
        "the text alone": text,
        "no signature line": text + "\n",
        "no empty line": text + line,
        "two empty lines": text + "\n\n" + line,
        "the last line feed missing": good[:-1],
        "a line feed more": good + "\n",
        "a line behind": good + "more\n",
        "two signatures": good + line,
        "another key's signature besides": good + signature_line(ed25519_sign(OTHER_SEED, text.encode()), note_key_id(other)),
        "another key's signature in front": text + "\n" + signature_line(
            ed25519_sign(OTHER_SEED, text.encode()), note_key_id(other)) + line,
        "the note twice": good + good,
        "CRLF throughout": good.replace("\n", "\r\n"),
        "a hyphen for the dash": good.replace("\u2014", "-"),
        "an en dash for the dash": good.replace("\u2014", "\u2013"),
        "two hyphens for the dash": good.replace("\u2014", "--"),
        "no blank behind the dash": good.replace("\u2014 ", "\u2014"),
        "two blanks behind the dash": good.replace("\u2014 ", "\u2014  "),
        "a no-break space behind the dash": good.replace("\u2014 ", "\u2014\u00a0"),
        "a tab before the signature": good.replace("eaas-audit ", "eaas-audit\t"),
        "another key's name": good.replace("eaas-audit ", "eaas-log "),
        "the key's name in capitals": good.replace("eaas-audit ", "EaaS-Audit "),
        "the key's name with a suffix": good.replace("eaas-audit ", "eaas-audit2 "),
        "no key's name": good.replace("eaas-audit ", ""),
        "a blank behind the signature": good[:-1] + " \n",
        # The signature.
        "base64 without padding": good.replace(encoded, encoded.rstrip("=")),
        "base64 with too much padding": good.replace(encoded, encoded + "="),
        "base64 with trailing bits": good.replace(encoded, encoded[:-2] + chr(ord(encoded[-2]) + 1) + "="),
        "URL-safe base64": good.replace(encoded, encoded.replace("+", "-").replace("/", "_")),
        "the signature in hexadecimal": good.replace(encoded, (key_id + signature).hex()),
        "no signature": text + "\n\u2014 eaas-audit \n",
        "the key id alone": with_signature(b""),
        "no key id": with_signature(signature, b""),
        "another key id": with_signature(signature, note_key_id(other)),
        "a bit of the key id altered": with_signature(signature, flip(key_id, 3)),
        "the key id of the key without its type": with_signature(signature, sha256(b"eaas-audit\n" + public)[:4]),
        "key id behind the signature": text + "\n" + signature_line(key_id, signature),
        "signed by another key": note_of(text, OTHER_SEED),
        "signed by another key under this one's id": with_signature(ed25519_sign(OTHER_SEED, text.encode())),
        "the text without its last line feed is signed": with_signature(ed25519_sign(SIGNING_SEED, text[:-1].encode())),
        "the text with the empty line is signed": with_signature(ed25519_sign(SIGNING_SEED, (text + "\n").encode())),
        "the text without its first line is signed": with_signature(ed25519_sign(SIGNING_SEED, lined(*lines[1:]).encode())),
        "the text's SHA-256 is signed": with_signature(ed25519_sign(SIGNING_SEED, sha256(text.encode()))),
        "the text in UTF-16 is signed": with_signature(ed25519_sign(SIGNING_SEED, text.encode("utf-16-le"))),
        "a signature of zeros": with_signature(bytes(64)),
        "the first bit altered": with_signature(flip(signature, 0, 7)),
        "the last bit of the first half altered": with_signature(flip(signature, 31)),
        "the first bit of the second half altered": with_signature(flip(signature, 32)),
        "the last bit altered": with_signature(flip(signature, 63, 7)),
        "the halves exchanged": with_signature(signature[32:] + signature[:32]),
        "the second half with the group's order added": with_signature(
            signature[:32] + (half + ED25519_ORDER).to_bytes(32, "little")),
        "the second half negated": with_signature(signature[:32] + (ED25519_ORDER - half).to_bytes(32, "little")),
        "a byte less": with_signature(signature[:63]),
        "a byte more": with_signature(signature + b"\x00"),
    }
    if "+" not in encoded and "/" not in encoded:
        raise RuntimeError("the vector needs a character that URL-safe base64 writes otherwise")
    key = public_key_text(public)
    keys = {
        "another key": public_key_text(other),
        "another key under this one's id": public_key_text(other, id_=key_id),
        "this key under another's id": public_key_text(public, id_=note_key_id(other)),
        "another name": public_key_text(public, name="eaas-log"),
        "a name of capitals": key.replace("eaas-audit", "EAAS-AUDIT"),
        "no name": key.replace("eaas-audit", ""),
        "another type of key": public_key_text(public, kind=b"\x02"),
        "no type": f"eaas-audit+{key_id.hex()}+{b64(public)}",
        "the id in upper case": key.replace(key_id.hex(), key_id.hex().upper()),
        "an id of 3 bytes": key.replace(key_id.hex(), key_id.hex()[:6]),
        "no id": key.replace(key_id.hex(), ""),
        "31 bytes": public_key_text(public[:31]),
        "33 bytes": public_key_text(public + b"\x00"),
        "no bytes": public_key_text(b""),
        "a bit altered": public_key_text(flip(public, 31), id_=key_id),
        "zeros": public_key_text(bytes(32)),
        "base64 with a blank behind": key + " ",
        "base64 with a line feed behind": key + "\n",
        "base64 with padding": key + "=",
        "hexadecimal": f"eaas-audit+{key_id.hex()}+{(bytes([1]) + public).hex()}",
        "a blank in front": " " + key,
        "minus for plus": key.replace("+", "-"),
        "the note": good,
        "nothing": "",
    }
    sign_stretch = []
    for name, seed, statement in (
        ("the first entries", SIGNING_SEED, {}),
        ("all but the last entry", SIGNING_SEED, {"last_id": 49}),
        ("the first entry of the longest log", SIGNING_SEED, {"last_id": 1, "head_id": 2**53 - 1}),
        ("of another tenant, by another key", OTHER_SEED, {"tenant": OTHER_TENANT}),
    ):
        text = stretch_text(**statement)
        _, tenant, last_id, hash_, head_id, head_hash, time, _ = text.split("\n")
        sign_stretch.append({
            "name": name, "seed": seed.hex(), "public_key": public_key_text(ed25519_public(seed)), "text": text,
            "statement": {"tenant_id": tenant, "last_id": int(last_id), "hash": base64.b64decode(hash_).hex(),
                          "head_id": int(head_id), "head_hash": base64.b64decode(head_hash).hex(), "created_at": time},
            "note": note_of(text, seed),
        })
    text = stretch_text()
    lines, good_stretch = text.split("\n")[:7], note_of(text)

    def resigned(**statement):
        return stretch_text(**statement) + "\n" + good_stretch.split("\n\n")[1]

    refuse_stretch = {
        "another tenant": resigned(tenant=OTHER_TENANT),
        "a later last entry": resigned(last_id=43),
        "another hash": resigned(hash_=sha256(b"another entry")),
        "an earlier head": resigned(head_id=49),
        "another hash of the head": resigned(head_hash=CHECKPOINT_HASH),
        "a millisecond later": resigned(time="2026-08-11T09:30:00.001Z"),
        "signed by another key": note_of(text, OTHER_SEED),
        "a checkpoint": good,
        "signed: the first line of a checkpoint": signed(stretch_text(origin=ORIGIN)),
        "signed: another first line": signed(stretch_text(origin="eaas/audit/stretch/v2")),
        "signed: a checkpoint with this first line": signed(checkpoint_text(origin="eaas/audit/stretch/v1")),
        "signed: no head": signed(lined(*lines[:4], lines[6])),
        "signed: the id of the head alone": signed(lined(*lines[:5], lines[6])),
        "signed: a line more": signed(lined(*lines, "more")),
        "signed: no time": signed(lined(*lines[:6])),
        "signed: ends at the head": signed(stretch_text(last_id=50)),
        "signed: ends behind the head": signed(stretch_text(last_id=51)),
        "signed: ends behind a head with more digits": signed(stretch_text(last_id=9, head_id=10).replace("\n9\n", "\n11\n")),
        "signed: head and last entry exchanged": signed(lined(*lines[:2], *lines[4:6], *lines[2:4], lines[6])),
        "signed: ids and hashes exchanged": signed(lined(*lines[:2], lines[2], lines[4], lines[3], lines[5], lines[6])),
        "signed: the id 0": signed(stretch_text(last_id=0)),
        "signed: a head of 2^53": signed(stretch_text(head_id=2**53)),
        "signed: a head with a zero in front": signed(stretch_text(head_id="050")),
        "signed: a head with a fraction": signed(stretch_text(head_id="50.0")),
        "signed: a hash of the head of 31 bytes": signed(stretch_text(head_hash=CHECKPOINT_HASH[:31])),
        "signed: a hash of the head of 33 bytes": signed(stretch_text(head_hash=CHECKPOINT_HASH + b"\x00")),
        "signed: no hash of the head": signed(stretch_text(head_hash=b"")),
        "signed: the hash of the head without padding": signed(text.replace(lines[5], lines[5].rstrip("="))),
        "signed: the tenant in upper case": signed(stretch_text(tenant=TENANT.upper())),
        "signed: the time without milliseconds": signed(stretch_text(time="2026-08-11T09:30:00Z")),
        "signed: lines ended by CRLF": signed(text.replace("\n", "\r\n")),
        "two signatures": good_stretch + good_stretch.split("\n\n")[1],
        "the last line feed missing": good_stretch[:-1],
        "the text alone": text,
        "nothing": "",
    }
    if any(value == key for value in keys.values()) or good in refuse.values() or good_stretch in refuse_stretch.values():
        raise RuntimeError("a vector that must be refused is the good one")
    return {
        "format": "checkpoint 1",
        "about": "checkpoint.md 6. `seed`s and hashes are lower-case hexadecimal. `sign`: each seed signs the statement, whose "
                 "text is given, to the note, which its public key verifies. The first of them is `public_key`'s. Each of "
                 "`refuse` is that first note with one fault; where its name begins with `signed`, the signature is right "
                 "and the text is not in the form. Each of `refuse_public_keys` must not verify the first note. `sign_stretch` "
                 "and `refuse_stretch` are the same for statements about a stretch (checkpoint.md 7).",
        "made_by": MADE_BY.replace("AES-256-GCM", "Ed25519"),
        "public_key": key,
        "sign": sign,
        "refuse": [{"name": name, "note": note} for name, note in refuse.items()],
        "refuse_public_keys": [{"name": name, "public_key": value} for name, value in keys.items()],
        "sign_stretch": sign_stretch,
        "refuse_stretch": [{"name": name, "note": note} for name, note in refuse_stretch.items()],
    }


# merkle.md

def leaf_hash(leaf):
    return sha256(b"\x00" + leaf)


def node_hash(left, right):
    return sha256(b"\x01" + left + right)


def split_of(count):
    return 1 << ((count - 1).bit_length() - 1)


def merkle_root(leaves):
    if len(leaves) < 2:
        return leaf_hash(leaves[0]) if leaves else sha256(b"")
    split = split_of(len(leaves))
    return node_hash(merkle_root(leaves[:split]), merkle_root(leaves[split:]))


def inclusion_proof(index, leaves):
    """RFC 6962 section 2.1.1: PATH."""
    if len(leaves) == 1:
        return []
    split = split_of(len(leaves))
    if index < split:
        return inclusion_proof(index, leaves[:split]) + [merkle_root(leaves[split:])]
    return inclusion_proof(index - split, leaves[split:]) + [merkle_root(leaves[:split])]


def consistency_proof(old_size, leaves, whole=True):
    """RFC 6962 section 2.1.2: SUBPROOF; of an old tree without leaves, nothing."""
    if old_size == 0 or (old_size == len(leaves) and whole):
        return []
    if old_size == len(leaves):
        return [merkle_root(leaves)]
    split = split_of(len(leaves))
    if old_size <= split:
        return consistency_proof(old_size, leaves[:split], whole) + [merkle_root(leaves[split:])]
    return consistency_proof(old_size - split, leaves[split:], False) + [merkle_root(leaves[:split])]


class NotProved(Exception):
    pass


def require(condition):
    if not condition:
        raise NotProved()


def root_by_inclusion(index, size, leaf, proof):
    """PATH read backwards, from the root down: not the way that RFC 9162 describes."""
    if size == 1:
        require(not proof)
        return leaf_hash(leaf)
    require(proof)
    split = split_of(size)
    if index < split:
        return node_hash(root_by_inclusion(index, split, leaf, proof[:-1]), proof[-1])
    return node_hash(proof[-1], root_by_inclusion(index - split, size - split, leaf, proof[:-1]))


def roots_by_consistency(old_size, size, old_root, proof, whole=True):
    """SUBPROOF read backwards: the old root and the new one."""
    if old_size == size:
        require(len(proof) == (0 if whole else 1))
        return (old_root, old_root) if whole else (proof[0], proof[0])
    require(proof)
    split = split_of(size)
    if old_size <= split:
        old, new = roots_by_consistency(old_size, split, old_root, proof[:-1], whole)
        return old, node_hash(new, proof[-1])
    old, new = roots_by_consistency(old_size - split, size - split, old_root, proof[:-1], False)
    return node_hash(proof[-1], old), node_hash(proof[-1], new)


def is_count(value):
    return type(value) is int and 0 <= value <= 2**53 - 1


def are_hashes(values):
    return all(type(value) is bytes and len(value) == 32 for value in values)


def proves_inclusion(size, index, leaf, root, proof):
    if not (is_count(size) and is_count(index) and index < size and are_hashes([root, *proof])):
        return False
    try:
        return root_by_inclusion(index, size, leaf, proof) == root
    except NotProved:
        return False


def proves_consistency(old_size, new_size, old_root, new_root, proof):
    if not (is_count(old_size) and is_count(new_size) and old_size <= new_size and are_hashes([old_root, new_root, *proof])):
        return False
    if old_size == 0:
        return old_root == sha256(b"") and not proof and (new_size > 0 or new_root == old_root)
    try:
        return roots_by_consistency(old_size, new_size, old_root, proof) == (old_root, new_root)
    except NotProved:
        return False


def anchor_leaf(tenant, last_id, hash_):
    return json_array(["eaas/audit/anchor-leaf/v1", tenant, last_id, hash_])


#: The leaves and roots of the reference implementation of RFC 6962 (google/certificate-transparency, merkle_tree_test.cc).
RFC6962_LEAVES = [bytes.fromhex(leaf) for leaf in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")]
RFC6962_ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def anchored_leaves(count):
    return [anchor_leaf(f"{NIL[:-4]}{number:04x}", number + 1, sha256(f"head {number}".encode()).hex())
            for number in range(count)]


def large_inclusion(index, size):
    """Of a tree that nobody can build: its proof is made up, and its root follows from it."""
    leaf, count = b"a leaf among many", 0
    low, high = 0, size
    while high - low > 1:
        split = low + split_of(high - low)
        low, high = (low, split) if index < split else (split, high)
        count += 1
    proof = [sha256(f"node {number}".encode()) for number in range(count)]
    return {"size": size, "index": index, "leaf": leaf, "root": root_by_inclusion(index, size, leaf, proof), "proof": proof}


def large_consistency(old_size, new_size):
    """As above: both roots follow from the proof, unless the old tree is a whole subtree, whose root is made up too."""
    for count in range(110):
        proof = [sha256(f"node {number}".encode()) for number in range(count)]
        try:
            old, new = roots_by_consistency(old_size, new_size, sha256(b"an old root"), proof)
            return {"old_size": old_size, "new_size": new_size, "old_root": old, "new_root": new, "proof": proof}
        except NotProved:
            continue
    raise RuntimeError("no proof has a length that fits")


def merkle_vectors():
    trees = [{"name": f"the reference implementation's tree of {count}", "leaves": RFC6962_LEAVES[:count], "root": root}
             for count, root in enumerate(RFC6962_ROOTS)]
    trees += [{"name": f"heads of {count} tenants", "leaves": anchored_leaves(count),
               "root": merkle_root(anchored_leaves(count)).hex()} for count in (1, 2, 3, 5, 11)]
    if any(merkle_root(tree["leaves"]).hex() != tree["root"] for tree in trees):
        raise RuntimeError("a root is not that of the reference implementation")

    def inclusion(index, leaves):
        return {"size": len(leaves), "index": index, "leaf": leaves[index], "root": merkle_root(leaves),
                "proof": inclusion_proof(index, leaves)}

    def consistency(old_size, leaves):
        return {"old_size": old_size, "new_size": len(leaves), "old_root": merkle_root(leaves[:old_size]),
                "new_root": merkle_root(leaves), "proof": consistency_proof(old_size, leaves)}

    inclusions = {f"leaf {index} of {size}": inclusion(index, RFC6962_LEAVES[:size])
                  for size, indices in ((1, [0]), (2, [0, 1]), (3, [0, 2]), (5, [4]), (7, [0, 4, 6]), (8, [0, 3, 7])) for index in indices}
    inclusions["head 6 of 11"] = inclusion(6, anchored_leaves(11))
    inclusions["head 10 of 11, which has no neighbour in its row"] = inclusion(10, anchored_leaves(11))
    for index, size in ((2**31, 2**32 + 1), (2**32, 2**32 + 1), (2**53 - 2, 2**53 - 1), (2**52 + 12345, 2**53 - 1)):
        inclusions[f"leaf {index} of {size}"] = large_inclusion(index, size)
    consistencies = {f"{old} to {new}": consistency(old, RFC6962_LEAVES[:new]) for old, new in (
        (0, 0), (0, 1), (0, 5), (1, 1), (1, 2), (1, 8), (2, 3), (3, 3), (3, 7), (4, 7), (4, 8), (6, 7), (6, 8), (7, 8), (8, 8))}
    for old, new in ((2**31 + 1, 2**32 + 1), (2**32, 2**32 + 1), (2**53 - 2, 2**53 - 1)):
        consistencies[f"{old} to {new}"] = large_consistency(old, new)

    seven, eight = RFC6962_LEAVES[:7], RFC6962_LEAVES
    good = inclusion(4, seven)
    proof = good["proof"]
    last = inclusion(6, seven)
    refuse_inclusions = {
        "another leaf": {"leaf": eight[3]},
        "a leaf with a byte more": {"leaf": good["leaf"] + b"\x00"},
        "a leaf without its last byte": {"leaf": good["leaf"][:-1]},
        "no byte of the leaf": {"leaf": b""},
        "the hash of the leaf as the leaf": {"leaf": leaf_hash(good["leaf"])},
        "the leaf with its prefix": {"leaf": b"\x00" + good["leaf"]},
        "the index before": {"index": 3},
        "the index after": {"index": 5},
        "the first index": {"index": 0},
        "the last index": {"index": 6},
        "an index that is the size": {"index": 7},
        "an index beyond the size": {"index": 8},
        "an index of 2^32 more": {"index": 2**32 + 4},
        "a negative index": {"index": -1},
        "an index with a fraction": {"index": 4.5},
        "an index that is a text": {"index": "4"},
        "no index": {"index": None},
        "the size 0": {"size": 0, "index": 0},
        "a size of the index": {"size": 4},
        "a size that is too small": {"size": 5},
        "a size of another height": {"size": 9},
        "a size of 2^32 more": {"size": 2**32 + 7},
        "the size 2^53": {"size": 2**53},
        "a negative size": {"size": -7},
        "a size with a fraction": {"size": 7.5},
        "a size that is a text": {"size": "7"},
        "no size": {"size": None},
        "another root": {"root": merkle_root(eight)},
        "the first bit of the root altered": {"root": flip(good["root"], 0, 7)},
        "the last bit of the root altered": {"root": flip(good["root"], 31)},
        "a root of 31 bytes": {"root": good["root"][:31]},
        "a root of 33 bytes": {"root": good["root"] + b"\x00"},
        "no byte of the root": {"root": b""},
        "the empty tree's root": {"root": sha256(b"")},
        "an empty proof": {"proof": []},
        "the first node missing": {"proof": proof[1:]},
        "the last node missing": {"proof": proof[:-1]},
        "a node more at the end": {"proof": proof + [sha256(b"more")]},
        "a node more at the beginning": {"proof": [sha256(b"more")] + proof},
        "the last node twice": {"proof": proof + proof[-1:]},
        "a node of zeros more": {"proof": proof + [bytes(32)]},
        "the nodes in the other order": {"proof": proof[::-1]},
        "the first two nodes exchanged": {"proof": [proof[1], proof[0], *proof[2:]]},
        "a bit of the first node altered": {"proof": [flip(proof[0], 0), *proof[1:]]},
        "a bit of the last node altered": {"proof": [*proof[:-1], flip(proof[-1], 31, 7)]},
        "a node of 31 bytes": {"proof": [proof[0][:31], *proof[1:]]},
        "a node of 33 bytes": {"proof": [proof[0] + b"\x00", *proof[1:]]},
        "an empty node": {"proof": [b"", *proof[1:]]},
        "two nodes in one": {"proof": [proof[0] + proof[1], *proof[2:]]},
        "the proof of another leaf": {"proof": inclusion_proof(5, seven)},
        "the proof of the same leaf in a larger tree": {"proof": inclusion_proof(4, eight)},
        "two leaves' node passed off as a leaf": {
            "size": 4, "index": 2, "leaf": leaf_hash(seven[4]) + leaf_hash(seven[5]), "proof": proof[1:]},
        "a node passed off as a leaf, with its prefix": {
            "size": 4, "index": 2, "leaf": b"\x01" + leaf_hash(seven[4]) + leaf_hash(seven[5]), "proof": proof[1:]},
        "the last leaf's node passed off as one of a full tree": {**last, "size": 8},
        "a tree without prefixes": {
            "size": 2, "index": 0, "leaf": b"a", "root": sha256(sha256(b"a") + sha256(b"b")), "proof": [sha256(b"b")]},
        "a tree whose leaves have no prefix": {
            "size": 2, "index": 0, "leaf": b"a", "root": node_hash(sha256(b"a"), sha256(b"b")), "proof": [sha256(b"b")]},
        "a tree whose odd leaf is paired with itself": {
            "size": 3, "index": 2, "leaf": seven[2], "root": node_hash(
                node_hash(leaf_hash(seven[0]), leaf_hash(seven[1])), node_hash(leaf_hash(seven[2]), leaf_hash(seven[2]))),
            "proof": [leaf_hash(seven[2]), node_hash(leaf_hash(seven[0]), leaf_hash(seven[1]))]},
        "one leaf with a proof": {"size": 1, "index": 0, "leaf": b"", "root": leaf_hash(b""), "proof": [bytes(32)]},
        "the empty leaf in the empty tree": {"size": 1, "index": 0, "leaf": b"", "root": sha256(b""), "proof": []},
    }
    old = consistency(6, seven)
    proof = old["proof"]
    power = consistency(4, seven)
    same = {"old_size": 7, "new_size": 7, "old_root": merkle_root(seven), "new_root": merkle_root(seven), "proof": []}
    nothing = consistency(0, seven)
    rewritten = [*seven[:2], b"rewritten", *seven[3:]]
    refuse_consistencies = {
        "another old root": {"old_root": merkle_root(seven[:5])},
        "another new root": {"new_root": merkle_root(eight)},
        "old and new root exchanged": {"old_root": old["new_root"], "new_root": old["old_root"]},
        "the old root altered": {"old_root": flip(old["old_root"], 31)},
        "the new root altered": {"new_root": flip(old["new_root"], 0, 7)},
        "an old root of 31 bytes": {"old_root": old["old_root"][:31]},
        "a new root of 33 bytes": {"new_root": old["new_root"] + b"\x00"},
        "no old root": {"old_root": b""},
        "no new root": {"new_root": b""},
        "a leaf of the old tree rewritten": {"new_root": merkle_root(rewritten), "proof": consistency_proof(6, rewritten)},
        "a leaf of the old tree removed": {"new_root": merkle_root(eight[1:]), "proof": consistency_proof(6, eight[1:])},
        "two leaves exchanged": {
            "new_root": merkle_root([eight[1], eight[0], *seven[2:]]),
            "proof": consistency_proof(6, [eight[1], eight[0], *seven[2:]])},
        "an old size that is too small": {"old_size": 5},
        "an old size that is a power of two": {"old_size": 4},
        "an old size of the new one": {"old_size": 7},
        "an old size above the new one": {"old_size": 8},
        "the old size 0": {"old_size": 0},
        "an old size of 2^32 more": {"old_size": 2**32 + 6, "new_size": 2**32 + 7},
        "a negative old size": {"old_size": -6},
        "an old size with a fraction": {"old_size": 6.5},
        "an old size that is a text": {"old_size": "6"},
        "no old size": {"old_size": None},
        "a new size below the old one": {"new_size": 5},
        "the old size as the new one": {"new_size": 6},
        "the new size 0": {"new_size": 0},
        "a new size of another height": {"new_size": 9},
        "the new size 2^53": {"new_size": 2**53},
        "a new size that is a text": {"new_size": "7"},
        "no new size": {"new_size": None},
        "an empty proof": {"proof": []},
        "the first node missing": {"proof": proof[1:]},
        "the last node missing": {"proof": proof[:-1]},
        "a node more at the end": {"proof": proof + [sha256(b"more")]},
        "a node more at the beginning": {"proof": [sha256(b"more")] + proof},
        "the old root in front": {"proof": [old["old_root"], *proof]},
        "the nodes in the other order": {"proof": proof[::-1]},
        "a bit of the first node altered": {"proof": [flip(proof[0], 0), *proof[1:]]},
        "a bit of the last node altered": {"proof": [*proof[:-1], flip(proof[-1], 31, 7)]},
        "a node of 31 bytes": {"proof": [proof[0][:31], *proof[1:]]},
        "a node of 33 bytes": {"proof": [*proof[:-1], proof[-1] + b"\x00"]},
        "a power of two with its root in the proof": {**power, "proof": [power["old_root"], *power["proof"]]},
        "a power of two without a proof": {**power, "proof": []},
        "a power of two with another old root": {**power, "old_root": sha256(b"another")},
        "a power of two with a node more": {**power, "proof": power["proof"] + [bytes(32)]},
        "the same size with another root": {**same, "new_root": merkle_root(rewritten)},
        "the same size with another old root": {**same, "old_root": merkle_root(rewritten)},
        "the same size with a proof": {**same, "proof": [merkle_root(seven)]},
        "an old size above the new one, with the same root": {**same, "old_size": 2, "new_size": 1},
        "no leaf, with a proof": {**nothing, "proof": [merkle_root(seven)]},
        "no leaf, with the root of one": {**nothing, "old_root": leaf_hash(b"")},
        "no leaf, with a root of zeros": {**nothing, "old_root": bytes(32)},
        "no leaf twice, with a new root": {**nothing, "new_size": 0},
        "no leaf twice, with two roots of one": {**nothing, "new_size": 0, "old_root": leaf_hash(b""), "new_root": leaf_hash(b"")},
        "no leaf, with a new root of 31 bytes": {**nothing, "new_root": bytes(31)},
    }
    refused = {name: {**good, **fault} for name, fault in refuse_inclusions.items()}
    refused_consistencies = {name: {**old, **fault} for name, fault in refuse_consistencies.items()}
    for name, case in [*inclusions.items(), *refused.items()]:
        if proves_inclusion(**case) != (name in inclusions):
            raise RuntimeError(f"inclusion: {name}")
    for name, case in [*consistencies.items(), *refused_consistencies.items()]:
        if proves_consistency(**case) != (name in consistencies):
            raise RuntimeError(f"consistency: {name}")

    heads = {
        "of a tenant": (TENANT, 42, CHECKPOINT_HASH), "of its first entry": (TENANT, 1, CHECKPOINT_HASH),
        "of the longest log": (TENANT, 2**53 - 1, CHECKPOINT_HASH), "of another tenant": (OTHER_TENANT, 42, CHECKPOINT_HASH),
        "with a hash of zeros": (NIL, 42, bytes(32)),
    }
    refuse_heads = {
        "the id 0": (TENANT, 0, CHECKPOINT_HASH), "a negative id": (TENANT, -1, CHECKPOINT_HASH),
        "an id with a fraction": (TENANT, 42.5, CHECKPOINT_HASH), "the id 2^53": (TENANT, 2**53, CHECKPOINT_HASH),
        "an id that is a text": (TENANT, "42", CHECKPOINT_HASH), "no id": (TENANT, None, CHECKPOINT_HASH),
        "a hash of 31 bytes": (TENANT, 42, CHECKPOINT_HASH[:31]), "a hash of 33 bytes": (TENANT, 42, CHECKPOINT_HASH + b"\x00"),
        "no hash": (TENANT, 42, b""), "the tenant in upper case": (TENANT.upper(), 42, CHECKPOINT_HASH),
        "the tenant without dashes": (TENANT.replace("-", ""), 42, CHECKPOINT_HASH), "the tenant's name": ("acme", 42, CHECKPOINT_HASH),
        "no tenant": ("", 42, CHECKPOINT_HASH), "a line feed behind the tenant": (TENANT + "\n", 42, CHECKPOINT_HASH),
    }

    def shown(value):
        if isinstance(value, list):
            return [shown(item) for item in value]
        return value.hex() if isinstance(value, bytes) else value

    def listed(cases):
        return [{"name": name, **{member: shown(value) for member, value in case.items()}} for name, case in cases.items()]

    def head(values):
        return dict(zip(("tenant_id", "last_id", "hash"), values))

    return {
        "format": "merkle 1",
        "about": "merkle.md 6. Bytes are lower-case hexadecimal; `leaf` of a head is its text. Roots of the trees of the reference "
                 "implementation of RFC 6962 are that project's. The trees of the largest proofs don't exist: proofs were made up, and "
                 "roots computed from them. Each of `refuse_inclusion` is leaf 4 of 7 with one fault, each of `refuse_consistency` "
                 "is 6 to 7 with one fault, unless its name says otherwise.",
        "made_by": MADE_BY.replace("AES-256-GCM by OpenSSL, HMAC and SHA-256", "SHA-256"),
        "trees": [{**tree, "leaves": shown(tree["leaves"])} for tree in trees],
        "anchor_leaves": [{"name": name, **{member: shown(value) for member, value in head(values).items()},
                           "leaf": anchor_leaf(*values[:2], values[2].hex()).decode()} for name, values in heads.items()],
        "inclusion": listed(inclusions),
        "consistency": listed(consistencies),
        "refuse_anchor_leaves": listed({name: head(values) for name, values in refuse_heads.items()}),
        "refuse_inclusion": listed(refused),
        "refuse_consistency": listed(refused_consistencies),
    }


# export.md

def export_members(members):
    def item(value):
        if value is None:
            return "null"
        return json_string(value) if isinstance(value, str) else str(value)

    return "{" + ",".join(f"{json_string(name)}:{item(value)}" for name, value in members.items()) + "}\n"


class Export:
    """The lines of an export, made as export.md says, with whatever fault is asked for."""

    def __init__(self, drafts, after_id=0, after_hash=None, seed=SIGNING_SEED, tenant=TENANT):
        self.tenant, self.seed, self.after_id = tenant, seed, after_id
        self.after_hash = genesis(tenant) if after_hash is None else after_hash
        self.entries, hash_ = [], self.after_hash
        for at, draft in enumerate(drafts):
            entry = {"tenant_id": tenant, "id": after_id + at + 1, **draft}
            hash_ = entry_hash(hash_, entry)
            self.entries.append({**{name: value for name, value in entry.items() if name != "tenant_id"}, "hash": hash_.hex()})
        self.last_id, self.hash = after_id + len(self.entries), hash_

    def header(self, **changes):
        return export_members({"format": "eaas/audit/export/v1", "tenant_id": self.tenant, "after_id": self.after_id,
                               "after_hash": self.after_hash.hex(), **changes})

    def lines(self):
        return [export_members(entry) for entry in self.entries]

    def note(self, **statement):
        return note_of(checkpoint_text(**{
            "tenant": self.tenant, "last_id": self.last_id, "hash_": self.hash, "time": "2026-08-12T00:00:00.000Z", **statement,
        }), self.seed)

    def trailer(self, **changes):
        return export_members({"checkpoint": self.note(), "public_key": public_key_text(ed25519_public(self.seed)), **changes})

    def stretch(self, head_id, head_hash, **statement):
        """The last line where the log goes on behind the last entry."""
        note = note_of(stretch_text(**{
            "tenant": self.tenant, "last_id": self.last_id, "hash_": self.hash, "head_id": head_id, "head_hash": head_hash,
            "time": "2026-08-12T00:00:00.000Z", **statement,
        }), self.seed)
        return export_members({"stretch": note, "public_key": public_key_text(ed25519_public(self.seed))})

    def file(self, last_line=None):
        return "".join([self.header(), *self.lines(), last_line or self.trailer()])

    def file_with(self, anchor, last_line=None):
        return "".join([self.header(), anchor, *self.lines(), last_line or self.trailer()])


class Anchored:
    """The line of an anchor over the head of an export and those of other tenants, made as export.md 8 says."""

    def __init__(self, export, last_id=None, hash_=None, others=(NIL, OTHER_TENANT, "00000000-0000-4000-8000-000000000001"),
                 root=None, action="installation.anchor", metadata=""):
        self.last_id = export.last_id if last_id is None else last_id
        self.hash_ = bytes.fromhex(export.entries[self.last_id - export.after_id - 1]["hash"]) if hash_ is None else hash_
        heads = {other: (at + 7, sha256(other.encode())) for at, other in enumerate(others)}
        heads[export.tenant] = (self.last_id, self.hash_)
        tenants = sorted(heads)
        leaves = [anchor_leaf(tenant, last_id, hash_.hex()) for tenant in tenants for last_id, hash_ in [heads[tenant]]]
        self.index = tenants.index(export.tenant)
        self.proof, self.size = inclusion_proof(self.index, leaves), len(leaves)
        self.root = merkle_root(leaves) if root is None else root
        self.metadata = f'{{"root":"{self.root.hex()}","tenants":{self.size}}}' if metadata == "" else metadata
        self.before = sha256(b"the entry before the anchor")
        self.entry = {"id": 3, "action": action, "key_id": None, "key_version": None, "actor": "system", "ip_address": None,
                      "metadata": self.metadata, "created_at": "2026-08-11T09:31:00.000Z"}
        self.own_hash = entry_hash(self.before, {"tenant_id": MAX, **self.entry})

    def entry_text(self):
        return export_members({**self.entry, "hash": self.own_hash.hex()})[:-1]

    def note(self, seed=SIGNING_SEED, **statement):
        return note_of(checkpoint_text(**{
            "tenant": MAX, "last_id": 3, "hash_": self.own_hash, "time": "2026-08-12T00:00:00.000Z", **statement}), seed)

    def stretch(self, seed=SIGNING_SEED, **statement):
        return note_of(stretch_text(**{
            "tenant": MAX, "last_id": 3, "hash_": self.own_hash, "head_id": 5, "head_hash": sha256(b"the installation's head"),
            "time": "2026-08-12T00:00:00.000Z", **statement}), seed)

    def line(self, entry_text=None, exchanged=False, **changes):
        rest = {"after_hash": self.before.hex(), "last_id": self.last_id, "hash": self.hash_.hex(), "index": self.index,
                "proof": self.proof, "signed": self.note(), **changes}
        if exchanged:
            rest = dict(reversed(rest.items()))
        texts = []
        for name, value in rest.items():
            if name == "proof":
                text = "[" + ",".join(f'"{node.hex()}"' for node in value) + "]"
            else:
                text = "null" if value is None else json_string(value) if isinstance(value, str) else str(value)
            texts.append(f'"{name}":{text}')
        return '{"anchor":' + (entry_text or self.entry_text()) + "," + ",".join(texts) + "}\n"

    def leaves(self, size=5):
        """The tree of the installation's log (tree.md 1)."""
        return [sha256(b"the installation's first entry"), self.before, self.own_hash, sha256(b"an entry behind the anchor"),
                sha256(b"the installation's head")][:size]

    def links(self, ids=(1, 2, 5), size=5, note=None, proof=None, **changes):
        """The line of export.md 9; of an entry with a change by its name, as in `link_2`, that is written instead."""
        leaves = self.leaves(size)
        nodes = lambda nodes: "[" + ",".join(f'"{node.hex()}"' for node in nodes) + "]"
        entries = [changes.get(f"link_{id_}") or self.link(id_, leaves) for id_ in ids]
        return '{"tree":' + json_string(note or tree_note(tree_text(leaves))) + ',"proof":' + nodes(
            inclusion_proof(2, leaves) if proof is None else proof) + ',"entries":[' + ",".join(entries) + "]}\n"

    def link(self, id_, leaves=None, hash_=None, proof=None, shown_id=None):
        leaves = leaves or self.leaves()
        proof = inclusion_proof(id_ - 1, leaves) if proof is None else proof
        nodes = ",".join(f'"{node.hex()}"' for node in proof)
        return f'{{"id":{id_ if shown_id is None else shown_id},"hash":"{(hash_ or leaves[id_ - 1]).hex()}","proof":[{nodes}]}}'

    def report(self, compared=True):
        return {"id": 3, "created_at": "2026-08-11T09:31:00.000Z", "tenants": self.size, "last_id": self.last_id, "compared": compared}


def export_drafts():
    actor = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f10"

    def draft(action, ms, key_id=None, key_version=None, actor=actor, ip_address="10.0.0.1", metadata=None):
        return {"action": action, "key_id": key_id, "key_version": key_version, "actor": actor, "ip_address": ip_address,
                "metadata": metadata, "created_at": f"2026-08-11T09:30:00.{ms:03d}Z"}

    return [
        draft("api_key.create", 0, actor="system", ip_address=None, metadata='{"api_key_id":"' + actor + '"}'),
        draft("key.create", 1, KEY, 1, metadata='{"name":"Ren\u00e9e \U0001f510 \\"\\\\ \u2028"}'),
        draft("key.wrap", 1, KEY, 1),
        draft("key.unwrap", 7, KEY, 1, ip_address="2001:db8::1"),
        draft("envelope_only.refused", 9, metadata="\t\x01\x1f\x7f</script>"),
        draft("key.rotate", 10, KEY, 2, metadata='{"replaces":2}'),
    ]


FIRST_API_KEY, SECOND_API_KEY = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f10", "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f11"
THIRD_API_KEY, FOURTH_API_KEY = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f12", "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f13"
ALL_PERMISSIONS = ("api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy "
                   "keys:disable keys:export keys:read keys:rotate")


def change(action, key_version=None, key_id=KEY, actor=FIRST_API_KEY, **metadata):
    """An entry of a history of rights (chain.md 11): about KEY if it names a version."""
    text = json.dumps(dict(sorted(metadata.items())), separators=(",", ":")) if metadata else None
    return {"action": action, "key_id": None if key_version is None else key_id, "key_version": key_version, "actor": actor,
            "ip_address": None, "metadata": text, "created_at": "2026-08-11T09:30:00.000Z"}


def history_drafts():
    return [
        change("api_key.create", actor="system", api_key_id=FIRST_API_KEY, permissions=ALL_PERMISSIONS, envelope_only=True),  # 1
        change("api_key.create", api_key_id=SECOND_API_KEY, permissions="api_keys:manage decrypt encrypt keys:export"),
        change("key.create", 1),
        change("key.wrap", 1),
        change("key.rotate", 2, replaces=3),  # 5
        change("key.wrap", 2),
        change("key.unwrap", 1),
        change("key.rotation_policy", 2, interval_days=30, replaces=5),
        change("api_key.update", api_key_id=SECOND_API_KEY, permissions="api_keys:manage encrypt", replaces=2),
        change("key.wrap", 2, actor=SECOND_API_KEY),  # 10
        change("tenant.update", actor="system", replaces=1, envelope_only=False),
        change("key.disable", 2, replaces=8),
        change("key.unwrap", 2),
        change("key.enable", 2, replaces=12),
        change("key.export", 2),  # 15
        change("encrypt", 2),
        change("decrypt", 1),
        change("tenant.update", actor="system", replaces=11, envelope_only=True),
        change("api_key.revoke", api_key_id=SECOND_API_KEY, actor=SECOND_API_KEY, replaces=9),
        change("key.rotate", 3, actor="system", replaces=14),  # 20
        change("key.disable", 3, replaces=20),
        change("key.destroy", 3, replaces=21, step="scheduled"),
        change("key.destroy", 3, replaces=22, step="cancelled"),
        change("key.destroy", 3, replaces=23, step="scheduled"),
        change("key.destroy", 3, actor="system", replaces=24, step="completed", versions=3),  # 25
        change("envelope_only.refused", 3),
        change("key.create", 1, key_id=OTHER_KEY),
        change("tenant.update", actor="system", replaces=18, status="suspended"),
        change("key.rotate", 2, key_id=OTHER_KEY, actor="system", replaces=27),
        change("tenant.update", actor="system", replaces=28, status="active", envelope_only=False),  # 30
        change("encrypt", 2, key_id=OTHER_KEY),
        change("api_key.create", api_key_id=THIRD_API_KEY, permissions="encrypt"),
        change("key.wrap", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY),
        change("envelope_only.refused", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY, operation="encrypt"),
        change("api_key.update", api_key_id=THIRD_API_KEY, permissions="hash", replaces=32),  # 35
        change("key.wrap", 2, key_id=OTHER_KEY, rewrapped_from=1, on_behalf_of="somebody"),
        change("api_key.update", api_key_id=THIRD_API_KEY, permissions="api_keys:manage encrypt", replaces=35),
        change("api_key.create", api_key_id=FOURTH_API_KEY, actor=THIRD_API_KEY, permissions="hash"),  # which `encrypt` implies
        change("api_key.update", api_key_id=FOURTH_API_KEY, permissions="decrypt encrypt", replaces=38),
        change("api_key.update", api_key_id=FOURTH_API_KEY, actor=THIRD_API_KEY, permissions="decrypt", replaces=39),  # 40
        change("api_key.update", api_key_id=FOURTH_API_KEY, actor=THIRD_API_KEY, replaces=40),
        change("key.unwrap", 1, key_id=OTHER_KEY, actor=FOURTH_API_KEY),
        change("something.new", actor=FOURTH_API_KEY),
        restated_key(25, "destroyed", version=3),
        restated_key(29, "active", key_id=OTHER_KEY),  # 45
        restated_api_key(19, "api_keys:manage encrypt", revoked=True),
        restated_api_key(37, "encrypt api_keys:manage", api_key_id=THIRD_API_KEY),
        restated_tenant(30),
        change("key.wrap", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY),
        change("key.disable", 2, key_id=OTHER_KEY, replaces=45),  # 50
        restated_key(50, "disabled", key_id=OTHER_KEY),
        change("api_key.update", api_key_id=THIRD_API_KEY, permissions="encrypt", replaces=47),
        change("key.rotation_policy", 2, key_id=OTHER_KEY, interval_days=7, status="disabled", replaces=51),
        change("key.destroy", 2, key_id=OTHER_KEY, replaces=53, step="scheduled"),
        restated_key(54, "pending_destruction", key_id=OTHER_KEY),  # 55
        change("tenant.update", actor="system", replaces=48, status="active", envelope_only=True),
    ]


def restated_key(replaces, status, version=2, actor="system", key_id=KEY, **more):
    return change("key.restate", version, key_id=key_id, actor=actor, replaces=replaces, **{
        "status": status, "interval_days": None, "destroy_at": None, **more})


def restated_api_key(replaces, permissions, revoked=False, actor="system", api_key_id=SECOND_API_KEY, **more):
    return change("api_key.restate", actor=actor, api_key_id=api_key_id, permissions=permissions, expires_at=None, allowed_ips=None,
                  revoked_at="2026-08-11T09:30:00.000Z" if revoked else None, replaces=replaces, **more)


def restated_tenant(replaces, actor="system", **more):
    return change("tenant.restate", actor=actor, replaces=replaces, **{
        "status": "active", "envelope_only": False, "monthly_encrypt_quota": None, "plaintext_encoding": "utf8", **more})


def without(draft, name):
    told = json.loads(draft["metadata"])
    del told[name]
    return {**draft, "metadata": json.dumps(told, separators=(",", ":"))}


def history_faults():
    """Name, what is wrong, how many entries of the history come before, the entry."""
    rename, policy = {"api_key_id": SECOND_API_KEY}, {"interval_days": 30}
    mismatch = [
        ("a rotation that replaces nothing", 4, change("key.rotate", 2)),
        ("a rotation that replaces an entry of another row", 4, change("key.rotate", 2, replaces=2)),
        ("a rotation that replaces the last entry of its key, which changed nothing", 4, change("key.rotate", 2, replaces=4)),
        ("a rotation that replaces itself", 4, change("key.rotate", 2, replaces=5)),
        ("a rotation that replaces a text", 4, change("key.rotate", 2, replaces="3")),
        ("a rotation that replaces null", 4, change("key.rotate", 2, replaces=None)),
        ("a rotation that replaces true", 1 + 3, change("key.rotate", 2, replaces=True)),
        ("a rotation undone: the key of its creation rotated again", 7, change("key.rotate", 2, replaces=3)),
        ("a policy on a key of before its rotation", 7, change("key.rotation_policy", 2, replaces=3, **policy)),
        ("a key enabled before it was disabled", 12, change("key.enable", 2, replaces=8)),
        ("a destroyed key of before its destruction", 25, change("key.destroy", 3, replaces=22, step="cancelled")),
        ("a narrowed API key of before", 9, change("api_key.update", replaces=2, **rename)),
        ("a revoked API key of before", 19, change("api_key.update", replaces=9, **rename)),
        ("an API key that replaces nothing", 8, change("api_key.update", **rename)),
        ("an API key that replaces the entry of another", 8, change("api_key.revoke", replaces=1, **rename)),
        ("a tenant that replaces nothing", 10, change("tenant.update", actor="system")),
        ("a tenant of before", 11, change("tenant.update", actor="system", replaces=1)),
        ("a key restated that replaces nothing", 43, without(restated_key(25, "destroyed", version=3), "replaces")),
        ("a destroyed key of before, restated", 43, restated_key(24, "destroyed", version=3)),
        ("an API key restated that replaces nothing", 43, without(restated_api_key(19, "api_keys:manage encrypt", revoked=True), "replaces")),
        ("a revoked API key of before, restated", 43, restated_api_key(9, "api_keys:manage encrypt", revoked=True)),
        ("a tenant restated that replaces nothing", 43, without(restated_tenant(30), "replaces")),
        ("a tenant of before, restated", 43, restated_tenant(28)),
        ("a change of a restated key that replaces what was restated", 45, change("key.disable", 2, key_id=OTHER_KEY, replaces=29)),
        ("a tenant whose metadata is no JSON", 10, {**change("tenant.update", actor="system"), "metadata": "x"}),
    ]
    violated = [
        ("a key wraps before it exists", 2, change("key.wrap", 1)),
        ("another key, which was never created", 6, change("key.unwrap", 1, key_id=OTHER_KEY)),
        ("a refusal that names a key that was never created", 6, change("envelope_only.refused", 1, key_id=OTHER_KEY)),
        ("a key created twice", 4, change("key.create", 1)),
        ("a key created with version 2", 2, change("key.create", 2)),
        ("a wrap under the version before the rotation", 5, change("key.wrap", 1)),
        ("a wrap under a version to come", 5, change("key.wrap", 3)),
        ("a wrap under version 0", 5, change("key.wrap", 0)),
        ("an encryption under the version before the rotation", 15, change("encrypt", 1)),
        ("an unwrap of a version to come", 5, change("key.unwrap", 3)),
        ("an unwrap of version 0", 5, change("key.unwrap", 0)),
        ("a decryption of a version to come", 15, change("decrypt", 3)),
        ("an export that names an old version", 5, change("key.export", 1)),
        ("a rotation to the same version", 5, change("key.rotate", 2, replaces=5)),
        ("a rotation that leaves out a version", 5, change("key.rotate", 4, replaces=5)),
        ("a rotation back", 5, change("key.rotate", 1, replaces=5)),
        ("a wrap with a disabled key", 12, change("key.wrap", 2)),
        ("a rotation of a disabled key", 12, change("key.rotate", 3, replaces=12)),
        ("a disabled key disabled", 12, change("key.disable", 2, replaces=12)),
        ("an active key enabled", 14, change("key.enable", 2, replaces=14)),
        ("a change that names an old version", 14, change("key.disable", 1, replaces=14)),
        ("the destruction of an active key scheduled", 14, change("key.destroy", 2, replaces=14, step="scheduled")),
        ("a destruction cancelled that was not scheduled", 21, change("key.destroy", 3, replaces=21, step="cancelled")),
        ("a destruction of no step", 21, change("key.destroy", 3, replaces=21)),
        ("a destruction of another step", 21, change("key.destroy", 3, replaces=21, step="toString")),
        ("a destruction of fewer versions", 24, change("key.destroy", 3, replaces=24, step="completed", versions=2)),
        ("an unwrap while a destruction waits", 22, change("key.unwrap", 1)),
        ("a key enabled while its destruction waits", 22, change("key.enable", 3, replaces=22)),
        ("an unwrap with a destroyed key", 25, change("key.unwrap", 1)),
        ("a wrap with a destroyed key", 25, change("key.wrap", 3)),
        ("an export of a destroyed key", 25, change("key.export", 3)),
        ("a destroyed key rotated", 25, change("key.rotate", 4, replaces=25)),
        ("a destroyed key enabled", 25, change("key.enable", 3, replaces=25)),
        ("a destruction of a destroyed key cancelled", 25, change("key.destroy", 3, replaces=25, step="cancelled")),
        ("a destroyed key created", 25, change("key.create", 1)),
        ("a revoked API key that wraps", 19, change("key.wrap", 2, actor=SECOND_API_KEY)),
        ("a revoked API key that renames itself", 19, change("api_key.update", actor=SECOND_API_KEY, replaces=9, **rename)),
        ("a revoked API key, renamed by another", 19, change("api_key.update", replaces=19, **rename)),
        ("a revoked API key, revoked again", 19, change("api_key.revoke", replaces=19, **rename)),
        ("a revoked API key, created again", 19, change("api_key.create", **rename)),
        ("an API key created twice", 3, change("api_key.create", **rename)),
        ("an API key that was never created", 3, change("api_key.update", api_key_id=OTHER_KEY, replaces=1)),
        ("a call of an API key that was never created", 3, change("key.wrap", 1, actor=OTHER_KEY)),
        ("a new API key without its id", 3, change("api_key.create")),
        ("a changed API key without its id", 3, change("api_key.update", replaces=1)),
        ("a destroyed key restated as active", 43, restated_key(25, "active", version=3)),
        ("an active key restated as disabled", 43, restated_key(29, "disabled", key_id=OTHER_KEY)),
        ("a disabled key restated as active", 50, restated_key(50, "active", key_id=OTHER_KEY)),
        ("a policy that says that an active key is disabled", 14, change("key.rotation_policy", 2, replaces=14, status="disabled", **policy)),
        ("a policy that says that a key is destroyed", 14, change("key.rotation_policy", 2, replaces=14, status="destroyed", **policy)),
        ("a policy that says that a key is null", 14, change("key.rotation_policy", 2, replaces=14, status=None, **policy)),
        ("a key restated as something", 43, restated_key(29, "toString", key_id=OTHER_KEY)),
        ("a key restated as nothing", 43, without(restated_key(29, "active", key_id=OTHER_KEY), "status")),
        ("a key restated in a list", 43, restated_key(29, ["active"], key_id=OTHER_KEY)),
        ("a key restated with an old version", 43, restated_key(29, "active", key_id=OTHER_KEY, version=1)),
        ("a key restated with a version to come", 43, restated_key(29, "active", key_id=OTHER_KEY, version=3)),
        ("a key restated that was never created", 43, restated_key(29, "active", key_id=THIRD_API_KEY)),
        ("a wrap with a destroyed key that was restated", 44, change("key.wrap", 3)),
        ("a key restated by an API key", 43, restated_key(29, "active", key_id=OTHER_KEY, actor=FIRST_API_KEY)),
        ("a revoked API key restated as valid", 43, restated_api_key(19, "api_keys:manage encrypt")),
        ("a valid API key restated as revoked", 43, restated_api_key(37, "api_keys:manage encrypt", api_key_id=THIRD_API_KEY, revoked=True)),
        ("an API key restated with more permissions", 43, restated_api_key(37, "api_keys:manage decrypt encrypt", api_key_id=THIRD_API_KEY)),
        ("an API key restated with fewer permissions", 43, restated_api_key(37, "encrypt", api_key_id=THIRD_API_KEY)),
        ("an API key restated with other permissions", 43, restated_api_key(37, "decrypt encrypt", api_key_id=THIRD_API_KEY)),
        ("an API key restated without permissions", 43, without(restated_api_key(37, "encrypt", api_key_id=THIRD_API_KEY), "permissions")),
        ("an API key restated that may be revoked", 43,
         without(restated_api_key(37, "api_keys:manage encrypt", api_key_id=THIRD_API_KEY), "revoked_at")),
        ("a revoked API key restated that may be valid", 43,
         without(restated_api_key(19, "api_keys:manage encrypt", revoked=True), "revoked_at")),
        ("an API key restated that was never created", 43, restated_api_key(37, "encrypt", api_key_id=OTHER_KEY)),
        ("an API key restated by itself", 43,
         restated_api_key(37, "api_keys:manage encrypt", api_key_id=THIRD_API_KEY, actor=THIRD_API_KEY)),
        ("a revoked API key that was restated wraps", 46, change("key.wrap", 2, key_id=OTHER_KEY, actor=SECOND_API_KEY)),
        ("a revoked API key that was restated is changed", 46, change("api_key.update", api_key_id=SECOND_API_KEY, replaces=46)),
        ("an API key that was restated unwraps", 48, change("key.unwrap", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY)),
        ("a tenant restated as suspended", 43, restated_tenant(30, status="suspended")),
        ("a tenant restated in another mode", 43, restated_tenant(30, envelope_only=True)),
        ("a tenant restated by an API key", 43, restated_tenant(30, actor=FIRST_API_KEY)),
        *history_overreaches(),
    ]
    return [(name, "replaces_mismatch", *rest) for name, *rest in mismatch] + [(name, "state_violated", *rest) for name, *rest in violated]


def history_overreaches():
    """What the API key that acts may not do by the entries before (chain.md 13), and nothing else is wrong with."""
    narrowed, hashes = {"actor": SECOND_API_KEY}, {"actor": THIRD_API_KEY}
    other, encrypts = {"key_id": OTHER_KEY, **hashes}, {"key_id": OTHER_KEY, "actor": THIRD_API_KEY}
    return [
        ("a narrowed API key unwraps", 10, change("key.unwrap", 1, **narrowed)),
        ("a narrowed API key exports", 10, change("key.export", 2, **narrowed)),
        ("a narrowed API key makes one that may do what it might before", 10,
         change("api_key.create", api_key_id=THIRD_API_KEY, permissions="decrypt", **narrowed)),
        ("a narrowed API key makes one that may do that and what it still may", 10,
         change("api_key.create", api_key_id=THIRD_API_KEY, permissions="api_keys:manage decrypt encrypt", **narrowed)),
        ("a narrowed API key widens itself again", 10,
         change("api_key.update", api_key_id=SECOND_API_KEY, permissions="api_keys:manage decrypt encrypt", replaces=9, **narrowed)),
        ("an API key enables that may not disable", 12, change("key.enable", 2, replaces=12, **narrowed)),
        ("an API key destroys that may not", 12, change("key.destroy", 2, replaces=12, step="scheduled", **narrowed)),
        ("an API key of hashes wraps", 35, change("key.wrap", 2, **other)),
        ("an API key of hashes unwraps", 35, change("key.unwrap", 1, **other)),
        ("an API key of hashes encrypts", 35, change("encrypt", 2, **other)),
        ("an API key of hashes decrypts", 35, change("decrypt", 2, **other)),
        ("an API key of hashes creates a key", 35, change("key.create", 1, key_id=THIRD_API_KEY, **hashes)),
        ("an API key of hashes rotates", 35, change("key.rotate", 3, replaces=29, **other)),
        ("an API key of hashes sets a policy", 35, change("key.rotation_policy", 2, replaces=29, interval_days=30, **other)),
        ("an API key of hashes disables", 35, change("key.disable", 2, replaces=29, **other)),
        ("an API key of hashes exports", 35, change("key.export", 2, **other)),
        ("an API key of hashes creates an API key", 35, change("api_key.create", api_key_id=FOURTH_API_KEY, permissions="hash", **hashes)),
        ("an API key of hashes renames itself", 35, change("api_key.update", api_key_id=THIRD_API_KEY, replaces=35, **hashes)),
        ("an API key of hashes revokes itself", 35, change("api_key.revoke", api_key_id=THIRD_API_KEY, replaces=35, **hashes)),
        ("an API key of hashes is refused an encryption for its server mode", 35,
         change("envelope_only.refused", 2, operation="encrypt", **other)),
        ("an API key that encrypts is refused a decryption for its server mode", 33,
         change("envelope_only.refused", 2, operation="decrypt", **encrypts)),
        ("an API key that encrypts rewraps", 33, change("key.wrap", 2, rewrapped_from=1, **encrypts)),
        ("an API key that encrypts unwraps", 33, change("key.unwrap", 2, **encrypts)),
        ("an API key acts on behalf of somebody", 33, change("key.wrap", 2, on_behalf_of="somebody", **encrypts)),
        ("an API key acts on behalf of null", 33, change("key.wrap", 2, on_behalf_of=None, **encrypts)),
        ("an API key grants another one more than it has itself", 40,
         change("api_key.update", api_key_id=FOURTH_API_KEY, permissions="decrypt keys:read", replaces=40, actor=THIRD_API_KEY)),
        ("an API key takes back what another lost", 40,
         change("api_key.update", api_key_id=FOURTH_API_KEY, permissions="decrypt keys:export", replaces=40, actor=THIRD_API_KEY)),
        ("an API key that lost a right when it was renamed", 41, change("key.wrap", 2, key_id=OTHER_KEY, actor=FOURTH_API_KEY)),
        ("an API key changes the tenant", 10, change("tenant.update", replaces=1)),
        ("an API key purges", 10, change("audit.purge", purged_through=0)),
        ("an API key accepts a rollback", 10, change("audit.rollback_accepted")),
        ("an API key accepts a clock", 10, change("audit.clock_accepted")),
        ("an API key of a suspended tenant wraps", 28, change("key.wrap", 1, key_id=OTHER_KEY)),
        ("an API key of a suspended tenant creates a key", 28, change("key.create", 1, key_id=THIRD_API_KEY)),
        ("an API key of a suspended tenant does something unknown", 28, change("something.new")),
        ("an encryption before server mode was opened", 5, change("encrypt", 2)),
        ("an encryption after server mode was closed", 18, change("encrypt", 2)),
        ("a decryption after server mode was closed", 18, change("decrypt", 1)),
    ]


def history_part_faults():
    """The same of a log that begins after entry 10."""
    return [
        ("an entry that replaces one of the part", "replaces_mismatch", [change("key.disable", 2, replaces=11)]),
        ("an entry that replaces entry 0", "replaces_mismatch", [change("key.disable", 2, replaces=0)]),
        ("an entry that replaces half an entry", "replaces_mismatch", [change("key.disable", 2, replaces=7.5)]),
        ("an entry that replaces nothing", "replaces_mismatch", [change("api_key.revoke", api_key_id=SECOND_API_KEY)]),
        ("a tenant that replaces nothing", "replaces_mismatch", [change("tenant.update", actor="system")]),
        ("the second change, which replaces the same as the first", "replaces_mismatch",
         [change("key.disable", 2, replaces=8), change("key.enable", 2, replaces=8)]),
        ("a wrap with a disabled key", "state_violated", [change("key.disable", 2, replaces=8), change("key.wrap", 2)]),
        ("a wrap under the version before the rotation", "state_violated", [change("key.rotate", 3, replaces=8), change("key.wrap", 2)]),
        ("a wrap under another version than the one before", "state_violated", [change("key.wrap", 2), change("key.wrap", 1)]),
        ("an active key, which wrapped, enabled", "state_violated", [change("key.wrap", 2), change("key.enable", 2, replaces=8)]),
        ("a rotation to the first version", "state_violated", [change("key.rotate", 1, replaces=8)]),
        ("a key created after its use", "state_violated", [change("key.unwrap", 1), change("key.create", 1)]),
        ("an API key created after a call of it", "state_violated", [change("key.unwrap", 1), change("api_key.create", api_key_id=FIRST_API_KEY)]),
        ("a call of a revoked API key", "state_violated",
         [change("api_key.revoke", api_key_id=SECOND_API_KEY, replaces=9), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("a destroyed key enabled", "state_violated",
         [change("key.destroy", 2, replaces=8, step="completed", versions=2), change("key.enable", 2, replaces=11)]),
        ("a wrap by an API key that only hashes since", "state_violated",
         [change("api_key.update", actor="system", api_key_id=FIRST_API_KEY, permissions="hash", replaces=1), change("key.wrap", 2)]),
        ("a wrap by a new API key that only hashes", "state_violated",
         [change("api_key.create", api_key_id=THIRD_API_KEY, permissions="hash"), change("key.wrap", 2, actor=THIRD_API_KEY)]),
        ("a new API key by one that only makes such that hash", "state_violated",
         [change("api_key.update", actor="system", api_key_id=SECOND_API_KEY, permissions="api_keys:manage hash", replaces=9),
          change("api_key.create", actor=SECOND_API_KEY, api_key_id=THIRD_API_KEY, permissions="encrypt")]),
        ("a tenant changed by an API key", "state_violated", [change("tenant.update", replaces=1)]),
        ("a key restated that replaces an entry of the part", "replaces_mismatch", [restated_key(11, "active")]),
        ("an API key restated that replaces an entry of the part", "replaces_mismatch", [restated_api_key(11, "encrypt")]),
        ("a tenant restated that replaces an entry of the part", "replaces_mismatch", [restated_tenant(11)]),
        ("a wrap with a key that was restated as disabled", "state_violated", [restated_key(8, "disabled"), change("key.wrap", 2)]),
        ("a wrap with a key that was disabled when its policy was set", "state_violated",
         [change("key.rotation_policy", 2, interval_days=7, status="disabled", replaces=8), change("key.wrap", 2)]),
        ("a wrap under another version than the one restated", "state_violated", [restated_key(8, "active"), change("key.wrap", 1)]),
        ("a destroyed key restated and enabled", "state_violated", [restated_key(8, "destroyed"), change("key.enable", 2, replaces=11)]),
        ("a key that wrapped, restated as disabled", "state_violated", [change("key.wrap", 2), restated_key(8, "disabled")]),
        ("a key restated twice, as something else", "state_violated", [restated_key(8, "disabled"), restated_key(11, "active")]),
        ("a call of an API key that was restated as revoked", "state_violated",
         [restated_api_key(9, "encrypt", revoked=True), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("an API key that acted, restated as revoked", "state_violated",
         [change("key.wrap", 2, actor=SECOND_API_KEY), restated_api_key(9, "encrypt", revoked=True)]),
        ("a wrap by an API key that was restated without that right", "state_violated",
         [restated_api_key(9, "decrypt"), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("an API key restated with other permissions than its change", "state_violated",
         [change("api_key.update", actor="system", api_key_id=SECOND_API_KEY, permissions="hash", replaces=9), restated_api_key(11, "encrypt")]),
        ("a wrap after the tenant was restated as suspended", "state_violated",
         [restated_tenant(1, status="suspended"), change("key.wrap", 2)]),
        ("an encryption after the tenant was restated without server mode", "state_violated",
         [restated_tenant(1, envelope_only=True), change("encrypt", 2)]),
        ("a tenant restated twice, in another mode", "state_violated", [restated_tenant(1), restated_tenant(11, envelope_only=True)]),
        ("a tenant restated twice, with another status", "state_violated", [restated_tenant(1), restated_tenant(11, status="suspended")]),
        ("a wrap after the tenant was suspended", "state_violated",
         [change("tenant.update", actor="system", replaces=1, status="suspended"), change("key.wrap", 2)]),
        ("a wrap after the tenant was deleted", "state_violated",
         [change("tenant.update", actor="system", replaces=1, status="deleted"), change("key.wrap", 2)]),
        ("an encryption after server mode was closed", "state_violated",
         [change("tenant.update", actor="system", replaces=1, envelope_only=True), change("encrypt", 2)]),
    ]


def deletion():
    """The end of a tenant whose log is the history up to entry 10: each key destroyed, each API key revoked, the tenant deleted."""
    return [
        change("tenant.update", actor="system", replaces=1, status="suspended"),  # 11
        change("key.destroy", 2, actor="system", replaces=8, step="completed", versions=2),
        change("api_key.revoke", actor="system", api_key_id=FIRST_API_KEY, replaces=1),
        change("api_key.revoke", actor="system", api_key_id=SECOND_API_KEY, replaces=9),
        change("tenant.update", actor="system", replaces=11, status="deleted"),  # 15
    ]


def deletion_faults():
    """What is wrong after the last entry (chain.md 11), of a whole log and of one that begins after entry 10."""
    suspended, destroyed, first, second, deleted = deletion()
    disabled = change("key.disable", 2, actor="system", replaces=8)
    return [
        ("a deleted tenant with a key", [suspended, first, second, deleted]),
        ("a deleted tenant with a disabled key", [suspended, disabled, first, second, deleted]),
        ("a deleted tenant whose key waits for its destruction", [
            suspended, disabled, change("key.destroy", 2, actor="system", replaces=12, step="scheduled"), first, second, deleted]),
        ("a deleted tenant with an API key", [suspended, destroyed, first, deleted]),
        ("a deleted tenant with its first API key", [suspended, destroyed, second, deleted]),
    ]


def deletion_part_faults():
    return [
        ("a deleted tenant with a key that was restated", [restated_key(8, "active"), restated_tenant(1, status="deleted")]),
        ("a deleted tenant with an API key that was restated", [restated_api_key(9, "encrypt"), restated_tenant(1, status="deleted")]),
        ("a deleted tenant with an API key that acted", [
            change("key.unwrap", 1), change("tenant.update", actor="system", replaces=1, status="deleted")]),
    ]


def spliced(base, data):
    """`data` as a change of `base`: what is kept of its beginning, what is put in, what is kept of its end."""
    most = min(len(base), len(data))
    head = next((at for at in range(most) if base[at] != data[at]), most)
    while head > 0 and (data[head - 1] >= 0x80 or base[head - 1] >= 0x80):
        head -= 1
    most -= head
    tail = next((at for at in range(most) if base[-1 - at] != data[-1 - at]), most)
    while tail > 0 and (data[-tail] >= 0x80 or base[-tail] >= 0x80):
        tail -= 1
    insert = data[head : len(data) - tail]
    try:
        return {"head": head, "insert": insert.decode(), "tail": tail}
    except UnicodeDecodeError:
        return {"head": head, "insert_base64": b64(insert), "tail": tail}


def purge_draft(through, ms=20, metadata=None):
    text = f'{{"cutoff":"2026-08-11T09:30:00.005Z","entries":{through},"purged_through":{through}}}'
    return {"action": "audit.purge", "key_id": None, "key_version": None, "actor": "system", "ip_address": None,
            "metadata": text if metadata is None else metadata, "created_at": f"2026-08-11T09:30:00.{ms:03d}Z"}


AHEAD = "2027-08-11T09:30:00.000Z"


def clock_draft(until, **changes):
    """The entry after which time may go back (chain.md 4)."""
    return {"action": "audit.clock_accepted", "key_id": None, "key_version": None, "actor": "operator:o@h", "ip_address": None,
            "metadata": json.dumps({"ahead_until": until, "reason": "the battery"}, separators=(",", ":")), "created_at": "2026-08-11T09:30:00.003Z", **changes}


def export_vectors():
    drafts = export_drafts()
    good = Export(drafts)
    lines, file = good.lines(), good.file()
    hashes = [good.after_hash] + [bytes.fromhex(entry["hash"]) for entry in good.entries]
    purged = Export([*drafts[3:], purge_draft(3)], 3, hashes[3])
    part = Export(drafts[3:], 3, hashes[3])
    key = public_key_text(ed25519_public(SIGNING_SEED))
    kept = {at: note_of(checkpoint_text(last_id=at, hash_=hashes[at])) for at in range(1, 7)}

    def verdict(export, whole=True, missing=None, head_id=None, **more):
        missing = ([] if whole else ["beginning"]) if missing is None else missing
        return {"tenant_id": export.tenant, "verified_entries": len(export.entries), "after_id": export.after_id,
                "head_id": export.last_id if head_id is None else head_id, "missing": missing, "whole": missing == [], **more}

    twice = Export([*drafts[3:], purge_draft(2), purge_draft(3, 21)], 3, hashes[3])
    other_last = Export([*drafts[3:], purge_draft(3), purge_draft(2, 21)], 3, hashes[3])
    unreadable = Export([*drafts[3:], purge_draft(3, metadata="no JSON")], 3, hashes[3])
    worded = Export([*drafts[3:], purge_draft(3, metadata='{"purged_through":"3"}')], 3, hashes[3])
    accepted = Export([*drafts[:3], {**drafts[3], "created_at": AHEAD}, clock_draft(AHEAD), *drafts[4:]])
    empty = Export([], 6, hashes[6])
    long_ = Export([{**drafts[4], "actor": "system", "metadata": "\u00e4" * 2_000}])
    longest = Export([{**drafts[2], "key_version": 2**53 - 1}], 2**53 - 2, hashes[6])
    begun, middle = Export(drafts[:4]), Export(drafts[2:4], 2, hashes[2])
    start_of_purged = Export([*drafts[3:], purge_draft(3)], 3, hashes[3])
    nothing_yet = Export([], 4, hashes[4])
    good_cut = Export(drafts[:4])
    valid = [
        {"name": "a whole log", "file": file, "verdict": verdict(good, public_key=key)},
        {"name": "a whole log, with a checkpoint of its middle", "file": file, "checkpoint": kept[3],
         "verdict": verdict(good, checkpoint_compared=True)},
        {"name": "a whole log, with a checkpoint of its end", "file": file, "checkpoint": kept[6],
         "verdict": verdict(good, checkpoint_compared=True)},
        {"name": "a log that accepts that a clock was ahead", "file": accepted.file(), "verdict": verdict(accepted)},
        {"name": "a log after a purge", "file": purged.file(), "verdict": verdict(purged, purged_through=3)},
        {"name": "a log after two purges", "file": twice.file(), "verdict": verdict(twice)},
        {"name": "a log after a purge, with a checkpoint of what was purged", "file": purged.file(), "checkpoint": kept[2],
         "verdict": verdict(purged, checkpoint_compared=False)},
        {"name": "a log after a purge, with a checkpoint of the last entry that was purged", "file": purged.file(),
         "checkpoint": kept[3], "verdict": verdict(purged, checkpoint_compared=True)},
        {"name": "a part", "file": part.file(), "verdict": verdict(part, whole=False)},
        {"name": "a part that a checkpoint joins on to", "file": part.file(), "checkpoint": kept[3],
         "verdict": verdict(part, checkpoint_compared=True)},
        {"name": "a part, with a checkpoint of before", "file": part.file(), "checkpoint": kept[1],
         "verdict": verdict(part, whole=False, checkpoint_compared=False)},
        {"name": "a part whose last purge ended elsewhere", "file": other_last.file(), "verdict": verdict(other_last, whole=False)},
        {"name": "a part whose purge can't be read", "file": unreadable.file(), "verdict": verdict(unreadable, whole=False)},
        {"name": "a part whose purge names no number", "file": worded.file(), "verdict": verdict(worded, whole=False)},
        {"name": "no entries, behind the last one", "file": empty.file(), "verdict": verdict(empty, whole=False)},
        {"name": "no entries, joined on to by a checkpoint", "file": empty.file(), "checkpoint": kept[6],
         "verdict": verdict(empty, checkpoint_compared=True)},
        {"name": "a long entry", "file": long_.file(), "verdict": verdict(long_)},
        {"name": "a stretch from the first entry on", "file": begun.file(begun.stretch(6, hashes[6])),
         "verdict": verdict(begun, missing=["end"], head_id=6)},
        {"name": "a stretch without beginning and end", "file": middle.file(middle.stretch(6, hashes[6])),
         "verdict": verdict(middle, missing=["beginning", "end"], head_id=6)},
        {"name": "a stretch that a checkpoint joins on to", "file": middle.file(middle.stretch(6, hashes[6])), "checkpoint": kept[2],
         "verdict": verdict(middle, missing=["end"], head_id=6, checkpoint_compared=True)},
        {"name": "a stretch, with a checkpoint of its end", "file": begun.file(begun.stretch(6, hashes[6])), "checkpoint": kept[4],
         "verdict": verdict(begun, missing=["end"], head_id=6, checkpoint_compared=True)},
        {"name": "a stretch, with a checkpoint of an entry behind it", "file": begun.file(begun.stretch(6, hashes[6])),
         "checkpoint": kept[5], "verdict": verdict(begun, missing=["end"], head_id=6, checkpoint_compared=False)},
        {"name": "a stretch, with a checkpoint of the head", "file": begun.file(begun.stretch(6, hashes[6])),
         "checkpoint": kept[6], "verdict": verdict(begun, missing=["end"], head_id=6, checkpoint_compared=False)},
        {"name": "a stretch behind a purge", "file": start_of_purged.file(start_of_purged.stretch(9, hashes[6])),
         "verdict": verdict(start_of_purged, missing=["end"], head_id=9)},
        {"name": "a stretch without entries", "file": nothing_yet.file(nothing_yet.stretch(6, hashes[6])),
         "verdict": verdict(nothing_yet, missing=["beginning", "end"], head_id=6)},
        {"name": "the highest numbers", "file": longest.file(), "verdict": verdict(longest, whole=False)},
    ]
    anchored = Anchored(good)
    with_anchor = good.file_with(anchored.line())
    valid += [
        {"name": "an anchor of the last entry", "file": with_anchor, "verdict": verdict(good, anchor=anchored.report())},
        {"name": "an anchor of an entry before", "file": good.file_with(Anchored(good, last_id=4).line()),
         "verdict": verdict(good, anchor=Anchored(good, last_id=4).report())},
        {"name": "an anchor of one tenant alone", "file": good.file_with(Anchored(good, others=()).line()),
         "verdict": verdict(good, anchor=Anchored(good, others=()).report())},
        {"name": "an anchor behind which the installation's log went on", "file": good.file_with(anchored.line(signed=anchored.stretch())),
         "verdict": verdict(good, anchor=anchored.report())},
        {"name": "an anchor of what was purged", "file": purged.file_with(Anchored(good, last_id=2).line()),
         "verdict": verdict(purged, anchor=Anchored(good, last_id=2).report(compared=False))},
        {"name": "an anchor of the last entry that was purged", "file": purged.file_with(Anchored(good, last_id=3).line()),
         "verdict": verdict(purged, anchor=Anchored(good, last_id=3).report())},
        {"name": "an anchor of an entry behind a stretch", "file": begun.file_with(anchored.line(), begun.stretch(6, hashes[6])),
         "verdict": verdict(begun, missing=["end"], head_id=6, anchor=anchored.report(compared=False))},
        {"name": "an anchor, with the checkpoint of it", "file": with_anchor, "checkpoint": anchored.note(),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
        {"name": "an anchor, with a checkpoint of the installation from before", "file": with_anchor,
         "checkpoint": anchored.note(last_id=2, hash_=anchored.before),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False)},
        {"name": "an anchor, with a checkpoint of the installation's end", "file": good.file_with(anchored.line(signed=anchored.stretch())),
         "checkpoint": anchored.note(last_id=5, hash_=sha256(b"the installation's head")),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
        {"name": "an anchor that is not compared, with the checkpoint of it", "file": purged.file_with(Anchored(good, last_id=2).line()),
         "checkpoint": Anchored(good, last_id=2).note(),
         "verdict": verdict(purged, anchor=Anchored(good, last_id=2).report(compared=False), checkpoint_compared=False)},
        {"name": "no anchor, with a checkpoint of the installation", "file": file, "checkpoint": anchored.note(),
         "verdict": verdict(good, checkpoint_compared=False)},
        {"name": "an anchor, with a checkpoint of the tenant", "file": with_anchor, "checkpoint": kept[3],
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
    ]
    went_on = anchored.line(signed=anchored.stretch())
    with_links, leaves = good.file_with(went_on + anchored.links()), anchored.leaves()
    linked = lambda id_, **more: anchored.note(last_id=id_, hash_=leaves[id_ - 1], **more)
    not_compared = Anchored(good, last_id=2)
    valid += [
        {"name": "a linked anchor", "file": with_links, "verdict": verdict(good, anchor=anchored.report())},
        {"name": "a linked anchor at the end of the installation's log", "file": good.file_with(anchored.line() + anchored.links((1,), 3)),
         "checkpoint": linked(1), "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
        {"name": "a linked anchor to which nothing is linked", "file": good.file_with(went_on + anchored.links(())), "checkpoint": linked(2),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False)},
        *({"name": f"a linked anchor, with a checkpoint of {name}", "file": with_links, "checkpoint": linked(id_),
           "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=compared,
                              checkpoint={"tenant_id": MAX, "id": id_, "hash": b64(leaves[id_ - 1]), "signed_at": "2026-08-12T00:00:00.000Z"})}
          for id_, name, compared in ((1, "the installation's first entry", True), (2, "the entry before the anchor", True),
                                      (3, "the anchor", True), (4, "an entry that is not linked", False), (5, "the installation's end", True))),
        {"name": "a linked anchor that is not compared", "file": purged.file_with(
            not_compared.line(signed=not_compared.stretch()) + not_compared.links()), "checkpoint": linked(1),
         "verdict": verdict(purged, anchor=not_compared.report(compared=False), checkpoint_compared=False)},
        {"name": "a linked anchor in a log without entries", "file": empty.file_with(went_on + anchored.links()), "checkpoint": linked(2),
         "verdict": verdict(empty, whole=False, anchor=anchored.report(), checkpoint_compared=True)},
    ]
    refuse, file_bytes = [], file.encode()
    history = history_drafts()
    lived = Export(history)
    after_ten = bytes.fromhex(lived.entries[9]["hash"])
    lived_on = Export([draft for at, draft in enumerate(history) if at >= 10], 10, after_ten)
    unknown = Export([
        change("api_key.update", actor="system", api_key_id=SECOND_API_KEY, permissions="api_keys:manage", replaces=9),
        change("api_key.update", actor=SECOND_API_KEY, api_key_id=FIRST_API_KEY, permissions="decrypt", replaces=1),
        change("key.unwrap", 1),
    ], 10, after_ten)
    restated = Export([
        change("key.unwrap", 1),
        restated_key(8, "active"),
        restated_api_key(1, ALL_PERMISSIONS, api_key_id=FIRST_API_KEY),
        restated_api_key(9, "api_keys:manage encrypt", revoked=True),
        restated_tenant(1),
        change("encrypt", 2),
        change("key.rotation_policy", 2, interval_days=None, status="active", replaces=12),
        restated_api_key(14, "encrypt api_keys:manage", revoked=True),
        restated_tenant(15),
    ], 10, after_ten)
    valid += [
        {"name": "a part that restates what it begins with", "file": restated.file(), "verdict": verdict(restated, whole=False)},
        {"name": "a part that does not know what its API keys may do", "file": unknown.file(), "verdict": verdict(unknown, whole=False)},
        {"name": "a history of every change", "file": lived.file(), "verdict": verdict(lived)},
        {"name": "a history of every change from its middle on", "file": lived_on.file(), "verdict": verdict(lived_on, whole=False)},
    ]
    broken = [(f"a history: {name}", fault, Export([*history[:before], draft]), valid[-2])
              for name, fault, before, draft in history_faults()]
    broken += [(f"a part: {name}", fault, Export(drafts_, 10, after_ten), valid[-1]) for name, fault, drafts_ in history_part_faults()]
    left = [(f"a history: {name}", Export([*history[:10], *drafts_]), valid[-2]) for name, drafts_ in deletion_faults()]
    left += [(f"a part: {name}", Export(drafts_, 10, after_ten), valid[-1]) for name, drafts_ in deletion_part_faults()]
    for name, export, base in left:
        refuse.append({"name": name, "line": 2 + len(export.entries), "fault": "deletion_incomplete", "base": base["name"],
                       **spliced(base["file"].encode(), export.file().encode())})
    for name, fault, export, base in broken:
        refuse.append({"name": name, "line": 1 + len(export.entries), "fault": fault, "base": base["name"],
                       **spliced(base["file"].encode(), export.file().encode())})

    deleted = Export([*history[:10], *deletion()])
    suspended, destroyed, *others = deletion()
    late = Export([*history[:10], suspended, *others, destroyed])
    gone = Export([restated_key(8, "destroyed"), restated_api_key(1, ALL_PERMISSIONS, revoked=True, api_key_id=FIRST_API_KEY),
                   restated_tenant(1, status="deleted")], 10, after_ten)
    valid += [
        {"name": "a history that ends with the deletion of the tenant", "file": deleted.file(), "verdict": verdict(deleted)},
        {"name": "a deletion that was finished later", "file": late.file(), "verdict": verdict(late)},
        {"name": "a part that restates what a deleted tenant left", "file": gone.file(), "verdict": verdict(gone, whole=False)},
    ]

    def add(name, file, line, checkpoint=None, public_key=key):
        """`line` is the first line that is wrong, counted from 1."""
        row = {"name": name, "line": line, **spliced(file_bytes, file if isinstance(file, bytes) else file.encode())}
        if checkpoint is not None:
            row["checkpoint"] = checkpoint
        if public_key != key:
            row["public_key"] = public_key
        refuse.append(row)

    parts = [good.header(), *lines, good.trailer()]

    def replaced(at, line):
        """The file with another line in the place of the one that is counted from 1."""
        return "".join([*parts[: at - 1], line, *parts[at:]])

    def wrong(name, at, old, new):
        if parts[at - 1].count(old) < 1:
            raise RuntimeError(f"{name}: {old} is not in line {at}")
        add(name, replaced(at, parts[at - 1].replace(old, new, 1)), at)

    # The file: what is missing, twice or out of its place.
    add("nothing", "", 1)
    add("a line feed alone", "\n", 1)
    for at in range(1, len(parts)):
        add(f"cut after line {at}", "".join(parts[:at]), at + 1)
    for at in range(1, len(parts) + 1):
        # Without the header or the trailer, the next line, or the end, is what is wrong.
        add(f"line {at} missing", "".join(parts[: at - 1] + parts[at:]), at)
        add(f"line {at} twice", "".join(parts[:at] + parts[at - 1 :]), at + 1)
        add(f"line {at} without its line feed" if at < len(parts) else "the last line feed missing",
            "".join([*parts[: at - 1], parts[at - 1][:-1], *parts[at:]]), at)
        add(f"line {at} ended by CRLF", replaced(at, parts[at - 1][:-1] + "\r\n"), at)
        add(f"line {at} with a blank behind", replaced(at, parts[at - 1][:-1] + " \n"), at)
        add(f"line {at} with a blank in front", replaced(at, " " + parts[at - 1]), at)
        add(f"an empty line before line {at}", replaced(at, "\n" + parts[at - 1]), at)
    for at in range(1, len(parts)):
        swapped = [*parts]
        swapped[at - 1], swapped[at] = swapped[at], swapped[at - 1]
        add(f"lines {at} and {at + 1} exchanged", "".join(swapped), at)
    add("cut within the last line", file[:-40], len(parts))
    add("an empty line behind", file + "\n", len(parts) + 1)
    add("a blank behind", file + " ", len(parts) + 1)
    add("a line behind", file + lines[-1], len(parts) + 1)
    add("the file twice", file + file, len(parts) + 1)
    add("another log behind", file + part.file(), len(parts) + 1)
    add("CRLF throughout", file.replace("\n", "\r\n"), 1)
    add("CR throughout", file.replace("\n", "\r"), 1)
    add("a byte order mark", "\ufeff" + file, 1)
    add("UTF-16", file.encode("utf-16-le"), 1)
    add("a byte that is not UTF-8", file.encode().replace(b"Ren\xc3\xa9e", b"Ren\xe9e"), 3)
    add("an overlong form of a character", file.encode().replace(b"/script", b"\xc0\xafscript"), 6)
    add("an emoji as two surrogates of three bytes", file.encode().replace(b"\xf0\x9f\x94\x90", b"\xed\xa0\xbd\xed\xb4\x90"), 3)
    add("a NUL behind", file + "\x00", len(parts) + 1)
    add("JSON array of the lines", "[" + ",".join(part[:-1] for part in parts) + "]\n", 1)

    # The header.
    wrong("another format", 1, "export/v1", "export/v2")
    wrong("another tenant", 1, TENANT, OTHER_TENANT)
    wrong("the tenant in upper case", 1, TENANT, TENANT.upper())
    wrong("the tenant without dashes", 1, TENANT, TENANT.replace("-", ""))
    wrong("after_id as a string", 1, '"after_id":0', '"after_id":"0"')
    wrong("a negative after_id", 1, '"after_id":0', '"after_id":-1')
    wrong("after_id -0", 1, '"after_id":0', '"after_id":-0')
    wrong("after_id 0.0", 1, '"after_id":0', '"after_id":0.0')
    wrong("after_id 0e0", 1, '"after_id":0', '"after_id":0e0')
    wrong("after_id 00", 1, '"after_id":0', '"after_id":00')
    wrong("after_id null", 1, '"after_id":0', '"after_id":null')
    wrong("after_id false", 1, '"after_id":0', '"after_id":false')
    wrong("after_id 2^53", 1, '"after_id":0', f'"after_id":{2**53}')
    wrong("no after_id", 1, '"after_id":0,', "")
    wrong("after_id twice", 1, '"after_id":0,', '"after_id":0,"after_id":0,')
    wrong("a member more in the header", 1, "}\n", ',"note":"x"}\n')
    wrong("members of the header exchanged", 1, f'"tenant_id":"{TENANT}","after_id":0', f'"after_id":0,"tenant_id":"{TENANT}"')
    wrong("a blank in the header", 1, '"after_id":0', '"after_id": 0')
    wrong("an escape in the header", 1, '"format"', '"f\\u006frmat"')
    wrong("an escaped slash in the header", 1, "eaas/audit", "eaas\\/audit")
    wrong("after_hash in upper case", 1, hashes[0].hex(), hashes[0].hex().upper())
    wrong("after_hash cut", 1, hashes[0].hex(), hashes[0].hex()[:62])
    wrong("after_hash in base64", 1, hashes[0].hex(), b64(hashes[0]))
    wrong("after_hash of another tenant", 1, hashes[0].hex(), genesis(OTHER_TENANT).hex())
    wrong("after_hash of zeros", 1, hashes[0].hex(), "00" * 32)
    add("after_id 1 more", good.header(after_id=1) + "".join(parts[1:]), 2)
    add("the header of the part, the entries of the whole", part.header() + "".join(parts[1:]), 2)
    add("a part that says it is whole", part.header(after_id=0) + "".join(parts[4:]), 1)
    add("a part after another hash", part.header(after_hash=hashes[2].hex()) + "".join(parts[4:]), 2)
    add("no entries, after another hash", empty.header(after_hash=hashes[5].hex()) + empty.trailer(), 2)
    add("no entries, after another id", empty.header(after_id=5) + empty.trailer(), 2)
    add("no entries and no log", Export([]).header() + Export([]).trailer(), 2)

    # The entries: what they say.
    last = len(good.entries)
    for column, old, new in (
        ("id", '"id":3', '"id":4'), ("id", '"id":3', '"id":30'), ("id", '"id":3', '"id":-3'), ("id", '"id":3', '"id":0'),
        ("action", "key.wrap", "key.unwrap"), ("action", "key.wrap", "Key.wrap"), ("action", '"key.wrap"', "null"),
        ("key_id", KEY, OTHER_KEY), ("key_id", KEY, KEY.upper()), ("key_id", f'"{KEY}"', "null"), ("key_id", f'"{KEY}"', '""'),
        ("key_version", '"key_version":1', '"key_version":2'), ("key_version", '"key_version":1', '"key_version":null'),
        ("key_version", '"key_version":1', '"key_version":"1"'), ("key_version", '"key_version":1', '"key_version":true'),
        ("actor", "6f1b6c1e", "6f1b6c1f"), ("actor", "6f1b6c1e", "6F1B6C1E"),
        ("ip_address", "10.0.0.1", "10.0.0.2"), ("ip_address", "10.0.0.1", "010.0.0.1"), ("ip_address", '"10.0.0.1"', "null"),
        ("ip_address", '"10.0.0.1"', '""'),
        ("metadata", '"metadata":null', '"metadata":""'), ("metadata", '"metadata":null', '"metadata":"null"'),
        ("metadata", '"metadata":null', '"metadata":{}'), ("metadata", '"metadata":null', '"metadata":[]'),
        ("created_at", "00.001Z", "00.002Z"), ("created_at", "00.001Z", "00.0010Z"), ("created_at", "00.001Z", "00.001+00:00"),
        ("hash", hashes[3].hex(), flip(hashes[3], 0).hex()), ("hash", hashes[3].hex(), hashes[3].hex().upper()),
        ("hash", hashes[3].hex(), hashes[2].hex()), ("hash", hashes[3].hex(), ""), ("hash", f'"{hashes[3].hex()}"', "null"),
        ("hash", hashes[3].hex(), b64(hashes[3])),
    ):
        wrong(f"{column}: {old} altered to {new}", 4, old, new)

    # The entries: how they are spelt.
    for name, at, old, new in (
        ("1.0", 4, '"key_version":1', '"key_version":1.0'), ("1e0", 4, '"key_version":1', '"key_version":1e0'),
        ("10e-1", 4, '"key_version":1', '"key_version":10e-1'), ("+1", 4, '"key_version":1', '"key_version":+1'),
        ("01", 4, '"key_version":1', '"key_version":01'), ("0x1", 4, '"key_version":1', '"key_version":0x1'),
        ("an id of 3.0", 4, '"id":3', '"id":3.0'), ("NaN", 4, '"key_version":1', '"key_version":NaN'),
        ("a letter as \\u", 4, "key.wrap", "key.wr\\u0061p"), ("a digit as \\u", 4, "10.0.0.1", "1\\u0030.0.0.1"),
        ("the name of a member as \\u", 4, '"actor"', '"act\\u006fr"'),
        ("\u00e9 as \\u", 3, "\u00e9", "\\u00e9"), ("an emoji as \\u", 3, "\U0001f510", "\\ud83d\\udd10"),
        ("a line separator as \\u", 3, "\u2028", "\\u2028"),
        ("\u00e9 decomposed", 3, "\u00e9", "e\u0301"),
        ("a tab as \\u", 6, "\\t", "\\u0009"), ("a tab as it is", 6, "\\t", "\t"),
        ("a control character in upper case", 6, "\\u001f", "\\u001F"), ("DEL as \\u", 6, "\x7f", "\\u007f"),
        ("a slash escaped", 6, "</script>", "<\\/script>"), ("a control character as it is", 6, "\\u0001", "\x01"),
        ("a blank behind a colon", 4, '"actor":', '"actor": '), ("a blank behind a comma", 4, ',"actor"', ', "actor"'),
        ("a tab behind a comma", 4, ',"actor"', ',\t"actor"'),
        ("a member more", 4, "}\n", ',"note":null}\n'), ("the tenant besides", 4, '{"id"', f'{{"tenant_id":"{TENANT}","id"'),
        ("the MAC besides", 4, "}\n", f',"mac":"{"00" * 32}"}}\n'), ("__proto__", 4, "}\n", ',"__proto__":null}\n'),
        ("a member twice", 4, '"id":3', '"id":3,"id":3'), ("a member twice, the first one another", 4, '"id":3', '"id":9,"id":3'),
        ("a comma behind the last member", 4, "}\n", ",}\n"), ("single quotes", 4, '"actor"', "'actor'"),
        ("a comment", 4, "}\n", "} // x\n"), ("two objects", 4, "}\n", "}{}\n"), ("in an array", 4, "{", "[{"),
        ("a member in capitals", 4, '"actor"', '"Actor"'), ("a blank in a member's name", 4, '"actor"', '"actor "'),
    ):
        wrong(f"spelt otherwise: {name}", at, old, new)
    reordered = dict(sorted(good.entries[2].items()))
    add("members in the order of the alphabet", replaced(4, export_members(reordered)), 4)
    for member in good.entries[2]:
        add(f"no {member}", replaced(4, export_members({k: v for k, v in good.entries[2].items() if k != member})), 4)
    for name, line in (("null", "null\n"), ("a number", "3\n"), ("a string", '"x"\n'), ("an empty object", "{}\n"),
                       ("an empty array", "[]\n"), ("no JSON", "x\n")):
        add(f"{name} for an entry", replaced(4, line), 4)

    # Signed by the server's key, and yet not of the format: what no server writes.
    def signed(name, line, drafts=drafts, export=None):
        add(f"signed: {name}", (export or Export(drafts)).file(), line)

    def changed(at, **changes):
        return [{**draft, **changes} if index == at else draft for index, draft in enumerate(drafts)]

    signed("time that goes back", 5, changed(3, created_at="2026-08-11T09:30:00.000Z"))
    after_ahead = [*drafts[:3], {**drafts[3], "created_at": AHEAD}]
    for name, entry in (
        ("that accepts another time", clock_draft("2027-08-11T09:30:00.001Z")),
        ("that accepts no time", clock_draft(AHEAD, metadata='{"reason":"the battery"}')),
        ("that accepts a number", clock_draft(AHEAD, metadata='{"ahead_until":1,"reason":"the battery"}')),
        ("that accepts nothing", clock_draft(AHEAD, metadata=None)),
        ("whose metadata are not JSON", clock_draft(AHEAD, metadata="{")),
        ("of another action", clock_draft(AHEAD, action="audit.rollback_accepted")),
    ):
        signed(f"time that goes back at an entry {name}", 6, [*after_ahead, entry])
    signed("time that goes back after the entry that accepts a clock", 7,
           [*after_ahead, clock_draft(AHEAD), {**drafts[4], "created_at": "2026-08-11T09:30:00.000Z"}])
    signed("time without milliseconds", 4, changed(2, created_at="2026-08-11T09:30:00Z"))
    signed("time with an offset", 4, changed(2, created_at="2026-08-11T09:30:00.001+00:00"))
    signed("time in other digits", 4, changed(2, created_at="\u0662026-08-11T09:30:00.001Z"))
    signed("a time with a line feed behind", 4, changed(2, created_at="2026-08-11T09:30:00.001Z\n"))
    signed("no time", 4, changed(2, created_at=""))
    signed("a key in upper case", 4, changed(2, key_id=KEY.upper()))
    signed("a key without dashes", 4, changed(2, key_id=KEY.replace("-", "")))
    signed("a key that is no UUID", 4, changed(2, key_id="users"))
    signed("a NUL in the metadata", 4, changed(2, metadata="a\x00b"))
    signed("a NUL for an actor", 4, changed(2, actor="\x00"))
    signed("a negative key version", 4, changed(2, key_version=-1))
    signed("a key version of 2^53", 4, changed(2, key_version=2**53))
    ids = Export(drafts)
    ids.entries = [*ids.entries[:2], *Export(drafts[2:], 3, hashes[2]).entries]
    ids.last_id, ids.hash = 7, bytes.fromhex(ids.entries[-1]["hash"])
    signed("an id that is left out", 4, export=ids)

    # The trailer.
    def trailed(name, line=last + 2, **changes):
        add(name, replaced(last + 2, good.trailer(**changes)), line)

    public, other = ed25519_public(SIGNING_SEED), ed25519_public(OTHER_SEED)
    trailed("checkpoint of the entry before", checkpoint=kept[5])
    trailed("checkpoint of the first entry", checkpoint=kept[1])
    trailed("checkpoint of another hash", checkpoint=good.note(hash_=hashes[5]))
    trailed("checkpoint of a later entry", checkpoint=good.note(last_id=7))
    trailed("checkpoint of another tenant", checkpoint=good.note(tenant=OTHER_TENANT))
    trailed("checkpoint by another key", checkpoint=note_of(checkpoint_text(last_id=last, hash_=good.hash), OTHER_SEED))
    trailed("checkpoint with a bit altered", checkpoint=good.note().replace("2026-08-12", "2026-08-13"))
    trailed("checkpoint without its last line feed", checkpoint=good.note()[:-1])
    trailed("checkpoint with CRLF", checkpoint=good.note().replace("\n", "\r\n"))
    trailed("an empty checkpoint", checkpoint="")
    trailed("no note as a checkpoint", checkpoint=None)
    trailed("another public key", public_key=public_key_text(other))
    trailed("the public key under another's id", public_key=public_key_text(public, id_=note_key_id(other)))
    trailed("no public key", public_key=None)
    trailed("an empty public key", public_key="")
    trailed("a member more in the trailer", note="x")
    add("members of the trailer exchanged", replaced(last + 2, export_members(
        {"public_key": key, "checkpoint": good.note()})), last + 2)
    add("no public key in the trailer", replaced(last + 2, export_members({"checkpoint": good.note()})), last + 2)
    add("no checkpoint in the trailer", replaced(last + 2, export_members({"public_key": key})), last + 2)
    wrong("the dash as \\u in the trailer", last + 2, "\u2014", "\\u2014")
    wrong("a slash escaped in the trailer", last + 2, "eaas/audit", "eaas\\/audit")
    wrong("a blank in the trailer", last + 2, ":", ": ")

    # The trailer of a stretch.
    def stretched(name, line=6, checkpoint=None, **statement):
        head = {"head_id": 6, "head_hash": hashes[6], **statement}
        add(name, begun.file(begun.stretch(**head)), line, checkpoint)

    stretched("stretch of another entry", last_id=3)
    stretched("stretch of another hash", hash_=hashes[3])
    stretched("stretch of another tenant", tenant=OTHER_TENANT)
    stretched("stretch that ends at the head", head_id=4, head_hash=hashes[4])
    stretched("stretch that ends behind the head", head_id=3, head_hash=hashes[3])
    stretched("stretch whose text is a checkpoint's with more lines", origin=ORIGIN)
    stretched("stretch of a log that ended before the checkpoint", checkpoint=kept[6], head_id=5, head_hash=hashes[5])
    stretched("stretch of a log that ended otherwise than the checkpoint says", checkpoint=kept[6], head_hash=hashes[5])
    stretched("stretch rewritten at the checkpoint", 4, checkpoint=note_of(checkpoint_text(last_id=3, hash_=hashes[2])))
    note = json.loads(begun.stretch(6, hashes[6]))["stretch"]
    add("a stretch in the place of the checkpoint", begun.file(export_members({"checkpoint": note, "public_key": key})), 6)
    add("a checkpoint in the place of the stretch", begun.file(export_members({"stretch": begun.note(), "public_key": key})), 6)
    add("the checkpoint of the whole behind a stretch", begun.file(good.trailer()), 6)
    add("checkpoint and stretch", begun.file(export_members(
        {"checkpoint": begun.note(), "stretch": note, "public_key": key})), 6)
    add("stretch and checkpoint", begun.file(export_members(
        {"stretch": note, "checkpoint": begun.note(), "public_key": key})), 6)
    add("a stretch without a public key", begun.file(export_members({"stretch": note})), 6)
    add("a stretch by another key", begun.file(export_members({
        "stretch": note_of(stretch_text(last_id=4, hash_=hashes[4], head_id=6, head_hash=hashes[6]), OTHER_SEED),
        "public_key": key})), 6)
    add("a stretch behind the entries of the whole", good.file(begun.stretch(6, hashes[6])), last + 2)

    # The anchor.
    def covered(name, line=2, checkpoint=None, export=good, last_line=None, **changes):
        add(f"anchor: {name}", export.file_with(anchored.line(**changes), last_line), line, checkpoint)

    end = last + 3
    entry_line = anchored.entry_text()
    tampered = Anchored(good, root=sha256(b"another root"))
    elsewhere = Anchored(good, action="installation.start")
    rewritten_head = Anchored(good, hash_=hashes[5])
    covered("of another entry", last_id=5)
    covered("of another hash", hash=hashes[5].hex())
    covered("of entry 0", last_id=0)
    covered("of a later entry", last_id=7)
    covered("another index", index=anchored.index - 1)
    covered("an index beyond the tree", index=anchored.index + 4)
    covered("an index of 2^53", index=2**53)
    covered("a negative index", index=-1)
    covered("no proof", proof=[])
    covered("a proof with a node less", proof=anchored.proof[:-1])
    covered("a proof with a node more", proof=[*anchored.proof, anchored.proof[0]])
    covered("a proof with a bit altered", proof=[flip(anchored.proof[0], 0), *anchored.proof[1:]])
    covered("a proof in another order", proof=anchored.proof[::-1])
    covered("a node of 31 bytes", proof=[anchored.proof[0][:31], *anchored.proof[1:]])
    covered("another entry before it", after_hash=hashes[1].hex())
    covered("the hash in upper case", hash=anchored.hash_.hex().upper())
    covered("the id as a string", last_id="6")
    covered("signed by nobody", signed=None)
    covered("no note", end, signed="")
    covered("signed by another key", end, signed=anchored.note(seed=OTHER_SEED))
    covered("a note of the tenant", end, signed=good.note())
    covered("a note of an entry before", end, signed=anchored.note(last_id=2, hash_=anchored.before))
    covered("a note of another hash", end, signed=anchored.note(hash_=hashes[1]))
    covered("a note of the same hash at another entry", end, signed=anchored.note(last_id=4))
    covered("a note with a bit altered", end, signed=anchored.note().replace("2026-08-12", "2026-08-13"))
    covered("a stretch of an entry before", end, signed=anchored.stretch(last_id=2, hash_=anchored.before))
    covered("a stretch of the tenant", end, signed=anchored.stretch(tenant=TENANT))
    covered("a stretch by another key", end, signed=anchored.stretch(seed=OTHER_SEED))
    for name, old, new in (
        ("another root", anchored.root.hex(), hashes[1].hex()), ("another number of tenants", 'tenants\\":4', 'tenants\\":3'),
        ("another id", '"id":3', '"id":4'), ("another time", "31:00.000Z", "31:00.001Z"),
        ("another actor", '"actor":"system"', '"actor":"nobody"'), ("another action", "installation.anchor", "installation.start"),
        ("another hash of its own", anchored.own_hash.hex(), hashes[1].hex()),
    ):
        if entry_line.count(old) != 1:
            raise RuntimeError(f"{name}: {old} is not in the anchor once")
        add(f"anchor: {name}", good.file_with(anchored.line(entry_text=entry_line.replace(old, new))), 2)
    add("anchor: of a tree without the tenant", good.file_with(tampered.line()), 2)
    add("anchor: another entry of the installation's log", good.file_with(elsewhere.line()), 2)
    add("anchor: of a head that was rewritten", good.file_with(rewritten_head.line()), last + 2)
    add("anchor: of a head before the end that was rewritten", good.file_with(Anchored(good, last_id=4, hash_=hashes[3]).line()), 6)
    add("anchor: of a log that was cut since", good_cut.file_with(anchored.line()), 7)
    add("anchor: of a stretch's log that was cut since", begun.file_with(anchored.line(), begun.stretch(5, hashes[5])), 7)
    add("anchor: of what joins on otherwise", part.file_with(Anchored(good, last_id=3, hash_=hashes[2]).line()), 2)
    add("anchor: a root that is no hash", good.file_with(Anchored(good, metadata='{"root":"x","tenants":4}').line()), 2)
    add("anchor: no metadata", good.file_with(Anchored(good, metadata=None).line()), 2)
    add("anchor: metadata with a blank", good.file_with(Anchored(good, metadata=anchored.metadata.replace(",", ", ")).line()), 2)
    add("anchor: metadata with a member more", good.file_with(Anchored(good, metadata=anchored.metadata[:-1] + ',"x":1}').line()), 2)
    add("anchor: twice", good.file_with(anchored.line() + anchored.line()), 3)
    add("anchor: behind an entry", "".join([good.header(), lines[0], anchored.line(), *lines[1:], good.trailer()]), 3)
    add("anchor: behind the entries", "".join([good.header(), *lines, anchored.line(), good.trailer()]), last + 2)
    add("anchor: before the header", anchored.line() + file, 1)
    add("anchor: in the place of the last line", "".join([good.header(), *lines, anchored.line()]), last + 2)
    add("anchor: with another tenant's header", Export(drafts, tenant=OTHER_TENANT).file_with(anchored.line()), 2)
    add("anchor: a member more", good.file_with(anchored.line().replace('"signed"', '"note":null,"signed"')), 2)
    add("anchor: a blank", good.file_with(anchored.line().replace('"index":', '"index": ')), 2)
    add("anchor: members exchanged", good.file_with(anchored.line(exchanged=True)), 2)
    # What links entries to the anchor.
    def links(name, line=last + 4, checkpoint=None, anchor=went_on, **changes):
        add(f"links: {name}", good.file_with(anchor + anchored.links(**changes)), line, checkpoint)

    path = inclusion_proof(1, leaves)
    links("another checkpoint of a linked entry is known", checkpoint=anchored.note(last_id=2, hash_=hashes[1]))
    links("another checkpoint of the first entry is known", checkpoint=anchored.note(last_id=1, hash_=hashes[1]))
    links("a checkpoint behind the end is known", checkpoint=anchored.note(last_id=6))
    links("the anchor is at another place of the tree", proof=inclusion_proof(3, leaves))
    links("no proof of the anchor", proof=[])
    links("a proof of the anchor with a bit altered", proof=[flip(inclusion_proof(2, leaves)[0], 0), *inclusion_proof(2, leaves)[1:]])
    links("another hash of an entry", link_2=anchored.link(2, hash_=hashes[1]))
    links("an entry with the proof of another", link_2=anchored.link(2, proof=inclusion_proof(0, leaves)))
    links("an entry under the id of another", ids=(1, 2), link_2=anchored.link(2, shown_id=4))
    links("an entry behind the tree", ids=(1, 2), link_2=anchored.link(2, shown_id=7))
    links("a proof with a node less", link_2=anchored.link(2, proof=path[:-1]))
    links("a proof with a node more", link_2=anchored.link(2, proof=[*path, path[0]]))
    links("a tree of another size", size=4, ids=(1, 2))
    links("a tree that is larger than the log that was signed", anchor=anchored.line())
    links("a tree by another key", note=tree_note(tree_text(leaves, OTHER_SEED), OTHER_SEED))
    links("a tree that another key signed under this name", note=tree_note(tree_text(leaves), OTHER_SEED))
    links("a tree with another root", note=tree_note(tree_text(leaves, root=hashes[1])))
    links("a tree with a bit altered", note=tree_note(tree_text(leaves)).replace("\n5\n", "\n6\n"))
    links("a note that is no tree", note=anchored.note())
    links("entry 0", 3, link_1=anchored.link(1, shown_id=0))
    links("entries in another order", 3, ids=(2, 1, 5))
    links("an entry twice", 3, ids=(1, 2, 2))
    links("an id of 2^53", 3, link_5=anchored.link(5, shown_id=2**53))
    links("an id as a string", 3, link_5=anchored.link(5, shown_id='"5"'))
    links("a node of 31 bytes", 3, link_2=anchored.link(2, proof=[path[0][:31], *path[1:]]))
    add("links: a member more", good.file_with(went_on + anchored.links().replace('"proof"', '"x":1,"proof"', 1)), 3)
    add("links: a blank", good.file_with(went_on + anchored.links().replace('"entries":', '"entries": ')), 3)
    add("links: without the anchor", good.file_with(anchored.links()), 2)
    add("links: before the anchor", good.file_with(anchored.links() + went_on), 2)
    add("links: twice", good.file_with(went_on + anchored.links() + anchored.links()), 4)
    add("links: behind an entry", "".join([good.header(), went_on, lines[0], anchored.links(), *lines[1:], good.trailer()]), 4)
    covered("another checkpoint of the same entry is known", end, anchored.note(hash_=hashes[1]))
    covered("a checkpoint of a later entry is known", end, anchored.note(last_id=4))
    covered("a checkpoint of another end is known", end, anchored.note(last_id=5), signed=anchored.stretch())
    covered("a checkpoint behind the end is known", end, anchored.note(last_id=6), signed=anchored.stretch())
    covered("a checkpoint by another key is known", 1, anchored.note(seed=OTHER_SEED))

    # Against what the auditor knows.
    forged = Export(changed(2, ip_address="10.9.9.9"), seed=OTHER_SEED)
    cut = Export(drafts[:4])
    rewritten = Export(changed(2, ip_address="10.9.9.9"))
    add("forged throughout, by another key", forged.file(), last + 2)
    add("forged throughout, this key named in the trailer",
        "".join([forged.header(), *forged.lines(), forged.trailer(public_key=key)]), last + 2)
    add("another public key is known", file, last + 2, public_key=public_key_text(other))
    add("the log was cut before the checkpoint", cut.file(), 6, kept[5])
    add("the log was rewritten before the checkpoint, by the key's owner", rewritten.file(), 6, kept[5])
    add("the log was rewritten at the checkpoint", rewritten.file(), 4, kept[3])
    add("the log was rewritten up to the checkpoint, which is the end", rewritten.file(), 7, kept[6])
    add("a part that does not join on to the checkpoint", Export(drafts[3:], 3, hashes[2]).file(), 1, kept[3])
    add("no entries, and another log's checkpoint", Export([], 6, hashes[5]).file(), 1, kept[6])
    add("the checkpoint of another tenant", file, 1, note_of(checkpoint_text(tenant=OTHER_TENANT, last_id=3, hash_=hashes[3])))
    add("the checkpoint by another key", file, 1, note_of(checkpoint_text(last_id=3, hash_=hashes[3]), OTHER_SEED))
    add("the checkpoint altered", file, 1, kept[3].replace("\n3\n", "\n2\n"))
    add("the checkpoint of nothing", file, 1, "")

    names = [row["name"] for row in valid + refuse]
    if len(set(names)) != len(names):
        raise RuntimeError(f"names twice: {sorted(name for name in names if names.count(name) > 1)}")
    for row in refuse:
        if "base" not in row and row["head"] + row["tail"] == len(file_bytes) and row.get("insert") == "" and not {"checkpoint", "public_key"} & {*row}:
            raise RuntimeError(f"{row['name']} is the good file")
    return {
        "format": "audit export 1",
        "about": "export.md 7. Each `file` of `valid` verifies with `public_key`, and with its `checkpoint` where it has one, to "
                 "this verdict. Each of `refuse` is the first of those files, or the one that it names as its `base`, with one fault: "
                 "its first `head` bytes, then `insert` (UTF-8, or `insert_base64` where it is not), then its last `tail` bytes. It must be refused "
                 "with the same key, or its own where it names one; `line` is the first line that is wrong, counted from "
                 "1, one more than the file has where its end is missing. `fault` is what chain.md 9 calls it, for faults of chain.md 11.",
        "made_by": MADE_BY.replace("AES-256-GCM", "Ed25519"),
        "public_key": key,
        "valid": valid,
        "refuse": refuse,
    }


# anchor.md

def anchor_vectors():
    def metadata(heads):
        root = merkle_root([anchor_leaf(tenant, last_id, hash_.hex()) for tenant, last_id, hash_ in heads])
        return f'{{"root":"{root.hex()}","tenants":{len(heads)}}}'

    three = [(NIL, 1, bytes(32)), (TENANT, 42, CHECKPOINT_HASH), (OTHER_TENANT, 2**53 - 1, b"\xff" * 32)]
    anchors = [{
        "name": name, "heads": [{"tenant_id": tenant, "last_id": last_id, "hash": hash_.hex()} for tenant, last_id, hash_ in heads],
        "metadata": metadata(heads),
    } for name, heads in (("no tenant", []), ("one tenant", three[:1]), ("two tenants", three[:2]), ("three tenants", three))]
    good = anchors[-1]["metadata"]
    root = json.loads(good)["root"]
    refuse = {
        "nothing": "", "no metadata": None, "null": "null", "a list": "[]", "no JSON": good[:-1],
        "no root": '{"tenants":3}', "no number": f'{{"root":"{root}"}}', "a member more": good[:-1] + ',"x":1}',
        "members exchanged": f'{{"tenants":3,"root":"{root}"}}', "a member twice": good[:-1] + ',"tenants":3}',
        "a blank": good.replace(",", ", "), "a line feed behind": good + "\n", "a blank in front": " " + good,
        "a root in capitals": good.replace(root, root.upper()), "a root of 31 bytes": good.replace(root, root[:62]),
        "a root of 33 bytes": good.replace(root, root + "00"), "a root in base64": good.replace(root, b64(bytes.fromhex(root))),
        "a negative number": good.replace(":3", ":-3"), "a number as text": good.replace(":3", ':"3"'),
        "a fraction": good.replace(":3", ":3.0"), "an exponent": good.replace(":3", ":3e0"), "a number of 2^53": good.replace(":3", f":{2**53}"),
        "an escape": good.replace("root", "r\\u006fot", 1),
    }
    return {
        "format": "anchor 1",
        "about": "anchor.md 5. Hashes are lower-case hexadecimal. Each of `anchors` has heads in the order of their tenants' ids, and the "
                 "metadata of the anchor that covers them. Each of `refuse` is the metadata of no anchor.",
        "made_by": MADE_BY.replace("AES-256-GCM", "SHA-256"),
        "anchors": anchors,
        "refuse": [{"name": name, "metadata": text} for name, text in refuse.items()],
    }


# tree.md

#: FiloSottile/torchwood, internal/witness/witness_test.go, TestRace: what a witness of another program is sent by a log of a third one.
SIGSUM_ORIGIN = "sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562"
SIGSUM_KEY = bytes.fromhex("ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f")
SIGSUM_REQUESTS = {
    1: ("old 0\n", "KgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "UgIom7fPZTqpxWWhyjWduBvTvGVqsokMbqTArsQilegKoFBJQjUFAmQ0+YeSPM3wfUQMFSzVnnNuWRTYrajXpNUbIQY="),
    3: ("old 1\nKgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nKgIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "RcCI1Nk56ZcSmIEfIn0SleqtV7uvrlXNccFx595Iwl0=",
        "UgIom2VbtIcdFbwFAy1n7s6IkAxIY6J/GQOTuZF2ORV39d75cbAj2aQYwyJre36kezNobZs4SUUdrcawfAB8WVrx6go="),
    5: ("old 1\nKgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n+fUDV+k970B4I3uKrqJM4aP1lloPZP8mvr2Z4wRw2LI=\n"
        "KgQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "QrtXrQZCCvpIgsSmOsah7HdICzMLLyDfxToMql9WTjY=",
        "UgIomw/EOJmWi0i1FQsOj+etB7F8IccFam/jgd6wzRns4QPVmyEZtdvl1U2KEmLOZ/ASRcWJi0tW90dJWAShei7sDww="),
}
#: transparency-dev/formats, note/note_cosigv1_test.go: the key of a public witness.
REMORA_KEY = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2"
WITNESS_NAME = "witness.example/w1"
WITNESS_SEED, OTHER_WITNESS_SEED = key_of("a witness"), key_of("another witness")
COSIGNED_AT = 1_679_315_147
COSIGNATURE = b"\x04"
LAST_SECOND = 253_402_300_799


def tree_origin(public):
    return f"eaas/audit/tree/v1/{sha256(public)[:16].hex()}"


def entry_hashes(count, name="entry"):
    return [sha256(f"{name} {number}".encode()) for number in range(1, count + 1)]


def tree_text(hashes, seed=SIGNING_SEED, origin=None, size=None, root=None):
    return f"{origin or tree_origin(ed25519_public(seed))}\n{len(hashes) if size is None else size}\n{b64(root or merkle_root(hashes))}\n"


def log_line(text, seed=SIGNING_SEED, name=None):
    public = ed25519_public(seed)
    name = name or tree_origin(public)
    return signature_line(ed25519_sign(seed, text.encode()), note_key_id(public, name), name)


def tree_note(text, seed=SIGNING_SEED):
    return text + "\n" + log_line(text, seed)


def cosigned(text, seed=WITNESS_SEED, name=WITNESS_NAME, time=COSIGNED_AT, kind=COSIGNATURE, message=None, stamp=None):
    """The line of a cosignature over a text."""
    message = message or f"cosignature/v1\ntime {time}\n{text}"
    signature = ed25519_sign(seed, message.encode())
    return signature_line((stamp or struct.pack(">Q", time)) + signature, note_key_id(ed25519_public(seed), name, kind), name)


def witness_key(seed=WITNESS_SEED, name=WITNESS_NAME):
    return public_key_text(ed25519_public(seed), name, COSIGNATURE)


def swapped_bits(encoded):
    """Base64 with one character of padding, and a bit set that no byte has."""
    return encoded[:-2] + chr(ord(encoded[-2]) + 1) + "="


def tree_vectors():
    public, hashes = ed25519_public(SIGNING_SEED), entry_hashes(11)
    origin = tree_origin(public)
    trees = []
    for name, seed, leaves in (
        ("of 11 entries", SIGNING_SEED, hashes),
        ("of the first entry", SIGNING_SEED, hashes[:1]),
        ("of 8 entries", SIGNING_SEED, hashes[:8]),
        ("of another installation", OTHER_SEED, entry_hashes(3, "elsewhere")),
    ):
        key = ed25519_public(seed)
        trees.append({"name": name, "seed": seed.hex(), "public_key": public_key_text(key),
                      "tree_key": public_key_text(key, tree_origin(key)), "hashes": [leaf.hex() for leaf in leaves],
                      "text": tree_text(leaves, seed), "note": tree_note(tree_text(leaves, seed), seed)})
    text = tree_text(hashes)
    good, line, lines = tree_note(text), log_line(text), text.split("\n")[:3]
    other_line = signature_line(ed25519_sign(OTHER_SEED, text.encode()), note_key_id(ed25519_public(OTHER_SEED), "other.example"), "other.example")
    accept = {
        "a witness's line behind": good + cosigned(text),
        "another key's line in front": text + "\n" + other_line + line,
        "another key under this name": good + signature_line(ed25519_sign(OTHER_SEED, text.encode()), note_key_id(ed25519_public(OTHER_SEED), origin), origin),
        "this id under another name, with a signature that does not verify": good + signature_line(bytes(64), note_key_id(public, origin), "other.example"),
    }

    def signed(text):
        return tree_note(text)

    refuse = {
        "another size": good.replace("\n11\n", "\n12\n"),
        "another root": tree_text(hashes, root=merkle_root(hashes[:10])) + "\n" + line,
        "signed by another key": text + "\n" + signature_line(ed25519_sign(OTHER_SEED, text.encode()), note_key_id(public, origin), origin),
        "another installation's tree": trees[-1]["note"],
        "signed under the name of checkpoints": text + "\n" + log_line(text, name="eaas-audit"),
        "a witness's line alone": text + "\n" + cosigned(text),
        "a wrong signature of the key in front of a right one": text + "\n" + signature_line(bytes(64), note_key_id(public, origin), origin) + line,
        "a checkpoint": note_of(checkpoint_text()),
        "the text alone": text,
        "no signature": text + "\n",
        "no empty line": text + line,
        "the last line feed missing": good[:-1],
        "a line feed more": good + "\n",
        "a line behind that is none of a signature": good + "more\n",
        "a signature in base64 without padding": good.replace("=\n", "\n").replace(lines[2].rstrip("="), lines[2]),
        "a tab in the name": good.replace("\u2014 eaas", "\u2014 ea\tas"),
        "a plus in the name of another line": good + other_line.replace("other.example", "other+example"),
        "a next line (U+0085) in the name of another line": good + other_line.replace("other.example", "other\u0085example"),
        "a hyphen for the dash": good.replace("\u2014", "-"),
        "CRLF throughout": good.replace("\n", "\r\n"),
        "nothing": "",
        "signed: the size 0": signed(tree_text([], root=sha256(b""))),
        "signed: a size with a zero in front": signed(tree_text(hashes, size="011")),
        "signed: a size of 2^53": signed(tree_text(hashes, size=2**53)),
        "signed: a size with a sign": signed(tree_text(hashes, size="+11")),
        "signed: no size": signed(tree_text(hashes, size="")),
        "signed: a root of 31 bytes": signed(tree_text(hashes, root=merkle_root(hashes)[:31])),
        "signed: a root of 33 bytes": signed(tree_text(hashes, root=merkle_root(hashes) + b"\x00")),
        "signed: a root in hexadecimal": signed(text.replace(lines[2], merkle_root(hashes).hex())),
        "signed: a root with trailing bits": signed(text.replace(lines[2], swapped_bits(lines[2]))),
        "signed: no root": signed(f"{lines[0]}\n{lines[1]}\n"),
        "signed: a line more": signed(text + "more\n"),
        "signed: an empty line more": signed(text + "\n"),
        "signed: another origin": signed(tree_text(hashes, origin="eaas/audit/tree/v1/" + "0" * 32)),
        "signed: the origin in capitals": signed(tree_text(hashes, origin=origin.upper())),
        "signed: the origin of another version": signed(tree_text(hashes, origin=origin.replace("/v1/", "/v2/"))),
        "signed: a blank behind the origin": signed(tree_text(hashes, origin=origin + " ")),
    }

    def file_line(count=11, tenant=MAX, hash_=None, last_id=None, witnesses=((WITNESS_SEED, WITNESS_NAME),), leaves=hashes, note=None,
                  proof=None, time=COSIGNED_AT, seed=SIGNING_SEED):
        tree = tree_text(leaves[:count], seed)
        note = note or tree_note(tree, seed) + "".join(cosigned(tree, witness, name, time) for witness, name in witnesses)
        proof = proof if proof is not None else [b64(node) for node in inclusion_proof(count - 1, leaves[:count])]
        checkpoint = note_of(checkpoint_text(tenant, last_id or count, hash_ or leaves[count - 1]))
        return {"checkpoint": checkpoint, "tree": {"checkpoint": note, "proof": proof}}

    one, two = [witness_key()], [witness_key(), witness_key(OTHER_WITNESS_SEED, "other.example/w2")]
    both = ((WITNESS_SEED, WITNESS_NAME), (OTHER_WITNESS_SEED, "other.example/w2"))
    whole = file_line()
    kept = [
        {"name": "cosigned by one witness", "witnesses": one, "last_id": 11, "seconds": COSIGNED_AT, **whole},
        {"name": "of the first entry, without nodes in its proof", "witnesses": one, "last_id": 1, "seconds": COSIGNED_AT, **file_line(1)},
        {"name": "cosigned by two witnesses", "witnesses": two, "last_id": 8, "seconds": COSIGNED_AT, **file_line(8, witnesses=both)},
        {"name": "cosigned by one more than is demanded", "witnesses": one, "last_id": 11, "seconds": COSIGNED_AT, **file_line(witnesses=both)},
        {"name": "at another time", "witnesses": one, "last_id": 11, "seconds": 2**33, **file_line(time=2**33)},
    ]
    refuse_kept = [{"name": name, "witnesses": witnesses, **value} for name, witnesses, value in (
        ("cosigned by one of two that are demanded", two, whole),
        ("cosigned by nobody", one, file_line(witnesses=())),
        ("cosigned after the year 9999", one, file_line(time=LAST_SECOND + 1)),
        ("cosigned by another witness of this name", one, file_line(witnesses=((OTHER_WITNESS_SEED, WITNESS_NAME),))),
        ("cosigned under another name", one, file_line(witnesses=((WITNESS_SEED, "witness.example/w2"),))),
        ("the cosignature of a smaller tree", one, file_line(note=tree_note(text) + cosigned(tree_text(hashes[:10])))),
        ("a smaller tree", one, {**whole, "tree": file_line(10)["tree"]}),
        ("a larger tree", one, {**file_line(10), "tree": whole["tree"]}),
        ("another last entry of as many", one, file_line(hash_=sha256(b"another entry"))),
        ("the entry before, under the last id", one, file_line(hash_=hashes[9], proof=[b64(node) for node in inclusion_proof(9, hashes)])),
        ("the entry before, under the last id, and its tree", one, file_line(10, last_id=11)),
        ("another tree of that size", one, {**whole, "tree": file_line(leaves=entry_hashes(11, "fork"))["tree"]}),
        ("the tree of another installation", one, {**whole, "tree": file_line(3, leaves=entry_hashes(3, "elsewhere"), seed=OTHER_SEED)["tree"]}),
        ("the tree not signed by the installation", one, file_line(note=text + "\n" + cosigned(text))),
        ("a checkpoint of a tenant", one, file_line(tenant=TENANT)),
        ("a proof with a node less", one, file_line(proof=whole["tree"]["proof"][1:])),
        ("a proof with a node more", one, file_line(proof=whole["tree"]["proof"] + [b64(bytes(32))])),
        ("a proof with its nodes exchanged", one, file_line(proof=whole["tree"]["proof"][::-1])),
        ("a proof in hexadecimal", one, file_line(proof=[base64.b64decode(node).hex() for node in whole["tree"]["proof"]])),
        ("a proof that is a text", one, file_line(proof="".join(whole["tree"]["proof"]))),
        ("a proof of numbers", one, file_line(proof=[1, 2])),
        ("no proof", one, {**whole, "tree": {"checkpoint": whole["tree"]["checkpoint"]}}),
        ("no note", one, {**whole, "tree": {"proof": whole["tree"]["proof"]}}),
        ("no tree", one, {**whole, "tree": None}),
        ("a text for the tree", one, {**whole, "tree": whole["tree"]["checkpoint"]}),
    )]
    return {
        "format": "tree 1",
        "about": "tree.md 6. Seeds and hashes are lower-case hexadecimal. Each of `trees`: the seed signs the tree over the hashes of entries to the "
                 "note, which its `tree_key` verifies; the first is `public_key`'s. Each of `accept` and `refuse` is that first note with other "
                 "lines or one fault; where its name begins with `signed`, the signature is right and the text is not in the form. Each of `kept` "
                 "is a line that all of `witnesses` cosigned, `seconds` being the oldest time; each of `refuse_kept` is none.",
        "made_by": MADE_BY.replace("AES-256-GCM", "Ed25519"),
        "public_key": public_key_text(public),
        "trees": trees,
        "accept": [{"name": name, "note": note} for name, note in accept.items()],
        "refuse": [{"name": name, "note": note} for name, note in refuse.items()],
        "kept": kept,
        "refuse_kept": refuse_kept,
    }


# cosignature.md

def request_of(old, proof, note):
    return f"old {old}\n" + "".join(b64(node) + "\n" for node in proof) + "\n" + note


def growing(hashes, old, new, seed=SIGNING_SEED):
    return request_of(old, consistency_proof(old, hashes[:new]), tree_note(tree_text(hashes[:new], seed), seed))


def lengthened(body, size):
    """A request of that many bytes, by the line of another key."""
    rest = size - len(body.encode()) - 6
    name = "a" * (rest % 4 or 4)
    return body + f"\u2014 {name} " + "A" * (rest - len(name)) + "\n"


ADD_CHECKPOINT = re.compile("old (0|[1-9][0-9]{0,15})\n((?:[A-Za-z0-9+/]{43}=\n)*)\n"
                            "((.+)\n(0|[1-9][0-9]{0,15})\n([A-Za-z0-9+/]{43}=)\n(?:.+\n)*)\n((?:\u2014 .+\n)+)")


def answer_to(body, seeds, seen):
    """The status of cosignature.md 4 and the size of a 409; `seeds` are of the logs by origin, None where the signature is another program's."""
    match = ADD_CHECKPOINT.fullmatch(body)
    if not match or int(match[1]) > int(match[5]):
        return 400, None
    old, size, root, origin = int(match[1]), int(match[5]), base64.b64decode(match[6]), match[4]
    if origin not in seeds:
        return 404, None
    if seeds[origin] and log_line(match[3], seeds[origin]) not in match[7]:
        return 403, None
    old_size, old_root = seen.get(origin, (0, sha256(b"")))
    if old != old_size or (origin in seen and size == old_size and root != old_root):
        return 409, old_size
    if not proves_consistency(old, size, old_root, root, [base64.b64decode(line) for line in match[2].split()]):
        return 422, None
    seen[origin] = (size, root)
    return 200, None


def cosignature_vectors():
    hashes, fork = entry_hashes(40), entry_hashes(7) + entry_hashes(33, "fork")
    text = tree_text(hashes[:11])
    note, extended = tree_note(text), text + "an extension\nand another\n"
    sign = [{"name": name, "seed": seed.hex(), "key": witness_key(seed, witness), "time": time, "text": body, "line": cosigned(body, seed, witness, time)}
            for name, seed, witness, time, body in (
                ("a tree", WITNESS_SEED, WITNESS_NAME, COSIGNED_AT, text),
                ("by another witness", OTHER_WITNESS_SEED, "other.example/w2", COSIGNED_AT, text),
                ("in 1970", WITNESS_SEED, WITNESS_NAME, 0, text),
                ("at the last time", WITNESS_SEED, WITNESS_NAME, LAST_SECOND, text),
                ("a text with extension lines", WITNESS_SEED, WITNESS_NAME, COSIGNED_AT, extended),
                ("under a name beyond ASCII", WITNESS_SEED, "t\u00e9moin.example", COSIGNED_AT, text))]
    public, key_id = ed25519_public(WITNESS_SEED), note_key_id(ed25519_public(WITNESS_SEED), WITNESS_NAME, COSIGNATURE)
    stamp, signature = struct.pack(">Q", COSIGNED_AT), ed25519_sign(WITNESS_SEED, f"cosignature/v1\ntime {COSIGNED_AT}\n{text}".encode())

    def with_bytes(data):
        return signature_line(data, key_id, WITNESS_NAME)

    refuse = {
        "another time": with_bytes(struct.pack(">Q", COSIGNED_AT + 1) + signature),
        "the time in little-endian": with_bytes(struct.pack("<Q", COSIGNED_AT) + signature),
        "a time of 4 bytes": with_bytes(struct.pack(">I", COSIGNED_AT) + signature),
        "no time": with_bytes(signature),
        "the time behind the signature": with_bytes(signature + stamp),
        "a time after the year 9999": cosigned(text, time=LAST_SECOND + 1),
        "a time of 2^53": cosigned(text, time=2**53),
        "a time of 2^64 - 1": cosigned(text, time=2**64 - 1),
        "of another text": cosigned(extended),
        "of the text without its last line feed": cosigned(text, message=f"cosignature/v1\ntime {COSIGNED_AT}\n{text[:-1]}"),
        "of the whole note": cosigned(text, message=f"cosignature/v1\ntime {COSIGNED_AT}\n{note}"),
        "of the text alone": cosigned(text, message=text),
        "without a line of the version": cosigned(text, message=f"time {COSIGNED_AT}\n{text}"),
        "of another version": cosigned(text, message=f"cosignature/v2\ntime {COSIGNED_AT}\n{text}"),
        "with a zero in front of the time": cosigned(text, message=f"cosignature/v1\ntime 0{COSIGNED_AT}\n{text}"),
        "by another key under this id": signature_line(
            stamp + ed25519_sign(OTHER_WITNESS_SEED, f"cosignature/v1\ntime {COSIGNED_AT}\n{text}".encode()), key_id, WITNESS_NAME),
        "a bit of the signature altered": with_bytes(stamp + flip(signature, 63)),
        "a byte more": with_bytes(stamp + signature + b"\x00"),
        "a byte less": with_bytes(stamp + signature[:63]),
        "zeros": with_bytes(bytes(72)),
    }
    ignore = {
        "of another name": cosigned(text, name="witness.example/w2"),
        "of another key of this name": cosigned(text, OTHER_WITNESS_SEED),
        "of this key as a plain signature": cosigned(text, kind=b"\x01"),
        "of the log": log_line(text),
    }
    key = witness_key()
    keys = {
        "a plain key": public_key_text(public, WITNESS_NAME), "another id": public_key_text(public, WITNESS_NAME, COSIGNATURE, bytes(4)),
        "the id in capitals": key.replace(key_id.hex(), key_id.hex().upper()), "no name": key.replace(WITNESS_NAME, ""),
        "a blank in the name": public_key_text(public, "a b", COSIGNATURE), "a no-break space in the name": public_key_text(public, "a\u00a0b", COSIGNATURE),
        "31 bytes": public_key_text(public[:31], WITNESS_NAME, COSIGNATURE), "33 bytes": public_key_text(public + b"\x00", WITNESS_NAME, COSIGNATURE),
        "a line feed behind": key + "\n", "a blank in front": " " + key, "the key of ML-DSA": public_key_text(public, WITNESS_NAME, b"\x06"), "nothing": "",
    }
    requests = [{"name": name, "body": request_of(old, proof, body), "old": old, "proof": [node.hex() for node in proof], "note": body}
                for name, old, proof, body in (
                    ("the first", 0, [], note), ("with a proof", 7, consistency_proof(7, hashes[:11]), note), ("with 63 hashes", 1, [bytes(32)] * 63, note),
                    ("the same again", 11, [], note), ("with an old size of 2^53 - 1", 2**53 - 1, [], note), ("with other signatures", 0, [], note + cosigned(text)))]
    body, proof = requests[1]["body"], [b64(node) + "\n" for node in consistency_proof(7, hashes[:11])]
    refuse_requests = {
        "nothing": "", "the note alone": note, "no old size": body.replace("old 7\n", ""), "no number": body.replace("old 7\n", "old \n"),
        "a zero in front": body.replace("old 7", "old 07"), "a sign": body.replace("old 7", "old +7"), "a negative size": body.replace("old 7", "old -7"),
        "a fraction": body.replace("old 7", "old 7.0"), "an old size of 2^53": body.replace("old 7", f"old {2**53}"),
        "an old size above the note's": body.replace("old 7", "old 12"), "an old size in capitals": body.replace("old 7", "OLD 7"),
        "two blanks": body.replace("old 7", "old  7"), "a blank behind": body.replace("old 7", "old 7 "), "CRLF": body.replace("\n", "\r\n"),
        "a line feed in front": "\n" + body, "no empty line": body.replace("\n\n", "\n", 1), "64 hashes": request_of(1, [bytes(32)] * 64, note),
        "a hash of 31 bytes": request_of(7, [bytes(31)], note), "a hash of 33 bytes": request_of(7, [bytes(33)], note),
        "a hash without padding": body.replace(proof[0], proof[0].replace("=", "")), "a hash with trailing bits": body.replace(proof[0], swapped_bits(proof[0][:-1]) + "\n"),
        "a hash in hexadecimal": body.replace(proof[0], base64.b64decode(proof[0]).hex() + "\n"), "an empty line within the proof": body.replace(proof[0], proof[0] + "\n"),
        "no note": body[:body.index("\n\n") + 2], "half a note": body[:-20], "a note without signatures": request_of(0, [], text + "\n"),
        "a note of two lines": request_of(0, [], tree_note("\n".join(text.split("\n")[:2]) + "\n")),
        "a note with an empty extension line": request_of(0, [], tree_note(text + "\nmore\n")),
        "a note with a size that is none": request_of(0, [], tree_note(tree_text(hashes[:11], size="eleven"))),
        "a note with a root of 20 bytes": request_of(0, [], tree_note(tree_text(hashes[:11], root=bytes(20)))),
        "a note with a control character": request_of(0, [], tree_note(text + "\u0007\n")),
        "a byte too many": lengthened(request_of(0, [], note), 131_073),
    }
    state = {"format": "eaas/witness/state/v1", "witness": witness_key(),
             "logs": [{"origin": tree_origin(ed25519_public(SIGNING_SEED)), "size": 11, "root": b64(merkle_root(hashes[:11]))},
                      {"origin": "a log with blanks", "size": 0, "root": b64(sha256(b""))}]}

    def file_of(**members):
        return json.dumps({**state, **members}, separators=(",", ":")) + "\n"

    def with_log(**members):
        return file_of(logs=[{**state["logs"][0], **members}])

    whole = file_of()
    states = [{"name": "of two logs", "file": whole, "logs": state["logs"]}, {"name": "of a new witness", "file": file_of(logs=[]), "logs": []}]
    refuse_states = {
        "nothing": "", "half a file": whole[:60], "no line feed": whole[:-1], "a line more": whole + "\n", "two states": whole + whole,
        "another format": file_of(format="eaas/witness/state/v2"), "no format": whole.replace('"format":"eaas/witness/state/v1",', ""),
        "no witness": whole.replace('"witness"', '"other"'), "a member more": file_of(more=1), "blanks": json.dumps(state) + "\n",
        "logs that are no list": file_of(logs={}), "no logs": whole[:whole.index(',"logs"')] + "}\n", "an origin twice": file_of(logs=state["logs"] + state["logs"][:1]),
        "no origin": with_log(origin=""), "an origin that is a number": with_log(origin=1), "a negative size": with_log(size=-1), "a size as text": with_log(size="11"),
        "a fraction": with_log(size=1.5), "a size of 2^53": with_log(size=2**53), "a root of 31 bytes": with_log(root=b64(bytes(31))), "no root": with_log(root=""),
        "a root with trailing bits": with_log(root=swapped_bits(state["logs"][0]["root"])), "a log with a member more": with_log(time=1), "null": "null\n",
    }
    log_key = public_key_text(ed25519_public(SIGNING_SEED), tree_origin(ed25519_public(SIGNING_SEED)))
    other_text = tree_text(hashes[:11], OTHER_SEED)
    ours = [
        ("a first tree with a proof", 422, request_of(0, [hashes[0]], tree_note(tree_text(hashes[:3])))),
        ("a first tree with an old size", 409, growing(hashes, 2, 3), 0),
        ("a first tree", 200, growing(hashes, 0, 3)),
        ("the same again, as if it were the first", 409, growing(hashes, 0, 3), 3),
        ("the same again", 200, growing(hashes, 3, 3)),
        ("the same again with a proof", 422, request_of(3, [hashes[0]], tree_note(tree_text(hashes[:3])))),
        ("a larger tree", 200, growing(hashes, 3, 11)),
        ("a stale old size", 409, growing(hashes, 3, 12), 11),
        ("a smaller tree with its own size", 409, growing(hashes, 8, 8), 11),
        ("a smaller tree that is said to be new", 400, request_of(11, [], tree_note(tree_text(hashes[:8])))),
        ("another tree of this size", 409, growing(fork, 11, 11), 11),
        ("a larger tree without proof", 422, request_of(11, [], tree_note(tree_text(hashes[:20])))),
        ("a larger tree with the proof of another", 422, request_of(11, consistency_proof(11, hashes[:21]), tree_note(tree_text(hashes[:20])))),
        ("a larger tree with a node of its proof altered", 422,
         request_of(11, [flip(node, 0) if at == 1 else node for at, node in enumerate(consistency_proof(11, hashes[:20]))], tree_note(tree_text(hashes[:20])))),
        ("a fork that begins before what was cosigned, with its own proof", 422, growing(fork, 11, 20)),
        ("a log that is not known", 404, request_of(11, [], tree_note(other_text, OTHER_SEED))),
        ("this log's origin under another key", 403, request_of(
            11, consistency_proof(11, hashes[:20]), tree_text(hashes[:20]) + "\n" + log_line(tree_text(hashes[:20]), OTHER_SEED, tree_origin(ed25519_public(SIGNING_SEED))))),
        ("a signature of another tree", 403, request_of(11, consistency_proof(11, hashes[:20]), tree_text(hashes[:20]) + "\n" + log_line(text))),
        ("a note that a witness alone signed", 403, request_of(11, consistency_proof(11, hashes[:20]), tree_text(hashes[:20]) + "\n" + cosigned(tree_text(hashes[:20])))),
        ("no request", 400, "old 11\n"),
        ("an extension line", 200, request_of(11, consistency_proof(11, hashes[:16]), tree_note(tree_text(hashes[:16]) + "an extension\n"))),
        ("the largest", 200, growing(hashes, 16, 40)),
    ]
    sigsum = [(f"a tree of {size}", status, f"{old}\n{SIGSUM_ORIGIN}\n{size}\n{root}\n\n\u2014 {SIGSUM_ORIGIN} {signature}\n", *known)
              for (size, status, *known) in ((1, 200), (5, 200), (3, 409, 5)) for old, root, signature in (SIGSUM_REQUESTS[size],)]
    runs = [{"name": run, "logs": [listed], "requests": [{"name": name, "status": status, "body": body, **({"size": known[0]} if known else {})}
                                                        for name, status, body, *known in answers]}
            for run, listed, answers in (("an installation", log_key, ours),
                                         ("a log of another program", public_key_text(SIGSUM_KEY, SIGSUM_ORIGIN), sigsum))]
    for run, seed in zip(runs, (SIGNING_SEED, None)):
        seeds, seen = {run["logs"][0].split("+")[0]: seed}, {}
        for request in run["requests"]:
            assert answer_to(request["body"], seeds, seen) == (request["status"], request.get("size")), request["name"]
    return {
        "format": "cosignature 1",
        "about": "cosignature.md 7. Seeds and hashes are lower-case hexadecimal. Each of `sign`: the seed of the witness `key` cosigns the text at the time, in "
                 "seconds since 1970, to the line. Each of `refuse` is a line under the first key's name and id that is no cosignature of the first text; each of "
                 "`ignore` is of another key. `keys` are of witnesses, each of `refuse_keys` is not. Each of `requests` is read, each of `refuse_requests` is "
                 "answered with 400. Each of `states` is the file of a state, each of `refuse_states` is not. Each of `runs`: a witness that knows `logs` and has cosigned "
                 "nothing is sent the requests in turn, and answers with the statuses; `size` is the body of a 409.",
        "made_by": MADE_BY.replace("AES-256-GCM", "Ed25519") + "; the log of another program: FiloSottile/torchwood, TestRace; a key: transparency-dev/formats",
        "keys": [witness_key(), witness_key(OTHER_WITNESS_SEED, "other.example/w2"), REMORA_KEY],
        "sign": sign,
        "refuse": [{"name": name, "line": line} for name, line in refuse.items()],
        "ignore": [{"name": name, "line": line} for name, line in ignore.items()],
        "refuse_keys": [{"name": name, "key": value} for name, value in keys.items()],
        "requests": requests,
        "refuse_requests": [{"name": name, "body": body} for name, body in refuse_requests.items()],
        "states": states,
        "refuse_states": [{"name": name, "file": file} for name, file in refuse_states.items()],
        "runs": runs,
    }


# row-mac.md

ROW_COLUMNS = {
    "tenants": ("tenant_id", "name", "envelope_only", "monthly_encrypt_quota", "wrapped_audit_key", "created_at", "entry_id",
                "plaintext_encoding", "status"),
    "keys": ("tenant_id", "key_id", "name", "algorithm", "status", "current_version", "rotation_interval_days",
             "next_rotation_at", "destroy_at", "wrapped_hash_key", "created_at", "updated_at", "entry_id"),
    "key_versions": ("tenant_id", "key_id", "version", "status", "wrapped_kek", "created_at", "entry_id"),
    "api_keys": ("tenant_id", "api_key_id", "digest", "name", "prefix", "permissions", "allowed_ips", "expires_at", "revoked_at",
                 "created_at", "entry_id"),
}
LEFT_OUT = {"tenants": {"plaintext_encoding": "utf8", "status": "active"}}


def json_of(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(json_of(item) for item in value) + "]"
    return json_string(value)


def row_values(table, row):
    left_out = LEFT_OUT.get(table, {})
    return [row[column] for column in ROW_COLUMNS[table] if not (column in left_out and row[column] == left_out[column])]


def row_bytes(table, row, label="eaas/row/v1", values=None):
    return json_of([label, table, row_values(table, row) if values is None else values]).encode()


def row_mac_vectors():
    audit_key, other_audit_key = key_of("audit"), key_of("another audit")
    key, other = (hmac_sha256(secret, b"eaas/row-key/v1") for secret in (audit_key, other_audit_key))
    early, late = "2026-08-11T09:30:00.000Z", "2026-11-09T09:30:00.000Z"
    wrapped = (b"\x01" + stream("a sealed secret", 60)).hex()
    tenant = {"tenant_id": TENANT, "name": "first", "envelope_only": True, "monthly_encrypt_quota": None,
              "plaintext_encoding": "utf8", "status": "active", "wrapped_audit_key": wrapped, "created_at": early, "entry_id": 1}
    named = {"tenant_id": TENANT, "key_id": KEY, "name": "users", "algorithm": "AES-256-GCM", "status": "active",
             "current_version": 2, "rotation_interval_days": 90, "next_rotation_at": late, "destroy_at": None,
             "wrapped_hash_key": wrapped, "created_at": early, "updated_at": early, "entry_id": 3}
    version = {"tenant_id": TENANT, "key_id": KEY, "version": 2, "status": "active", "wrapped_kek": wrapped,
               "created_at": early, "entry_id": 3}
    api_key = {"tenant_id": TENANT, "api_key_id": OTHER_KEY, "digest": sha256(b"an API key").hex(), "name": "backend",
               "prefix": "eaas_sk_AbCd", "permissions": ["encrypt", "decrypt"], "allowed_ips": ["10.0.0.0/8", "::1"],
               "expires_at": late, "revoked_at": None, "created_at": early, "entry_id": 2}
    rows = [
        ("a tenant of the defaults: neither encoding nor status", "tenants", tenant),
        ("a tenant of another encoding", "tenants", {**tenant, "plaintext_encoding": "base64"}),
        ("a suspended tenant", "tenants", {**tenant, "status": "suspended"}),
        ("a tenant with every column", "tenants", {**tenant, "envelope_only": False, "monthly_encrypt_quota": 1000,
                                                   "plaintext_encoding": "base64", "status": "deleted"}),
        ("a key that rotates", "keys", named),
        ("a key without times", "keys", {**named, "rotation_interval_days": None, "next_rotation_at": None}),
        ("a destroyed key: no secret", "keys", {**named, "status": "destroyed", "wrapped_hash_key": None}),
        ("a key whose name needs escapes", "keys", {**named, "name": 'a"b\\c\n\u2028\U0001f510'}),
        ("a key version", "key_versions", version),
        ("a destroyed key version", "key_versions", {**version, "status": "destroyed", "wrapped_kek": None}),
        ("an API key", "api_keys", api_key),
        ("an API key without lists and times", "api_keys", {**api_key, "permissions": [], "allowed_ips": [], "expires_at": None}),
        ("a revoked API key", "api_keys", {**api_key, "revoked_at": late}),
        ("an API key whose lists hold quotes and commas", "api_keys", {**api_key, "allowed_ips": ['a","b', "c,d", "]"]}),
    ]
    mac = [{"name": name, "row_key": key.hex(), "table": table, "row": row, "bytes": row_bytes(table, row).decode(),
            "mac": hmac_sha256(key, row_bytes(table, row)).hex()} for name, table, row in rows]
    mac.append({"name": "a key of another tenant, under its row key", "row_key": other.hex(), "table": "keys",
                "row": {**named, "tenant_id": OTHER_TENANT},
                "bytes": row_bytes("keys", {**named, "tenant_id": OTHER_TENANT}).decode(),
                "mac": hmac_sha256(other, row_bytes("keys", {**named, "tenant_id": OTHER_TENANT})).hex()})

    refuse = []

    def wrong(name, table, row, data, row_key=key):
        refuse.append({"name": name, "row_key": key.hex(), "table": table, "row": row,
                       "mac": (hmac_sha256(row_key, data)).hex()})

    good = row_bytes("keys", named)
    values = row_values("keys", named)
    wrong("the audit key in place of the row key", "keys", named, good, audit_key)
    wrong("another tenant's row key", "keys", named, good, other)
    wrong("a row key of one other bit", "keys", named, good, flip(key, 31))
    wrong("no label", "keys", named, json_of(["keys", values]).encode())
    wrong("label of another format", "keys", named, row_bytes("keys", named, "eaas/row/v2"))
    wrong("label of an audit entry", "keys", named, row_bytes("keys", named, "eaas/audit/entry/v1"))
    wrong("the name of another table", "keys", named, json_of(["eaas/row/v1", "key_versions", values]).encode())
    wrong("no name of a table", "keys", named, json_of(["eaas/row/v1", values]).encode())
    wrong("columns not in a list of their own", "keys", named, json_of(["eaas/row/v1", "keys", *values]).encode())
    wrong("columns as an object", "keys", named, json.dumps(["eaas/row/v1", "keys", named], separators=(",", ":")).encode())
    wrong("columns in reverse", "keys", named, row_bytes("keys", named, values=values[::-1]))
    wrong("the last column missing", "keys", named, row_bytes("keys", named, values=values[:-1]))
    wrong("missing values left out", "keys", named, row_bytes("keys", named, values=[v for v in values if v is not None]))
    wrong("missing values as empty text", "keys", named, row_bytes("keys", named, values=["" if v is None else v for v in values]))
    wrong("numbers as text", "keys", named, row_bytes("keys", named, values=[str(v) if isinstance(v, int) else v for v in values]))
    wrong("white space between the values", "keys", named, json.dumps(["eaas/row/v1", "keys", values]).encode())
    wrong("a line feed behind", "keys", named, good + b"\n")
    wrong("bytes in upper case", "keys", named, good.replace(wrapped.encode(), wrapped.upper().encode()))
    wrong("bytes in base64", "keys", named, good.replace(wrapped.encode(), b64(bytes.fromhex(wrapped)).encode()))
    wrong("times without milliseconds", "keys", named, good.replace(b".000Z", b"Z"))
    wrong("UUIDs in upper case", "keys", named, good.replace(KEY.encode(), KEY.upper().encode()))
    wrong("UUIDs without dashes", "keys", named, good.replace(KEY.encode(), KEY.replace("-", "").encode()))
    wrong("SHA-256 without a key", "keys", named, good, b"")
    wrong("the encoding not left out where it is utf8", "tenants", tenant,
          row_bytes("tenants", tenant, values=[*row_values("tenants", tenant), "utf8"]))
    wrong("the status not left out where it is active", "tenants", tenant,
          row_bytes("tenants", tenant, values=[*row_values("tenants", tenant), "active"]))
    wrong("the encoding as null where it is utf8", "tenants", {**tenant, "status": "suspended"},
          row_bytes("tenants", tenant, values=[*row_values("tenants", tenant), None, "suspended"]))
    wrong("the status left out of a suspended tenant", "tenants", {**tenant, "status": "suspended"}, row_bytes("tenants", tenant))
    wrong("status and encoding exchanged", "tenants", {**tenant, "plaintext_encoding": "base64", "status": "suspended"},
          row_bytes("tenants", tenant, values=[*row_values("tenants", tenant), "suspended", "base64"]))
    wrong("truth values as numbers", "tenants", tenant,
          row_bytes("tenants", tenant, values=[1 if v is True else v for v in row_values("tenants", tenant)]))
    wrong("lists joined with commas", "api_keys", api_key, row_bytes("api_keys", api_key, values=[
        ",".join(v) if isinstance(v, list) else v for v in row_values("api_keys", api_key)]))
    wrong("when it was last used, which is not covered", "api_keys", api_key,
          row_bytes("api_keys", api_key, values=[*row_values("api_keys", api_key), late]))
    for name, table, row, changes in (
        ("a tenant resumed", "tenants", {**tenant, "status": "suspended"}, {"status": "active"}),
        ("a quota lifted", "tenants", {**tenant, "monthly_encrypt_quota": 1000}, {"monthly_encrypt_quota": None}),
        ("server mode allowed", "tenants", tenant, {"envelope_only": False}),
        ("a key enabled", "keys", {**named, "status": "disabled"}, {"status": "active"}),
        ("a key taken to an old version", "keys", named, {"current_version": 1}),
        ("a key moved to another tenant", "keys", named, {"tenant_id": OTHER_TENANT}),
        ("a secret exchanged", "key_versions", version, {"wrapped_kek": flip(bytes.fromhex(wrapped), 60).hex()}),
        ("a version renumbered", "key_versions", version, {"version": 3}),
        ("a permission added", "api_keys", api_key, {"permissions": ["encrypt", "decrypt", "admin"]}),
        ("permissions in another order", "api_keys", api_key, {"permissions": ["decrypt", "encrypt"]}),
        ("addresses lifted", "api_keys", api_key, {"allowed_ips": []}),
        ("an expiry removed", "api_keys", api_key, {"expires_at": None}),
        ("a revocation removed", "api_keys", {**api_key, "revoked_at": late}, {"revoked_at": None}),
        ("a row of another entry", "api_keys", api_key, {"entry_id": 9}),
    ):
        wrong(name, table, {**row, **changes}, row_bytes(table, row))
    right = hmac_sha256(key, good)
    for name, value in (("cut to 16 bytes", right[:16]), ("empty", b""), ("one byte more", right + b"\x00"),
                        ("one other bit", flip(right, 31, 7)), ("zeros", bytes(32)), ("bytes in reverse", right[::-1])):
        refuse.append({"name": f"the MAC: {name}", "row_key": key.hex(), "table": "keys", "row": named, "mac": value.hex()})
    return {
        "format": "row MAC 1",
        "about": "row-mac.md 4. Byte strings are lower-case hexadecimal, in the rows too; `bytes` is UTF-8. `mac` holds rows with their "
                 "MAC, `refuse` rows whose MAC is wrong by one mistake of the writer, or by one change of the row after it.",
        "made_by": MADE_BY,
        "mac": mac,
        "refuse": refuse,
    }


# codecs.md

def number_text(value):
    """ECMA-262 6.1.6.1.20, radix 10. The shortest digits are those of Python's repr."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if value < 0:
        return "-" + number_text(-value)
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    k = len(digits)
    if k <= point <= 21:
        return digits + "0" * (point - k)
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    sign = "-" if point - 1 < 0 else "+"
    return digits[0] + ("." + digits[1:] if k > 1 else "") + "e" + sign + str(abs(point - 1))


def date_text(ms):
    days, rest = divmod(ms, 86_400_000)
    # Days to a date of the proleptic Gregorian calendar, in eras of 400 years that begin in March.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day, month = day_of_year - (153 * shifted + 2) // 5 + 1, shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):06d}"
    seconds, thousandths = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{years}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{thousandths:03d}Z"


def codec_vectors():
    encode = [{"kind": "text", "name": name, "value": value, "bytes": value.encode().hex()} for name, value in AWKWARD.items()
              if len(value) < 1_000]
    for name, data in (("none", b""), ("no UTF-8", b"\xff\x00\xc0"), ("every value", bytes(range(256)))):
        encode.append({"kind": "bytes", "name": name, "value": data.hex(), "bytes": data.hex()})
    for name, value in (
        ("zero", 0.0), ("negative zero", -0.0), ("one", 1.0), ("a fraction", -0.1), ("a sum", 0.1 + 0.2), ("a third", 1 / 3),
        ("the largest safe integer", 2.0**53 - 1), ("2^53", 2.0**53), ("10^20", 1e20), ("below 10^21", 999999999999999900000.0),
        ("10^21", 1e21), ("with digits and an exponent", -1.2345e25), ("10^-6", 1e-6), ("10^-7", 1e-7), ("1.5e-7", 1.5e-7),
        ("the least", 5e-324), ("the least normal", 2.2250738585072014e-308), ("the largest", 1.7976931348623157e308),
        ("money", 1234.56), ("pi", math.pi), ("a whole number of 17 digits", 12345678901234567.0), ("0.00001", 0.00001),
        ("100", 100.0), ("123e-20", 123e-20),
    ):
        encode.append({"kind": "number", "name": name, "value": struct.pack(">d", value).hex(), "bytes": number_text(value).encode().hex()})
    for value in ("true", "false"):
        encode.append({"kind": "boolean", "name": value, "value": value == "true", "bytes": value.encode().hex()})
    for name, ms in (
        ("the beginning of 1970", 0), ("a millisecond before", -1), ("now", 1_786_440_600_000), ("a leap day", 1_709_164_800_000),
        ("the end of a century without a leap day", 4_107_542_399_999), ("the year 9999", 253_402_300_799_999),
        ("the year 10000", 253_402_300_800_000), ("the year 0", -62_167_219_200_000), ("the year -1", -62_167_219_200_001),
        ("the year 99", -59_011_459_200_000), ("the latest", 8_640_000_000_000_000), ("the earliest", -8_640_000_000_000_000),
    ):
        encode.append({"kind": "date", "name": name, "value": ms, "bytes": date_text(ms).encode().hex()})
    for name, value in (
        ("null", "null"), ("text", '"a"'), ("a number", "-1.5"), ("an empty object", "{}"), ("an empty list", "[]"),
        ("members in their order", '{"b":1,"a":[true,null,"x"]}'), ("escapes", '"\\"\\\\\\n\\u0001"'), ("no ASCII", '{"é":"\U0001f510"}'),
    ):
        encode.append({"kind": "json", "name": name, "value": value, "bytes": value.encode().hex()})

    read = [{"kind": "json", "name": name, "value": value, "bytes": text.encode().hex()} for name, text, value in (
        ("white space", ' {\r\n\t"a" : 1 } ', '{"a":1}'), ("escapes that are not needed", '"\\u0041\\/"', '"A/"'),
        ("another spelling of a number", "1.50e+1", "15"), ("a surrogate pair in escapes", '"\\ud83d\\udd10"', '"\U0001f510"'),
    )]
    no_utf8 = {"a byte that is none": b"\xff", "a continuation alone": b"\x80", "cut": b"a\xc3", "too long a form": b"\xc0\x80",
               "a surrogate": b"\xed\xa0\x80", "beyond the highest": b"\xf4\x90\x80\x80"}
    refuse = [{"kind": kind, "name": f"no UTF-8: {name}", "bytes": data.hex()}
              for kind in ("text", "json", "number", "boolean", "date") for name, data in no_utf8.items()]
    texts = {
        "json": ["", " ", "{", "{\"a\":1,}", "[1,]", "{'a':1}", "{a:1}", "undefined", "NaN", "Infinity", "+1", "01", ".5", "0x10", "\"a", "\"\n\"",
                 "1 2", "nul", "True", "\ufeff1", "// a\n1", "\"\\x41\"", "1\x00"],
        "number": ["", " ", "1.0", "+1", "01", "1e3", "1E21", "1e21", "0x10", "0b1", " 1", "1 ", "1\n", "1,5", ".5", "5.", "0.10", "-00", "--1",
                   "NaN", "Infinity", "-Infinity", "1e400", "9007199254740993", "0.1e1", "1_000", "\u0661", "\ufeff1", "null", "true", "1n",
                   "0.30000000000000001", "1e-6", "0.0000001", "1000000000000000000000"],
        "boolean": ["", "True", "TRUE", "FALSE", "1", "0", "true ", " true", "true\n", "yes", "null", "\"true\"", "tru", "truefalse", "\ufefftrue"],
        "date": ["", "2026", "2026-08-11", "2026-08-11T09:30:00Z", "2026-08-11T09:30:00.0Z", "2026-08-11T09:30:00.000", "2026-08-11T09:30:00.000+00:00",
                 "2026-08-11T11:30:00.000+02:00", "2026-08-11T09:30:00.000000Z", "2026-08-11 09:30:00.000Z", "2026-08-11t09:30:00.000z",
                 "2026-02-30T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-00-01T00:00:00.000Z", "2026-08-11T24:00:00.000Z",
                 "2026-08-11T09:30:60.000Z", "+002026-08-11T09:30:00.000Z", "-000000-01-01T00:00:00.000Z", "+275760-09-13T00:00:00.001Z",
                 "11 Aug 2026 09:30:00 GMT", "1786440600000", "Invalid Date", "null", " 2026-08-11T09:30:00.000Z", "2026-08-11T09:30:00.000Z\n",
                 "\ufeff2026-08-11T09:30:00.000Z", "\"2026-08-11T09:30:00.000Z\""],
    }
    refuse += [{"kind": kind, "name": json.dumps(text), "bytes": text.encode().hex()} for kind, some in texts.items() for text in some]
    return {
        "format": "values of fields 1",
        "about": "codecs.md 3. Bytes are lower-case hexadecimal. A value is text, for bytes their hexadecimal, for a number the 8 bytes of its "
                 "double, for a date its milliseconds since 1970, for json its text. `encode` holds in both directions, `read` when "
                 "reading only; each of `refuse` is no value of its kind.",
        "made_by": MADE_BY,
        "encode": encode,
        "read": read,
        "refuse": refuse,
    }


# index-texts.md

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


# compact-rows.md

def compact_row_vectors():
    wrapped, iv = b64(b"opaque"), lambda name: b64(iv_of(name))

    def envelope(name, **changes):
        whole = {"ciphertext": b64(stream(f"ciphertext {name}", 20)), "wrapped_key": wrapped, "iv": iv(name), "key_id": KEY,
                 "key_version": 1, "envelope_version": 1}
        return {member: value for member, value in {**whole, **changes}.items() if value is not ...}

    def own(sealed):
        return {"c": sealed["ciphertext"], "i": sealed["iv"]}

    header = {"wrapped_key": wrapped, "key_id": KEY, "key_version": 1, "envelope_version": 1}
    email, notes, street = envelope("email"), envelope("notes"), envelope("street")
    both = [["email"], ["notes"]]
    bundle = {"envelope_version": ...}
    pack = [
        {"name": "two fields", "paths": both, "header": "envelope", "row": {"id": 7, "email": email, "notes": notes},
         "compact": {"id": 7, "email": own(email), "notes": own(notes), "envelope": header}},
        {"name": "one field", "paths": [["email"]], "header": "envelope", "row": {"email": email},
         "compact": {"email": own(email), "envelope": header}},
        {"name": "a field without a value", "paths": both, "header": "envelope", "row": {"email": email, "notes": None},
         "compact": {"email": own(email), "notes": None, "envelope": header}},
        {"name": "a field that is missing", "paths": both, "header": "envelope", "row": {"email": email},
         "compact": {"email": own(email), "envelope": header}},
        {"name": "no value at all", "paths": both, "header": "envelope", "row": {"id": 7, "email": None, "notes": None},
         "compact": {"id": 7, "email": None, "notes": None, "envelope": None}},
        {"name": "a field in an object", "paths": [["email"], ["address", "street"]], "header": "envelope",
         "row": {"email": email, "address": {"street": street, "city": "Paris"}},
         "compact": {"email": own(email), "address": {"street": own(street), "city": "Paris"}, "envelope": header}},
        {"name": "another header column", "paths": both, "header": "sealed_by", "row": {"email": email, "notes": notes, "envelope": "C5"},
         "compact": {"email": own(email), "notes": own(notes), "envelope": "C5", "sealed_by": header}},
        {"name": "of server mode: no envelope_version", "paths": [["email"], ["notes"]], "header": "envelope",
         "row": {"email": envelope("email", **bundle), "notes": envelope("notes", **bundle)},
         "compact": {"email": own(email), "notes": own(notes),
                     "envelope": {"wrapped_key": wrapped, "key_id": KEY, "key_version": 1}}},
        {"name": "a high key version and a longer wrapped key", "paths": [["email"]], "header": "envelope",
         "row": {"email": envelope("email", key_version=2**31 - 1, wrapped_key=b64(stream("kms", 200)))},
         "compact": {"email": own(email), "envelope": {**header, "key_version": 2**31 - 1, "wrapped_key": b64(stream("kms", 200))}}},
        {"name": "columns of every type", "paths": [["email"]], "header": "envelope",
         "row": {"email": email, "a": None, "b": [1, {"c": "x", "i": "y"}], "c": "text", "i": False},
         "compact": {"email": own(email), "a": None, "b": [1, {"c": "x", "i": "y"}], "c": "text", "i": False, "envelope": header}},
    ]
    bound = {"envelope_version": 2, "commitment": b64(stream("commitment", 32))}
    pack.append({"name": "format v2", "paths": both, "header": "envelope", "row": {"email": envelope("email", **bound), "notes": envelope("notes", **bound)},
                 "compact": {"email": own(email), "notes": own(notes), "envelope": {**header, **bound}}})
    expand = [
        {"name": "one field compact, one an envelope of another DEK", "paths": both, "header": "envelope",
         "compact": {"email": own(email), "notes": envelope("notes", wrapped_key=b64(b"another")), "envelope": header},
         "row": {"email": email, "notes": envelope("notes", wrapped_key=b64(b"another"))}},
        {"name": "no field compact: the column is the application's", "paths": both, "header": "envelope",
         "compact": {"email": email, "notes": notes, "envelope": "C5"}, "row": {"email": email, "notes": notes, "envelope": "C5"}},
        {"name": "no value, and a column of the application's", "paths": both, "header": "envelope",
         "compact": {"email": None, "envelope": "C5"}, "row": {"email": None, "envelope": "C5"}},
        {"name": "fields and header as JSON text", "paths": both, "header": "envelope",
         "compact": {"email": json.dumps(own(email)), "notes": json.dumps(own(notes), separators=(",", ":")), "envelope": json.dumps(header)},
         "row": {"email": email, "notes": notes}},
        {"name": "one field and the header as JSON text", "paths": both, "header": "envelope",
         "compact": {"email": json.dumps(own(email)), "notes": own(notes), "envelope": json.dumps(header)}, "row": {"email": email, "notes": notes}},
        {"name": "one field as JSON text", "paths": both, "header": "envelope",
         "compact": {"email": json.dumps(own(email)), "notes": notes, "envelope": header}, "row": {"email": email, "notes": notes}},
    ]
    refuse_pack = [{"name": name, "paths": both, "header": "envelope", "row": {"email": email, "notes": value}} for name, value in (
        ("another wrapped key", envelope("notes", wrapped_key=b64(b"another"))),
        ("another key", envelope("notes", key_id=OTHER_KEY)),
        ("another version of the key", envelope("notes", key_version=2)),
        ("one of server mode", envelope("notes", **bundle)),
        ("text", "called twice"), ("no text", ""), ("a number", 1), ("false", False), ("a list", [notes]), ("an empty object", {}),
        ("no ciphertext", envelope("notes", ciphertext=...)), ("no wrapped key", envelope("notes", wrapped_key=...)),
        ("no iv", envelope("notes", iv=...)), ("no key", envelope("notes", key_id=...)), ("no version", envelope("notes", key_version=...)),
        ("an iv of 11 bytes", envelope("notes", iv=b64(bytes(11)))), ("an iv of 16 bytes", envelope("notes", iv=b64(bytes(16)))),
        ("a ciphertext of 15 bytes", envelope("notes", ciphertext=b64(bytes(15)))),
        ("base64 without padding", envelope("notes", ciphertext=notes["ciphertext"].rstrip("="))),
        ("envelope_version 2", envelope("notes", envelope_version=2)), ("envelope_version as text", envelope("notes", envelope_version="1")),
        ("a key id in upper case", envelope("notes", key_id=KEY.upper())), ("version 0", envelope("notes", key_version=0)),
        ("a version as text", envelope("notes", key_version="1")), ("an envelope as JSON text that is cut", json.dumps(notes)[:-1]),
        ("an envelope of format v2 beside v1", envelope("notes", envelope_version=2, commitment=b64(bytes(32)))),
    )]
    refuse_pack += [{"name": f"a column under the header's name: {name}", "paths": both, "header": "envelope",
                     "row": {"email": email, "notes": notes, "envelope": value}} for name, value in (
        ("text", "C5"), ("no text", ""), ("a number", 0), ("false", False), ("a list", []), ("an object", {"size": "C5"}), ("an envelope", email))]
    refuse_pack.append({"name": "two commitments", "paths": both, "header": "envelope", "row": {
        "email": envelope("email", **bound), "notes": envelope("notes", **{**bound, "commitment": b64(stream("another", 32))})}})
    compact = {"email": own(email), "notes": own(notes)}
    refuse_expand = [{"name": f"the header: {name}", "paths": both, "header": "envelope", "row": {**compact, **column}} for name, column in (
        ("missing", {}), ("null", {"envelope": None}), ("text", {"envelope": "C5"}), ("as JSON text that is cut", {"envelope": json.dumps(header)[:-1]}),
        ("an envelope as JSON text", {"envelope": json.dumps(email)}), ("a number", {"envelope": 1}), ("true", {"envelope": True}), ("an empty object", {"envelope": {}}), ("a list", {"envelope": [header]}),
        ("without wrapped_key", {"envelope": {"key_id": KEY, "key_version": 1, "envelope_version": 1}}), ("an envelope", {"envelope": email}),
        ("under another name", {"Envelope": header}), ("a field of the header", {"wrapped_key": wrapped, "key_id": KEY, "key_version": 1}),
    )]
    refuse_expand.append({"name": "one compact field among envelopes, without a header", "paths": both, "header": "envelope",
                          "row": {"email": email, "notes": own(notes)}})
    return {
        "format": "compact rows 1",
        "about": "compact-rows.md 5. `paths` are the sealed fields, `header` the header column. `pack`: `row` packs to `compact`, which expands to `row`; `expand`: "
                 "`compact` expands to `row`. Each of `refuse_pack` must not pack, each of `refuse_expand` must not expand.",
        "made_by": MADE_BY,
        "pack": pack,
        "expand": expand,
        "refuse_pack": refuse_pack,
        "refuse_expand": refuse_expand,
    }


# envelope.md

def envelope_vectors():
    envelopes = []
    for size in (0, 1, 15, 16, 17, 255, 2**16, 2**20):
        name = f"{size} bytes"
        dek, iv, plaintext = key_of(f"dek of {name}"), iv_of(f"envelope of {name}"), stream(f"plaintext of {name}", size)
        sealed = gcm_seal(dek, iv, b"", plaintext)
        row = {"name": name, "dek": dek.hex(), "bytes": size, "plaintext_sha256": sha256(plaintext).hex()}
        envelope = {"ciphertext": b64(sealed), "wrapped_key": b64(b"opaque"), "iv": b64(iv), "key_id": KEY, "key_version": 1,
                    "envelope_version": 1}
        if size > 2**10:
            del envelope["ciphertext"]
            row["ciphertext_sha256"] = sha256(sealed).hex()
            row["tag"] = sealed[-16:].hex()
        envelopes.append({**row, "envelope": envelope})
    return {
        "format": "envelope v1",
        "about": "envelope.md 2. Envelopes that another program sealed, in another language. The plaintext of each is as many bytes as it "
                 "says of SHA-256('plaintext of <name>' ‖ counter as u32 big-endian), block after block from 0; where it is "
                 "long, the ciphertext is given as its SHA-256.",
        "made_by": MADE_BY,
        "envelopes": envelopes,
    }


# envelope-v2.md

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
    if context is None:
        raise DoesNotOpen()
    aad = v2_aad(context, key_id)
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
               "envelope": v2_envelope(dek, context, text, iv_of(f"v2 {name}"))}
              for name, context, text in [(name, context, "secret bancaire".encode()) for name, context in contexts] + [
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


# stream.md

S1 = b"eaas/stream/v1"
S1_SEGMENT = 65536
S1_MEMBERS = ("format", "key_id", "key_version", "wrapped_key", "salt", "commitment", "segment_bytes")


def s1_keys(dek, salt, key_id=KEY, label=S1):
    okm = hkdf(dek, label + b"\0" + uuid_bytes(key_id), 64, salt)
    return okm[:32], okm[32:]


def s1_aad(context, key_id=KEY, label=S1, segment_bytes=S1_SEGMENT):
    pairs = (part for pair in v2_context(context) for part in pair)
    return prefixed(label, uuid_bytes(key_id), struct.pack(">I", segment_bytes), *pairs)


def s1_iv(counter, final):
    return counter.to_bytes(11, "big") + bytes([1 if final else 0])


def s1_line(members):
    """The header line of members, whatever they are."""
    line = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    return line + b" " * (-(len(line) + 1) % 512) + b"\n"


def s1_header(dek, salt, key_id=KEY, **changes):
    members = {"format": S1.decode(), "key_id": key_id, "key_version": 1, "wrapped_key": b64(b"opaque"), "salt": b64(salt),
               "commitment": b64(s1_keys(dek, salt, key_id)[1]), "segment_bytes": S1_SEGMENT}
    return {member: value for member, value in {**members, **changes}.items() if value is not ...}


def s1_read_header(data):
    """The members of the header line and its length. Raises ValueError where it is none."""
    end = data.find(b"\n", 0, 1536) + 1
    if end == 0:
        raise ValueError("line")
    members = json.loads(data[:end].decode("ascii"))
    if not isinstance(members, dict) or tuple(members) != S1_MEMBERS or members["format"] != S1.decode():
        raise ValueError("members")
    if not isinstance(members["key_id"], str) or not UUID_FORM.fullmatch(members["key_id"]):
        raise ValueError("key_id")
    if type(members["key_version"]) is not int or not 1 <= members["key_version"] < 2**31:
        raise ValueError("key_version")
    if type(members["segment_bytes"]) is not int or members["segment_bytes"] != S1_SEGMENT:
        raise ValueError("segment_bytes")
    if len(canonical(members["wrapped_key"], least=1)) > 768:
        raise ValueError("wrapped_key")
    canonical(members["salt"], 32)
    canonical(members["commitment"], 32)
    if s1_line(members) != data[:end]:
        raise ValueError("not the only form")
    return members, end


def s1_pieces(plaintext):
    """The pieces of a plaintext, each with whether it is the last one."""
    starts = range(0, max(len(plaintext), 1), S1_SEGMENT)
    return [(plaintext[at:at + S1_SEGMENT], at == starts[-1]) for at in starts]


def s1_seal(dek, context, salt, plaintext, key_id=KEY):
    key, aad = s1_keys(dek, salt, key_id)[0], s1_aad(context, key_id)
    sealed = (gcm_seal(key, s1_iv(at, final), aad, piece) for at, (piece, final) in enumerate(s1_pieces(plaintext)))
    return s1_line(s1_header(dek, salt, key_id)) + b"".join(sealed)


def s1_open(data, dek, context, give):
    """Gives each piece out once it is verified. Raises ValueError where the header is wrong, DoesNotOpen for every other cause."""
    header, at = s1_read_header(data)
    aad = s1_aad(context, header["key_id"])
    key, commitment = s1_keys(dek, base64.b64decode(header["salt"]), header["key_id"])
    if not hmac.compare_digest(commitment, base64.b64decode(header["commitment"])):
        raise DoesNotOpen()
    counter, final = 0, False
    while not final:
        segment = data[at:at + S1_SEGMENT + 16]
        at += len(segment)
        final = at == len(data)
        if len(segment) < 16 or (final and counter > 0 and len(segment) == 16):
            raise DoesNotOpen()
        give(gcm_open(key, s1_iv(counter, final), aad, segment))
        counter += 1


def stream_vectors():
    dek, other = key_of("dek of a stream"), key_of("another dek of a stream")
    salt, other_salt = key_of("salt of a stream"), key_of("another salt of a stream")
    file = {"file": "7", "table": "uploads"}
    aad, (key, commitment) = s1_aad(file), s1_keys(dek, salt)
    length = 3 * S1_SEGMENT + 1000

    derive = [{"name": name, "dek": one.hex(), "salt": by.hex(), "key_id": id_, "key": s1_keys(one, by, id_)[0].hex(),
               "commitment": s1_keys(one, by, id_)[1].hex()}
              for name, one, by, id_ in (("a stream", dek, salt, KEY), ("another salt", dek, other_salt, KEY), ("another key_id", dek, salt, OTHER_KEY),
                                         ("another DEK", other, salt, KEY), ("a salt of zeros", dek, bytes(32), KEY))]
    aads = [{"name": name, "key_id": KEY, "context": context, "aad": s1_aad(context).hex()}
            for name, context in (("a file", file), ("no pair", {}), ("in another order", dict(reversed(file.items()))),
                                  ("beyond the BMP", {"\U00010000": "a", "\uffff": "b"}))]
    ivs = [{"counter": counter, "final": final, "iv": s1_iv(counter, final).hex()}
           for counter in (0, 1, 255, 256, 2**31, 2**32 - 1) for final in (False, True)]
    headers = [{"name": name, "header": members, "line": s1_line(members).decode()} for name, members in (
        ("a stream", s1_header(dek, salt)), ("the largest version", s1_header(dek, salt, key_version=2**31 - 1)),
        ("a wrapped key of the service", s1_header(dek, salt, wrapped_key=b64(stream("wrapped", 65)))),
        ("a wrapped key of one byte", s1_header(dek, salt, wrapped_key=b64(b"\0"))),
        ("filled to 512 bytes without a space", s1_header(dek, salt, wrapped_key=b64(bytes(198)), key_version=1111)),
        ("one byte more than 512", s1_header(dek, salt, wrapped_key=b64(bytes(198)), key_version=11111)),
        ("the longest wrapped key", s1_header(dek, salt, wrapped_key=b64(bytes(768)), key_version=2**31 - 1)))]
    assert [len(one["line"]) for one in headers[-3:]] == [512, 1024, 1536]
    for one in headers:
        assert s1_read_header(one["line"].encode()) == (one["header"], len(one["line"]))

    # A line that is wrong in one respect.
    valid = s1_header(dek, salt)
    line = s1_line(valid)
    bare = line.rstrip(b" \n")
    padded = lambda text: text + b" " * (-(len(text) + 1) % 512) + b"\n"
    changed = lambda **changes: s1_line({member: value for member, value in {**valid, **changes}.items() if value is not ...})
    wrong_lines = [(f"{member} is missing", changed(**{member: ...})) for member in S1_MEMBERS]
    wrong_lines += [(f"{member} is null", changed(**{member: None})) for member in S1_MEMBERS]
    wrong_lines += [
        ("empty", b""), ("a line feed alone", b"\n"), ("no line feed", line[:-1]), ("only spaces", padded(b"")), ("not JSON", padded(bare[:-1])),
        ("a list", padded(b"[" + bare + b"]")), ("text", padded(b'"eaas/stream/v1"')), ("null", padded(b"null")),
        ("another format", changed(format="eaas/stream/v2")), ("the label of envelopes", changed(format="eaas/envelope/v2")),
        ("a format in upper case", changed(format="EAAS/STREAM/V1")),
        ("one member more", changed(name="report.pdf")), ("a version beside it", changed(envelope_version=2)),
        ("members in another order", s1_line(dict(reversed(valid.items())))),
        ("a member twice", padded(bare[:-1] + b',"segment_bytes":65536}')),
        ("a member twice, the first one another", padded(bare.replace(b'"key_version":1', b'"key_version":2,"key_version":1'))),
        ("white space between members", padded(json.dumps(valid).encode())), ("a space in front", padded(b" " + bare)),
        ("a byte order mark", padded(b"\xef\xbb\xbf" + bare)), ("an escape", padded(bare.replace(b"eaas/stream", b"eaas\\/stream"))),
        ("an escape of a letter", padded(bare.replace(b'"key_id"', b'"key\\u005fid"'))),
        ("a space too few", bare + b" " * (510 - len(bare)) + b"\n"), ("a space too many", bare + b" " * (512 - len(bare)) + b"\n"),
        ("no space", bare + b"\n"), ("filled to twice the length", bare + b" " * (1023 - len(bare)) + b"\n"),
        ("tabs in place of spaces", bare + b"\t" * (511 - len(bare)) + b"\n"), ("a carriage return", line[:-2] + b"\r\n"),
        ("the line feed behind 1,536 bytes", bare + b" " * (2047 - len(bare)) + b"\n"), ("a comma at the end", padded(bare + b",")),
        ("key_id in upper case", changed(key_id=KEY.upper())), ("key_id without dashes", changed(key_id=KEY.replace("-", ""))),
        ("key_id with a blank", changed(key_id=KEY + " ")),
        ("key_version 0", changed(key_version=0)), ("key_version 2^31", changed(key_version=2**31)), ("key_version -1", changed(key_version=-1)),
        ("key_version as text", changed(key_version="1")), ("key_version with a fraction", padded(bare.replace(b'"key_version":1', b'"key_version":1.0'))),
        ("key_version with an exponent", padded(bare.replace(b'"key_version":1', b'"key_version":1e0'))),
        ("key_version with a zero in front", padded(bare.replace(b'"key_version":1', b'"key_version":01'))),
        ("wrapped_key empty", changed(wrapped_key="")), ("wrapped_key of 769 bytes", changed(wrapped_key=b64(bytes(769)))),
        ("wrapped_key without padding", changed(wrapped_key="AA")), ("wrapped_key URL-safe", changed(wrapped_key="-_-_")),
        ("wrapped_key that is no base64", changed(wrapped_key="opaque!=")), ("wrapped_key with bits that are not zero at its end", changed(wrapped_key="AB==")),
        ("a salt of 31 bytes", changed(salt=b64(bytes(31)))), ("a salt of 33 bytes", changed(salt=b64(bytes(33)))),
        ("a salt in hexadecimal", changed(salt=salt.hex())), ("an empty salt", changed(salt="")),
        ("a commitment of 31 bytes", changed(commitment=b64(bytes(31)))), ("a commitment of 33 bytes", changed(commitment=b64(bytes(33)))),
        ("an empty commitment", changed(commitment="")), ("a number as the commitment", changed(commitment=7)),
        ("segments of 65,535 bytes", changed(segment_bytes=65535)), ("segments of 16 bytes", changed(segment_bytes=16)),
        ("segments of 1 MiB", changed(segment_bytes=2**20)), ("segments of no byte", changed(segment_bytes=0)),
        ("segment_bytes as text", changed(segment_bytes="65536")), ("segment_bytes with an exponent", padded(bare.replace(b"65536}", b"6.5536e4}"))),
    ]
    refuse_header = []
    for name, text in wrong_lines:
        try:
            s1_read_header(text)
        except ValueError:  # UnicodeDecodeError and JSONDecodeError, too
            refuse_header.append({"name": name, "line": text.decode()})
        else:
            raise AssertionError(f"is a header: {name}")

    def segment(counter, final, start, end, **changes):
        return {"iv": s1_iv(counter, final).hex(), "from": start, "to": end, **changes}

    def segments(length):
        starts = range(0, max(length, 1), S1_SEGMENT)
        return [segment(at, start == starts[-1], start, min(start + S1_SEGMENT, length)) for at, start in enumerate(starts)]

    def built(vector, plaintext):
        data = b""
        for piece in vector["pieces"]:
            if "text" in piece or "hex" in piece:
                data += piece["text"].encode() if "text" in piece else bytes.fromhex(piece["hex"])
                continue
            sealed = gcm_seal(bytes.fromhex(piece.get("key", vector["key"])), bytes.fromhex(piece["iv"]), bytes.fromhex(piece.get("aad", vector["aad"])),
                              plaintext[piece["from"]:piece["to"]])
            if "flip" in piece:
                sealed = flip(sealed, *piece["flip"])
            start, end = piece.get("slice", (0, len(sealed)))
            data += sealed[start:end]
        return data

    def vector(name, pieces, context=file, header=line, one=dek, length=length):
        pieces = pieces if header is None else [{"text": header.decode()}, *pieces]
        return {"name": name, "dek": one.hex(), "context": context, "key": key.hex(), "aad": aad.hex(),
                "plaintext": {"name": "a stream", "bytes": length}, "pieces": pieces}

    opened = [vector(f"{size} bytes", segments(size), length=size) for size in
              (0, 1, 15, 16, 17, 1000, S1_SEGMENT - 1, S1_SEGMENT, S1_SEGMENT + 1, 2 * S1_SEGMENT - 1, 2 * S1_SEGMENT, 2 * S1_SEGMENT + 1, length)]
    opened += [vector("after a rewrap: another version and another wrapped key", segments(1000), length=1000,
                      header=changed(key_version=2, wrapped_key=b64(b"wrapped again"))),
               vector("a header of 1,536 bytes", segments(1000), length=1000, header=changed(wrapped_key=b64(bytes(768)))),
               {**vector("no context", segments(1000), context={}, length=1000), "aad": s1_aad({}).hex()},
               {**vector("another key_id", segments(1000), header=s1_line(s1_header(dek, salt, OTHER_KEY)), length=1000),
                "key": s1_keys(dek, salt, OTHER_KEY)[0].hex(), "aad": s1_aad(file, OTHER_KEY).hex()}]
    for one in opened:
        plaintext, given = stream("a stream", one["plaintext"]["bytes"]), []
        data = built(one, plaintext)
        s1_open(data, dek, one["context"], given.append)
        assert b"".join(given) == plaintext, one["name"]
        one["sha256"] = sha256(data).hex()
    assert built(opened[-5], stream("a stream", length)) == s1_seal(dek, file, salt, stream("a stream", length))

    plaintext = stream("a stream", 5 * S1_SEGMENT)
    whole, refuse = segments(length), []

    def refused(name, error, prefix, pieces=whole, **more):
        one = vector(name, pieces, **more)
        data, given = built(one, plaintext), []
        try:
            s1_open(data, bytes.fromhex(one["dek"]), one["context"], given.append)
        except DoesNotOpen:
            assert error == "decryption", name
        except ValueError:
            assert error == "format", name
        else:
            raise AssertionError(f"opens: {name}")
        given = b"".join(given)
        assert given == plaintext[:prefix] and len(given) == prefix, f"{name}: {len(given)}"
        refuse.append({**one, "sha256": sha256(data).hex(), "error": error, "prefix": prefix})

    first, second, third, last = whole
    n = S1_SEGMENT
    # Cut
    refused("no byte", "format", 0, [], header=None)
    refused("cut within the header", "format", 0, [], header=line[:300])
    refused("cut before the line feed", "format", 0, [], header=line[:-1])
    refused("the header alone", "decryption", 0, [])
    refused("cut within the first tag", "decryption", 0, [{**first, "slice": [0, 15]}])
    refused("cut within the first segment", "decryption", 0, [{**first, "slice": [0, 1000]}])
    refused("cut behind the first segment", "decryption", 0, [first])
    refused("cut one byte behind the first segment", "decryption", n, [first, {**second, "slice": [0, 1]}])
    refused("cut 16 bytes behind the first segment", "decryption", n, [first, {**second, "slice": [0, 16]}])
    refused("cut within a segment", "decryption", n, [first, {**second, "slice": [0, 1000]}])
    refused("cut before the last tag of a full segment", "decryption", n, [first, {**second, "slice": [0, n]}])
    refused("cut behind the second segment", "decryption", n, [first, second])
    refused("the final segment is missing", "decryption", 2 * n, [first, second, third])
    refused("the final segment without its last byte", "decryption", 3 * n, [first, second, third, {**last, "slice": [0, 1015]}])
    refused("the final segment's tag alone", "decryption", 3 * n, [first, second, third, {**last, "slice": [1000, 1016]}])
    refused("the header missing", "format", 0, header=None)
    refused("the first segment missing", "decryption", 0, [second, third, last])
    refused("a segment in the middle missing", "decryption", n, [first, third, last])
    refused("all but the final segment missing", "decryption", 0, [last])
    # The final flag
    not_final = {**last, "iv": s1_iv(3, False).hex()}
    refused("no final flag", "decryption", 3 * n, [first, second, third, not_final])
    refused("the final flag of 2", "decryption", 3 * n, [first, second, third, {**last, "iv": (b"\0" * 10 + b"\3\2").hex()}])
    refused("the final flag of 255", "decryption", 3 * n, [first, second, third, {**last, "iv": (b"\0" * 10 + b"\3\xff").hex()}])
    refused("a final flag in the middle", "decryption", n, [first, {**second, "iv": s1_iv(1, True).hex()}, third, last])
    refused("a final flag at the first segment", "decryption", 0, [{**first, "iv": s1_iv(0, True).hex()}, second, third, last])
    refused("only final flags", "decryption", 0, [{**one, "iv": s1_iv(at, True).hex()} for at, one in enumerate(whole)])
    full_last = [first, segment(1, True, n, 2 * n)]
    refused("an empty final segment behind full ones", "decryption", 2 * n, [first, second, segment(2, True, 2 * n, 2 * n)])
    refused("an empty final segment behind a final one", "decryption", n, [*full_last, segment(2, True, 2 * n, 2 * n)])
    refused("an empty segment that is not final alone", "decryption", 0, [segment(0, False, 0, 0)])
    # More than was sealed
    refused("a byte behind the end", "decryption", 3 * n, [*whole, {"hex": "00"}])
    refused("a line feed behind the end", "decryption", 3 * n, [*whole, {"hex": "0a"}])
    refused("16 bytes behind the end", "decryption", 3 * n, [*whole, {"hex": "00" * 16}])
    refused("a byte behind a full final segment", "decryption", n, [*full_last, {"hex": "00"}])
    refused("a tag behind a full final segment", "decryption", n, [*full_last, {"hex": "00" * 16}])
    refused("a byte behind an empty stream", "decryption", 0, [*segments(0), {"hex": "00"}], length=0)
    refused("an authentic segment behind a full final one", "decryption", n, [*full_last, third])
    refused("the final segment twice", "decryption", 3 * n, [*whole, last])
    refused("the whole stream twice", "decryption", 3 * n, [*whole, {"text": line.decode()}, *whole])
    refused("a zero byte in front", "format", 0, [{"hex": "00"}, {"text": line.decode()}, *whole], header=None)
    # Reordered
    refused("the first two segments exchanged", "decryption", 0, [second, first, third, last])
    refused("two segments in the middle exchanged", "decryption", n, [first, third, second, last])
    refused("the final segment in front", "decryption", 0, [last, first, second, third])
    refused("a segment twice", "decryption", n, [first, first, second, third, last])
    refused("a segment in the middle twice", "decryption", 2 * n, [first, second, second, third, last])
    refused("a segment of full length in place of another", "decryption", n, [first, first, third, last])
    refused("counters from 1", "decryption", 0, [{**one, "iv": s1_iv(at + 1, at == 3).hex()} for at, one in enumerate(whole)])
    refused("counters as little-endian", "decryption", n,
            [{**one, "iv": (at.to_bytes(11, "little") + bytes([at == 3])).hex()} for at, one in enumerate(whole)])
    refused("the flag in front of the counter", "decryption", n,
            [first, *({**one, "iv": (bytes([at == 3]) + at.to_bytes(11, "big")).hex()} for at, one in enumerate(whole) if at)])
    refused("the same iv again", "decryption", n, [{**one, "iv": s1_iv(0, at == 3).hex()} for at, one in enumerate(whole)])
    # Of other streams
    foreign = {"key": s1_keys(dek, other_salt)[0].hex()}
    refused("a segment of another stream", "decryption", n, [first, {**second, **foreign}, third, last])
    refused("the first segment of another stream", "decryption", 0, [{**first, **foreign}, second, third, last])
    refused("the final segment of another stream", "decryption", 3 * n, [first, second, third, {**last, **foreign}])
    refused("all segments of another stream", "decryption", 0, [{**one, **foreign} for one in whole])
    refused("the header of another stream", "decryption", 0, header=s1_line(s1_header(dek, other_salt)))
    refused("the salt of another stream", "decryption", 0, header=changed(salt=b64(other_salt)))
    refused("a segment under another context", "decryption", n, [first, {**second, "aad": s1_aad({**file, "file": "8"}).hex()}, third, last])
    refused("a segment sealed as an envelope of format v2", "decryption", n, [first, {**second, "aad": v2_aad(file).hex()}, third, last])
    # Altered
    for name, at, bit in (("first byte", 0, 0), ("middle", 30000, 3), ("last byte of the ciphertext", n - 1, 7), ("first byte of the tag", n, 0), ("last byte of the tag", n + 15, 7)):
        refused(f"a bit altered: {name} of a segment", "decryption", n, [first, {**second, "flip": [at, bit]}, third, last])
    refused("a bit altered in the first segment", "decryption", 0, [{**first, "flip": [0, 7]}, second, third, last])
    refused("a bit altered in the final tag", "decryption", 3 * n, [first, second, third, {**last, "flip": [1015, 0]}])
    refused("a byte inserted within a segment", "decryption", 0, [{**first, "slice": [0, 10]}, {"hex": "00"}, {**first, "slice": [10, n + 16]}, second, third, last])
    refused("a byte left out within a segment", "decryption", n, [first, {**second, "slice": [1, n + 16]}, third, last])
    # Segments of another size
    half = n // 2
    refused("segments of 32,768 bytes", "decryption", 0, [segment(0, False, 0, half), segment(1, True, half, n)], length=n)
    refused("a first segment that is too short", "decryption", 0, [segment(0, False, 0, n - 1), segment(1, True, n - 1, n)], length=n)
    refused("a first segment that is too long", "decryption", 0, [segment(0, False, 0, n + 1), segment(1, True, n + 1, n + 2)], length=n + 2)
    refused("a final segment that is too long", "decryption", 0, [segment(0, True, 0, n + 1)], length=n + 1)
    refused("the header tells segments of 32,768 bytes", "format", 0, header=changed(segment_bytes=half))
    refused("sealed as segments of 32,768 bytes, by the AAD", "decryption", 0, [{**one, "aad": s1_aad(file, segment_bytes=half).hex()} for one in whole])
    # The context
    for name, context in (("no pair", {}), ("another file", {**file, "file": "8"}), ("one pair more", {**file, "row": "1"}), ("one pair less", {"file": "7"}),
                          ("names and values exchanged", {value: name for name, value in file.items()}), ("in upper case", {**file, "table": "UPLOADS"}),
                          ("the border moved", {"file": "7", "tableu": "ploads"})):
        refused(f"context: {name}", "decryption", 0, context=context)
    # The key
    refused("another DEK", "decryption", 0, one=other)
    refused("the commitment of another DEK", "decryption", 0, header=changed(commitment=b64(s1_keys(other, salt)[1])))
    refused("the commitment of another DEK, opened with it", "decryption", 0, header=changed(commitment=b64(s1_keys(other, salt)[1])), one=other)
    refused("a commitment of zeros", "decryption", 0, header=changed(commitment=b64(bytes(32))))
    refused("K_enc as the commitment", "decryption", 0, header=changed(commitment=b64(key)))
    for at, bit in ((0, 7), (16, 3), (31, 0)):
        refused(f"bit {bit} of byte {at} of the commitment", "decryption", 0, header=changed(commitment=b64(flip(commitment, at, bit))))
        refused(f"bit {bit} of byte {at} of the salt", "decryption", 0, header=changed(salt=b64(flip(salt, at, bit))))
    refused("another key_id", "decryption", 0, header=changed(key_id=OTHER_KEY))
    refused("another key_id with its commitment", "decryption", 0, header=s1_line(s1_header(dek, salt, OTHER_KEY)))
    for name, keys in (("of envelopes", v2_keys(dek)), ("without the salt", s1_keys(dek, b"")), ("of another label", s1_keys(dek, salt, label=b"eaas/stream/v2")),
                       ("without the NUL", (lambda okm: (okm[:32], okm[32:]))(hkdf(dek, S1 + uuid_bytes(KEY), 64, salt))),
                       ("without key_id", (lambda okm: (okm[:32], okm[32:]))(hkdf(dek, S1 + b"\0", 64, salt))),
                       ("with salt and DEK exchanged", s1_keys(salt, dek)), ("in the other order", (commitment, key))):
        refused(f"keys {name}", "decryption", 0, [{**one, "key": keys[0].hex()} for one in whole], header=changed(commitment=b64(keys[1])))
        refused(f"segments under keys {name}", "decryption", 0, [{**one, "key": keys[0].hex()} for one in whole])
    refused("sealed under the DEK itself", "decryption", 0, [{**one, "key": dek.hex()} for one in whole])
    for name, data in (("no AAD", b""), ("the label of another version", s1_aad(file, label=b"eaas/stream/v2")),
                       ("an AAD without segment_bytes", prefixed(S1, uuid_bytes(KEY), *(part for pair in v2_context(file) for part in pair))),
                       ("an AAD without key_id", prefixed(S1, struct.pack(">I", n), *(part for pair in v2_context(file) for part in pair))),
                       ("an AAD in the other order", prefixed(S1, uuid_bytes(KEY), struct.pack(">I", n), *(part for pair in reversed(v2_context(file)) for part in pair))),
                       ("segment_bytes as little-endian", prefixed(S1, uuid_bytes(KEY), struct.pack("<I", n), *(part for pair in v2_context(file) for part in pair)))):
        refused(f"sealed with {name}", "decryption", 0, [{**one, "aad": data.hex()} for one in whole])
    # Under two DEKs: the commitment alone refuses it.
    iv = s1_iv(0, True)
    salamander = opens_under_both(key, s1_keys(other, salt)[0], iv, aad)
    refused("authentic under two DEKs, committed to one, opened with the other", "decryption", 0, [{"hex": salamander.hex()}], one=other, length=16)
    names = [one["name"] for one in refuse]
    assert len(set(names)) == len(names)
    return {
        "format": "stream v1",
        "about": "stream.md 8. `derive`: dek, salt and key_id give key (K_enc) and commitment (K_com). `aad`: key_id and context give aad. `iv`: counter and final give "
                 "iv. `header`: the members give line. `refuse_header`: no header. `open`: the stream of the pieces opens with dek and context to the plaintext. "
                 "`refuse`: must end with error after exactly prefix bytes of the plaintext, or fewer. Bytes are hexadecimal.",
        "made_by": MADE_BY,
        "derive": derive,
        "aad": aads,
        "iv": ivs,
        "header": headers,
        "refuse_header": refuse_header,
        "open": opened,
        "refuse": refuse,
    }


# envelope-text.md

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
    return f"eaas.{version}." + base64.urlsafe_b64encode(data).decode().rstrip("=")


def from_text(text):
    """The envelope of a text. Raises ValueError where it is none."""
    match = re.fullmatch(r"eaas\.([12])\.([A-Za-z0-9_-]+)", text)
    if not match:
        raise ValueError("text")
    version, encoded = int(match[1]), match[2]
    data = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    if base64.urlsafe_b64encode(data).decode().rstrip("=") != encoded:
        raise ValueError("base64url")
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


# bindings.md

class NotBound(Exception):
    """A row of which no context can be made."""


def binding_text(value):
    if isinstance(value, str) and value != "":
        return value
    if type(value) is int and abs(value) < 2**53:
        return str(value)
    raise NotBound()


def binding_context(model, field, bind, row):
    def value_at(column):
        value = row
        for name in column.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    context = {"model": model, "field": field, **{f"row.{column}": binding_text(value_at(column)) for column in bind}}
    try:
        v2_context(context)
    except ValueError:
        raise NotBound() from None
    return context


def binding_vectors():
    def shown(name, row, model="users", field="email", bind=("id",)):
        context = binding_context(model, field, bind, row)
        return {"name": name, "model": model, "field": field, "bind": list(bind), "row": row, "context": context, "aad": v2_aad(context).hex()}

    uuid = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    contexts = [
        shown("no column", {"id": 7}, bind=()),
        shown("a UUID", {"id": uuid}),
        shown("a whole number", {"id": 7}),
        shown("the same number as text", {"id": "7"}),
        shown("zero", {"id": 0}),
        shown("a number below zero", {"id": -7}),
        shown("the largest whole number", {"id": 2**53 - 1}),
        shown("a larger one, as text", {"id": str(2**63 - 1)}),
        shown("two columns", {"tenant": "acme", "id": 7}, bind=("tenant", "id")),
        shown("two columns in another order", {"id": 7, "tenant": "acme"}, bind=("id", "tenant")),
        shown("a field and a column in objects", {"address": {"street": "x"}, "meta": {"id": uuid}}, field="address.street", bind=("meta.id",)),
        shown("names beyond ASCII", {"\u00efd": "\u017d\U0001f510"}, model="us\u00e9rs", field="\u00e9mail", bind=("\u00efd",)),
        shown("a decomposed name", {"id": "e\u0301"}, model="use\u0301rs"),
        shown("a column called model", {"model": "T", "field": "x"}, bind=("model", "field")),
        shown("white space and a NUL", {"id": " 7\0"}),
        shown("a value of 4,096 bytes", {"id": "\u00e9" * 2048}),
        shown("a column of 252 bytes", {"c" * 252: "x"}, bind=("c" * 252,)),
    ]
    if len({one["aad"] for one in contexts}) != len(contexts) - 2:
        raise AssertionError("only 7 and '7', and the two orders, are the same")

    refuse = []
    for name, row, *bind in (
        ("the column is missing", {}), ("null", {"id": None}), ("empty text", {"id": ""}), ("a fraction", {"id": 1.5}), ("2^53", {"id": 2**53}),
        ("true", {"id": True}), ("false", {"id": False}), ("an object", {"id": {"id": 7}}), ("an empty object", {"id": {}}), ("a list", {"id": [7]}),
        ("an empty list", {"id": []}), ("a list of text", {"id": ["7"]}), ("in other capitals", {"Id": 7}), ("one of two missing", {"id": 7}, "id", "tenant"),
        ("one of two null", {"id": 7, "tenant": None}, "id", "tenant"), ("an object that is missing", {"id": 7}, "meta.id"),
        ("an object that is null", {"meta": None}, "meta.id"), ("a member that is missing", {"meta": {}}, "meta.id"),
        ("text in place of an object", {"meta": "id"}, "meta.id"), ("a column with a dot", {"meta.id": 7}, "meta.id"),
        ("a value of 4,097 bytes", {"id": "x" * 4097}), ("a column of 253 bytes", {"c" * 253: "x"}, "c" * 253),
    ):
        bind = bind or ["id"]
        try:
            binding_context("users", "email", bind, row)
        except NotBound:
            refuse.append({"name": name, "bind": bind, "row": row})
        else:
            raise AssertionError(f"is bound: {name}")

    deks = {KEY: key_of("bindings"), OTHER_KEY: key_of("bindings, another key")}
    paths = {"email": ["email"], "address.street": ["address", "street"]}

    def sealed(plain, model="users", key_id=KEY, bind=("id",), dek=None, version=2):
        row = json.loads(json.dumps(plain))
        for field, path in paths.items():
            parent = row
            for name in path[:-1]:
                parent = parent[name]
            context = binding_context(model, field, bind, plain)
            iv, value = iv_of(f"{model} {field} {json.dumps(plain)}"), parent[path[-1]].encode()
            dek = dek or deks[key_id]
            if version == 2:
                parent[path[-1]] = v2_envelope(dek, context, value, iv, key_id=key_id)
            else:
                parent[path[-1]] = {"ciphertext": b64(gcm_seal(dek, iv, b"", value)), "wrapped_key": b64(b"opaque"), "iv": b64(iv), "key_id": key_id,
                                    "key_version": 1, "envelope_version": 1}
        return row

    def compacted(row):
        row = json.loads(json.dumps(row))
        header = {member: row["email"][member] for member in ("wrapped_key", "key_id", "key_version", "envelope_version", "commitment")}
        for parent, name in ((row, "email"), (row["address"], "street")):
            parent[name] = {"c": parent[name]["ciphertext"], "i": parent[name]["iv"]}
        return {**row, "envelope": header}

    def texts(row):
        return {**row, "email": to_text(row["email"]), "address": {**row["address"], "street": to_text(row["address"]["street"])}}

    def envelope_of(value, row):
        if isinstance(value, str):
            return from_text(value)
        return {**row["envelope"], "ciphertext": value["c"], "iv": value["i"]} if "c" in value else value

    def opens(row, bind=("id",)):
        for field, value in (("email", row["email"]), ("address.street", row["address"]["street"])):
            envelope = envelope_of(value, row)
            if envelope["key_id"] != KEY:
                raise DoesNotOpen()
            v2_open(envelope, deks[KEY], binding_context("users", field, bind, row))

    ada = {"id": uuid, "email": "ada@example.org", "address": {"street": "Main St", "city": "London"}}
    bob = {"id": "8d444840-9dc0-11d1-b245-5ffdce74fad2", "email": "bob@example.org", "address": {"street": "5th Ave", "city": "Paris"}}
    row, other = sealed(ada), sealed(bob)
    opened = [
        {"name": "envelopes", "bind": ["id"], "row": row, "plain": ada},
        {"name": "texts", "bind": ["id"], "row": texts(row), "plain": ada},
        {"name": "the compact form", "bind": ["id"], "row": compacted(row), "plain": ada},
        {"name": "bound to no row", "bind": [], "row": sealed(ada, bind=()), "plain": ada},
        {"name": "the other columns changed", "bind": ["id"], "row": {**row, "role": "admin", "address": {**row["address"], "city": "Rome"}},
         "plain": {**ada, "role": "admin", "address": {**ada["address"], "city": "Rome"}}},
    ]
    for one in opened:
        opens(one["row"], bind=one["bind"])
    street = lambda source: {"street": source["address"]["street"], "city": "London"}
    refuse_open = []
    for name, wrong, *more in (
        ("the email of another row", {**row, "email": other["email"]}), ("the street of another row", {**row, "address": street(other)}),
        ("two fields exchanged", {**row, "email": row["address"]["street"], "address": {**row["address"], "street": row["email"]}}),
        ("the email copied to the street", {**row, "address": {**row["address"], "street": row["email"]}}),
        ("all values of another row", {**other, "id": ada["id"]}), ("another id", {**row, "id": bob["id"]}), ("the id in capitals", {**row, "id": uuid.upper()}),
        ("the id with a blank", {**row, "id": uuid + " "}), ("of a model of another name", sealed(ada, model="customers")),
        ("of a model whose name has other capitals", sealed(ada, model="Users")), ("under another key", sealed(ada, key_id=OTHER_KEY)),
        ("under another DEK", sealed(ada, dek=key_of("another DEK"))), ("bound to no row", sealed(ada, bind=())),
        ("bound to one column more", sealed({**ada, "tenant": "acme"}, bind=("id", "tenant"))),
        ("format v1", sealed(ada, version=1)), ("one value of format v1", {**row, "email": sealed(ada, version=1)["email"]}),
        ("texts of another row", {**texts(row), "email": texts(other)["email"]}),
        ("compact values of another row", {**compacted(row), "email": compacted(other)["email"]}),
        ("compact values exchanged", {**compacted(row), "email": compacted(row)["address"]["street"], "address": {**row["address"], "street": compacted(row)["email"]}}),
    ):
        try:
            opens(wrong)
        except DoesNotOpen:
            refuse_open.append({"name": name, "bind": ["id"], "row": wrong})
        else:
            raise AssertionError(f"opens: {name}")
    return {
        "format": "bindings 1",
        "about": "bindings.md 4. `context`: the context of the field in that row, and the AAD for the key " + KEY + ". `refuse`: rows of which no context can be "
                 "made. `open`: rows of the model `users` with the fields `email` and `address.street`, with what they open to under `dek`; `refuse_open`: rows that "
                 "do not open.",
        "made_by": MADE_BY,
        "key_id": KEY,
        "dek": deks[KEY].hex(),
        "context": contexts,
        "refuse": refuse,
        "open": opened,
        "refuse_open": refuse_open,
    }


# local-index.md

def lp(*parts):
    """local-index.md 2: a u32 length and the bytes, of each part."""
    return b"".join(prefixed(part if isinstance(part, bytes) else part.encode()) for part in parts)


def li_text(wrapped, commitment, model="", key_id=KEY, key_version=1, prefix="eaas.index.1."):
    data = uuid_bytes(key_id) + struct.pack(">IH", key_version, len(wrapped)) + wrapped + commitment + model.encode()
    return prefix + base64.urlsafe_b64encode(data).decode().rstrip("=")


def li_read(text):
    """What the text of an index key holds. Raises ValueError where it is none."""
    match = re.fullmatch(r"eaas\.index\.1\.([A-Za-z0-9_-]+)", text)
    if not match:
        raise ValueError("text")
    encoded = match[1]
    data = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    if base64.urlsafe_b64encode(data).decode().rstrip("=") != encoded:
        raise ValueError("base64url")
    if len(data) < 22:
        raise ValueError("short")
    version, length = struct.unpack_from(">IH", data, 16)
    rest = data[22:]
    if not 1 <= version < 2**31 or not 1 <= length <= 768 or not 32 <= len(rest) - length <= 32 + 256:
        raise ValueError("header")
    id_ = data[:16].hex()
    return {"key_id": "-".join((id_[:8], id_[8:12], id_[12:16], id_[16:20], id_[20:])), "key_version": version, "wrapped_key": b64(rest[:length]),
            "commitment": rest[length : length + 32], "model": rest[length + 32 :].decode()}


def li_commitment(key, key_id=KEY, model="", label="eaas/index-key/v1"):
    return hkdf(key, lp(label, uuid_bytes(key_id), model), 32)


def li_column_key(key, model, column, kind, label="eaas/index-column/v1"):
    return hkdf(key, lp(label, model, column, kind), 32)


def li_parts(model, column, texts, kind, length):
    if kind == "exact":
        return [column_text(model, column, texts)]
    text, = texts
    if kind == "prefix":
        return [text[:length]]
    return sorted({text[at : at + length] for at in range(max(1, len(text) - length + 1))})


def li_value(key, model, column, kind, length, bits, texts, info=None):
    """What the column holds: one value, or a sorted list of them."""
    column_key = li_column_key(key, model, column, kind if kind == "exact" else f"{kind}:{length}") if info is None else hkdf(key, info, 32)
    values = sorted({kept_bits(hmac_sha256(column_key, part.encode()), bits) for part in li_parts(model, column, texts, kind, length)})
    return values if kind == "ngram" else values[0]


def local_index_vectors():
    key = key_of("index key")
    wrapped = stream("wrapped index key", 65)
    texts = []
    for name, model, key_id, version, wrapped_key in (
        ("of every model", "", KEY, 1, wrapped), ("of one model", "users", KEY, 1, wrapped), ("of a model with a name of four bytes", "\U0001f510", KEY, 1, wrapped),
        ("of a model with the longest name", "m" * 256, KEY, 1, wrapped), ("rewrapped", "users", KEY, 2, stream("rewrapped", 65)),
        ("the highest version", "", KEY, 2**31 - 1, wrapped), ("a wrapped key of one byte", "", KEY, 1, b"\1"),
        ("a wrapped key of 768 bytes", "users", KEY, 1, stream("long", 768)), ("the nil key", "users", NIL, 1, wrapped),
    ):
        text = li_text(wrapped_key, li_commitment(key, key_id, model), model, key_id, version)
        read = li_read(text)
        assert (read["model"], read["key_id"], read["commitment"]) == (model, key_id, li_commitment(key, key_id, model)), name
        texts.append({"name": name, "key": key.hex(), "model": model, "key_id": key_id, "key_version": version, "wrapped_key": b64(wrapped_key), "text": text})

    commitment = li_commitment(key, model="users")
    text = li_text(wrapped, commitment, "users")
    body = base64.urlsafe_b64decode(text[13:] + "=" * (-len(text[13:]) % 4))

    def of(data, prefix="eaas.index.1."):
        return prefix + base64.urlsafe_b64encode(data).decode().rstrip("=")

    assert of(body) == text
    loose = next(of(body + bytes(more)) for more in (1, 2) if (len(body) + more) % 3)
    plus = of(body[:16] + b"\0\0\0\1" + b"\0\x06" + b"\xfb\xff\xbf\xfe\xff\xff" + commitment)
    refuse = []
    for name, wrong in (
        ("empty", ""), ("the prefix alone", "eaas.index.1."), ("another prefix", "eaas.indes.1." + text[13:]), ("the prefix in capitals", text.upper()[:13] + text[13:]),
        ("no prefix", text[13:]), ("version 2", "eaas.index.2." + text[13:]), ("version 0", "eaas.index.0." + text[13:]), ("an envelope's prefix", "eaas.1." + text[13:]),
        ("a blank in front", " " + text), ("a line feed behind", text + "\n"), ("a NUL behind", text + "\0"), ("in quotes", f'"{text}"'), ("twice", text + text),
        ("a blank inside", text[:60] + " " + text[60:]), ("a line feed inside", text[:60] + "\n" + text[60:]), ("a letter with an accent", text[:60] + "\u00e9" + text[61:]),
        ("padding", loose + "=" * (-len(loose[13:]) % 4)), ("the alphabet of standard base64", plus[:13] + plus[13:].replace("-", "+").replace("_", "/")),
        ("bits behind the last byte", loose[:-1] + chr(ord(loose[-1]) + 1)), ("one character more than whole bytes", of(body[: len(body) // 3 * 3]) + "A"),
        ("no byte", of(b"")), ("a header that is cut", of(body[:21])), ("a header alone", of(body[:22])), ("cut in the wrapped key", of(body[:60])),
        ("cut in the commitment", of(body[: 22 + 65 + 31])), ("no commitment", of(body[: 22 + 65])),
        ("key_version 0", of(body[:16] + bytes(4) + body[20:])), ("key_version 2^31", of(body[:16] + b"\x80\0\0\0" + body[20:])),
        ("no wrapped key", of(body[:20] + bytes(2) + body[22 + 65:])), ("a wrapped key of 769 bytes", of(body[:20] + b"\x03\x01" + bytes(769) + body[22 + 65:])),
        ("a length beyond the end", of(body[:20] + b"\x03\0" + body[22:])), ("a length that leaves no room for the commitment", of(body[:20] + b"\0\x60" + body[22:])),
        ("a name of 257 bytes", of(body[: 22 + 65 + 32] + b"m" * 257)), ("a name that is no UTF-8", of(body[: 22 + 65 + 32] + b"\xff")),
        ("a name that ends in half a character", of(body + b"\xc3")), ("a name with a surrogate", of(body + b"\xed\xa0\x80")),
    ):
        try:
            li_read(wrong)
        except ValueError:
            refuse.append({"name": name, "text": wrong})
        else:
            raise AssertionError(f"is the text of an index key: {name}")

    refuse_key = []
    for name, wrong, unwrapped in (
        ("another key", text, key_of("another")), ("a key of zeros", text, bytes(32)), ("one bit of the key", text, flip(key, 31)),
        ("one bit of the commitment", li_text(wrapped, flip(commitment, 0), "users"), key), ("the last bit of the commitment", li_text(wrapped, flip(commitment, 31, 7), "users"), key),
        ("a commitment of zeros", li_text(wrapped, bytes(32), "users"), key), ("the key as its commitment", li_text(wrapped, key, "users"), key),
        ("the commitment of a key for every model", li_text(wrapped, li_commitment(key), "users"), key),
        ("the commitment for another model", li_text(wrapped, li_commitment(key, model="orders"), "users"), key),
        ("the name taken out", li_text(wrapped, commitment), key), ("another key_id", li_text(wrapped, commitment, "users", OTHER_KEY), key),
        ("the commitment under the label of columns", li_text(wrapped, li_commitment(key, model="users", label="eaas/index-column/v1"), "users"), key),
        ("the commitment of an envelope", li_text(wrapped, v2_keys(key)[1], "users"), key),
        ("parts without lengths", li_text(wrapped, hkdf(key, b"eaas/index-key/v1" + uuid_bytes(KEY) + b"users", 32), "users"), key),
        ("another salt", li_text(wrapped, hkdf(key, lp("eaas/index-key/v1", uuid_bytes(KEY), "users"), 32, b"salt"), "users"), key),
    ):
        read = li_read(wrong)
        assert read["commitment"] != li_commitment(unwrapped, read["key_id"], read["model"]), name
        refuse_key.append({"name": name, "text": wrong, "key": unwrapped.hex()})

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

    refuse_column = []

    def wrong(name, value_text, right, model="users", of_column="email_index", kind="exact", length=0, bits=256, **mistake):
        texts = [value_text]
        value = li_value(key, model, of_column, kind, length, bits, texts, **mistake) if not isinstance(right, (str, list)) else right
        assert value != li_value(key, model, of_column, kind, length, bits, texts), name
        refuse_column.append({"name": name, "model": model, "column": of_column, "kind": kind, "length": length, "bits": bits, "texts": texts, "value": value})

    ada = "ada@example.org"
    hashed = column_text("users", "email_index", [ada]).encode()
    wrong("under the index key itself", ada, hmac_sha256(key, hashed).hex())
    wrong("its SHA-256", ada, sha256(hashed).hex())
    wrong("the service's hash", ada, hmac_sha256(key_of("hash key"), hashed).hex())
    wrong("the text without the names", ada, hmac_sha256(li_column_key(key, "users", "email_index", "exact"), ada.encode()).hex())
    wrong("the text as if it were shared by several", ada, hmac_sha256(li_column_key(key, "users", "email_index", "exact"), compound([ada]).encode()).hex())
    wrong("under the key of another column", ada, hmac_sha256(li_column_key(key, "users", "backup_index", "exact"), hashed).hex())
    wrong("the text of another column", ada, hmac_sha256(li_column_key(key, "users", "email_index", "exact"), column_text("users", "backup_index", [ada]).encode()).hex())
    wrong("under the key of another model", ada, hmac_sha256(li_column_key(key, "orders", "email_index", "exact"), hashed).hex())
    wrong("under another index key", ada, li_value(key_of("another"), "users", "email_index", "exact", 0, 256, [ada]))
    wrong("without lengths", ada, None, info=b"eaas/index-column/v1usersemail_indexexact")
    wrong("without its label", ada, None, info=lp("users", "email_index", "exact"))
    wrong("under the label of the commitment", ada, None, info=lp("eaas/index-key/v1", "users", "email_index", "exact"))
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
    parts = li_value(key, "users", "email_index", "ngram", 3, 12, ["Lovelace"])
    for name, given in (("parts in the order of the text", [kept_bits(hmac_sha256(li_column_key(key, "users", "email_index", "ngram:3"), "Lovelace"[at : at + 3].encode()), 12) for at in range(6)]),
                        ("a part that is missing", parts[1:]), ("a part twice", sorted(parts + parts[:1])), ("no part", []),
                        ("parts under the key of prefixes", sorted(kept_bits(hmac_sha256(li_column_key(key, "users", "email_index", "prefix:3"), "Lovelace"[at : at + 3].encode()), 12) for at in range(6))),
                        ("parts of two characters", li_value(key, "users", "email_index", "ngram", 2, 12, ["Lovelace"])),
                        ("parts that are not truncated", li_value(key, "users", "email_index", "ngram", 3, 256, ["Lovelace"])),
                        ("a last part that is shorter", sorted(parts + [kept_bits(hmac_sha256(li_column_key(key, "users", "email_index", "ngram:3"), b"ce"), 12)]))):
        wrong(name, "Lovelace", given, kind="ngram", length=3, bits=12)
    assert len(refuse) + len(refuse_key) + len(refuse_column) > len(texts) + len(column)
    return {
        "format": "local index 1",
        "about": "local-index.md 5. `text`: the index key `key` has this text. `refuse`: no text of an index key. `refuse_key`: a text whose wrapped key is unwrapped "
                 "to a `key` that is not its own. `column`: what the column holds under the index key `key`. `refuse_column`: what it does not hold.",
        "made_by": MADE_BY,
        "key": key.hex(),
        "text": texts,
        "refuse": refuse,
        "refuse_key": refuse_key,
        "column": column,
        "refuse_column": refuse_column,
    }


FILES = {
    "packages/protocol/src/envelope-text.vectors.json": envelope_text_vectors,
    "packages/protocol/src/envelope-v2.vectors.json": envelope_v2_vectors,
    "packages/protocol/src/stream.vectors.json": stream_vectors,
    "packages/protocol/src/wrapped-key.vectors.json": wrapped_key_vectors,
    "packages/server/src/crypto/key-hierarchy.vectors.json": key_hierarchy_vectors,
    "packages/server/src/crypto/blind-index.vectors.json": blind_index_vectors,
    "packages/audit/src/formats/anchor.vectors.json": anchor_vectors,
    "packages/audit/src/formats/chain.vectors.json": chain_vectors,
    "packages/audit/src/formats/checkpoint.vectors.json": checkpoint_vectors,
    "packages/audit/src/formats/cosignature.vectors.json": cosignature_vectors,
    "packages/audit/src/formats/export.vectors.json": export_vectors,
    "packages/audit/src/formats/merkle.vectors.json": merkle_vectors,
    "packages/server/src/audit/formats/row-mac.vectors.json": row_mac_vectors,
    "packages/audit/src/formats/tree.vectors.json": tree_vectors,
    "packages/sdk/src/models/bindings.vectors.json": binding_vectors,
    "packages/sdk/src/models/codecs.vectors.json": codec_vectors,
    "packages/sdk/src/models/index-texts.vectors.json": index_column_vectors,
    "packages/sdk/src/models/local-index.vectors.json": local_index_vectors,
    "packages/sdk/src/models/compact-rows.vectors.json": compact_row_vectors,
    "test/independent/envelope.vectors.json": envelope_vectors,
}


def text_of(vectors):
    # Characters beyond ASCII are escaped: an editor can't normalise what it does not see.
    return json.dumps(vectors, indent=2) + "\n"


def write():
    for path, vectors in FILES.items():
        (ROOT / path).write_text(text_of(vectors()), encoding="utf-8")


def check():
    outdated = [path for path, vectors in FILES.items()
                if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text_of(vectors())]
    for path in outdated:
        print(f"{path} is not what vectors.py writes")
    sys.exit(1 if outdated else 0)


# Frames

def frames(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + length]
        at += 4 + length


def answers(job, data):
    parts = list(frames(data))
    return b"".join(prefixed(job(*parts[at : at + 4])) for at in range(0, len(parts), 4))


def answer(job):
    sys.stdout.buffer.write(answers(job, sys.stdin.buffer.read()))


def serve():
    def read():
        return sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(4), "big"))

    while command := read():
        sys.stdout.buffer.write(prefixed(answers(JOBS[command.decode()], read())))
        sys.stdout.buffer.flush()


def open_or_refuse(key, iv, aad, sealed):
    try:
        return b"\x01" + gcm_open(key, iv, aad, sealed)
    except DoesNotOpen:
        return b"\x00"


def open_v2(dek, context, envelope, _):
    """Opens an envelope of format v2. `context` and `envelope` are JSON."""
    try:
        return b"\x01" + v2_open(json.loads(envelope), dek, json.loads(context))
    except (DoesNotOpen, ValueError):
        return b"\x00"


def seal_v2(dek, context, iv, plaintext):
    """Seals to an envelope of format v2, as JSON."""
    return json.dumps(v2_envelope(dek, json.loads(context), plaintext, iv)).encode()


def open_stream(dek, context, data, _):
    """Opens a stream. The context is JSON."""
    given = []
    try:
        s1_open(data, dek, json.loads(context), given.append)
        return b"\x01" + b"".join(given)
    except (DoesNotOpen, ValueError):
        return b"\x00"


def index_of(key, column, text, _):
    """What an index column holds, as JSON. `column` is JSON too."""
    return json.dumps(li_value(key, **json.loads(column), texts=[text.decode()])).encode()


JOBS = {
    "seal": gcm_seal,
    "open": open_or_refuse,
    "seal-v2": seal_v2,
    "open-v2": open_v2,
    "seal-stream": lambda dek, context, salt, plaintext: s1_seal(dek, json.loads(context), salt, plaintext),
    "open-stream": open_stream,
    "index": index_of,
}
COMMANDS = {
    "write": write,
    "check": check,
    "serve": serve,
    **{name: lambda job=job: answer(job) for name, job in JOBS.items()},
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]]()
