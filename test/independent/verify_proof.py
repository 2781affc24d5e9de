#!/usr/bin/env python3
"""Verifies a proof of entries of an EaaS audit log from the file and a public key alone.

Written from proof.md, not from the server's code; the formats that it shares with exports are those of verify_export.py. Prints a line of
JSON. Exit code 0: valid, by the key that was given, compared with the checkpoint if one was given; 1: not valid; otherwise the highest that
applies: 3: the Python package `cryptography` is missing; 5: the checkpoint is of an entry that the file does not have; 6: the key that signed was not given.
"""
import argparse, hashlib, json, re, sys
from verify_export import (ENTRY_TEXT, Ed25519PublicKey, HASH, INTEGER, PROOF, STRING, UNTRUSTED, UNUSED, InvalidSignature, chained, demand, follow, keys_of,
                           read, read_entries, read_note, root_of)

ENTRY = rf'{{"before":{HASH},"entry":{ENTRY_TEXT},"proof":\[{PROOF}\]}}'
LINK = rf'{{"id":{INTEGER},"hash":{HASH},"proof":\[{PROOF}\]}}'


def unnamed(form):
    return re.sub(r"\((?!\?)", "(?:", form)


def listed(form):
    return f"(?:{unnamed(form)}(?:,{unnamed(form)})*)"


FILE = re.compile(f'{{"format":"eaas/audit/proof/v1","statement":{STRING},"public_key":{STRING}(?:,"key_changes":\\[({listed(STRING)})\\])?,'
                  f'"entries":\\[({listed(ENTRY)})\\],"links":\\[({listed(LINK)}?)\\]}}\n')


def nodes(text):
    return [bytes.fromhex(node) for node in re.findall("[0-9a-f]{64}", text)]


def verify(file, public_key=None, checkpoint=None):
    verdict = {"valid": False}
    try:
        statement, signer, notes, entries, links = read(FILE, file, "a proof of entries")
        statement, signer, changes = json.loads(statement), json.loads(signer), follow(json.loads(f"[{notes or ''}]"))
        keys = keys_of(changes)
        demand(not keys or keys[-1] == signer, "the statements about new signing keys do not lead to the key that signed")
        demand(public_key in (None, signer, *keys), "the file names a different public key from the one given")
        tenant, after_id, last_id, root, signed_at = read_entries(statement, signer)
        verdict.update(tenant_id=tenant, after_id=after_id, last_id=last_id, signed_at=signed_at, public_key=signer, trusted_key=public_key == signer)
        if public_key and public_key != signer:
            verdict["key_changes"] = changes[keys.index(public_key):]
        leaves = []
        for before, id_, *columns, hash_, proof in re.findall(ENTRY, entries):
            read(re.compile(INTEGER), id_, "an id")
            leaf = chained(bytes.fromhex(before), tenant, id_, columns)
            demand(leaf.hex() == hash_, f"entry {id_} was altered")
            genesis = hashlib.sha256(b"eaas/audit/genesis/v1" + tenant.encode()).hexdigest()
            demand(id_ != "1" or before == genesis, "entry 1 does not begin the log of this tenant")
            leaves.append((int(id_), leaf, nodes(proof)))
        linked = [(int(id_), bytes.fromhex(hash_), nodes(proof)) for id_, hash_, proof in re.findall(LINK, links)]
        for ids in ([id_ for id_, *_ in leaves], [id_ for id_, *_ in linked]):
            demand(ids == sorted(set(ids)), "the entries are not in the order of their ids")
        for id_, leaf, proof in leaves + linked:
            demand(after_id < id_ <= last_id, f"entry {id_} is not in the range that was signed")
            demand(root_of(leaf, id_ - after_id - 1, last_id - after_id, proof) == root, f"the signed tree does not hold entry {id_}")
        verdict["ids"] = [id_ for id_, *_ in leaves]
        if checkpoint is not None:
            owner, [(id_, hash_)], _ = read_note(checkpoint, keys or signer)
            demand(owner == tenant, "the checkpoint is of another log")
            same = [leaf for known, leaf, _ in leaves + linked if known == id_]
            demand(all(leaf == hash_ for leaf in same), f"entry {id_} is not the one of the checkpoint")
            verdict["checkpoint_compared"] = bool(same)
        return {**verdict, "valid": True}
    except (ValueError, InvalidSignature) as error:
        return {**verdict, "reason": str(error) or "a signature does not verify"}


def exit_code(verdict):
    if not verdict["valid"]:
        return 1
    return max(UNUSED if verdict.get("checkpoint_compared") is False else 0, 0 if verdict["trusted_key"] else UNTRUSTED)


def judge_vectors(path):
    """Judges each vector; prints what is taken and what is refused, by name."""
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    rows = [(kind, row) for kind in ("valid", "refuse") for row in vectors[kind]]
    verdicts = [(kind, row, verify(row["file"], row.get("public_key", vectors["public_key"]), row.get("checkpoint"))) for kind, row in rows]
    print(json.dumps([{"kind": kind, "name": row["name"], "verdict": verdict} for kind, row, verdict in verdicts]))
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Verify a proof of entries.")
    parser.add_argument("file")
    parser.add_argument("--public-key")
    parser.add_argument("--checkpoint")
    parser.add_argument("--vectors", action="store_true", help="the file is proof.vectors.json")
    given = parser.parse_args()
    if not Ed25519PublicKey:
        sys.exit(3)  # no signature can be verified
    if given.vectors:
        sys.exit(judge_vectors(given.file))
    with open(given.file, encoding="utf-8", newline="") as file:
        text = file.read()
    kept = given.checkpoint and open(given.checkpoint, encoding="utf-8", newline="").read()
    verdict = verify(text, given.public_key, kept)
    print(json.dumps(verdict))
    sys.exit(exit_code(verdict))
