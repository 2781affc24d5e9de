#!/usr/bin/env python3
"""Verifies an export of an EaaS audit log from the file and a public key alone.

Written from export.md, proof.md, checkpoint.md, key-change.md, chain.md, tree.md and cosignature.md, not from the server's code. Exit code 0: valid and whole, by the key that was given,
compared with each checkpoint that was given; 1: not valid; 2: not understood; 3: the verification could not complete, because a file
cannot be read or the Python package `cryptography` is missing. Of the others the highest that applies: 4: a part of a log; 5: a
checkpoint could not be compared; 6: only the file itself vouches for the key, or a statement of the key that was given.
"""
import argparse, base64, datetime, functools, hashlib, json, os, re, sys
try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    InvalidSignature, Ed25519PublicKey = ValueError, None
# The lines as they have to be spelt: what matches needs no parser, and an entry's bytes are the pieces of its line.
INTEGER, STRING = "(0|[1-9][0-9]{0,15})", r'("(?:[^"\\\0-\x1f]|\\["\\bfnrt]|\\u00(?:0[1-7be-f]|1[0-9a-f]))*")'
UUID, HASH = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", '"([0-9a-f]{64})"'
TIME = r"[0-9]{4}(?:-[0-9]{2}){2}T(?:[0-9]{2}:){2}[0-9]{2}\.[0-9]{3}Z"
HEADER = re.compile(f'{{"format":"eaas/audit/export/v1","tenant_id":"({UUID})","after_id":{INTEGER},"after_hash":{HASH}(?:,"key_changes":\\[({STRING[1:-1]}(?:,{STRING[1:-1]})*)\\])?(?:,"installation":{STRING})?}}\n')
ENTRY_TEXT = (f'{{"id":{INTEGER},"action":{STRING},"key_id":(null|"{UUID}"),"key_version":(null|{INTEGER[1:-1]}),'
              f'"actor":{STRING},"ip_address":(null|{STRING[1:-1]}),"metadata":(null|{STRING[1:-1]}),'
              f'"created_at":("{TIME}"),"hash":{HASH}}}')
ENTRY = re.compile(ENTRY_TEXT + "\n")
PROOF = r'((?:"[0-9a-f]{64}"(?:,"[0-9a-f]{64}")*)?)'
ANCHOR = re.compile(f'{{"anchor":{ENTRY_TEXT},"after_hash":{HASH},"last_id":{INTEGER},"hash":{HASH},"index":{INTEGER},'
                    rf'"proof":\[{PROOF}\],"signed":{STRING}}}' + "\n")
LINKED = rf'{{"id":{INTEGER},"hash":{HASH},"proof":\[{PROOF}\]}}'
LINK = re.compile(LINKED)
UNNAMED = re.sub(r"\((?!\?)", "(?:", LINKED)  # its groups are those of each entry
LINKS = re.compile(rf'{{"tree":{STRING},"proof":\[{PROOF}\],"entries":\[((?:{UNNAMED}(?:,{UNNAMED})*)?)\]}}' + "\n")
COVERS = re.compile('{"root":"([0-9a-f]{64})","tenants":' + INTEGER + "}")
INSTALLATION = "ffffffff-ffff-ffff-ffff-ffffffffffff"
TRAILER = re.compile(f'{{"(checkpoint|stretch)":{STRING},"public_key":{STRING}(?:,"tree":{STRING})?}}\n')
END = "([1-9][0-9]{0,15})\n(.+)\n"
NOTES = {kind: re.compile(f"(eaas/audit/{kind}/v1\n({UUID})\n{ends}({TIME})\n)\n\u2014 eaas-audit (.+)\n")
         for kind, ends in (("checkpoint", END), ("stretch", END + END))}
ENTRIES = re.compile(f"(eaas/audit/entries/v1\n({UUID})\n{INTEGER}\n([1-9][0-9]{{0,15}})\n(.+)\n({TIME})\n)\n\u2014 eaas-audit (.+)\n")
INSTALLATION_KEYS = re.compile("(eaas/audit/installation/v1\n((?:.+\n)+))\n\u2014 eaas-audit (.+)\n")
MOST_KEYS = 10_000
KEY_CHANGE = re.compile(f"eaas/audit/key-change/v1\n(.+)\n(.+)\n({TIME})\n")
SIGNATURE = re.compile("\u2014 ([^\\s\u0085+]+) ([A-Za-z0-9+/]+={0,2})")
TREE = re.compile("(eaas/audit/tree/v1/[0-9a-f]{32})\n([1-9][0-9]{0,15})\n(.+)\n")
LAST_SECOND = 253402300799  # of the year 9999 (cosignature.md 2)
# More than valid (export.md 5 and 6); the highest of those that apply.
PART, UNUSED, UNTRUSTED = 4, 5, 6
MAX_LINE_BYTES = 16 * 2**20
# Another entry in the place of a known one: the entries don't tell which of the two it was.
ANOTHER_LOG = "the log was rewritten, or rolled back and written on"
NO_ENTRY = "no entry of the export accepts that (audit.rollback_accepted)"
LEAVE_OUT = ("; if an operator accepted a rollback of that log since, have it explained, and give only checkpoints of it from after that")


def demand(condition, reason):
    if not condition:
        raise ValueError(reason)


def read(form, text, what):
    match = form.fullmatch(text)
    demand(match, f"this is not {what}, spelt as the format demands")
    demand(not any(len(part) == 16 and part.isdigit() and int(part) >= 2**53 for part in match.groups() if part), "a number is too high")
    return match.groups()


def ends_before(log, end, end_at, kept, kept_at):
    """What a log that is shorter than its checkpoint says: by the times that the server signed, which of the two is the older."""
    known = f"{log} ended with entry {end} when this was signed, at {end_at}; the checkpoint of {kept_at} is of entry {kept}"
    older = "this is older than the checkpoint, or the log was rolled back"
    return f"{known}: {older if kept_at > end_at else 'by these times, the log was rolled back'}"


def unbase64(text, length):
    data = base64.b64decode(text, validate=True)
    demand(base64.b64encode(data).decode() == text and len(data) == length, f"this is not the base64 of {length} bytes")
    return data


@functools.cache
def read_key(public_key):
    """The id and the 33 bytes of a public key in its written form."""
    name, key_id, encoded = [*public_key.split("+", 2), "", ""][:3]
    key = unbase64(encoded, 33)
    known = hashlib.sha256(b"eaas-audit\n" + key).digest()[:4]
    demand((name, key_id, key[:1]) == ("eaas-audit", known.hex(), b"\1"), "this is no public key of an audit log")
    return known, key


