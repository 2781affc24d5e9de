"""The vectors of wrapped-key-v2.md."""
import struct

from .common import KEY, MADE_BY, OTHER_KEY, OTHER_TENANT, TENANT, b64, flip, gcm_seal, hmac_sha256, iv_of, key_of, prefixed, uuid_bytes
from .wrapped_key import token_of, wrapped_key_aad

LABEL = b"eaas/wrapped-key/v2"


def pairs_of(context):
    return [part for name in sorted(context) for part in (name.encode(), context[name].encode())]


def wrapped_key_v2_aad(tenant, key, version, purpose, context, label=LABEL):
    return prefixed(label, uuid_bytes(tenant), uuid_bytes(key), struct.pack(">I", version), purpose.encode(), *pairs_of(context))


def wrapped_key_v2_vectors():
    full = {f"name{at}": "\U0001f510" * 128 for at in range(8)}
    row = {"model": "customers", "row": "7"}
    wrap = []
    for name, version, purpose, context in (
        ("a purpose alone", 1, "data", {}),
        ("an index key", 2, "index", {"model": "customers"}),
        ("a stream", 2, "stream", {}),
        ("a row", 2, "data", row),
        ("names in the order of their bytes", 2, "data", {"b": "1", "B": "2", "a.z": "3", "a": "4", "a_": "5", "a-": "6"}),
        ("an empty value", 2, "data", {"row": ""}),
        ("the longest context", 2**31 - 1, "data", full),
        ("the longest name", 1, "data", {"x" * 64: "é\n\"\\"}),
    ):
        kek, iv, dek = key_of(f"kek {version}"), iv_of(f"bound {name}"), key_of(f"dek {name}")
        aad = wrapped_key_v2_aad(TENANT, KEY, version, purpose, context)
        wrap.append({"name": name, "tenant_id": TENANT, "key_id": KEY, "key_version": version, "kek": kek.hex(), "purpose": purpose,
                     "context": context, "aad": aad.hex(), "iv": iv.hex(), "dek": dek.hex(),
                     "wrapped_key": b64(token_of(version, iv, gcm_seal(kek, iv, aad, dek), 2))})

    keks = {version: key_of(f"kek {version}") for version in (1, 2, 3)}
    iv, dek = iv_of("refuse bound"), key_of("dek refuse")
    use = {"purpose": "data", "context": row}

    def sealed(aad=wrapped_key_v2_aad(TENANT, KEY, 2, "data", row), kek=keks[2], form=2, version=2):
        return token_of(version, iv, gcm_seal(kek, iv, aad, dek), form)

    good = sealed()
    tenant, key, two = uuid_bytes(TENANT), uuid_bytes(KEY), struct.pack(">I", 2)
    refuse = [{"name": name, "wrapped_key": b64(token), **use} for name, token in {
        "format 1": b"\x01" + good[1:],
        "format 3": b"\x03" + good[1:],
        "sealed with the AAD of format 1": sealed(wrapped_key_aad(TENANT, KEY, 2)),
        "of format 1 as a whole": sealed(wrapped_key_aad(TENANT, KEY, 2), form=1),
        "label of format 1": sealed(wrapped_key_v2_aad(TENANT, KEY, 2, "data", row, b"eaas/wrapped-key/v1")),
        "names version 1": token_of(1, iv, good[17:], 2),
        "names a version that the key does not have": token_of(4, iv, good[17:], 2),
        "under the KEK of version 1": sealed(kek=keks[1]),
        "for version 1 under the KEK of 2": sealed(wrapped_key_v2_aad(TENANT, KEY, 1, "data", row)),
        "for another tenant": sealed(wrapped_key_v2_aad(OTHER_TENANT, KEY, 2, "data", row)),
        "for another key": sealed(wrapped_key_v2_aad(TENANT, OTHER_KEY, 2, "data", row)),
        "the pairs in another order": sealed(prefixed(LABEL, tenant, key, two, b"data", b"row", b"7", b"model", b"customers")),
        "the values in front of their names": sealed(prefixed(LABEL, tenant, key, two, b"data", b"customers", b"model", b"7", b"row")),
        "the pairs in one": sealed(prefixed(LABEL, tenant, key, two, b"data", b"model", b"customersrow7")),
        "the pairs joined": sealed(prefixed(LABEL, tenant, key, two, b"data", b"modelcustomersrow7")),
        "the context as JSON": sealed(prefixed(LABEL, tenant, key, two, b"data", b'{"model":"customers","row":"7"}')),
        "the purpose behind the pairs": sealed(prefixed(LABEL, tenant, key, two, b"model", b"customers", b"row", b"7", b"data")),
        "no purpose": sealed(prefixed(LABEL, tenant, key, two, b"model", b"customers", b"row", b"7")),
        "lengths in little-endian": sealed(b"".join(struct.pack("<I", len(part)) + part for part in (
            LABEL, tenant, key, two, b"data", b"model", b"customers", b"row", b"7"))),
        "no lengths": sealed(b"".join((LABEL, tenant, key, two, b"data", b"model", b"customers", b"row", b"7"))),
        "one bit of the iv altered": flip(good, 5),
        "one bit of the ciphertext altered": flip(good, 20),
        "one bit of the tag altered": flip(good, 64),
        "last byte missing": good[:-1],
        "one byte more": good + b"\x00",
    }.items()]
    refuse += [{"name": f"stated: {name}", "wrapped_key": b64(good), "purpose": purpose, "context": context} for name, purpose, context in (
        ("an index key", "index", row),
        ("a stream", "stream", row),
        ("no context", "data", {}),
        ("a pair less", "data", {"model": "customers"}),
        ("a pair more", "data", {**row, "x": ""}),
        ("another row", "data", {**row, "row": "8"}),
        ("another model", "data", {**row, "model": "customer"}),
        ("another name", "data", {"model": "customers", "Row": "7"}),
        ("name and value exchanged", "data", {"model": "customers", "x7": "row"}),
        ("the values exchanged", "data", {"model": "7", "row": "customers"}),
        ("a blank more", "data", {**row, "row": "7 "}),
    )]
    context_key = hmac_sha256(key_of("audit"), b"eaas/context-key/v1")
    digest = [{"name": name, "audit_key": key_of("audit").hex(), "context_key": context_key.hex(), "pair": [pair, value],
               "digest": hmac_sha256(context_key, pair.encode() + b"\x00" + value.encode())[:16].hex()} for name, pair, value in (
        ("a row", "row", "7"), ("an empty value", "row", ""), ("a value of more bytes than characters", "email", "\u00e9\U0001f510"))]
    contexts = [{"name": name, "context": context} for name, context in (
        ("nine pairs", {f"name{at}": "x" for at in range(9)}), ("an empty name", {"": "x"}), ("a name of 65 characters", {"x" * 65: "x"}),
        ("a name that begins with a digit", {"7row": "x"}), ("a name with a blank", {"a b": "x"}), ("a name beyond ASCII", {"\u00e9": "x"}),
        ("a name that begins with an underscore", {"_row": "x"}), ("a value of 129 characters", {"row": "x" * 129}),
        ("a value of 129 characters beyond 16 bits", {"row": "\U0001f510" * 129}), ("a NUL", {"row": "a\x00b"}), ("a number", {"row": 7}),
        ("null", {"row": None}), ("a list", {"row": ["7"]}), ("an object", {"row": {"id": "7"}}))]
    return {
        "format": "wrapped key 2",
        "about": "wrapped-key-v2.md 5. Byte strings are lower-case hexadecimal, wrapped_key is base64. `reader` holds the KEKs of a key's versions "
                 "1 to 3; it opens `valid`, and must refuse each of `refuse`, which has one fault.",
        "made_by": MADE_BY,
        "wrap": wrap,
        "reader": {"tenant_id": TENANT, "key_id": KEY, "keks": {str(version): kek.hex() for version, kek in keks.items()}},
        "valid": {"wrapped_key": b64(good), "key_version": 2, "dek": dek.hex(), **use},
        "refuse": refuse,
        "digest": digest,
        "contexts": contexts,
    }
