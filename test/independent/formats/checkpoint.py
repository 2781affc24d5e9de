"""The vectors of checkpoint.md."""
import base64

from .chain import entry_hash, genesis
from .common import MADE_BY, MAX, OTHER_TENANT, TENANT, b64, ed25519_public, ed25519_sign, flip, key_of, sha256


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


def entries_text(tenant=TENANT, after_id=0, last_id=6, root=sha256(b"root"), time="2026-08-12T00:00:00.000Z", origin="eaas/audit/entries/v1"):
    """What is signed of the tree over entries (proof.md 2)."""
    return f"{origin}\n{tenant}\n{after_id}\n{last_id}\n{b64(root)}\n{time}\n"


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