def follow(notes):
    """The changes of keys that statements tell of (key-change.md 4): from, to and time of each."""
    changes, seen = [], []
    for note in notes:
        text, _, signatures = note.rpartition("\n\n")
        text, lines = text + "\n", signatures.split("\n")
        before, after, time = read(KEY_CHANGE, text, "a statement about a new signing key")
        demand(len(lines) == 3 and lines[2] == "" and before != after, "this is no statement of two keys")
        for public_key, line in zip((before, after), lines):
            key = read_key(public_key)[1]
            signature = signed_by(key[1:], "eaas-audit", b"\1", text, [line])
            demand(signature and len(signature) == 64, "the statement was not signed by both keys, the earlier one first")
            check(key[1:], signature, text.encode())
        demand(not changes or changes[-1]["to"] == before, "the statements do not follow from one another")
        seen.append(before)
        demand(after not in seen, "the statements lead back to an earlier key")
        changes.append({"from": before, "to": after, "created_at": time})
    return changes


def keys_of(changes):
    return [change["from"] for change in changes[:1]] + [change["to"] for change in changes]


def read_installation(note):
    """The keys of an installation, oldest first, which the last one signed (key-change.md 7)."""
    keys = read(INSTALLATION_KEYS, note, "a statement of an installation's keys")[1].split("\n")[:-1]
    demand(len(keys) <= MOST_KEYS and len(set(keys)) == len(keys), "there are too many keys, or one of them twice")
    for public_key in keys:
        read_key(public_key)
    open_note(INSTALLATION_KEYS, note, keys[-1], "a statement of an installation's keys")
    return keys


def tree_name(first):
    return "eaas/audit/tree/v1/" + hashlib.sha256(read_key(first)[1][1:]).digest()[:16].hex()


def read_note(note, public_keys, kind="checkpoint"):
    """The tenant, one or two pairs of an id and its h, and the time. One of the keys must have signed it."""
    tenant, *ends, time = open_note(NOTES[kind], note, public_keys, f"a {kind}")
    ends = [(int(id_), unbase64(h, 32)) for id_, h in zip(ends[::2], ends[1::2])]
    demand(ends == sorted(ends) and len({id_ for id_, _ in ends}) == len(ends), "the stretch would end after the log")
    return tenant, ends, time


def open_note(form, note, public_keys, what):
    """The parts of a note's text. One of the keys must have signed it."""
    keys = [read_key(public_key) for public_key in ([public_keys] if isinstance(public_keys, str) else public_keys)]
    text, *parts, signed = read(form, note, what)
    signature = unbase64(signed, 68)
    key = next((key for known, key in keys if signature[:4] == known), None)
    demand(key, "the checkpoint was signed by another key")
    check(key[1:], signature[4:], text.encode())
    return parts


def read_entries(note, public_keys):
    """The tenant, after_id, last_id, root and time of a tree over entries (proof.md 2)."""
    tenant, after_id, last_id, root, time = open_note(ENTRIES, note, public_keys, "a statement about entries")
    demand(int(after_id) < int(last_id), "the statement is about no entry")
    return tenant, int(after_id), int(last_id), unbase64(root, 32), time


class Root:
    """The root of merkle.md 1 over leaves that come one after another: of each complete subtree the root."""

    def __init__(self):
        self.count, self.subtrees = 0, []

    def add(self, leaf):
        node, count = hashlib.sha256(b"\0" + leaf).digest(), self.count
        while count % 2:
            node, count = hashlib.sha256(b"\1" + self.subtrees.pop() + node).digest(), count // 2
        self.subtrees.append(node)
        self.count += 1

    def root(self):
        node = None
        for left in reversed(self.subtrees):
            node = left if node is None else hashlib.sha256(b"\1" + left + node).digest()
        return node


def signed_by(key, name, kind, text, lines):
    """The bytes behind the key id in the first of the lines that has the name and the id of a key; None if there is none."""
    known = hashlib.sha256(name.encode() + b"\n" + kind + key).digest()[:4]
    for line in lines:
        match = SIGNATURE.fullmatch(line)
        demand(match, "this is not the line of a signature")
        data = base64.b64decode(match[2], validate=True)
        if match[1] == name and data[:4] == known:
            return data[4:]
    return None


def check(key, signature, message):
    if Ed25519PublicKey:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)


def read_witness_key(text):
    name, key_id, encoded = [*text.split("+", 2), "", ""][:3]
    key = unbase64(encoded, 33)
    known = hashlib.sha256(name.encode() + b"\n" + key).digest()[:4]
    demand(key[:1] == b"\4" and known.hex() == key_id, "its parts do not belong together")
    return name, key[1:]


def read_tree(note, public_keys, first):
    """The size and the root that the installation signed (tree.md), the text, and the lines of signatures."""
    origin = tree_name(first)
    text, _, signatures = note.rpartition("\n\n")
    text, lines = text + "\n", signatures.split("\n")
    demand(lines.pop() == "", "the last line is not ended")
    name, size, root = read(TREE, text, "a statement of a tree")
    signed = [(key, signed_by(key, origin, b"\1", text, lines)) for key in (read_key(public_key)[1][1:] for public_key in public_keys)]
    demand(name == origin and any(signature for _, signature in signed), "this is not the tree of this installation")
    for key, signature in signed:
        if signature:
            check(key, signature, text.encode())
    return int(size), unbase64(root, 32), text, lines


def read_witnessed(line, public_keys, witnesses):
    """The checkpoint of a line of the checkpoint file that each of the witnesses cosigned (tree.md 5), and its last id."""
    note, tree = line["checkpoint"], line.get("tree")
    tenant, [(last_id, last)], _ = read_note(note, public_keys)
    demand(tenant == INSTALLATION and type(tree) is dict, "no witness has seen it")
    size, root, text, lines = read_tree(tree["checkpoint"], public_keys, public_keys[0])
    demand(size == last_id, "this is not the tree at this entry")
    nodes = [unbase64(node, 32) for node in tree["proof"]]
    demand(root_of(last, last_id - 1, last_id, nodes) == root, "the tree does not end with the entry of the checkpoint")
    for name, key in witnesses:
        timed = signed_by(key, name, b"\4", text, lines)
        demand(timed and len(timed) == 72 and int.from_bytes(timed[:8], "big") <= LAST_SECOND, f"{name} has not cosigned it: compare its key with EAAS_WITNESSES")
        check(key, timed[8:], f"cosignature/v1\ntime {int.from_bytes(timed[:8], 'big')}\n{text}".encode())
    return note.split("\n")[4], last_id, note, nodes


