"""The vectors of key-hierarchy.md."""
import struct

from .common import (
    KEY, MADE_BY, OTHER_KEY, OTHER_TENANT, TENANT, flip, gcm_seal, hmac_sha256, iv_of, key_of, prefixed, sha256,
    stream, uuid_bytes,
)
from .wrapped_key import wrapped_key_aad


NUMBER = 7


def secret_aad(purpose, tenant="", id_="", version=0, label="eaas/secret/v2", number=NUMBER):
    return prefixed(*(part.encode("ascii") for part in (label, purpose, tenant, id_, str(version), str(number))))


def head(number=NUMBER):
    return b"\x02" + struct.pack(">I", number)


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
    root = key_of("store key")
    seal = []
    for name, place in (
        ("the pepper of the API keys", ("api-key-pepper",)),
        ("the second pepper of the API keys", ("api-key-pepper", "", "", 2)),
        ("the seed of the signing key", ("signing-key",)),
        ("the audit key of a tenant", ("audit-key", TENANT)),
        ("the audit key of another tenant", ("audit-key", OTHER_TENANT)),
        ("an audit key of a tenant that held through entry 41", ("audit-key", TENANT, "", 41)),
        ("the KEK of version 1", ("kek", TENANT, KEY, 1)),
        ("the KEK of version 2", ("kek", TENANT, KEY, 2)),
        ("the KEK of version 2147483647", ("kek", TENANT, KEY, 2**31 - 1)),
        ("the hash key of a key", ("hash-key", TENANT, KEY)),
    ):
        secret, iv, aad = key_of(f"secret: {name}"), iv_of(f"secret: {name}"), secret_aad(*place)
        sealed = gcm_seal(root, iv, aad, secret)
        seal.append({
            "name": name, "store_key": root.hex(), "number": NUMBER, "place": place_of(*place), "aad": aad.hex(), "iv": iv.hex(),
            "secret": secret.hex(), "ciphertext": sealed[:32].hex(), "tag": sealed[32:].hex(),
            "sealed": (head() + iv + sealed).hex(),
        })

    place = ("kek", TENANT, KEY, 2)
    secret, iv = key_of("secret refuse"), iv_of("secret refuse")
    sealed = gcm_seal(root, iv, secret_aad(*place), secret)
    good = head() + iv + sealed

    def sealed_with(aad=secret_aad(*place), key=root, secret=secret):
        return head() + iv + gcm_seal(key, iv, aad, secret)

    label, purpose, version, number = b"eaas/secret/v2", b"kek", b"2", b"7"
    tenant, key = TENANT.encode(), KEY.encode()
    little = b"".join(struct.pack("<I", len(part)) + part for part in (label, purpose, tenant, key, version, number))
    refuse = [{"name": name, "place": place_of(*place), "sealed": value.hex()} for name, value in {
        "format 0": b"\x00" + good[1:],
        "format 1": b"\x01" + good[1:],
        "format 1, as the root key sealed": b"\x01" + iv + gcm_seal(root, iv, prefixed(b"eaas/secret/v1", purpose, tenant, key, version), secret),
        "format 3": b"\x03" + good[1:],
        "the number of another store key, which holds the same key": head(8) + good[5:],
        "no number": b"\x02" + good[5:],
        "AAD without the number": sealed_with(aad=prefixed(label, purpose, tenant, key, version)),
        "AAD of another number": sealed_with(aad=secret_aad(*place, number=8)),
        "format 255": b"\xff" + good[1:],
        "no format byte": good[1:],
        "format byte twice": b"\x02" + good,
        "nothing": b"",
        "the format byte alone": good[:1],
        "iv alone": good[:17],
        "one byte too short for a tag": good[:32],
        "last byte missing": good[:-1],
        "one byte more": good + b"\x00",
        "first byte of the iv altered": flip(good, 5),
        "last byte of the iv altered": flip(good, 16, 7),
        "first byte of the ciphertext altered": flip(good, 17, 7),
        "last byte of the ciphertext altered": flip(good, 48),
        "first byte of the tag altered": flip(good, 49),
        "last byte of the tag altered": flip(good, 64, 7),
        "a tag of zeros": good[:49] + bytes(16),
        "the secret itself in place of its ciphertext": good[:17] + secret + good[49:],
        "sealed under another store key": sealed_with(key=key_of("another store key")),
        "sealed under a store key of zeros": sealed_with(key=bytes(32)),
        "a secret of 31 bytes": sealed_with(secret=secret[:31]),
        "a secret of 33 bytes": sealed_with(secret=secret + b"\x00"),
        "a secret of 16 bytes": sealed_with(secret=secret[:16]),
        "no secret": sealed_with(secret=b""),
        "without AAD": sealed_with(aad=b""),
        "AAD without lengths": sealed_with(aad=label + purpose + tenant + key + version + number),
        "AAD with lengths in little-endian": sealed_with(aad=little),
        "AAD without a label": sealed_with(aad=prefixed(purpose, tenant, key, version, number)),
        "label of another format": sealed_with(aad=secret_aad(*place, label="eaas/secret/v1")),
        "label of a wrapped key": sealed_with(aad=secret_aad(*place, label="eaas/wrapped-key/v1")),
        "AAD with UUIDs of 16 bytes": sealed_with(
            aad=prefixed(label, purpose, uuid_bytes(TENANT), uuid_bytes(KEY), version, number)),
        "AAD with UUIDs in upper case": sealed_with(
            aad=prefixed(label, purpose, tenant.upper(), key.upper(), version, number)),
        "AAD with the version as u32": sealed_with(aad=prefixed(label, purpose, tenant, key, struct.pack(">I", 2), number)),
        "AAD with the version as 02": sealed_with(aad=prefixed(label, purpose, tenant, key, b"02", number)),
        "AAD in another order": sealed_with(aad=prefixed(label, purpose, key, tenant, version, number)),
        "a border slid: purpose kek7, tenant without its 7": sealed_with(
            aad=prefixed(label, b"kek7", tenant[1:], key, version, number)),
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
        "format": "sealed secret 2",
        "about": "key-hierarchy.md 7. Byte strings are lower-case hexadecimal. The store key opens `valid` at its place, and must "
                 "refuse each of `refuse`, which is `valid` with one fault, or at another place. `derive` holds audit "
                 "keys with the row keys that come of them, `refuse_derive` what must not come of the first; `iv` sealing "
                 "keys with their iv keys and ivs, `refuse_iv` what must not come of the first.",
        "made_by": MADE_BY,
        "store_key": root.hex(),
        "number": NUMBER,
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
