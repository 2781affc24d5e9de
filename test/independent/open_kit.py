"""Opens what was encrypted with a recovery kit, or with the export of a key: from the published formats alone, without the server.

    python3 open_kit.py FILE --kit KIT [--identity IDENTITY] [--context NAME=VALUE ...]
    python3 open_kit.py --unwrap WRAPPED_KEY --key-id ID --kit KIT [--identity IDENTITY] [--purpose PURPOSE] [--context NAME=VALUE ...]
    python3 open_kit.py --combine SHARE SHARE ...

FILE holds an envelope of format v1 or v2, as JSON or as text, or an encrypted stream. Its plaintext goes to standard
output; of a wrapped key the DEK in base64, which one of format 2 needs its purpose and context for. KIT is decrypted by the program `age` if an identity is given. `--combine` prints
the root key of the decrypted shares. Exit code 3 for what does not open.
"""
import argparse
import json
import struct
import subprocess
import sys

from formats.common import DoesNotOpen, b64, gcm_open
from formats.envelope_text import from_text
from formats.envelope_v2 import canonical, v2_open
from formats.root_key_share import combine
from formats.stream import s1_open, s1_read_header
from formats.uses import uses_of
from formats.wrapped_key import wrapped_key_aad
from formats.wrapped_key_v2 import wrapped_key_v2_aad


def read_kit(path, identity):
    """The keys by their ids: each line is what POST /v1/keys/:id/export answers."""
    if identity:
        text = subprocess.run(["age", "-d", "-i", identity, path], check=True, stdout=subprocess.PIPE).stdout
    else:
        text = open(path, "rb").read()
    keys = [json.loads(line) for line in text.decode().split("\n") if line.strip()]  # names may hold other line ends
    return {key["key_id"]: key for key in keys}


def unwrap(keys, key_id, wrapped_key, uses=()):
    """The DEK of a wrapped key: format (1 or 2) ‖ version (u32) ‖ iv (12) ‖ ciphertext (32) ‖ tag (16), wrapped-key.md 1.

    One of format 2 opens for the first of the uses, purpose and context, that is its own.
    """
    wrapped = canonical(wrapped_key, 65)
    if wrapped[0] not in (1, 2) or key_id not in keys:
        raise DoesNotOpen()
    key, (version,) = keys[key_id], struct.unpack_from(">I", wrapped, 1)
    keks = {one["version"]: bytes.fromhex(one["dek_hex"]) for one in key["versions"]}
    if version not in keks:
        raise DoesNotOpen()
    if wrapped[0] == 1:
        aads = [wrapped_key_aad(key["tenant_id"], key_id, version)]
    else:
        aads = [wrapped_key_v2_aad(key["tenant_id"], key_id, version, purpose, stated) for purpose, stated in uses]
    for aad in aads:
        try:
            return gcm_open(keks[version], wrapped[5:17], aad, wrapped[17:])
        except DoesNotOpen:
            pass
    raise DoesNotOpen()


def open_data(data, keys, context, give):
    if data.startswith(b'{"format":"eaas/stream/'):
        header, _ = s1_read_header(data)
        s1_open(data, unwrap(keys, header["key_id"], header["wrapped_key"], [("stream", {})]), context or {}, give)
        return
    text = data.decode().strip()
    envelope = json.loads(text) if text.startswith("{") else from_text(text)
    dek = unwrap(keys, envelope["key_id"], envelope["wrapped_key"], uses_of(context or {}))
    if envelope.get("envelope_version", 1) == 2:
        give(v2_open(envelope, dek, context))
    elif context is not None:
        raise DoesNotOpen()  # format v1 is bound to nothing
    else:
        give(gcm_open(dek, canonical(envelope["iv"], 12), b"", canonical(envelope["ciphertext"], least=16)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--kit")
    parser.add_argument("--identity")
    parser.add_argument("--context", action="append", metavar="NAME=VALUE")
    parser.add_argument("--unwrap", metavar="WRAPPED_KEY")
    parser.add_argument("--key-id")
    parser.add_argument("--purpose", default="data")
    parser.add_argument("--combine", nargs="+", metavar="SHARE")
    given = parser.parse_args()
    try:
        if given.combine:
            print(b64(combine([open(path).read() for path in given.combine])))
            return 0
        keys = read_kit(given.kit, given.identity)
        context = dict(pair.split("=", 1) for pair in given.context) if given.context else None
        if given.unwrap:
            print(b64(unwrap(keys, given.key_id, given.unwrap, [(given.purpose, context or {})])))
            return 0
        with open(given.file, "rb") as file:
            open_data(file.read(), keys, context, sys.stdout.buffer.write)
        return 0
    except (DoesNotOpen, ValueError) as error:
        print(f"does not open: {error or 'not authentic'}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