def find_witnessed(lines, keys, witnesses, end, time):
    """The newest such checkpoint, and the proof beside it; one that was not signed after the export of an entry behind the end of its log comes first."""
    demand(keys, "the export does not state the keys of its installation")
    found, fault = [], "there is no checkpoint of the installation's log"
    for line in lines:
        try:
            found.append(read_witnessed(line, keys, witnesses))
        except (KeyError, TypeError, ValueError, InvalidSignature) as error:
            fault = str(error) or "a signature does not verify"
    demand(found, f"no checkpoint that these witnesses cosigned: {fault}")
    found.sort(key=lambda known: known[:2], reverse=True)
    return next((known for known in found if end is None or known[1] <= end or known[0] <= time), found[0])[2:]


def read_beginning(export):
    """What the first lines say, up to a fault: the tenant, the changes of its keys, the keys of the installation, and where and when
    the installation's log ended by the anchor, whose signature is not checked."""
    tenant, changes, installation, end, time = None, [], [], None, ""
    try:
        owner, *_, notes, stated = read(HEADER, export.readline(MAX_LINE_BYTES).decode(), "the header of an export")
        changes = follow(json.loads(f"[{notes or ''}]"))
        installation = read_installation(json.loads(stated)) if stated else []
        tenant, anchor = owner, ANCHOR.fullmatch(export.readline(MAX_LINE_BYTES).decode(errors="replace"))
        signed = json.loads(anchor.groups()[-1]).split("\n") if anchor else []
        at = 2 if signed[:1] == ["eaas/audit/checkpoint/v1"] else 4
        head, time = "".join(signed[at : at + 1]), "".join(signed[at + 2 : at + 3])
        end = int(head) if head.isdigit() else None
    except (ValueError, InvalidSignature):
        pass  # the verdict tells
    export.seek(0)
    return tenant, changes, installation, end, time


def choose(kept, export, public_key, witnesses):
    """What to compare of a text with checkpoints: the one that the verdict names, all, and the proof beside a cosigned one."""
    lines, replaced = read_kept(kept)
    tenant, changes, installation, end, time = read_beginning(export)
    keys = keys_of(changes)
    if installation[-1:] != (keys[-1:] or [public_key]):
        installation = []  # anybody can state 10,000 keys: only those of who may sign count
    signers = keys if public_key in keys else [public_key]
    own = [{"from": before, "to": after} for before, after in zip(installation, installation[1:])] if installation else changes
    for note in replaced:
        for known in changes_of(note):
            other = next((change["to"] for change in own if change["from"] == known["from"]), known["to"])
            demand(other == known["to"], f"key {known['from']} was replaced by two: by {known['to']} here, and by {other} in the export")
    if tenant is None:
        return None, [], None
    named, proof = find_witnessed(lines, installation, witnesses, end, time) if witnesses else (None, None)
    notes = [note for note in dict.fromkeys(line["checkpoint"] for line in lines) if parse(note)[0] in (tenant, INSTALLATION)]
    demand(notes, "there is no checkpoint of this tenant")
    named = named or named_of(notes, tenant, installation or signers)
    read_note(named, parse(named)[0] == INSTALLATION and installation or signers)
    return named, notes, proof


def named_of(notes, tenant, signers):
    """By default the newest of the log, or else the newest of the installation that is signed: another's logs have the same id."""
    newest = sorted(notes, key=lambda note: (parse(note)[3], parse(note)[1]), reverse=True)
    own = [note for note in newest if parse(note)[0] == tenant != INSTALLATION]
    return next((note for note in own or newest if own or is_signed(note, signers)), next(iter(newest), None))


def changes_of(note):
    """The change of a kept statement; none of what somebody edited."""
    try:
        return follow([note]) if type(note) is str else []
    except (ValueError, InvalidSignature):
        return []


def read_kept(kept):
    """The lines with a checkpoint of a text, those of a server or notes one after another, and the statements about keys in it."""
    demand('\n{"format":"eaas/audit/export/v1"' not in "\n" + kept, "this is an export, and no checkpoint that was kept apart from it")
    text, *whole = re.split("^(?=eaas/audit/checkpoint/v1\n)", kept, flags=re.M)
    found = [object_of(text)]
    if found == [None]:
        found = []
        for part in re.split(r"^(?=[ \t]*{)", text, flags=re.M):
            forms = part.split("\n")[0], re.sub(r"^}[ \t]*(?=\n|\Z).*", "}", part, count=1, flags=re.M | re.S)
            values = [value for value in map(object_of, forms) if value is not None][:1]  # none: a crash cut it short
            demand(values or not re.search("}[ \t]*(?:{|eaas/audit/checkpoint/v1\n)", part), "two checkpoints are joined without a line feed between them")
            found += values
    lines = [line for line in found if parsed(line.get("checkpoint"))]
    demand(lines or whole and not text, "this is not a checkpoint of an EaaS audit log")
    lines += [{"checkpoint": re.sub(r"\n+\Z", "\n", note)} for note in whole]
    for line in lines:
        parse(line["checkpoint"])
    return lines, [line.get("key_change") for line in found]


def object_of(text):
    try:
        return json.loads(text) if text.lstrip().startswith("{") else None
    except ValueError:
        return None


def parse(note):
    """The owner, id, h and time of a checkpoint, whose signature is not checked."""
    _, owner, id_, h, time, signed = read(NOTES["checkpoint"], note, "a checkpoint")
    signature = base64.b64decode(signed, validate=True)
    demand(base64.b64encode(signature).decode() == signed, "its signature is not base64")
    return owner, int(id_), unbase64(h, 32), time


def parsed(note):
    """None of what a crash cut short or somebody edited: it proves nothing."""
    try:
        return parse(note) if type(note) is str else None
    except ValueError:
        return None


def chained(before, tenant, id_, columns):
    datetime.datetime(*map(int, re.findall("[0-9]+", columns[-1])[:6]))  # raises where the time does not exist (export.md 3)
    written = ",".join(['["eaas/audit/entry/v1"', f'"{tenant}"', id_, *columns]) + "]"
    return hashlib.sha256(b"eaas/audit/hash/v1" + before + written.encode()).digest()


