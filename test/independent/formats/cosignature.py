"""The vectors of cosignature.md."""
import base64
import json
import re
import struct

from .checkpoint import OTHER_SEED, SIGNING_SEED, note_key_id, public_key_text, signature_line
from .common import MADE_BY, b64, ed25519_public, ed25519_sign, flip, sha256
from .merkle import consistency_proof, merkle_root, proves_consistency
from .tree import (
    COSIGNATURE, COSIGNED_AT, LAST_SECOND, OTHER_WITNESS_SEED, REMORA_KEY, SIGSUM_KEY, SIGSUM_ORIGIN,
    SIGSUM_REQUESTS, WITNESS_NAME, WITNESS_SEED, cosigned, entry_hashes, log_line, swapped_bits, tree_note,
    tree_origin, tree_text, witness_key,
)


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
