"""The vectors of application-secret.md."""
import hmac

from .common import (
    DoesNotOpen, KEY, MADE_BY, OTHER_KEY, b64, flip, gcm_open, iv_of, key_of, prefixed, stream, uuid_bytes,
)
from .envelope_text import to_text
from .envelope_v2 import canonical, hkdf, v2_aad, v2_envelope, v2_keys

LABEL = b"eaas/application-secret/v1"


def mixed_key(dek, secret, key_id=KEY, label=LABEL):
    """Section 2."""
    if len(secret) != 32 or not any(secret):
        raise ValueError("secret")
    return hkdf(dek, label + b"\0" + uuid_bytes(key_id), 32, secret)


def as_open(envelope, dek, secrets, context, accept=False):
    """Section 4. Raises ValueError where the form is wrong, DoesNotOpen for every other cause."""
    if "application_secret" in envelope and envelope["application_secret"] is not True:
        raise ValueError("application_secret")
    commitment = canonical(envelope.get("commitment"), 32)
    iv, sealed = canonical(envelope["iv"], 12), canonical(envelope["ciphertext"], least=16)
    needs = envelope.get("application_secret", False)
    if needs and not secrets or not needs and secrets and not accept:
        raise DoesNotOpen()
    for key in [mixed_key(dek, secret, envelope["key_id"]) for secret in secrets] if needs else [dek]:
        k_enc, k_com = v2_keys(key, envelope["key_id"])
        if hmac.compare_digest(k_com, commitment):
            return gcm_open(k_enc, iv, v2_aad(context, envelope["key_id"]), sealed)
    raise DoesNotOpen()