def root_of(leaf, index, size, proof):
    """RFC 9162 section 2.1.3.2."""
    demand(index < size, "the tree has no such leaf")
    node, last = hashlib.sha256(b"\0" + leaf).digest(), size - 1
    for other in proof:
        demand(last > 0, "the proof is too long")
        if index % 2 or index == last:
            node = hashlib.sha256(b"\1" + other + node).digest()
            while not index % 2 and index:
                index, last = index // 2, last // 2
        else:
            node = hashlib.sha256(b"\1" + node + other).digest()
        index, last = index // 2, last // 2
    demand(last == 0, "the proof is too short")
    return node


def left_nodes(index, size, proof):
    """The nodes of a proof to the left of the leaf: the whole proof of the leaf in the tree that it ends."""
    left, last = [], size - 1
    for node in proof:
        if index % 2 or index == last:
            left.append(node)
            while not index % 2 and index:
                index, last = index // 2, last // 2
        index, last = index // 2, last // 2
    return left


def read_anchor(text, tenant):
    """What an anchor of the installation's log covers (export.md 8): its id and h, the covered head, the signed note, what to report."""
    id_, *columns, hash_, before, last_id, head, index, proof, signed = read(ANCHOR, text, "an anchor")
    demand(columns[0] == '"installation.anchor"', "the entry is no anchor")
    demand(chained(bytes.fromhex(before), INSTALLATION, id_, columns).hex() == hash_, "the anchor was altered")
    root, size = read(COVERS, json.loads(columns[-2]) or "", "the root of an anchor")
    demand(int(last_id) > 0, "the anchor covers a log without entries")
    leaf = f'["eaas/audit/anchor-leaf/v1","{tenant}",{last_id},"{head}"]'.encode()
    nodes = [bytes.fromhex(node) for node in re.findall("[0-9a-f]{64}", proof)]
    demand(root_of(leaf, int(index), int(size), nodes).hex() == root, "the anchor does not cover this head of the tenant")
    report = {"id": int(id_), "created_at": json.loads(columns[-1]), "tenants": int(size), "last_id": int(last_id), "compared": False}
    return (int(id_), bytes.fromhex(hash_)), (int(last_id), bytes.fromhex(head)), json.loads(signed), report


def read_links(text):
    """What links entries to the anchor (export.md 9): the note of the tree, the anchor's proof, each entry with its id, h and proof."""
    tree, proof, linked = read(LINKS, text, "what links entries to the anchor")[:3]
    nodes = lambda text: [bytes.fromhex(node) for node in re.findall("[0-9a-f]{64}", text)]
    entries = [(int(id_), bytes.fromhex(hash_), nodes(proof)) for id_, hash_, proof in LINK.findall(linked)]
    ids = [id_ for id_, _, _ in entries]
    demand(ids == sorted(set(ids)) and 0 not in ids and all(id_ < 2**53 for id_ in ids), "the linked entries are not in the order of their ids")
    return json.loads(tree), nodes(proof), entries


def purged_through(metadata):
    value = metadata_of(metadata).get("purged_through")
    return value if type(value) in (int, float) else None


def metadata_of(column):
    try:
        value = json.loads(json.loads(column))
        return value if type(value) is dict else {}
    except (TypeError, ValueError, RecursionError):
        return {}


def permissions_of(told):
    """What an entry grants; None if it does not say."""
    text = told.get("permissions")
    return {name for name in text.split(" ") if name} if type(text) is str else None


def limit_of(told):
    """The keys that an entry limits an API key to: None for all. What is no list of texts is refused."""
    if "keys" not in told:
        return None
    try:
        keys = json.loads(told["keys"])
        assert type(keys) is list and all(type(item) is str for item in keys)
        return frozenset(keys)
    except (AssertionError, TypeError, ValueError, RecursionError):
        return ...


def loosens(told):
    """Whether an entry says that it loosened the expiry, the addresses or the budgets of an API key."""
    text = lambda name: told[name] if type(told.get(name)) is str else None
    listed = lambda value: set(value.split(" ")) if value is not None else set()
    expiry, ips, budgets = text("expires_at_before"), listed(text("allowed_ips_before")), text("budgets_before")
    long = told.get("allowed_ips_sha256")
    now = listed(text("allowed_ips") if long is None else text("allowed_ips_sha256"))
    lasts = expiry is not None and (text("expires_at") is None or text("expires_at") > expiry)
    is_open = bool(ips) and (not now or not now <= ips) or "allowed_ips_before_sha256" in told and not now
    return lasts or is_open or budgets is not None and text("budgets") != budgets


UNKNOWN = ...  # what only entries that were not read say


