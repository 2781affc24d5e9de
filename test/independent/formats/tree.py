"""The vectors of tree.md."""
import base64
import struct

from .checkpoint import OTHER_SEED, SIGNING_SEED, checkpoint_text, note_key_id, note_of, public_key_text, signature_line
from .common import MADE_BY, MAX, TENANT, b64, ed25519_public, ed25519_sign, key_of, sha256
from .merkle import inclusion_proof, merkle_root


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
THIRD_SEED = key_of("a third signing")
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


def tree_note(text, seed=SIGNING_SEED, name=None):
    return text + "\n" + log_line(text, seed, name)


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
    for name, seed, leaves, first_seed in (
        ("of 11 entries", SIGNING_SEED, hashes, SIGNING_SEED),
        ("of the first entry", SIGNING_SEED, hashes[:1], SIGNING_SEED),
        ("of 8 entries", SIGNING_SEED, hashes[:8], SIGNING_SEED),
        ("of 11 entries, by a key that replaced the first one", THIRD_SEED, hashes, SIGNING_SEED),
        ("of another installation", OTHER_SEED, entry_hashes(3, "elsewhere"), OTHER_SEED),
    ):
        key, first = ed25519_public(seed), ed25519_public(first_seed)
        text, origin_ = tree_text(leaves, first_seed), tree_origin(first)
        trees.append({"name": name, "seed": seed.hex(), "public_key": public_key_text(key), "first_public_key": public_key_text(first),
                      "tree_key": public_key_text(key, origin_), "hashes": [leaf.hex() for leaf in leaves],
                      "text": text, "note": tree_note(text, seed, origin_)})
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
        "by a key that replaced the first one, which is not known": trees[-2]["note"],
        "by the key itself, under the origin of another first key": tree_note(tree_text(hashes, OTHER_SEED), SIGNING_SEED, tree_origin(ed25519_public(OTHER_SEED))),
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
