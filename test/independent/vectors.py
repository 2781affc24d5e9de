"""Test vectors from a second hand: written from the .md specs alone, in another language, and importing nothing of ours.

    python3 vectors.py write   writes every vectors file in its place
    python3 vectors.py check   exits with 1 if a committed file is not what `write` would write
    python3 vectors.py seal    frames on standard input: key, iv, AAD, plaintext, again and again; answers sealed values
    python3 vectors.py open    frames: key, iv, AAD, sealed; answers 0x01 and the plaintext, or 0x00 when it does not open
    python3 vectors.py seal-v2 frames: DEK, context (JSON), iv, plaintext; answers envelopes of format v2 (JSON)
    python3 vectors.py open-v2 frames: DEK, context (JSON), envelope (JSON), nothing; answers as `open`
    python3 vectors.py seal-stream frames: DEK, context (JSON), salt, plaintext; answers streams
    python3 vectors.py open-stream frames: DEK, context (JSON), stream, nothing; answers as `open`
    python3 vectors.py index   frames: index secret, column (JSON), text, nothing; answers what the column holds (JSON)
    python3 vectors.py blind   frames: hash key, value, nothing, nothing; answers blind hashes
    python3 vectors.py serve   frames: the name of one of these eight, and all its frames as one; answers all its answers as one

Each format has a file in `formats`, named after its specification.

A frame is a u32 (big-endian) length and that many bytes. Needs the standard library, and `cryptography` or else the
library of OpenSSL 3 (libcrypto). Nothing is random: every key is SHA-256 of its name, so the files come out the same.
"""
import json
import struct
import sys
from pathlib import Path

from formats.anchor import anchor_vectors
from formats.application_secret import application_secret_vectors
from formats.bindings import binding_vectors
from formats.blind_hash import blind_hash_of, blind_hash_vectors
from formats.blind_index import blind_index_vectors
from formats.chain import chain_vectors
from formats.checkpoint import checkpoint_vectors
from formats.codecs import codec_vectors
from formats.common import DoesNotOpen, gcm_open, gcm_seal, prefixed
from formats.compact_rows import compact_row_vectors
from formats.cosignature import cosignature_vectors
from formats.envelope import envelope_vectors
from formats.envelope_text import envelope_text_vectors
from formats.envelope_v2 import envelope_v2_vectors, v2_envelope, v2_open
from formats.export import export_vectors
from formats.index_texts import index_column_vectors
from formats.key_change import key_change_vectors
from formats.key_hierarchy import key_hierarchy_vectors
from formats.local_index import li_value, local_index_vectors
from formats.merkle import merkle_vectors
from formats.oblivious_index import oblivious_index_vectors
from formats.proof import proof_vectors
from formats.root_key_share import root_key_share_vectors
from formats.row_mac import row_mac_vectors
from formats.stream import s1_open, s1_seal, stream_vectors
from formats.tree import tree_vectors
from formats.wrapped_key import wrapped_key_vectors
from formats.wrapped_key_v2 import wrapped_key_v2_vectors

FILES = {
    "packages/protocol/src/application-secret.vectors.json": application_secret_vectors,
    "packages/protocol/src/blind-hash.vectors.json": blind_hash_vectors,
    "packages/protocol/src/envelope-text.vectors.json": envelope_text_vectors,
    "packages/protocol/src/envelope-v2.vectors.json": envelope_v2_vectors,
    "packages/protocol/src/stream.vectors.json": stream_vectors,
    "packages/protocol/src/wrapped-key.vectors.json": wrapped_key_vectors,
    "packages/protocol/src/wrapped-key-v2.vectors.json": wrapped_key_v2_vectors,
    "packages/server/src/core/crypto/key-hierarchy.vectors.json": key_hierarchy_vectors,
    "packages/server/src/core/crypto/blind-index.vectors.json": blind_index_vectors,
    "packages/server/src/root-keys/root-key-share.vectors.json": root_key_share_vectors,
    "packages/audit/src/formats/anchor.vectors.json": anchor_vectors,
    "packages/audit/src/formats/chain.vectors.json": chain_vectors,
    "packages/audit/src/formats/checkpoint.vectors.json": checkpoint_vectors,
    "packages/audit/src/formats/cosignature.vectors.json": cosignature_vectors,
    "packages/audit/src/formats/export.vectors.json": export_vectors,
    "packages/audit/src/formats/key-change.vectors.json": key_change_vectors,
    "packages/audit/src/formats/merkle.vectors.json": merkle_vectors,
    "packages/audit/src/formats/proof.vectors.json": proof_vectors,
    "packages/server/src/core/audit/formats/row-mac.vectors.json": row_mac_vectors,
    "packages/audit/src/formats/tree.vectors.json": tree_vectors,
    "packages/sdk/src/models/bindings.vectors.json": binding_vectors,
    "packages/sdk/src/models/codecs.vectors.json": codec_vectors,
    "packages/sdk/src/models/index-texts.vectors.json": index_column_vectors,
    "packages/sdk/src/models/local-index.vectors.json": local_index_vectors,
    "packages/sdk/src/models/oblivious-index.vectors.json": oblivious_index_vectors,
    "packages/sdk/src/models/compact-rows.vectors.json": compact_row_vectors,
    "test/independent/envelope.vectors.json": envelope_vectors,
}

ROOT = Path(__file__).resolve().parents[2]
LONGEST_LINE = 2000


def text_of(vectors):
    return laid_out(vectors) + "\n"


def laid_out(value, indent=""):
    """JSON with each vector, which is an item of a list of the file, on one line, or with each part of a longer one on one."""
    # Characters beyond ASCII are escaped: an editor can't normalise what it does not see.
    line = json.dumps(value)
    is_vector = len(indent) > 2
    if not value or not isinstance(value, (dict, list)) or (is_vector and len(line) <= LONGEST_LINE):
        return line
    inner = indent + "  "
    if isinstance(value, list):
        parts = [laid_out(part, inner) for part in value]
    else:
        parts = [f"{json.dumps(name)}: {laid_out(part, inner)}" for name, part in value.items()]
    return line[0] + ",".join(f"\n{inner}{part}" for part in parts) + f"\n{indent}{line[-1]}"


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
    "blind": lambda key, value, _, __: blind_hash_of(key, value),
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