class Rights:
    """Reads the entries as a history of rights (chain.md 11)."""
    CHANGES = {  # action, or step of key.destroy: the states that allow it, and the state after it
        "key.rotate": ("active", None), "key.rotation_policy": ("active disabled", None), "key.disable": ("active", "disabled"),
        "key.enable": ("disabled", "active"), "scheduled": ("disabled", "pending_destruction"), "cancelled": ("pending_destruction", "disabled"),
        "completed": ("active disabled pending_destruction", "destroyed")}
    IS_UUID = re.compile(UUID)
    NEEDS = {  # chain.md 13: what the API key that acts must hold; no API key writes those of None
        "key.wrap": "wrap", "key.unwrap": "unwrap", "key.index_secret": "unwrap", "key.create": "keys:create", "key.rotate": "keys:rotate", "key.enable": "keys:disable",
        "key.disable": "keys:disable", "key.destroy": "keys:destroy", "key.export": "keys:export", "key.rotation_policy": "keys:rotate",
        "key.update": "keys:destroy",
        "encrypt": "encrypt", "decrypt": "decrypt", "api_key.create": "api_keys:manage", "api_key.update": "api_keys:manage",
        "api_key.revoke": "api_keys:manage", "key.restate": None, "api_key.restate": None, "tenant.update": None, "tenant.restate": None,
        "usage.doubled": None, "audit.purge": None, "audit.rollback_accepted": None, "audit.clock_accepted": None, "audit.key_renew": None}

    def __init__(self, after_id):
        self.after_id, self.keys, self.api_keys, self.tenant, self.settings = after_id, {}, {}, None, {}

    def demand_replaced(self, id_, replaces, last):
        ok = type(replaces) is int and (replaces == last if last is not None else 1 <= replaces <= self.after_id)
        demand(ok, f"entry {id_} was not made on the last state of its row: an older row was put back before it")

    def has(self, keys, key_id, folder):
        """Whether a key is on a list. One whose folder is not known is, if the list has folders."""
        folders = [item[:-1] for item in keys if item.endswith("/*")]
        return key_id in keys or bool(folders) and (folder is None or any(folder.startswith(item) for item in folders))

    def within(self, held, keys):
        """Whether each key on a list is on the one that is held; None is all of them."""
        if held is None or keys is None:
            return held is None
        folder_of = lambda item: item[:-1] if item.endswith("/*") else self.keys.get(item, {}).get("folder")
        return all(self.has(held, item, folder_of(item)) for item in keys)

    def may_act(self, actor, action, key_id, told, held, limit):
        """Whether an API key that holds these permissions, None if that is not known, may do what an entry tells of. `limit` is what
        it is limited to."""
        if self.NEEDS.get(action, "") is None or self.settings.get("status", "active") != "active":
            return False
        if action in ("encrypt", "decrypt") and self.settings.get("envelope_only") is True:
            return False
        of_itself = action == "api_key.revoke" and told.get("api_key_id") == actor
        needed = set() if of_itself else {self.NEEDS.get(action, "")} - {""}
        if action == "key.wrap" and "rewrapped_from" in told:
            needed.add("unwrap")
        if action == "envelope_only.refused" and told.get("operation") in ("encrypt", "decrypt"):
            needed.add(told["operation"])
        if "on_behalf_of" in told:
            needed.add("audit:on_behalf_of")
        granted, had, had_keys = permissions_of(told), set(), frozenset()
        if action in ("api_key.update", "api_key.revoke"):
            _, _, had, had_keys = self.api_keys.get(str(told.get("api_key_id")), [None, False, None, UNKNOWN])
        gets = limit_of(told) if granted is not None else had_keys
        if action in ("api_key.create", "api_key.update"):
            is_wider = UNKNOWN not in (gets, had_keys) and granted is not None and not self.within(had_keys, gets)
            is_looser = action == "api_key.update" and loosens(told)
            now_has = had if granted is None else granted
            needed |= now_has or set() if is_wider or is_looser else granted - had if None not in (granted, had) else set()
        if limit not in (None, UNKNOWN) and not of_itself:
            if key_id is not None:
                folder = told.get("folder") if action == "key.create" else self.keys.get(key_id, {}).get("folder")
                if not self.has(limit, key_id, folder if type(folder) is str else None):
                    return False
            elif action in ("api_key.create", "api_key.update", "api_key.revoke"):
                if action != "api_key.create" and had_keys == frozenset():
                    return False
                if not all(keys is UNKNOWN or self.within(limit, keys) for keys in (had_keys, gets)):
                    return False
        return held is None or needed <= held | ({"wrap", "hash"} if "encrypt" in held else set()) | ({"unwrap"} if "decrypt" in held else set())

    def read(self, id_, action, key_id, version, actor, metadata):
        def allow(condition):
            demand(condition, f"entry {id_} was not allowed by the entries before it: an older row was put back before it")

        if actor != "system" and self.IS_UUID.fullmatch(actor):
            if self.after_id:
                self.api_keys.setdefault(actor, [None, False, None, UNKNOWN])
            allow(actor in self.api_keys and not self.api_keys[actor][1])
            allow(self.may_act(actor, action, key_id, metadata_of(metadata), *self.api_keys[actor][2:]))
        if action == "key.create" and key_id is not None:
            allow(key_id not in self.keys and version == 1)
            folder = metadata_of(metadata).get("folder")
            allow("folder" not in metadata_of(metadata) or type(folder) is str)
            self.keys[key_id] = {"last": id_, "status": "active", "version": 1, "least": 1, "destroyed": 0, "folder": folder}
        elif key_id is not None:
            if self.after_id:
                self.keys.setdefault(key_id, dict.fromkeys(("last", "status", "version", "least", "destroyed", "folder")))
            allow(key_id in self.keys)
            self.read_key(id_, action, self.keys[key_id], version, metadata, allow)
        elif action in ("api_key.create", "api_key.update", "api_key.revoke", "api_key.restate"):
            told = metadata_of(metadata)
            name = told.get("api_key_id")
            allow(type(name) is str)
            known = self.api_keys.get(name)
            if action == "api_key.create":
                allow(known is None)
                if id_ == 1:
                    self.tenant, self.settings = 1, {"status": "active", "envelope_only": told.get("envelope_only")}
            else:
                allow(known or self.after_id)
                self.demand_replaced(id_, told.get("replaces"), known and known[0])
            granted, is_revoked = permissions_of(told), action == "api_key.revoke"
            keys = limit_of(told)
            allow(granted is None or keys is not ...)
            if action == "api_key.restate":
                is_revoked = told.get("revoked_at") is not None
                allow("revoked_at" in told and granted is not None)
                allow(not known or known[1] == is_revoked and known[2] in (None, granted) and known[3] in (UNKNOWN, keys))
            else:
                allow(not known or not known[1])
            said = [None, UNKNOWN] if granted is None else [granted, keys]
            self.api_keys[name] = [id_, is_revoked, *(known[2:] if granted is None and known else said)]
        elif action in ("tenant.update", "tenant.restate"):
            told = metadata_of(metadata)
            self.demand_replaced(id_, told.get("replaces"), self.tenant)
            if action == "tenant.restate":
                allow(all(self.settings.get(name) in (None, told.get(name, self.settings.get(name))) for name in ("status", "envelope_only")))
            self.tenant = id_
            self.settings.update((name, told[name]) for name in ("status", "envelope_only") if name in told)

    def end(self, last_id):
        usable = [key for key in self.keys.values() if key["status"] not in (None, "destroyed")]
        usable += [known for known in self.api_keys.values() if not known[1]]
        demand(self.settings.get("status") != "deleted" or not usable,
               f"the tenant is deleted, but by the entries through {last_id} a key is not destroyed, or an API key not revoked")

    def read_key(self, id_, action, key, version, metadata, allow):
        def allow_state(states):
            allow(key["status"] is None or key["status"] in states.split())

        def allow_current(number):
            allow(number is not None and number >= 1 and key["version"] in (None, number))
            key["version"] = number

        def allow_opens(number, least):
            allow(type(number) is int and (least or 1) <= number <= (key["version"] or number))

        told = metadata_of(metadata)
        if action in ("key.wrap", "encrypt"):
            allow_state("active")
            key["status"] = "active"
            allow_current(version)
            if action == "key.wrap" and "rewrapped_from" in told:
                allow_opens(told["rewrapped_from"], key["least"] or (key["destroyed"] or 0) + 1)
        elif action in ("key.unwrap", "decrypt"):
            allow_state("active disabled")
            allow_opens(version, key["least"] or (key["destroyed"] or 0) + 1)
        elif action in ("key.export", "key.index_secret"):
            allow_state("active disabled")
            allow_current(version)
        elif (action in ("key.restate", "key.update") or action == "key.rotation_policy" and "status" in told
              or action == "key.destroy" and told.get("step") == "version"):
            self.demand_replaced(id_, told.get("replaces"), key["last"])
            allow(told.get("status") in ("active", "disabled") + (("pending_destruction", "destroyed") if action == "key.restate" else ()))
            allow_state(told["status"])
            allow_current(version)
            key.update(last=id_, status=told["status"])
            if action == "key.destroy":
                number = told.get("version")
                allow_opens(number, 1)
                allow(key["destroyed"] in (None, number - 1) and number < (key["least"] or key["version"]))
                key["destroyed"] = number
            elif action != "key.rotation_policy":
                before = told.get("min_unwrap_version_before") if action == "key.update" else told.get("min_unwrap_version", 1)
                allow(key["least"] in (None, before))
                least = told.get("min_unwrap_version", None if action == "key.update" else 1)
                allow_opens(least, None)
                destroyed = told.get("destroyed_through", 0) if action == "key.restate" else key["destroyed"]
                allow(action == "key.update" or type(destroyed) is int and destroyed >= 0 and key["destroyed"] in (None, destroyed))
                allow((destroyed or 0) < least)
                key.update(least=least, destroyed=destroyed)
            if action == "key.restate":
                folder = told.get("folder", key["folder"])
                allow((folder is None and "folder" not in told or type(folder) is str) and key["folder"] in (None, folder))
                key["folder"] = folder
        elif action == "key.destroy" or action in self.CHANGES:
            self.demand_replaced(id_, told.get("replaces"), key["last"])
            step = told.get("step") if action == "key.destroy" else action
            allow(type(step) is str and step in self.CHANGES and (step == action or "." not in step))
            states, after = self.CHANGES[step]
            allow_state(states)
            allow_current((version or 0) - 1 if action == "key.rotate" else version)
            allow(step != "completed" or told.get("versions") == version)
            if action == "key.rotate":
                key.update(version=version, status="active")
            key.update(last=id_, status=after or key["status"])


