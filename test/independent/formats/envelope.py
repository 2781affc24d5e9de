"""The vectors of envelope.md."""
from .common import KEY, MADE_BY, b64, gcm_seal, iv_of, key_of, sha256, stream


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
