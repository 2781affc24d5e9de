"""What all formats share: the project's folder, AES-256-GCM and Ed25519 by OpenSSL, bytes, and the ids of the vectors."""
import base64
import hashlib
import hmac
import re
import struct

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