class KeptNoteError(Exception):
    """A kept checkpoint of the log contradicts an export and is none itself."""


class Kept:
    """A checkpoint that was kept. `state`: agrees, contradicts, or None: not compared, such as one signed after the export of an entry behind its end."""

    def __init__(self, note, tenant):
        self.owner, self.id, self.h, self.time = parse(note)
        self.note, self.is_own, self.state = note, self.owner == tenant, None


class Comparison:
    """Every checkpoint that was kept of the log and of the installation's (export.md 6): none may contradict the file."""

    def __init__(self, named, notes, tenant, keys, installation):
        notes = list(dict.fromkeys([*([] if named is None else [named]), *notes]))
        kept = [Kept(note, tenant) for note in notes if parsed(note)]
        self.given, self.keys, self.installation, self.accepted = len(notes), keys, installation, []
        self.kept = sorted((known for known in kept if known.owner in (tenant, INSTALLATION)), key=lambda known: (known.time, known.id), reverse=True)
        note = named_of([known.note for known in self.kept], tenant, installation) if named is None else named
        self.named = next((known for known in self.kept if known.note == note), None)
        demand(self.named or not notes, "the checkpoint that is to be named is not of this tenant or of the installation")
        if self.named:
            read_note(self.named.note, self.keys_of(self.named))
        self.left = {}
        for known in self.kept:
            if known.is_own:
                self.left.setdefault(known.id, []).append(known)

    def keys_of(self, kept):
        return self.installation if kept.owner == INSTALLATION else self.keys

    def is_signed(self, kept):
        return is_signed(kept.note, self.keys_of(kept))

    def compare(self, id_, hash_):
        """Whether the named one contradicts this entry."""
        found = self.left.pop(id_, [])
        for known in found:
            known.state = "agrees" if known.h == hash_ else "contradicts"
        return self.named in found and self.named.state == "contradicts"

    def accept(self, id_, metadata, time):
        told = metadata_of(metadata)
        ends = [told.get("agrees_through"), told.get("witnessed_id")]
        if all(type(end) in (int, float) for end in ends):
            self.accepted.append((id_, *ends, time))

    def find(self, kept):
        """The entry by which an operator accepted that the entry of a checkpoint was lost."""
        return next((known for known in self.accepted if kept.is_own and known[1] < kept.id <= known[2] and kept.time <= known[3]), None)

    def explain(self, kept):
        known = kept and self.find(kept)
        return known and (f"; by entry {known[0]}, audit.rollback_accepted, an operator accepted at {known[3]} that entries through {known[2]} were lost. "
                          "Give a checkpoint from after that too: if the log agrees with it, this one counts as of a lost entry") or ""

    def agrees(self, kept):
        return kept.state == "agrees" and self.is_signed(kept)

    def joins(self, id_):
        return any(known.id == id_ and known.is_own and self.agrees(known) for known in self.kept)

    def judge(self, head, signed_at, shown):
        """`shown`: the end of the installation's log, its time, the entries that the file shows of it, and whether the anchor was compared."""
        for known in self.kept:
            if known.state:
                continue
            end, at, states, compared = (head[0], signed_at, [], False) if known.is_own else shown or (float("inf"), "", [], False)
            same = [state for state in ([head] if known.is_own else states) if state[0] == known.id]
            if known.id > end:
                known.state = "contradicts" if known is self.named or known.time <= at else None
            elif any(state[1] != known.h for state in same):
                known.state = "contradicts"
            elif same and compared:
                known.state = "agrees"
            if known.state and not known.is_own and not self.is_signed(known):
                known.state = None  # another installation's, in the same file
        lost = [known for known in self.kept if known.state == "contradicts" and self.is_excused(known)]
        wrong = [known for known in self.kept if known.state == "contradicts" and known not in lost]
        for known in sorted(wrong, key=lambda known: (not known.is_own, known.id)):
            if not self.is_signed(known):
                raise KeptNoteError(f"the checkpoint of {known.time} contradicts the export at entry {known.id}, but its own signature is not that of the given key")
            end, at = (head[0], signed_at) if known.is_own else shown[:2]
            is_newer = any(not other.is_own and self.agrees(other) and (other.time, other.id) > (known.time, known.id) for other in self.kept)
            why = self.explain(known) if known.is_own else LEAVE_OUT if is_newer else ""
            demand(known.id <= end, ends_before("the log" if known.is_own else "the installation's log", end, at, known.id, known.time) + why)
            no_entry = f", and {NO_ENTRY}"
            demand(not known.is_own, f"entry {known.id} is not the one of the checkpoint of {known.time}: {ANOTHER_LOG}{why or no_entry}")
            demand(False, f"entry {known.id} of the installation's log is not that of the checkpoint of {known.time}: {ANOTHER_LOG}{why}")
        silent, entries = [known for known in self.kept if known.state is None], {}
        for known in silent:
            entries.setdefault((known.owner, known.id), []).append(known)
        for known in entries.values():
            if len({kept.h for kept in known}) == 1:
                continue
            one, *others = [kept for kept in known if not self.find(kept) and self.is_signed(kept)] or [None]
            for other in others:
                where = f": {ANOTHER_LOG}, and {NO_ENTRY}" if one.is_own else f" of the installation's log: {ANOTHER_LOG}{LEAVE_OUT}"
                demand(other.h == one.h, f"the checkpoints of {other.time} and of {one.time} state different hashes of entry {one.id}{where}")
        return {"given": self.given, "not_compared": len(silent) + self.given - len(self.kept), "accepted": len(lost)}

    def is_excused(self, kept):
        """An operator accepted the loss: the log's own word, which never counts against its newest checkpoint."""
        newer = self.kept[: self.kept.index(kept)]
        return self.find(kept) is not None and any((known.is_own or known is self.named) and self.agrees(known) for known in newer)

    def unused(self):
        """The newest that could not be compared."""
        return next((known for known in self.kept if known.state is None), None)