def application_secret_vectors():
    dek, other_dek = key_of("dek of a secret"), key_of("another dek of a secret")
    secret, other, third = key_of("application secret"), key_of("another application secret"), key_of("a third application secret")
    context, text = {"table": "users", "column": "iban", "row": "7"}, "secret bancaire".encode()

    def sealed(name, plaintext=text, key=None, context=context, key_id=KEY, **changes):
        keys = v2_keys(mixed_key(dek, secret, key_id) if key is None else key, key_id)
        return v2_envelope(dek, context, plaintext, iv_of(f"secret {name}"), key_id, keys=keys, **{"application_secret": True, **changes})

    derive = []
    for name, key, salt, id_ in (("a DEK", dek, secret, KEY), ("another secret", dek, other, KEY), ("another DEK", other_dek, secret, KEY),
                                 ("another key_id", dek, secret, OTHER_KEY), ("the DEK and the secret exchanged", secret, dek, KEY)):
        mixed = mixed_key(key, salt, id_)
        enc, com = v2_keys(mixed, id_)
        stream_salt = key_of(f"salt of {name}")
        of_stream = hkdf(mixed, b"eaas/stream/v1\0" + uuid_bytes(id_), 64, stream_salt)
        of_index = hkdf(mixed, prefixed(b"eaas/index-column/v1", b"users", b"email_index", b"exact"), 32)
        derive.append({"name": name, "dek": key.hex(), "secret": salt.hex(), "key_id": id_, "mixed": mixed.hex(), "key": enc.hex(), "commitment": com.hex(),
                       "stream_salt": stream_salt.hex(), "stream_key": of_stream[:32].hex(), "stream_commitment": of_stream[32:].hex(), "index_column_key": of_index.hex()})

    valid = sealed("valid")
    unflagged = v2_envelope(dek, context, text, iv_of("secret none"))
    opened = [{"name": name, "dek": dek.hex(), "secrets": [one.hex() for one in secrets], "accept_without": accept, "context": bound, "plaintext": plain.hex(), "envelope": envelope}
              for name, secrets, accept, bound, plain, envelope in (
                  ("one secret", [secret], False, context, text, valid), ("the second of two", [other, secret], False, context, text, valid),
                  ("the third of three", [other, third, secret], False, context, text, valid), ("no pair", [secret], False, {}, text, sealed("no pair", context={})),
                  ("empty", [secret], False, context, b"", sealed("empty", b"")), ("1,000 bytes", [secret], False, context, stream("secret", 1000), sealed("long", stream("secret", 1000))),
                  ("without a secret, where that is accepted", [secret], True, context, text, unflagged), ("with it, where its lack is accepted", [secret], True, context, text, valid),
                  ("without a secret, by a reader that has none", [], False, context, text, unflagged))]
    for one in opened:
        assert as_open(one["envelope"], dek, [bytes.fromhex(s) for s in one["secrets"]], one["context"], one["accept_without"]).hex() == one["plaintext"], one["name"]

    refuse = []

    def refused(name, error, envelope=valid, secrets=(secret,), context=context, key=dek, accept=False):
        try:
            as_open(envelope, key, secrets, context, accept)
        except DoesNotOpen:
            assert error == "decryption", name
        except ValueError:
            assert error == "format", name
        else:
            raise AssertionError(f"opens: {name}")
        refuse.append({"name": name, "error": error, "dek": key.hex(), "secrets": [one.hex() for one in secrets], "accept_without": accept, "context": context, "envelope": envelope})

    def changed(**changes):
        return {member: value for member, value in {**valid, **changes}.items() if value is not ...}

    for name, value in (("false", False), ("null", None), ("1", 1), ("text", "true"), ("a list", [True]), ("an object", {})):
        refused(f"the flag is {name}", "format", changed(application_secret=value))
    refused("no secret", "decryption", secrets=())
    refused("no secret, and its lack accepted", "decryption", secrets=(), accept=True)
    refused("another secret", "decryption", secrets=(other,))
    refused("two other secrets", "decryption", secrets=(other, third))
    refused("the first bit of the secret", "decryption", secrets=(flip(secret, 0),))
    refused("the last bit of the secret", "decryption", secrets=(flip(secret, 31, 7),))
    refused("the DEK as the secret", "decryption", secrets=(dek,))
    refused("another DEK", "decryption", key=other_dek)
    refused("another context", "decryption", context={**context, "row": "8"})
    refused("no pair", "decryption", context={})
    refused("the flag removed", "decryption", changed(application_secret=...))
    refused("the flag removed, by a reader without a secret", "decryption", changed(application_secret=...), secrets=())
    refused("the flag removed, and its lack accepted", "decryption", changed(application_secret=...), accept=True)
    refused("the flag added", "decryption", {**unflagged, "application_secret": True})
    refused("sealed without a secret, by a reader that has one", "decryption", unflagged)
    refused("another key_id", "decryption", changed(key_id=OTHER_KEY))
    refused("the commitment of the DEK alone", "decryption", changed(commitment=b64(v2_keys(dek)[1])))
    refused("the commitment of another secret", "decryption", changed(commitment=b64(v2_keys(mixed_key(dek, other))[1])))
    refused("a bit of the commitment", "decryption", changed(commitment=b64(flip(canonical(valid["commitment"]), 5))))
    for name, key in (
        ("the secret alone as the DEK", secret),
        ("another label", mixed_key(dek, secret, label=b"eaas/application-secret/v2")),
        ("no label", hkdf(dek, b"", 32, secret)),
        ("no key_id", hkdf(dek, LABEL + b"\0", 32, secret)),
        ("no NUL", hkdf(dek, LABEL + uuid_bytes(KEY), 32, secret)),
        ("no salt, the secret in the info", hkdf(dek, LABEL + b"\0" + uuid_bytes(KEY) + secret, 32)),
        ("DEK and secret one after the other", hkdf(dek + secret, LABEL + b"\0" + uuid_bytes(KEY), 32)),
        ("DEK and secret exchanged", hkdf(secret, LABEL + b"\0" + uuid_bytes(KEY), 32, dek)),
        ("the exclusive or of both", bytes(a ^ b for a, b in zip(dek, secret))),
        ("the secret as text", hkdf(dek, LABEL + b"\0" + uuid_bytes(KEY), 32, secret.hex().encode())),
        ("the mixed key mixed again", mixed_key(mixed_key(dek, secret), secret)),
    ):
        refused(f"sealed with {name}", "decryption", sealed(name, key=key))

    texts = [{"name": name, "envelope": envelope, "text": to_text(envelope).replace("eaas.2.", "eaas.2s.", 1)} for name, envelope in (("one secret", valid), ("no pair", sealed("text", context={})))]
    return {"format": "eaas/application-secret/v1", "made_by": MADE_BY, "about": "application-secret.md 5. `derive`: a DEK and a secret give these keys. `open`: a reader with these secrets opens the envelope. `text`: both forms of one envelope. `refuse`: does not open.", "derive": derive, "open": opened, "text": texts, "refuse": refuse}
