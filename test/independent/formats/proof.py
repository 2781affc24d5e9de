"""The vectors of proof.md."""
import re

from .chain import json_string
from .checkpoint import OTHER_SEED, SIGNED_AT, SIGNING_SEED, checkpoint_text, entries_text, note_key_id, note_of, public_key_text, signature_line
from .common import MADE_BY, OTHER_TENANT, TENANT, b64, ed25519_public, ed25519_sign, flip, sha256
from .export import Export, export_drafts
from .key_change import THIEF_SEED, THIRD_SEED, key_change, written
from .merkle import inclusion_proof, merkle_root

SIGNED = "2026-08-12T00:00:00.000Z"


def nodes(proof):
    return "[" + ",".join(f'"{node.hex()}"' for node in proof) + "]"


class Proven:
    """A file as proof.md 3 says, of an export, with whatever fault is asked for."""

    def __init__(self, export, ids, links=None, seed=None, key_changes=None):
        self.export, self.ids, self.key_changes = export, ids, key_changes
        self.links = [export.last_id] if links is None else links
        self.seed = export.seed if seed is None else seed
        self.leaves = [bytes.fromhex(entry["hash"]) for entry in export.entries]

    def statement(self, **changes):
        statement = {"tenant": self.export.tenant, "after_id": self.export.after_id, "last_id": self.export.last_id, "root": merkle_root(self.leaves)}
        return note_of(entries_text(**{**statement, **changes}), self.seed)

    def path(self, id_):
        return inclusion_proof(id_ - self.export.after_id - 1, self.leaves)

    def entry_text(self, id_, **changes):
        entry = {**self.export.entries[id_ - self.export.after_id - 1], **changes}
        item = lambda value: "null" if value is None else json_string(value) if isinstance(value, str) else str(value)
        return "{" + ",".join(f'"{name}":{item(value)}' for name, value in entry.items()) + "}"

    def entry(self, id_, before=None, text=None, proof=None):
        at = id_ - self.export.after_id - 1
        before = before or (self.leaves[at - 1] if at else self.export.after_hash)
        return f'{{"before":"{before.hex()}","entry":{text or self.entry_text(id_)},"proof":{nodes(self.path(id_) if proof is None else proof)}}}'

    def link(self, id_, hash_=None, proof=None, shown_id=None):
        hash_ = hash_ or self.leaves[id_ - self.export.after_id - 1]
        return f'{{"id":{shown_id or id_},"hash":"{hash_.hex()}","proof":{nodes(self.path(id_) if proof is None else proof)}}}'

    def file(self, entries=None, links=None, statement=None, public_key=None, format_="eaas/audit/proof/v1", ids=None, end="\n"):
        entries = entries if entries is not None else [self.entry(id_) for id_ in ids or self.ids]
        links = links if links is not None else [self.link(id_) for id_ in self.links]
        changes = "" if self.key_changes is None else ',"key_changes":[' + ",".join(map(json_string, self.key_changes)) + "]"
        return (f'{{"format":"{format_}","statement":{json_string(statement or self.statement())},'
                f'"public_key":{json_string(public_key or public_key_text(ed25519_public(self.seed)))}{changes},'
                f'"entries":[{",".join(entries)}],"links":[{",".join(links)}]}}{end}')