def is_signed(note, keys):
    try:
        read_note(note, keys)
        return True
    except (ValueError, InvalidSignature):
        return False


def view(kept):
    return {"tenant_id": kept.owner, "id": kept.id, "hash": base64.b64encode(kept.h).decode(), "signed_at": kept.time}


def verify(file, public_key=None, checkpoint=None, checkpoints=None, tree_proof=None, tree=None):
    """Reads a binary file to its end; returns the verdict, which says why and at which line where it is not valid."""
    verdict, line, refused = {"valid": False, "verified_entries": 0}, 1, None
    try:
        tenant, after_id, after_hash, notes, stated = read(HEADER, file.readline(MAX_LINE_BYTES).decode(), "the header of an export")
        last_id, last, time, purge, moved = int(after_id), bytes.fromhex(after_hash), "", None, False
        demand(last_id or last == hashlib.sha256(b"eaas/audit/genesis/v1" + tenant.encode()).digest(), "not the genesis hash")
        changes = follow(json.loads(f"[{notes or ''}]"))
        keys = keys_of(changes)
        demand(not keys or public_key in (None, *keys), "the export is of an installation whose signing keys do not include the one given")
        demand(public_key or checkpoint is None and not checkpoints, "a checkpoint needs the public key that it is checked by")
        installation = read_installation(json.loads(stated)) if stated else []
        demand(installation or tenant != INSTALLATION, "the first line does not state the keys of the installation")
        if installation:
            verdict.update(tree=tree_name(installation[0]), trusted_tree=tree is not None)
        demand(tree in (None, verdict.get("tree")), "the tree of the installation is another than the one given")
        comparison = Comparison(checkpoint, checkpoints or [], tenant, keys or public_key, installation or keys or public_key)
        if comparison.named:
            verdict["checkpoint"] = view(comparison.named)
        anchor, links = None, None
        verdict.update(tenant_id=tenant, after_id=last_id)
        rights, tree, rollbacks = Rights(last_id), Root(), {}
        while True:
            if comparison.compare(last_id, last):  # read on: an operator may have accepted the loss
                refused = {**verdict, "line": line, "reason": f"entry {last_id} is not the one of the checkpoint: {ANOTHER_LOG}"}
            if anchor and anchor[1][0] == last_id:
                demand(anchor[1][1] == last, f"entry {last_id} is not the one that the anchor covers: {ANOTHER_LOG}")
                anchor[3]["compared"] = True
            line += 1
            text = file.readline(MAX_LINE_BYTES).decode()
            demand(text, f"the file was cut short: it ends with entry {last_id}, without the line that is signed")
            if text.startswith(('{"checkpoint"', '{"stretch"')):
                break
            if text.startswith('{"anchor"'):
                demand(not anchor and last_id == verdict["after_id"], "an anchor stands before the entries, once")
                demand(installation, "the first line does not state the keys of the installation")
                anchor = read_anchor(text, tenant)
                verdict["anchor"] = anchor[3]
                continue
            if text.startswith('{"tree"'):
                demand(anchor and not links and last_id == verdict["after_id"], "what links entries to the anchor stands behind the anchor, once")
                links = read_links(text)
                continue
            id_, *columns, hash_ = read(ENTRY, text, "an entry")
            demand(int(id_) == last_id + 1, f"entry {last_id + 1} is missing")
            last_id, last = last_id + 1, chained(last, tenant, id_, columns)
            demand(last.hex() == hash_, f"entry {last_id} was altered")
            tree.add(last)
            accepts = columns[0] == '"audit.clock_accepted"' and json.dumps(metadata_of(columns[-2]).get("ahead_until")) == time
            demand(columns[-1] >= time or accepts, f"the time of entry {last_id} went back")
            action, key_id, version, actor = (json.loads(column) for column in columns[:4])
            rights.read(last_id, action, key_id, version, actor, columns[-2])
            if action == "audit.rollback_accepted":
                rollbacks = {"entries": rollbacks.get("entries", 0) + 1, "newest_id": last_id}
                comparison.accept(last_id, columns[-2], json.loads(columns[-1]))
            moved = action == "tenant.update" and metadata_of(columns[-2]).get("status") == "moved"
            time = columns[-1]
            if columns[0] == '"audit.purge"' and purged_through(columns[-2]) == verdict["after_id"]:
                purge = verdict["after_id"]
            verdict["verified_entries"] += 1
        kind, *rest = read(TRAILER, text, "the trailer of an export")
        note, signer, entries = (text and json.loads(text) for text in rest)
        demand(not installation or installation[-1] == signer, "another key than the one that signed the export states the keys of the installation")
        demand(not keys or keys[-1] == signer, "the statements about new signing keys do not lead to the key that signed the export")
        demand(keys or public_key in (None, signer), "the export names a different public key from the one given")
        owner, ends, signed_at = read_note(note, signer, kind)
        verdict.update(public_key=signer, trusted_key=public_key == signer)
        if public_key and public_key != signer:
            verdict["key_changes"] = changes[keys.index(public_key):]
        demand(owner == tenant, "the last line is of another log")
        if ends[0][0] != last_id:
            verdict["signed_through"] = ends[0][0]
            demand(False, f"the file was signed through entry {ends[0][0]}, and ends with entry {last_id}")
        demand(ends[0][1] == last, f"what was signed does not agree with entry {last_id}, the last one")
        if entries is not None:
            demand(read_entries(entries, signer)[:4] == (tenant, verdict["after_id"], last_id, tree.root()),
                   "the tree that was signed is not that of these entries")
        rights.end(last_id)
        head = ends[-1]
        shown = None
        if anchor:
            position, covered, signed, report = anchor
            kind = "checkpoint" if signed.startswith("eaas/audit/checkpoint/v1\n") else "stretch"
            owner, states, at = read_note(signed, signer, kind)
            demand((owner, states[0]) == (INSTALLATION, position), "what is signed does not agree with the anchor")
            size = states[-1][0]
            for id_, hash_, nodes in links and [(*position, links[1]), *links[2]] or []:
                size, root, _, lines = read_tree(links[0], [signer], installation[0])
                demand(len(lines) == 1, "the tree has more than the signature of the log")
                demand(size == states[-1][0], "the tree is not that of the installation's log that was signed")
                demand(root_of(hash_, id_ - 1, size, nodes) == root, f"the tree of the installation's log does not hold entry {id_}")
            demand(covered[0] <= head[0], f"the log ends before the anchor, which covers {covered[0]} entries")
            shown = size, at, states + [link[:2] for link in links[2]] if links else states, report["compared"]
        if comparison.named and not refused:
            counted, first = comparison.judge(head, signed_at, shown), comparison.named
            named = comparison.unused() or first
            compared = named is first and comparison.agrees(first) and comparison.given == len(comparison.kept)
            verdict.update({"checkpoints": counted} if counted["given"] > 1 else {}, checkpoint=view(named), checkpoint_compared=compared)
            if comparison.agrees(first) and not first.is_own:
                linked = next((nodes for id_, _, nodes in (links[2] if links else []) if id_ == first.id), None)
                is_shown = tree_proof is not None and linked is not None and first.id != position[0]
                demand(not is_shown or left_nodes(first.id - 1, size, linked) == tree_proof,
                       f"the tree of the installation's log does not continue the one that witnesses cosigned at entry {first.id}: the log was rewritten")
                report.update({"vouched": first.id == position[0] or is_shown and position[0] < first.id} if compared else {})
        line += 1
        demand(not file.read(1), "there is something after the trailer")
    except (ValueError, InvalidSignature) as fault:
        return refused or {**verdict, "line": line, "reason": str(fault) or "the signature of the checkpoint does not verify"}
    if refused:
        return {**refused, "reason": refused["reason"] + comparison.explain(comparison.named)}
    verdict.update({"accepted_rollbacks": rollbacks} if rollbacks else {})
    verdict.update({"purged_through": purge} if purge else {})
    missing = [] if verdict["after_id"] in (0, purge) or comparison.joins(verdict["after_id"]) else ["beginning"]
    missing += ["end"] if head[0] > last_id or moved else []
    return {**verdict, "valid": True, "signed_at": signed_at, "head_id": head[0], "missing": missing, "whole": not missing}