def proof_vectors():
    export = Export(export_drafts())
    hashes = [export.after_hash] + [bytes.fromhex(entry["hash"]) for entry in export.entries]
    part = Export(export_drafts()[3:], 3, hashes[3])
    good = Proven(export, [4])
    file = good.file()
    key = public_key_text(ed25519_public(SIGNING_SEED))
    kept = {at: note_of(checkpoint_text(last_id=at, hash_=hashes[at])) for at in range(1, 7)}
    changes = [key_change(OTHER_SEED, SIGNING_SEED)]
    changed = Proven(export, [4], key_changes=changes)

    statements = []
    for name, seed, after_id, leaves, tenant in (
        ("of a whole log", SIGNING_SEED, 0, hashes[1:], TENANT),
        ("of one entry", SIGNING_SEED, 0, hashes[1:2], TENANT),
        ("of a part", SIGNING_SEED, 3, hashes[4:], TENANT),
        ("of the last entries there can be", OTHER_SEED, 2**53 - 4, hashes[1:4], OTHER_TENANT),
    ):
        root = merkle_root(leaves)
        text = entries_text(tenant, after_id, after_id + len(leaves), root)
        statements.append({"name": name, "seed": seed.hex(), "public_key": public_key_text(ed25519_public(seed)), "hashes": [leaf.hex() for leaf in leaves],
                           "statement": {"tenant_id": tenant, "after_id": after_id, "last_id": after_id + len(leaves), "root": root.hex(), "created_at": SIGNED},
                           "note": note_of(text, seed)})

    def verdict(ids, after_id=0, **more):
        return {"ids": ids, "tenant_id": TENANT, "after_id": after_id, "last_id": 6, **more}

    valid = [
        {"name": "one entry", "file": file, "verdict": verdict([4])},
        {"name": "the first entry", "file": Proven(export, [1]).file(), "verdict": verdict([1])},
        {"name": "the last entry", "file": Proven(export, [6]).file(), "verdict": verdict([6])},
        {"name": "all entries", "file": Proven(export, [1, 2, 3, 4, 5, 6]).file(), "verdict": verdict([1, 2, 3, 4, 5, 6])},
        {"name": "an entry of a part", "file": Proven(part, [5]).file(), "verdict": verdict([5], after_id=3)},
        {"name": "the first entry of a part", "file": Proven(part, [4]).file(), "verdict": verdict([4], after_id=3)},
        {"name": "no links", "file": Proven(export, [2], links=[]).file(), "verdict": verdict([2])},
        {"name": "compared by a link", "file": Proven(export, [2], links=[3, 6]).file(), "checkpoint": kept[3], "verdict": verdict([2], checkpoint_compared=True)},
        {"name": "compared by the entry itself", "file": file, "checkpoint": kept[4], "verdict": verdict([4], checkpoint_compared=True)},
        {"name": "a checkpoint of another entry", "file": file, "checkpoint": kept[2], "verdict": verdict([4], checkpoint_compared=False)},
        {"name": "a key that replaced an earlier one", "file": changed.file(), "verdict": verdict([4])},
        {"name": "a key that replaced the one that was given", "file": changed.file(), "public_key": written(OTHER_SEED),
         "verdict": verdict([4], key_changes=[{"from": written(OTHER_SEED), "to": key, "created_at": SIGNED_AT}])},
    ]

    statement = good.statement()
    lines = statement.split("\n")
    other_log = Export(export_drafts(), tenant=OTHER_TENANT)
    rewritten = Export([*export_drafts()[:3], {**export_drafts()[3], "ip_address": "10.0.0.2"}, *export_drafts()[4:]])
    signed = lambda text: good.file(statement=note_of(text))
    root = merkle_root(good.leaves)
    text = entries_text(root=root)
    leaf_4 = hashes[4]
    refuse = {
        # The statement.
        "another root": good.file(statement=good.statement(root=sha256(b"another"))),
        "a range with an entry more": good.file(statement=good.statement(last_id=7)),
        "a range with an entry less": good.file(statement=good.statement(last_id=5)),
        "a range that begins later": good.file(statement=good.statement(after_id=1)),
        "another tenant": good.file(statement=good.statement(tenant=OTHER_TENANT)),
        "a root that was altered": good.file(statement=statement.replace(lines[4], b64(sha256(b"another")))),
        "a time that was altered": good.file(statement=statement.replace("2026-08-12", "2026-08-13")),
        "signed by another key": good.file(statement=note_of(text, OTHER_SEED)),
        "signed by another key, under the id of the right one": good.file(statement=text + "\n" + signature_line(
            ed25519_sign(OTHER_SEED, text.encode()), note_key_id(ed25519_public(SIGNING_SEED)))),
        "a signature with a bit altered": good.file(statement=text + "\n" + signature_line(
            flip(ed25519_sign(SIGNING_SEED, text.encode()), 5), note_key_id(ed25519_public(SIGNING_SEED)))),
        "a checkpoint for the statement": good.file(statement=kept[6]),
        "signed: another first line": signed(entries_text(root=root, origin="eaas/audit/entries/v2")),
        "signed: no entry": signed(entries_text(root=root, after_id=6)),
        "signed: a range that ends before it begins": signed(entries_text(root=root, after_id=7)),
        "signed: a last id with a zero in front": signed(entries_text(root=root, last_id="06")),
        "signed: a first id with a sign": signed(entries_text(root=root, after_id="-0")),
        "signed: an id of 2^53": signed(entries_text(root=root, last_id=2**53)),
        "signed: a root of 31 bytes": signed(entries_text(root=root[:31])),
        "signed: a root in hexadecimal": signed(text.replace(b64(root), root.hex())),
        "signed: a tenant in capitals": signed(entries_text(TENANT.upper(), root=root)),
        "signed: a time without milliseconds": signed(entries_text(root=root, time="2026-08-12T00:00:00Z")),
        "signed: a line more": signed(text + "more\n"),
        # The entries.
        "an entry that was altered": good.file([good.entry(4, text=good.entry_text(4, ip_address="10.0.0.9"))]),
        "an entry of another id": good.file([good.entry(4, text=good.entry_text(4, id=5))]),
        "an entry with another h": good.file([good.entry(4, text=good.entry_text(4, hash=sha256(b"x").hex()))]),
        "another h before": good.file([good.entry(4, before=sha256(b"x"))]),
        "an entry of another log": good.file([Proven(other_log, [4]).entry(4, proof=good.path(4))]),
        "an entry of a log that was rewritten": good.file([Proven(rewritten, [4]).entry(4)]),
        "an entry of a log that was rewritten, with its own proof and the old statement": Proven(rewritten, [4]).file(statement=statement),
        "an entry before the range": Proven(part, [4]).file([good.entry(3)]),
        "entry 0": good.file([good.entry(1, text=good.entry_text(1, id=0))]),
        "a proof with a node less": good.file([good.entry(4, proof=good.path(4)[:-1])]),
        "a proof with a node more": good.file([good.entry(4, proof=[*good.path(4), sha256(b"x")])]),
        "a proof with a node altered": good.file([good.entry(4, proof=[sha256(b"x"), *good.path(4)[1:]])]),
        "a proof in another order": good.file([good.entry(4, proof=good.path(4)[::-1])]),
        "the proof of another entry": good.file([good.entry(4, proof=good.path(3))]),
        "entry 1 that begins another log": None,
        "no entry": good.file([]),
        "entries in another order": good.file(ids=[4, 2]),
        "an entry twice": good.file(ids=[4, 4]),
        "one true entry, one altered": good.file([good.entry(2), good.entry(4, text=good.entry_text(4, actor="eve"))]),
        # The links.
        "a link with another h": good.file(links=[good.link(6, hash_=sha256(b"x"))]),
        "a link under another id": good.file(links=[good.link(6, shown_id=5)]),
        "a link behind the range": good.file(links=[good.link(6, shown_id=7)]),
        "a link with the proof of another entry": good.file(links=[good.link(6, proof=good.path(5))]),
        "links in another order": good.file(links=[good.link(6), good.link(3)]),
        "a link twice": good.file(links=[good.link(6), good.link(6)]),
        # The keys.
        "another public key": good.file(public_key=written(OTHER_SEED)),
        "a public key with another id": good.file(public_key=key.replace("+" + key.split("+")[1], "+00000000")),
        "a public key that is none": good.file(public_key="x"),
        "by another key, with a statement of it": Proven(export, [4], seed=OTHER_SEED).file(),
        "statements that lead to another key": Proven(export, [4], key_changes=[key_change(OTHER_SEED, THIRD_SEED)]).file(),
        "statements by a thief, not signed by the key before": Proven(export, [4], key_changes=[
            key_change(OTHER_SEED, SIGNING_SEED).replace(key_change(OTHER_SEED, SIGNING_SEED).split("\n")[-3], key_change(THIEF_SEED, SIGNING_SEED).split("\n")[-3])]).file(),
        "an empty list of statements": file.replace(',"entries"', ',"key_changes":[],"entries"', 1),
        # The writing.
        "another format": good.file(format_="eaas/audit/proof/v2"),
        "no line feed": good.file(end=""),
        "two line feeds": good.file(end="\n\n"),
        "CRLF": good.file(end="\r\n"),
        "a blank": file.replace('"links":', '"links": '),
        "a member more": file.replace('"links":', '"more":1,"links":'),
        "no links at all": re.sub(r',"links":.*]}', "}", file),
        "members in another order": file.replace(f'"public_key":{json_string(key)},', "").replace('{"format"', f'{{"public_key":{json_string(key)},"format"', 1),
        "a hash in capitals": file.replace(leaf_4.hex(), leaf_4.hex().upper()),
        "an escape that is not needed": file.replace("key.unwrap", "key.unwra\\u0070"),
        "an array": "[" + file[:-1] + "]\n",
        "nothing": "",
        "no JSON": "proof\n",
        "an export": export.file(),
    }
    foreign = Export(export_drafts(), after_hash=sha256(b"not the genesis"))
    refuse["entry 1 that begins another log"] = Proven(foreign, [1]).file()
    rows = [{"name": name, "file": text} for name, text in refuse.items()]
    rows += [
        {"name": "a checkpoint of the entry with another h", "file": file, "checkpoint": note_of(checkpoint_text(last_id=4, hash_=sha256(b"x")))},
        {"name": "a checkpoint of a link with another h", "file": file, "checkpoint": note_of(checkpoint_text(last_id=6, hash_=sha256(b"x")))},
        {"name": "a checkpoint of another tenant", "file": file, "checkpoint": note_of(checkpoint_text(OTHER_TENANT, 4, hashes[4]))},
        {"name": "a checkpoint by another key", "file": file, "checkpoint": note_of(checkpoint_text(last_id=4, hash_=hashes[4]), OTHER_SEED)},
        {"name": "a checkpoint that was altered", "file": file, "checkpoint": kept[4].replace("\n4\n", "\n6\n")},
        {"name": "another key than the given one", "file": file, "public_key": written(OTHER_SEED)},
    ]
    return {
        "format": "eaas/audit/proof/v1",
        "about": f"Proofs of entries, proof.md. {MADE_BY}",
        "public_key": key,
        "statements": statements,
        "valid": valid,
        "refuse": rows,
    }