def exit_code(verdict):
    if not verdict["valid"]:
        return 1
    if not Ed25519PublicKey:
        return 3
    part, unused = PART * (not verdict["whole"]), UNUSED * (verdict.get("checkpoint_compared") is False)
    return max(part, unused, UNTRUSTED * (not verdict["trusted_key"]))


class Once(argparse.Action):
    """An option that argparse would take the last value of, and drop the others in silence."""

    def __call__(self, parser, args, value, option=None):
        if getattr(args, self.dest) is not None:
            parser.error(f"argument {option}: takes one value, and is given twice")
        setattr(args, self.dest, value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", help="what eaas audit export wrote")
    parser.add_argument("--public-key", metavar="KEY", action=Once, help="eaas-audit+..., or a file that holds it")
    parser.add_argument("--checkpoint", metavar="FILE", action=Once, help="the checkpoints that were kept, all in one file")
    parser.add_argument("--witness", metavar="KEY", action="append", help="a witness that must have cosigned the checkpoint, in a file of the server's lines")
    parser.add_argument("--tree", metavar="NAME", action=Once, help="what eaas audit public-key --tree printed")
    args = parser.parse_args()
    witnesses = []
    for text in args.witness or []:
        try:
            witnesses.append(read_witness_key(text))
        except ValueError:
            parser.error(f"argument --witness: {text} is not the key of a witness, or was mistyped: its parts do not belong together")
    if args.checkpoint and not args.public_key:
        parser.error("argument --checkpoint: needs --public-key")
    if witnesses and not args.checkpoint:
        parser.error("argument --witness: needs --checkpoint, a file of checkpoints that the server wrote")
    try:
        known, kept_note = (open(path, encoding="utf-8-sig", newline="").read().replace("\r\n", "\n") if os.path.exists(path or "") else path
                            for path in (args.public_key, args.checkpoint))
        with open(args.file, "rb") as export:
            known = known and known.strip()
            named, notes, proof = (None, [], None) if kept_note is None else choose(kept_note, export, known, witnesses)
            answer = verify(export, known, named, notes, proof, args.tree and args.tree.split("+")[0])
    except (OSError, ValueError, KeptNoteError, InvalidSignature) as error:
        print(error or "the signature of the checkpoint does not verify", file=sys.stderr)
        sys.exit(3)
    print(json.dumps(answer))
    if not known:
        print("WARNING: the public key came from the file itself: give the one that you know", file=sys.stderr)
    if not Ed25519PublicKey:
        print("!!! THE SIGNATURE WAS NOT CHECKED: this needs the Python package cryptography", file=sys.stderr)
    if "key_changes" in answer:
        print("WARNING: the key that you gave was replaced: compare the new one with the operator's over another channel", file=sys.stderr)
    sys.exit(exit_code(answer))
