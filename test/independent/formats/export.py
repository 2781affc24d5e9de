"""The vectors of export.md."""
import json

from .chain import entry_hash, genesis, json_string
from .checkpoint import (
    ORIGIN, OTHER_SEED, SIGNED_AT, SIGNING_SEED, checkpoint_text, entries_text, note_key_id, note_of, public_key_text, stretch_text,
)
from .key_change import THIEF_SEED, THIRD_SEED, installation_note, key_change, key_change_vectors, written
from .common import KEY, MADE_BY, MAX, NIL, OTHER_KEY, OTHER_TENANT, TENANT, b64, ed25519_public, flip, sha256
from .merkle import anchor_leaf, inclusion_proof, merkle_root
from .tree import tree_note, tree_origin, tree_text


def export_members(members):
    def item(value):
        if value is None:
            return "null"
        return json_string(value) if isinstance(value, str) else str(value)

    return "{" + ",".join(f"{json_string(name)}:{item(value)}" for name, value in members.items()) + "}\n"


class Export:
    """The lines of an export, made as export.md says, with whatever fault is asked for."""

    def __init__(self, drafts, after_id=0, after_hash=None, seed=SIGNING_SEED, tenant=TENANT, key_changes=None, keys=None):
        self.key_changes, self.keys = key_changes, keys or [seed]
        self.tenant, self.seed, self.after_id = tenant, seed, after_id
        self.after_hash = genesis(tenant) if after_hash is None else after_hash
        self.entries, hash_ = [], self.after_hash
        for at, draft in enumerate(drafts):
            entry = {"tenant_id": tenant, "id": after_id + at + 1, **draft}
            hash_ = entry_hash(hash_, entry)
            self.entries.append({**{name: value for name, value in entry.items() if name != "tenant_id"}, "hash": hash_.hex()})
        self.last_id, self.hash = after_id + len(self.entries), hash_

    def header(self, installation=None, **changes):
        """`installation`: the statement of the installation's keys, of which `keys` are the seeds."""
        line = export_members({"format": "eaas/audit/export/v1", "tenant_id": self.tenant, "after_id": self.after_id,
                               "after_hash": self.after_hash.hex(), **changes})
        more = "" if self.key_changes is None else ',"key_changes":[' + ",".join(map(json_string, self.key_changes)) + "]"
        return line[:-2] + more + ("" if installation is None else ',"installation":' + json_string(installation)) + "}\n"

    def lines(self):
        return [export_members(entry) for entry in self.entries]

    def note(self, **statement):
        return note_of(checkpoint_text(**{
            "tenant": self.tenant, "last_id": self.last_id, "hash_": self.hash, "time": "2026-08-12T00:00:00.000Z", **statement,
        }), self.seed)

    def trailer(self, **changes):
        return export_members({"checkpoint": self.note(), "public_key": public_key_text(ed25519_public(self.seed)), **changes})

    def tree(self, seed=None, **statement):
        """The note of the tree over the entries (proof.md 2)."""
        root = merkle_root([bytes.fromhex(entry["hash"]) for entry in self.entries])
        return note_of(entries_text(**{"tenant": self.tenant, "after_id": self.after_id, "last_id": self.last_id, "root": root, **statement}), seed or self.seed)

    def stretch(self, head_id, head_hash, **statement):
        """The last line where the log goes on behind the last entry."""
        note = note_of(stretch_text(**{
            "tenant": self.tenant, "last_id": self.last_id, "hash_": self.hash, "head_id": head_id, "head_hash": head_hash,
            "time": "2026-08-12T00:00:00.000Z", **statement,
        }), self.seed)
        return export_members({"stretch": note, "public_key": public_key_text(ed25519_public(self.seed))})

    def file(self, last_line=None):
        return "".join([self.header(), *self.lines(), last_line or self.trailer()])

    def file_with(self, anchor, last_line=None, installation=""):
        return "".join([self.header(installation_note(*self.keys) if installation == "" else installation), anchor, *self.lines(), last_line or self.trailer()])


class Anchored:
    """The line of an anchor over the head of an export and those of other tenants, made as export.md 8 says."""

    def __init__(self, export, last_id=None, hash_=None, others=(NIL, OTHER_TENANT, "00000000-0000-4000-8000-000000000001"),
                 root=None, action="installation.anchor", metadata=""):
        self.last_id = export.last_id if last_id is None else last_id
        self.hash_ = bytes.fromhex(export.entries[self.last_id - export.after_id - 1]["hash"]) if hash_ is None else hash_
        heads = {other: (at + 7, sha256(other.encode())) for at, other in enumerate(others)}
        heads[export.tenant] = (self.last_id, self.hash_)
        tenants = sorted(heads)
        leaves = [anchor_leaf(tenant, last_id, hash_.hex()) for tenant in tenants for last_id, hash_ in [heads[tenant]]]
        self.index = tenants.index(export.tenant)
        self.proof, self.size = inclusion_proof(self.index, leaves), len(leaves)
        self.root = merkle_root(leaves) if root is None else root
        self.metadata = f'{{"root":"{self.root.hex()}","tenants":{self.size}}}' if metadata == "" else metadata
        self.before = sha256(b"the entry before the anchor")
        self.entry = {"id": 3, "action": action, "key_id": None, "key_version": None, "actor": "system", "ip_address": None,
                      "metadata": self.metadata, "created_at": "2026-08-11T09:31:00.000Z"}
        self.own_hash = entry_hash(self.before, {"tenant_id": MAX, **self.entry})

    def entry_text(self):
        return export_members({**self.entry, "hash": self.own_hash.hex()})[:-1]

    def note(self, seed=SIGNING_SEED, **statement):
        return note_of(checkpoint_text(**{
            "tenant": MAX, "last_id": 3, "hash_": self.own_hash, "time": "2026-08-12T00:00:00.000Z", **statement}), seed)

    def stretch(self, seed=SIGNING_SEED, **statement):
        return note_of(stretch_text(**{
            "tenant": MAX, "last_id": 3, "hash_": self.own_hash, "head_id": 5, "head_hash": sha256(b"the installation's head"),
            "time": "2026-08-12T00:00:00.000Z", **statement}), seed)

    def line(self, entry_text=None, exchanged=False, **changes):
        rest = {"after_hash": self.before.hex(), "last_id": self.last_id, "hash": self.hash_.hex(), "index": self.index,
                "proof": self.proof, "signed": self.note(), **changes}
        if exchanged:
            rest = dict(reversed(rest.items()))
        texts = []
        for name, value in rest.items():
            if name == "proof":
                text = "[" + ",".join(f'"{node.hex()}"' for node in value) + "]"
            else:
                text = "null" if value is None else json_string(value) if isinstance(value, str) else str(value)
            texts.append(f'"{name}":{text}')
        return '{"anchor":' + (entry_text or self.entry_text()) + "," + ",".join(texts) + "}\n"

    def leaves(self, size=5):
        """The tree of the installation's log (tree.md 1)."""
        return [sha256(b"the installation's first entry"), self.before, self.own_hash, sha256(b"an entry behind the anchor"),
                sha256(b"the installation's head")][:size]

    def links(self, ids=(1, 2, 5), size=5, note=None, proof=None, **changes):
        """The line of export.md 9; of an entry with a change by its name, as in `link_2`, that is written instead."""
        leaves = self.leaves(size)
        nodes = lambda nodes: "[" + ",".join(f'"{node.hex()}"' for node in nodes) + "]"
        entries = [changes.get(f"link_{id_}") or self.link(id_, leaves) for id_ in ids]
        return '{"tree":' + json_string(note or tree_note(tree_text(leaves))) + ',"proof":' + nodes(
            inclusion_proof(2, leaves) if proof is None else proof) + ',"entries":[' + ",".join(entries) + "]}\n"

    def link(self, id_, leaves=None, hash_=None, proof=None, shown_id=None):
        leaves = leaves or self.leaves()
        proof = inclusion_proof(id_ - 1, leaves) if proof is None else proof
        nodes = ",".join(f'"{node.hex()}"' for node in proof)
        return f'{{"id":{id_ if shown_id is None else shown_id},"hash":"{(hash_ or leaves[id_ - 1]).hex()}","proof":[{nodes}]}}'

    def report(self, compared=True):
        return {"id": 3, "created_at": "2026-08-11T09:31:00.000Z", "tenants": self.size, "last_id": self.last_id, "compared": compared}


def export_drafts():
    actor = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f10"

    def draft(action, ms, key_id=None, key_version=None, actor=actor, ip_address="10.0.0.1", metadata=None):
        return {"action": action, "key_id": key_id, "key_version": key_version, "actor": actor, "ip_address": ip_address,
                "metadata": metadata, "created_at": f"2026-08-11T09:30:00.{ms:03d}Z"}

    return [
        draft("api_key.create", 0, actor="system", ip_address=None, metadata='{"api_key_id":"' + actor + '"}'),
        draft("key.create", 1, KEY, 1, metadata='{"name":"Ren\u00e9e \U0001f510 \\"\\\\ \u2028"}'),
        draft("key.wrap", 1, KEY, 1),
        draft("key.unwrap", 7, KEY, 1, ip_address="2001:db8::1"),
        draft("envelope_only.refused", 9, metadata="\t\x01\x1f\x7f</script>"),
        draft("key.rotate", 10, KEY, 2, metadata='{"replaces":2}'),
    ]


FIRST_API_KEY, SECOND_API_KEY = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f10", "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f11"
THIRD_API_KEY, FOURTH_API_KEY = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f12", "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f13"
CLOSING_KEY = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f20"
FOLDER_KEY, NEW_KEY = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f21", "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f22"
FOLDERS, LISTED, NOTHING, MANAGER, MADE = (f"6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f3{at}" for at in range(5))  # API keys
ALL_PERMISSIONS = ("api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy "
                   "keys:disable keys:export keys:read keys:rotate")


def change(action, key_version=None, key_id=KEY, actor=FIRST_API_KEY, **metadata):
    """An entry of a history of rights (chain.md 11): about KEY if it names a version."""
    text = json.dumps(dict(sorted(metadata.items())), separators=(",", ":"), ensure_ascii=False) if metadata else None
    return {"action": action, "key_id": None if key_version is None else key_id, "key_version": key_version, "actor": actor,
            "ip_address": None, "metadata": text, "created_at": "2026-08-11T09:30:00.000Z"}


def history_drafts():
    return [
        change("api_key.create", actor="system", api_key_id=FIRST_API_KEY, permissions=ALL_PERMISSIONS, envelope_only=True),  # 1
        change("api_key.create", api_key_id=SECOND_API_KEY, permissions="api_keys:manage decrypt encrypt keys:export"),
        change("key.create", 1),
        change("key.wrap", 1),
        change("key.rotate", 2, replaces=3),  # 5
        change("key.wrap", 2),
        change("key.unwrap", 1),
        change("key.rotation_policy", 2, interval_days=30, replaces=5),
        change("api_key.update", api_key_id=SECOND_API_KEY, permissions="api_keys:manage encrypt", replaces=2),
        change("key.wrap", 2, actor=SECOND_API_KEY),  # 10
        change("tenant.update", actor="system", replaces=1, envelope_only=False),
        change("key.disable", 2, replaces=8),
        change("key.unwrap", 2),
        change("key.enable", 2, replaces=12),
        change("key.export", 2),  # 15
        change("encrypt", 2),
        change("decrypt", 1),
        change("tenant.update", actor="system", replaces=11, envelope_only=True),
        change("api_key.revoke", api_key_id=SECOND_API_KEY, actor=SECOND_API_KEY, replaces=9),
        change("key.rotate", 3, actor="system", replaces=14),  # 20
        change("key.disable", 3, replaces=20),
        change("key.destroy", 3, replaces=21, step="scheduled"),
        change("key.destroy", 3, replaces=22, step="cancelled"),
        change("key.destroy", 3, replaces=23, step="scheduled"),
        change("key.destroy", 3, actor="system", replaces=24, step="completed", versions=3),  # 25
        change("envelope_only.refused", 3),
        change("key.create", 1, key_id=OTHER_KEY),
        change("tenant.update", actor="system", replaces=18, status="suspended"),
        change("key.rotate", 2, key_id=OTHER_KEY, actor="system", replaces=27),
        change("tenant.update", actor="system", replaces=28, status="active", envelope_only=False),  # 30
        change("encrypt", 2, key_id=OTHER_KEY),
        change("api_key.create", api_key_id=THIRD_API_KEY, name="till", permissions="encrypt"),
        change("key.wrap", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY),
        change("envelope_only.refused", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY, operation="encrypt"),
        change("api_key.update", api_key_id=THIRD_API_KEY, name="shop", name_before="till", permissions="hash", replaces=32),  # 35
        change("key.wrap", 2, key_id=OTHER_KEY, rewrapped_from=1, on_behalf_of="somebody"),
        change("api_key.update", api_key_id=THIRD_API_KEY, permissions="api_keys:manage encrypt", replaces=35),
        change("api_key.create", api_key_id=FOURTH_API_KEY, actor=THIRD_API_KEY, permissions="hash"),  # which `encrypt` implies
        change("api_key.update", api_key_id=FOURTH_API_KEY, permissions="decrypt encrypt", replaces=38),
        change("api_key.update", api_key_id=FOURTH_API_KEY, actor=THIRD_API_KEY, permissions="decrypt", replaces=39),  # 40
        change("api_key.update", api_key_id=FOURTH_API_KEY, actor=THIRD_API_KEY, replaces=40),
        change("key.unwrap", 1, key_id=OTHER_KEY, actor=FOURTH_API_KEY),
        change("something.new", actor=FOURTH_API_KEY),
        restated_key(25, "destroyed", version=3),
        restated_key(29, "active", key_id=OTHER_KEY),  # 45
        restated_api_key(19, "api_keys:manage encrypt", revoked=True),
        restated_api_key(37, "encrypt api_keys:manage", api_key_id=THIRD_API_KEY, name="shop"),
        restated_tenant(30),
        change("key.wrap", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY),
        change("key.disable", 2, key_id=OTHER_KEY, replaces=45),  # 50
        restated_key(50, "disabled", key_id=OTHER_KEY),
        change("api_key.update", api_key_id=THIRD_API_KEY, permissions="encrypt", replaces=47),
        change("key.rotation_policy", 2, key_id=OTHER_KEY, interval_days=7, status="disabled", replaces=51),
        change("key.destroy", 2, key_id=OTHER_KEY, replaces=53, step="scheduled"),
        restated_key(54, "pending_destruction", key_id=OTHER_KEY),  # 55
        change("tenant.update", actor="system", replaces=48, status="active", envelope_only=True),
        change("key.create", 1, key_id=CLOSING_KEY, folder=""),  # 57
        change("key.rotate", 2, key_id=CLOSING_KEY, replaces=57),
        change("key.wrap", 2, key_id=CLOSING_KEY, rewrapped_from=1),
        updated_key(58, 2, 1),
        change("key.unwrap", 2, key_id=CLOSING_KEY),  # 61
        change("key.wrap", 2, key_id=CLOSING_KEY, rewrapped_from=2),
        restated_key(60, "active", key_id=CLOSING_KEY, min_unwrap_version=2),
        updated_key(63, 1, 2),
        change("key.unwrap", 1, key_id=CLOSING_KEY),  # 65
        change("key.create", 1, key_id=FOLDER_KEY, folder="customers/eu/", name="customers/eu/\u202e7\u200b "),
        granted(FOLDERS, "api_keys:manage encrypt keys:create", ["customers/*"]),
        change("key.wrap", 1, key_id=FOLDER_KEY, actor=FOLDERS),
        change("key.create", 1, key_id=NEW_KEY, actor=FOLDERS, folder="customers/"),
        granted(LISTED, "encrypt", [FOLDER_KEY, "customers/eu/*"], actor=FOLDERS),  # 70
        change("key.wrap", 1, key_id=FOLDER_KEY, actor=LISTED),
        granted(LISTED, "encrypt", [CLOSING_KEY], replaces=70),
        change("key.wrap", 2, key_id=CLOSING_KEY, actor=LISTED),
        restated_key(66, "active", version=1, key_id=FOLDER_KEY, folder="customers/eu/", name="customers/eu/\u202e7\u200b "),
        restated_api_key(67, "encrypt api_keys:manage keys:create", api_key_id=FOLDERS, keys='["customers/*"]'),  # 75
        change("key.wrap", 1, key_id=FOLDER_KEY, actor=FOLDERS),
        change("api_key.update", api_key_id=LISTED, actor="system", replaces=72),
        change("key.wrap", 2, key_id=CLOSING_KEY, actor=LISTED),
        granted(MANAGER, "api_keys:manage", None),
        granted(LISTED, "encrypt", [], actor=MANAGER, replaces=77),  # 80
        granted(FOLDERS, "encrypt", None, replaces=75),
        change("key.wrap", 2, key_id=CLOSING_KEY, actor=FOLDERS),
        granted(NOTHING, "audit:read encrypt", []),
        change("something.new", actor=NOTHING),
        granted(MANAGER, "api_keys:manage decrypt wrap", None, replaces=79),  # 85
        change("key.wrap", 2, key_id=CLOSING_KEY, actor=MANAGER, rewrapped_from=1),
        change("key.unwrap", 1, key_id=CLOSING_KEY, actor=MANAGER),
        granted(LISTED, "unwrap wrap", [], actor=MANAGER, replaces=80),
        granted(LISTED, "unwrap", None, actor="system", replaces=88),
        change("key.unwrap", 1, key_id=CLOSING_KEY, actor=LISTED),  # 90
        change("key.rotate", 3, key_id=CLOSING_KEY, actor="system", replaces=64, wraps=2),
        updated_key(91, 3, 1, version=3),
        destroyed_version(92, 1),
        restated_key(93, "active", version=3, key_id=CLOSING_KEY, min_unwrap_version=3, destroyed_through=1),
        updated_key(94, 2, 3, version=3),
        updated_key(95, 3, 2, version=3),
        change("key.disable", 3, key_id=CLOSING_KEY, replaces=96),
        destroyed_version(97, 2, status="disabled"),
        change("key.unwrap", 3, key_id=CLOSING_KEY),
        limits_changed("unwrap", 89, actor=MANAGER, expires_at=(None, SOON), allowed_ips=(None, "10.0.0.0/8 ::1"), budgets=(None, '{"unwrap":{"day":9}}')),  # 100
        limits_changed("unwrap", 100, actor=MANAGER, expires_at=(SOON, LATE), allowed_ips=("10.0.0.0/8 ::1", None), budgets=('{"unwrap":{"day":9}}', None)),
        limits_changed("encrypt unwrap", 101, expires_at=(LATE, LATE), allowed_ips=(None, "10.0.0.0/8 ::1"), budgets=(None, '{"unwrap":{"day":9}}')),
        limits_changed("encrypt unwrap", 102, actor=MANAGER, expires_at=(LATE, SOON), allowed_ips=("10.0.0.0/8 ::1", "::1")),
        limits_changed("encrypt unwrap", 103, allowed_ips=("::1", LONG)),
        limits_changed("encrypt unwrap", 104, actor=MANAGER, allowed_ips=(LONG, "::1")),  # 105: of which nothing is known
        limits_changed("encrypt unwrap", 105, allowed_ips=("::1", LONG)),
        granted(FOLDERS, "api_keys:manage encrypt", ["customers/*"], replaces=81),
        granted(MADE, "encrypt", [], actor=FOLDERS),
        change("api_key.revoke", api_key_id=MADE, actor=MADE, replaces=108),
    ]


def granted(api_key_id, permissions, keys, replaces=None, **more):
    """An API key that is created, or changed, with the keys that it is limited to from then on."""
    told = {"keys": json.dumps(sorted(keys), separators=(",", ":"))} if keys is not None else {}
    told |= {"replaces": replaces} if replaces is not None else {}
    return change("api_key.create" if replaces is None else "api_key.update", api_key_id=api_key_id, permissions=permissions, **told, **more)


SOON, LATE = "2027-01-01T00:00:00.000Z", "2028-01-01T00:00:00.000Z"
LONG = {"count": 200, "sha256": "5d" * 32}  # what an entry says of a long list of addresses


def limits_changed(permissions, replaces, **limits):
    """An API key of all keys whose limits are changed, each from one value to another."""
    told = {name: limits.pop(name) for name in ("expires_at", "allowed_ips", "budgets") if name in limits}
    values = {}
    for name, (before, after) in told.items():
        for key, value in [(f"{name}_before", before)] * (before != after) + [(name, after)]:
            values |= {f"{key}_{part}": said for part, said in value.items()} if value is LONG else {key: value}
        if name == "budgets" and after is None:
            del values["budgets"]
    return granted(LISTED, permissions, None, replaces=replaces, **values, **limits)


def restated_key(replaces, status, version=2, actor="system", key_id=KEY, **more):
    return change("key.restate", version, key_id=key_id, actor=actor, replaces=replaces, **{
        "status": status, "interval_days": None, "destroy_at": None, **more})


def updated_key(replaces, least, before, status="active", version=2, key_id=CLOSING_KEY, **more):
    """An entry of a key whose versions below `least` no longer open."""
    return change("key.update", version, key_id=key_id, replaces=replaces, **{
        "min_unwrap_version": least, "min_unwrap_version_before": before, "status": status, **more})


def destroyed_version(replaces, number, status="active", version=3, key_id=CLOSING_KEY, **more):
    """An entry of a key one version of which was destroyed."""
    return change("key.destroy", version, key_id=key_id, replaces=replaces, **{"step": "version", "version": number, "status": status, **more})


def restated_api_key(replaces, permissions, revoked=False, actor="system", api_key_id=SECOND_API_KEY, **more):
    return change("api_key.restate", actor=actor, api_key_id=api_key_id, permissions=permissions, expires_at=None, allowed_ips=None,
                  revoked_at="2026-08-11T09:30:00.000Z" if revoked else None, replaces=replaces, **more)


def restated_tenant(replaces, actor="system", **more):
    return change("tenant.restate", actor=actor, replaces=replaces, **{
        "status": "active", "envelope_only": False, "monthly_encrypt_quota": None, "plaintext_encoding": "utf8", **more})


def without(draft, name):
    told = json.loads(draft["metadata"])
    del told[name]
    return {**draft, "metadata": json.dumps(told, separators=(",", ":"))}


def history_faults():
    """Name, what is wrong, how many entries of the history come before, the entry."""
    rename, policy = {"api_key_id": SECOND_API_KEY}, {"interval_days": 30}
    mismatch = [
        ("a rotation that replaces nothing", 4, change("key.rotate", 2)),
        ("a rotation that replaces an entry of another row", 4, change("key.rotate", 2, replaces=2)),
        ("a rotation that replaces the last entry of its key, which changed nothing", 4, change("key.rotate", 2, replaces=4)),
        ("a rotation that replaces itself", 4, change("key.rotate", 2, replaces=5)),
        ("a rotation that replaces a text", 4, change("key.rotate", 2, replaces="3")),
        ("a rotation that replaces null", 4, change("key.rotate", 2, replaces=None)),
        ("a rotation that replaces true", 1 + 3, change("key.rotate", 2, replaces=True)),
        ("a rotation undone: the key of its creation rotated again", 7, change("key.rotate", 2, replaces=3)),
        ("a policy on a key of before its rotation", 7, change("key.rotation_policy", 2, replaces=3, **policy)),
        ("a key enabled before it was disabled", 12, change("key.enable", 2, replaces=8)),
        ("a destroyed key of before its destruction", 25, change("key.destroy", 3, replaces=22, step="cancelled")),
        ("a narrowed API key of before", 9, change("api_key.update", replaces=2, **rename)),
        ("a revoked API key of before", 19, change("api_key.update", replaces=9, **rename)),
        ("an API key that replaces nothing", 8, change("api_key.update", **rename)),
        ("an API key that replaces the entry of another", 8, change("api_key.revoke", replaces=1, **rename)),
        ("a tenant that replaces nothing", 10, change("tenant.update", actor="system")),
        ("a tenant of before", 11, change("tenant.update", actor="system", replaces=1)),
        ("versions closed that replace nothing", 59, without(updated_key(58, 2, 1), "replaces")),
        ("versions opened of a key of before they were closed", 61, updated_key(58, 1, 2)),
        ("a version destroyed that replaces nothing", 92, without(destroyed_version(92, 1), "replaces")),
        ("a version destroyed of a key of before it was closed", 92, destroyed_version(91, 1)),
        ("a key restated that replaces nothing", 43, without(restated_key(25, "destroyed", version=3), "replaces")),
        ("a destroyed key of before, restated", 43, restated_key(24, "destroyed", version=3)),
        ("an API key restated that replaces nothing", 43, without(restated_api_key(19, "api_keys:manage encrypt", revoked=True), "replaces")),
        ("a revoked API key of before, restated", 43, restated_api_key(9, "api_keys:manage encrypt", revoked=True)),
        ("a tenant restated that replaces nothing", 43, without(restated_tenant(30), "replaces")),
        ("a tenant of before, restated", 43, restated_tenant(28)),
        ("a change of a restated key that replaces what was restated", 45, change("key.disable", 2, key_id=OTHER_KEY, replaces=29)),
        ("a tenant whose metadata is no JSON", 10, {**change("tenant.update", actor="system"), "metadata": "x"}),
    ]
    violated = [
        ("a key wraps before it exists", 2, change("key.wrap", 1)),
        ("another key, which was never created", 6, change("key.unwrap", 1, key_id=OTHER_KEY)),
        ("a refusal that names a key that was never created", 6, change("envelope_only.refused", 1, key_id=OTHER_KEY)),
        ("a key created twice", 4, change("key.create", 1)),
        ("a key created with version 2", 2, change("key.create", 2)),
        ("a wrap under the version before the rotation", 5, change("key.wrap", 1)),
        ("a wrap under a version to come", 5, change("key.wrap", 3)),
        ("a wrap under version 0", 5, change("key.wrap", 0)),
        ("an encryption under the version before the rotation", 15, change("encrypt", 1)),
        ("an unwrap of a version to come", 5, change("key.unwrap", 3)),
        ("an unwrap of version 0", 5, change("key.unwrap", 0)),
        ("a decryption of a version to come", 15, change("decrypt", 3)),
        ("an export that names an old version", 5, change("key.export", 1)),
        ("an index secret under an old version", 5, change("key.index_secret", 1, name="customers")),
        ("a rotation to the same version", 5, change("key.rotate", 2, replaces=5)),
        ("a rotation that leaves out a version", 5, change("key.rotate", 4, replaces=5)),
        ("a rotation back", 5, change("key.rotate", 1, replaces=5)),
        ("a wrap with a disabled key", 12, change("key.wrap", 2)),
        ("a rotation of a disabled key", 12, change("key.rotate", 3, replaces=12)),
        ("a disabled key disabled", 12, change("key.disable", 2, replaces=12)),
        ("an active key enabled", 14, change("key.enable", 2, replaces=14)),
        ("a change that names an old version", 14, change("key.disable", 1, replaces=14)),
        ("the destruction of an active key scheduled", 14, change("key.destroy", 2, replaces=14, step="scheduled")),
        ("a destruction cancelled that was not scheduled", 21, change("key.destroy", 3, replaces=21, step="cancelled")),
        ("a destruction of no step", 21, change("key.destroy", 3, replaces=21)),
        ("a destruction of another step", 21, change("key.destroy", 3, replaces=21, step="toString")),
        ("a destruction of fewer versions", 24, change("key.destroy", 3, replaces=24, step="completed", versions=2)),
        ("an unwrap while a destruction waits", 22, change("key.unwrap", 1)),
        ("an index secret while a destruction waits", 22, change("key.index_secret", 3, name="customers")),
        ("a key enabled while its destruction waits", 22, change("key.enable", 3, replaces=22)),
        ("an unwrap with a destroyed key", 25, change("key.unwrap", 1)),
        ("a wrap with a destroyed key", 25, change("key.wrap", 3)),
        ("an export of a destroyed key", 25, change("key.export", 3)),
        ("an index secret of a destroyed key", 25, change("key.index_secret", 3, name="customers")),
        ("a destroyed key rotated", 25, change("key.rotate", 4, replaces=25)),
        ("a destroyed key enabled", 25, change("key.enable", 3, replaces=25)),
        ("a destruction of a destroyed key cancelled", 25, change("key.destroy", 3, replaces=25, step="cancelled")),
        ("a destroyed key created", 25, change("key.create", 1)),
        ("a revoked API key that wraps", 19, change("key.wrap", 2, actor=SECOND_API_KEY)),
        ("a revoked API key that renames itself", 19, change("api_key.update", actor=SECOND_API_KEY, replaces=9, **rename)),
        ("a revoked API key, renamed by another", 19, change("api_key.update", replaces=19, **rename)),
        ("a revoked API key, revoked again", 19, change("api_key.revoke", replaces=19, **rename)),
        ("a revoked API key, created again", 19, change("api_key.create", **rename)),
        ("an API key created twice", 3, change("api_key.create", **rename)),
        ("an API key that was never created", 3, change("api_key.update", api_key_id=OTHER_KEY, replaces=1)),
        ("a call of an API key that was never created", 3, change("key.wrap", 1, actor=OTHER_KEY)),
        ("a new API key without its id", 3, change("api_key.create")),
        ("a changed API key without its id", 3, change("api_key.update", replaces=1)),
        ("an unwrap by a closed version", 60, change("key.unwrap", 1, key_id=CLOSING_KEY)),
        ("a decryption by a closed version", 60, change("decrypt", 1, key_id=CLOSING_KEY)),
        ("a rewrap from a closed version", 60, change("key.wrap", 2, key_id=CLOSING_KEY, rewrapped_from=1)),
        ("a rewrap from a version to come", 59, change("key.wrap", 2, key_id=CLOSING_KEY, rewrapped_from=3)),
        ("a rewrap from no version", 59, change("key.wrap", 2, key_id=CLOSING_KEY, rewrapped_from=None)),
        ("a version closed that is the current one", 59, updated_key(58, 3, 1)),
        ("no version closed", 59, updated_key(58, 0, 1)),
        ("a part of a version closed", 59, updated_key(58, 1.5, 1)),
        ("a text of a version closed", 59, updated_key(58, "2", 1)),
        ("true versions closed", 59, updated_key(58, True, 1)),
        ("versions closed that are not stated", 59, without(updated_key(58, 2, 1), "min_unwrap_version")),
        ("versions closed of another state before", 59, updated_key(58, 2, 2)),
        ("versions closed without the state before", 59, without(updated_key(58, 2, 1), "min_unwrap_version_before")),
        ("versions closed of a key that is not disabled", 59, updated_key(58, 2, 1, status="disabled")),
        ("versions closed in no state", 59, without(updated_key(58, 2, 1), "status")),
        ("versions closed of a destroyed key", 59, updated_key(44, 2, 1, status="destroyed", version=3, key_id=KEY)),
        ("versions closed under an old version", 59, updated_key(58, 1, 1, version=1)),
        ("versions closed by an API key that may not destroy", 59, {**updated_key(58, 2, 1), "actor": THIRD_API_KEY}),
        ("a key restated with closed versions opened", 62, restated_key(60, "active", key_id=CLOSING_KEY)),
        ("a key restated with open versions closed", 59, restated_key(58, "active", key_id=CLOSING_KEY, min_unwrap_version=2)),
        ("a version destroyed that opens", 91, destroyed_version(91, 1)),
        ("the version destroyed that wraps", 98, destroyed_version(98, 3, status="disabled")),
        ("a version destroyed before an older one", 92, destroyed_version(92, 2)),
        ("a version destroyed twice", 93, destroyed_version(93, 1)),
        ("no version destroyed", 92, destroyed_version(92, 0)),
        ("a text of a version destroyed", 92, destroyed_version(92, "1")),
        ("a true version destroyed", 92, destroyed_version(92, True)),
        ("half a version destroyed", 92, destroyed_version(92, 0.5)),
        ("a version destroyed that is not stated", 92, without(destroyed_version(92, 1), "version")),
        ("a version destroyed of a key that is not disabled", 92, destroyed_version(92, 1, status="disabled")),
        ("a version destroyed of a destroyed key", 92, destroyed_version(44, 1, status="destroyed", key_id=KEY)),
        ("a version destroyed in no state", 92, without(destroyed_version(92, 1), "status")),
        ("a version destroyed under an old version", 92, destroyed_version(92, 1, version=2)),
        ("a version destroyed by an API key that may not destroy", 92, {**destroyed_version(92, 1), "actor": THIRD_API_KEY}),
        ("an unwrap by a destroyed version", 93, change("key.unwrap", 1, key_id=CLOSING_KEY)),
        ("a destroyed version opened again", 93, updated_key(93, 1, 3, version=3)),
        ("a key restated without its destroyed versions", 93,
         restated_key(93, "active", version=3, key_id=CLOSING_KEY, min_unwrap_version=3)),
        ("a key restated with more destroyed versions", 93,
         restated_key(93, "active", version=3, key_id=CLOSING_KEY, min_unwrap_version=3, destroyed_through=2)),
        ("a key restated with destroyed versions that are none", 93,
         restated_key(93, "active", version=3, key_id=CLOSING_KEY, min_unwrap_version=3, destroyed_through=True)),
        ("a key restated with destroyed versions of none", 92,
         restated_key(92, "active", version=3, key_id=CLOSING_KEY, min_unwrap_version=3, destroyed_through=1)),
        ("a destroyed key restated as active", 43, restated_key(25, "active", version=3)),
        ("an active key restated as disabled", 43, restated_key(29, "disabled", key_id=OTHER_KEY)),
        ("a disabled key restated as active", 50, restated_key(50, "active", key_id=OTHER_KEY)),
        ("a policy that says that an active key is disabled", 14, change("key.rotation_policy", 2, replaces=14, status="disabled", **policy)),
        ("a policy that says that a key is destroyed", 14, change("key.rotation_policy", 2, replaces=14, status="destroyed", **policy)),
        ("a policy that says that a key is null", 14, change("key.rotation_policy", 2, replaces=14, status=None, **policy)),
        ("a key restated as something", 43, restated_key(29, "toString", key_id=OTHER_KEY)),
        ("a key restated as nothing", 43, without(restated_key(29, "active", key_id=OTHER_KEY), "status")),
        ("a key restated in a list", 43, restated_key(29, ["active"], key_id=OTHER_KEY)),
        ("a key restated with an old version", 43, restated_key(29, "active", key_id=OTHER_KEY, version=1)),
        ("a key restated with a version to come", 43, restated_key(29, "active", key_id=OTHER_KEY, version=3)),
        ("a key restated that was never created", 43, restated_key(29, "active", key_id=THIRD_API_KEY)),
        ("a wrap with a destroyed key that was restated", 44, change("key.wrap", 3)),
        ("a key restated by an API key", 43, restated_key(29, "active", key_id=OTHER_KEY, actor=FIRST_API_KEY)),
        ("a revoked API key restated as valid", 43, restated_api_key(19, "api_keys:manage encrypt")),
        ("a valid API key restated as revoked", 43, restated_api_key(37, "api_keys:manage encrypt", api_key_id=THIRD_API_KEY, revoked=True)),
        ("an API key restated with more permissions", 43, restated_api_key(37, "api_keys:manage decrypt encrypt", api_key_id=THIRD_API_KEY)),
        ("an API key restated with fewer permissions", 43, restated_api_key(37, "encrypt", api_key_id=THIRD_API_KEY)),
        ("an API key restated with other permissions", 43, restated_api_key(37, "decrypt encrypt", api_key_id=THIRD_API_KEY)),
        ("an API key restated without permissions", 43, without(restated_api_key(37, "encrypt", api_key_id=THIRD_API_KEY), "permissions")),
        ("an API key restated that may be revoked", 43,
         without(restated_api_key(37, "api_keys:manage encrypt", api_key_id=THIRD_API_KEY), "revoked_at")),
        ("a revoked API key restated that may be valid", 43,
         without(restated_api_key(19, "api_keys:manage encrypt", revoked=True), "revoked_at")),
        ("an API key restated that was never created", 43, restated_api_key(37, "encrypt", api_key_id=OTHER_KEY)),
        ("an API key restated by itself", 43,
         restated_api_key(37, "api_keys:manage encrypt", api_key_id=THIRD_API_KEY, actor=THIRD_API_KEY)),
        ("a revoked API key that was restated wraps", 46, change("key.wrap", 2, key_id=OTHER_KEY, actor=SECOND_API_KEY)),
        ("a revoked API key that was restated is changed", 46, change("api_key.update", api_key_id=SECOND_API_KEY, replaces=46)),
        ("an API key that was restated unwraps", 48, change("key.unwrap", 2, key_id=OTHER_KEY, actor=THIRD_API_KEY)),
        ("a tenant restated as suspended", 43, restated_tenant(30, status="suspended")),
        ("a tenant restated in another mode", 43, restated_tenant(30, envelope_only=True)),
        ("a tenant restated by an API key", 43, restated_tenant(30, actor=FIRST_API_KEY)),
        *history_overreaches(),
        *history_other_keys(),
        *history_loosened(),
    ]
    return [(name, "replaces_mismatch", *rest) for name, *rest in mismatch] + [(name, "state_violated", *rest) for name, *rest in violated]


def history_overreaches():
    """What the API key that acts may not do by the entries before (chain.md 13), and nothing else is wrong with."""
    narrowed, hashes = {"actor": SECOND_API_KEY}, {"actor": THIRD_API_KEY}
    other, encrypts = {"key_id": OTHER_KEY, **hashes}, {"key_id": OTHER_KEY, "actor": THIRD_API_KEY}
    return [
        ("a narrowed API key unwraps", 10, change("key.unwrap", 1, **narrowed)),
        ("a narrowed API key exports", 10, change("key.export", 2, **narrowed)),
        ("a narrowed API key makes one that may do what it might before", 10,
         change("api_key.create", api_key_id=THIRD_API_KEY, permissions="decrypt", **narrowed)),
        ("a narrowed API key makes one that may do that and what it still may", 10,
         change("api_key.create", api_key_id=THIRD_API_KEY, permissions="api_keys:manage decrypt encrypt", **narrowed)),
        ("a narrowed API key widens itself again", 10,
         change("api_key.update", api_key_id=SECOND_API_KEY, permissions="api_keys:manage decrypt encrypt", replaces=9, **narrowed)),
        ("an API key enables that may not disable", 12, change("key.enable", 2, replaces=12, **narrowed)),
        ("an API key destroys that may not", 12, change("key.destroy", 2, replaces=12, step="scheduled", **narrowed)),
        ("an API key of hashes wraps", 35, change("key.wrap", 2, **other)),
        ("an API key of hashes unwraps", 35, change("key.unwrap", 1, **other)),
        ("an API key of hashes encrypts", 35, change("encrypt", 2, **other)),
        ("an API key of hashes decrypts", 35, change("decrypt", 2, **other)),
        ("an API key of hashes creates a key", 35, change("key.create", 1, key_id=THIRD_API_KEY, **hashes)),
        ("an API key of hashes rotates", 35, change("key.rotate", 3, replaces=29, **other)),
        ("an API key of hashes sets a policy", 35, change("key.rotation_policy", 2, replaces=29, interval_days=30, **other)),
        ("an API key of hashes disables", 35, change("key.disable", 2, replaces=29, **other)),
        ("an API key of hashes exports", 35, change("key.export", 2, **other)),
        ("an API key of hashes gets an index secret", 35, change("key.index_secret", 2, name="customers", **other)),
        ("an API key of hashes creates an API key", 35, change("api_key.create", api_key_id=FOURTH_API_KEY, permissions="hash", **hashes)),
        ("an API key of hashes renames itself", 35, change("api_key.update", api_key_id=THIRD_API_KEY, replaces=35, **hashes)),
        ("an API key of hashes revokes another one", 35, change("api_key.revoke", api_key_id=FIRST_API_KEY, replaces=1, **hashes)),
        ("an API key revokes itself for somebody", 35,
         change("api_key.revoke", api_key_id=THIRD_API_KEY, replaces=35, on_behalf_of="somebody", **hashes)),
        ("an API key of hashes is refused an encryption for its server mode", 35,
         change("envelope_only.refused", 2, operation="encrypt", **other)),
        ("an API key that encrypts is refused a decryption for its server mode", 33,
         change("envelope_only.refused", 2, operation="decrypt", **encrypts)),
        ("an API key that encrypts rewraps", 33, change("key.wrap", 2, rewrapped_from=1, **encrypts)),
        ("an API key that encrypts unwraps", 33, change("key.unwrap", 2, **encrypts)),
        ("an API key that wraps encrypts", 87, change("encrypt", 2, key_id=CLOSING_KEY, actor=MANAGER)),
        ("an API key that wraps grants hashes", 87, granted(LISTED, "hash", [], actor=MANAGER, replaces=80)),
        ("an API key that wraps grants encryption", 87, granted(LISTED, "decrypt encrypt wrap", None, actor=MANAGER, replaces=80)),
        ("an API key that unwraps wraps", 89, change("key.wrap", 2, key_id=CLOSING_KEY, actor=LISTED)),
        ("an API key that unwraps rewraps", 89, change("key.wrap", 2, key_id=CLOSING_KEY, actor=LISTED, rewrapped_from=1)),
        ("an API key that unwraps is refused a decryption for its server mode", 89,
         change("envelope_only.refused", 2, operation="decrypt", key_id=CLOSING_KEY, actor=LISTED)),
        ("an API key acts on behalf of somebody", 33, change("key.wrap", 2, on_behalf_of="somebody", **encrypts)),
        ("an API key acts on behalf of null", 33, change("key.wrap", 2, on_behalf_of=None, **encrypts)),
        ("an API key grants another one more than it has itself", 40,
         change("api_key.update", api_key_id=FOURTH_API_KEY, permissions="decrypt keys:read", replaces=40, actor=THIRD_API_KEY)),
        ("an API key takes back what another lost", 40,
         change("api_key.update", api_key_id=FOURTH_API_KEY, permissions="decrypt keys:export", replaces=40, actor=THIRD_API_KEY)),
        ("an API key that lost a right when it was renamed", 41, change("key.wrap", 2, key_id=OTHER_KEY, actor=FOURTH_API_KEY)),
        ("an API key changes the tenant", 10, change("tenant.update", replaces=1)),
        ("an API key purges", 10, change("audit.purge", purged_through=0)),
        ("an API key accepts a rollback", 10, change("audit.rollback_accepted")),
        ("an API key accepts a clock", 10, change("audit.clock_accepted")),
        ("an API key of a suspended tenant wraps", 28, change("key.wrap", 1, key_id=OTHER_KEY)),
        ("an API key of a suspended tenant creates a key", 28, change("key.create", 1, key_id=THIRD_API_KEY)),
        ("an API key of a suspended tenant does something unknown", 28, change("something.new")),
        ("an encryption before server mode was opened", 5, change("encrypt", 2)),
        ("an encryption after server mode was closed", 18, change("encrypt", 2)),
        ("a decryption after server mode was closed", 18, change("decrypt", 1)),
    ]


def history_other_keys():
    """What an API key that is limited to keys may not do, or grant, by the entries before (chain.md 13)."""
    folders, listed = {"actor": FOLDERS}, {"actor": LISTED}
    wrapped = lambda key_id, version, **more: change("key.wrap", version, key_id=key_id, **more)
    return [
        ("an API key of a folder wraps with a key without a folder", 68, wrapped(CLOSING_KEY, 2, **folders)),
        ("an API key of a folder wraps with a key of another folder", 76, wrapped(CLOSING_KEY, 2, **folders)),
        ("an API key of a folder makes a key outside of it", 68, change("key.create", 1, key_id=NEW_KEY, folder="shop/", **folders)),
        ("an API key of a folder makes a key without a folder", 68, change("key.create", 1, key_id=NEW_KEY, folder="", **folders)),
        ("an API key of a folder makes a key in one that begins alike", 68,
         change("key.create", 1, key_id=NEW_KEY, folder="customers2/", **folders)),
        ("a key whose folder is a number", 68, change("key.create", 1, key_id=NEW_KEY, folder=7)),
        ("a key whose folder is null", 68, change("key.create", 1, key_id=NEW_KEY, folder=None)),
        ("an API key of a folder makes one that is not limited", 69, granted(LISTED, "encrypt", None, **folders)),
        ("an API key of a folder makes one of another folder", 69, granted(LISTED, "encrypt", ["shop/*"], **folders)),
        ("an API key of a folder makes one of it and another folder", 69,
         granted(LISTED, "encrypt", ["customers/eu/*", "shop/*"], **folders)),
        ("an API key of a folder makes one of a key outside of it", 69, granted(LISTED, "encrypt", [CLOSING_KEY], **folders)),
        ("an API key of a folder changes one that is not limited", 69,
         granted(FOURTH_API_KEY, "decrypt", ["customers/*"], replaces=41, **folders)),
        ("an API key of a folder renames one that is not limited", 69,
         change("api_key.update", api_key_id=FOURTH_API_KEY, replaces=41, **folders)),
        ("an API key of a folder revokes one that is not limited", 69,
         change("api_key.revoke", api_key_id=FOURTH_API_KEY, replaces=41, **folders)),
        ("an API key of a folder widens itself", 69, granted(FOLDERS, "api_keys:manage encrypt keys:create", None, replaces=67, **folders)),
        ("an API key of a folder gives another one a key outside of it", 71,
         granted(LISTED, "encrypt", [FOLDER_KEY, CLOSING_KEY], replaces=70, **folders)),
        ("an API key of a folder lifts the limit of another one", 71, granted(LISTED, "encrypt", None, replaces=70, **folders)),
        ("an API key of a folder revokes one that has a key outside of it by now", 72,
         change("api_key.revoke", api_key_id=LISTED, replaces=72, **folders)),
        ("an API key of a key wraps with the one that it had before", 73, wrapped(FOLDER_KEY, 1, **listed)),
        ("an API key of a key that was renamed wraps with another one", 78, wrapped(FOLDER_KEY, 1, **listed)),
        ("an API key of a key makes a key", 73, change("key.create", 1, key_id=OTHER_TENANT, folder="customers/", **listed)),
        ("an API key of a key is refused server mode for another one", 73,
         change("envelope_only.refused", 1, key_id=FOLDER_KEY, operation="encrypt", **listed)),
        ("an API key lifts the limit of one that may do more than it", 79, granted(LISTED, "encrypt", None, replaces=77, actor=MANAGER)),
        ("an API key gives keys to one that may do more than it", 79,
         granted(LISTED, "encrypt", [CLOSING_KEY, FOLDER_KEY], replaces=77, actor=MANAGER)),
        ("an API key of a folder renames one of no key", 80, change("api_key.update", api_key_id=LISTED, replaces=80, **folders)),
        ("an API key of a folder revokes one of no key", 80, change("api_key.revoke", api_key_id=LISTED, replaces=80, **folders)),
        ("an API key of no key any more wraps", 80, wrapped(CLOSING_KEY, 2, **listed)),
        ("an API key of no key wraps", 83, wrapped(CLOSING_KEY, 2, actor=NOTHING)),
        ("an API key restated without its limit", 73,
         restated_api_key(67, "api_keys:manage encrypt keys:create", api_key_id=FOLDERS)),
        ("an API key restated with another limit", 73,
         restated_api_key(67, "api_keys:manage encrypt keys:create", api_key_id=FOLDERS, keys='["shop/*"]')),
        ("an API key restated with more keys", 73,
         restated_api_key(67, "api_keys:manage encrypt keys:create", api_key_id=FOLDERS, keys='["customers/*","shop/*"]')),
        ("an API key restated as limited", 81, restated_api_key(79, "api_keys:manage", api_key_id=MANAGER, keys="[]")),
        ("a key restated in another folder", 73, restated_key(66, "active", version=1, key_id=FOLDER_KEY, folder="shop/")),
        ("a key restated with a folder of null", 73, restated_key(66, "active", version=1, key_id=FOLDER_KEY, folder=None)),
        *((f"keys that are {what}", 69, change("api_key.create", api_key_id=LISTED, permissions="encrypt", keys=keys))
          for what, keys in (("no list", '"customers/*"'), ("no JSON", "customers/*"), ("not all texts", '["customers/*",7]'), ("null", None),
                             ("an object", "{}"))),
    ]


def history_loosened():
    """An API key loosens the limits of one that may do more than it (chain.md 13)."""
    may_more = lambda before, **limits: (before, limits_changed("encrypt unwrap", before, actor=MANAGER, **limits))
    return [
        ("an expiry put off", *may_more(103, expires_at=(SOON, LATE))),
        ("an expiry taken away", *may_more(103, expires_at=(SOON, None))),
        ("an address added", *may_more(103, allowed_ips=("::1", "10.0.0.0/8 ::1"))),
        ("an address exchanged", *may_more(103, allowed_ips=("::1", "::2"))),
        ("the addresses taken away", *may_more(103, allowed_ips=("::1", None))),
        ("a long list of addresses for a short one", *may_more(103, allowed_ips=("::1", LONG))),
        ("a long list of addresses taken away", *may_more(106, allowed_ips=(LONG, None))),
        ("budgets taken away", *may_more(103, budgets=('{"unwrap":{"day":9}}', None))),
        ("other budgets", *may_more(103, budgets=('{"unwrap":{"day":9}}', '{"unwrap":{"day":8}}'))),
        ("a limit loosened without its permissions", 103,
         change("api_key.update", api_key_id=LISTED, replaces=103, actor=MANAGER, expires_at=None, expires_at_before=SOON)),
    ]


def history_part_faults():
    """The same of a log that begins after entry 10."""
    return [
        ("an entry that replaces one of the part", "replaces_mismatch", [change("key.disable", 2, replaces=11)]),
        ("an entry that replaces entry 0", "replaces_mismatch", [change("key.disable", 2, replaces=0)]),
        ("an entry that replaces half an entry", "replaces_mismatch", [change("key.disable", 2, replaces=7.5)]),
        ("an entry that replaces nothing", "replaces_mismatch", [change("api_key.revoke", api_key_id=SECOND_API_KEY)]),
        ("a tenant that replaces nothing", "replaces_mismatch", [change("tenant.update", actor="system")]),
        ("the second change, which replaces the same as the first", "replaces_mismatch",
         [change("key.disable", 2, replaces=8), change("key.enable", 2, replaces=8)]),
        ("a wrap with a disabled key", "state_violated", [change("key.disable", 2, replaces=8), change("key.wrap", 2)]),
        ("a wrap under the version before the rotation", "state_violated", [change("key.rotate", 3, replaces=8), change("key.wrap", 2)]),
        ("a wrap under another version than the one before", "state_violated", [change("key.wrap", 2), change("key.wrap", 1)]),
        ("an active key, which wrapped, enabled", "state_violated", [change("key.wrap", 2), change("key.enable", 2, replaces=8)]),
        ("a rotation to the first version", "state_violated", [change("key.rotate", 1, replaces=8)]),
        ("a key created after its use", "state_violated", [change("key.unwrap", 1), change("key.create", 1)]),
        ("an API key created after a call of it", "state_violated", [change("key.unwrap", 1), change("api_key.create", api_key_id=FIRST_API_KEY)]),
        ("a call of a revoked API key", "state_violated",
         [change("api_key.revoke", api_key_id=SECOND_API_KEY, replaces=9), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("a destroyed key enabled", "state_violated",
         [change("key.destroy", 2, replaces=8, step="completed", versions=2), change("key.enable", 2, replaces=11)]),
        ("a wrap by an API key that only hashes since", "state_violated",
         [change("api_key.update", actor="system", api_key_id=FIRST_API_KEY, permissions="hash", replaces=1), change("key.wrap", 2)]),
        ("a wrap by a new API key that only hashes", "state_violated",
         [change("api_key.create", api_key_id=THIRD_API_KEY, permissions="hash"), change("key.wrap", 2, actor=THIRD_API_KEY)]),
        ("a new API key by one that only makes such that hash", "state_violated",
         [change("api_key.update", actor="system", api_key_id=SECOND_API_KEY, permissions="api_keys:manage hash", replaces=9),
          change("api_key.create", actor=SECOND_API_KEY, api_key_id=THIRD_API_KEY, permissions="encrypt")]),
        ("a tenant changed by an API key", "state_violated", [change("tenant.update", replaces=1)]),
        ("a key restated that replaces an entry of the part", "replaces_mismatch", [restated_key(11, "active")]),
        ("an API key restated that replaces an entry of the part", "replaces_mismatch", [restated_api_key(11, "encrypt")]),
        ("a tenant restated that replaces an entry of the part", "replaces_mismatch", [restated_tenant(11)]),
        ("a wrap with a key that was restated as disabled", "state_violated", [restated_key(8, "disabled"), change("key.wrap", 2)]),
        ("a wrap with a key that was disabled when its policy was set", "state_violated",
         [change("key.rotation_policy", 2, interval_days=7, status="disabled", replaces=8), change("key.wrap", 2)]),
        ("a wrap under another version than the one restated", "state_violated", [restated_key(8, "active"), change("key.wrap", 1)]),
        ("an unwrap by a version that was closed", "state_violated",
         [updated_key(8, 2, 1, key_id=KEY), change("key.unwrap", 1)]),
        ("an unwrap by a version that was restated as closed", "state_violated",
         [restated_key(8, "active", min_unwrap_version=2), change("key.unwrap", 1)]),
        ("closed versions restated as open", "state_violated",
         [updated_key(8, 2, 1, key_id=KEY), restated_key(11, "active")]),
        ("an unwrap by a version that was destroyed", "state_violated",
         [destroyed_version(8, 1, version=2, key_id=KEY), change("key.unwrap", 1)]),
        ("an unwrap by a version before the one that was destroyed", "state_violated",
         [change("key.rotate", 3, replaces=8), destroyed_version(11, 2, key_id=KEY), change("key.unwrap", 1)]),
        ("a destroyed version that is the current one", "state_violated", [destroyed_version(8, 2, version=2, key_id=KEY)]),
        ("a version destroyed twice", "state_violated",
         [destroyed_version(8, 1, version=2, key_id=KEY), destroyed_version(11, 1, version=2, key_id=KEY)]),
        ("a destroyed version opened again", "state_violated",
         [destroyed_version(8, 1, version=2, key_id=KEY), updated_key(11, 1, 2, key_id=KEY)]),
        ("a destroyed version restated as there", "state_violated",
         [destroyed_version(8, 1, version=2, key_id=KEY), restated_key(11, "active", min_unwrap_version=2)]),
        ("no version destroyed", "state_violated", [destroyed_version(8, 0, version=2, key_id=KEY)]),
        ("half a version restated as destroyed", "state_violated", [restated_key(8, "active", min_unwrap_version=2, destroyed_through=0.5)]),
        ("destroyed versions restated that open", "state_violated", [restated_key(8, "active", destroyed_through=1)]),
        ("versions destroyed below none", "state_violated", [restated_key(8, "active", destroyed_through=-1)]),
        ("versions closed that were closed", "state_violated",
         [updated_key(8, 2, 1, key_id=KEY), updated_key(11, 2, 1, key_id=KEY)]),
        ("a destroyed key restated and enabled", "state_violated", [restated_key(8, "destroyed"), change("key.enable", 2, replaces=11)]),
        ("a key that wrapped, restated as disabled", "state_violated", [change("key.wrap", 2), restated_key(8, "disabled")]),
        ("a key restated twice, as something else", "state_violated", [restated_key(8, "disabled"), restated_key(11, "active")]),
        ("a call of an API key that was restated as revoked", "state_violated",
         [restated_api_key(9, "encrypt", revoked=True), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("an API key that acted, restated as revoked", "state_violated",
         [change("key.wrap", 2, actor=SECOND_API_KEY), restated_api_key(9, "encrypt", revoked=True)]),
        ("a wrap by an API key that was restated without that right", "state_violated",
         [restated_api_key(9, "decrypt"), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("an API key restated with other permissions than its change", "state_violated",
         [change("api_key.update", actor="system", api_key_id=SECOND_API_KEY, permissions="hash", replaces=9), restated_api_key(11, "encrypt")]),
        ("a wrap by an API key that was limited to another key", "state_violated",
         [granted(SECOND_API_KEY, "encrypt", [OTHER_KEY], actor="system", replaces=9), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("a wrap by an API key that was restated as limited to another key", "state_violated",
         [restated_api_key(9, "encrypt", keys=f'["{OTHER_KEY}"]'), change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("a key restated with a folder of null, and none before", "state_violated", [restated_key(8, "active", folder=None)]),
        ("a key restated with a number as its folder", "state_violated", [restated_key(8, "active", folder=7)]),
        ("a wrap with a key that was restated in another folder", "state_violated",
         [granted(SECOND_API_KEY, "encrypt", ["customers/*"], actor="system", replaces=9), restated_key(8, "active", folder="shop/"),
          change("key.wrap", 2, actor=SECOND_API_KEY)]),
        ("a wrap after the tenant was restated as suspended", "state_violated",
         [restated_tenant(1, status="suspended"), change("key.wrap", 2)]),
        ("an encryption after the tenant was restated without server mode", "state_violated",
         [restated_tenant(1, envelope_only=True), change("encrypt", 2)]),
        ("a tenant restated twice, in another mode", "state_violated", [restated_tenant(1), restated_tenant(11, envelope_only=True)]),
        ("a tenant restated twice, with another status", "state_violated", [restated_tenant(1), restated_tenant(11, status="suspended")]),
        ("a wrap after the tenant was suspended", "state_violated",
         [change("tenant.update", actor="system", replaces=1, status="suspended"), change("key.wrap", 2)]),
        ("a wrap after the tenant was deleted", "state_violated",
         [change("tenant.update", actor="system", replaces=1, status="deleted"), change("key.wrap", 2)]),
        ("an encryption after server mode was closed", "state_violated",
         [change("tenant.update", actor="system", replaces=1, envelope_only=True), change("encrypt", 2)]),
    ]


def deletion():
    """The end of a tenant whose log is the history up to entry 10: each key destroyed, each API key revoked, the tenant deleted."""
    return [
        change("tenant.update", actor="system", replaces=1, status="suspended"),  # 11
        change("key.destroy", 2, actor="system", replaces=8, step="completed", versions=2),
        change("api_key.revoke", actor="system", api_key_id=FIRST_API_KEY, replaces=1),
        change("api_key.revoke", actor="system", api_key_id=SECOND_API_KEY, replaces=9),
        change("tenant.update", actor="system", replaces=11, status="deleted"),  # 15
    ]


def deletion_faults():
    """What is wrong after the last entry (chain.md 11), of a whole log and of one that begins after entry 10."""
    suspended, destroyed, first, second, deleted = deletion()
    disabled = change("key.disable", 2, actor="system", replaces=8)
    return [
        ("a deleted tenant with a key", [suspended, first, second, deleted]),
        ("a deleted tenant with a disabled key", [suspended, disabled, first, second, deleted]),
        ("a deleted tenant whose key waits for its destruction", [
            suspended, disabled, change("key.destroy", 2, actor="system", replaces=12, step="scheduled"), first, second, deleted]),
        ("a deleted tenant with an API key", [suspended, destroyed, first, deleted]),
        ("a deleted tenant with its first API key", [suspended, destroyed, second, deleted]),
    ]


def deletion_part_faults():
    return [
        ("a deleted tenant with a key that was restated", [restated_key(8, "active"), restated_tenant(1, status="deleted")]),
        ("a deleted tenant with an API key that was restated", [restated_api_key(9, "encrypt"), restated_tenant(1, status="deleted")]),
        ("a deleted tenant with an API key that acted", [
            change("key.unwrap", 1), change("tenant.update", actor="system", replaces=1, status="deleted")]),
    ]


def spliced(base, data):
    """`data` as a change of `base`: what is kept of its beginning, what is put in, what is kept of its end."""
    most = min(len(base), len(data))
    head = next((at for at in range(most) if base[at] != data[at]), most)
    while head > 0 and (data[head - 1] >= 0x80 or base[head - 1] >= 0x80):
        head -= 1
    most -= head
    tail = next((at for at in range(most) if base[-1 - at] != data[-1 - at]), most)
    while tail > 0 and (data[-tail] >= 0x80 or base[-tail] >= 0x80):
        tail -= 1
    insert = data[head : len(data) - tail]
    try:
        return {"head": head, "insert": insert.decode(), "tail": tail}
    except UnicodeDecodeError:
        return {"head": head, "insert_base64": b64(insert), "tail": tail}


def purge_draft(through, ms=20, metadata=None):
    text = f'{{"cutoff":"2026-08-11T09:30:00.005Z","entries":{through},"purged_through":{through}}}'
    return {"action": "audit.purge", "key_id": None, "key_version": None, "actor": "system", "ip_address": None,
            "metadata": text if metadata is None else metadata, "created_at": f"2026-08-11T09:30:00.{ms:03d}Z"}


AHEAD = "2027-08-11T09:30:00.000Z"


def clock_draft(until, **changes):
    """The entry after which time may go back (chain.md 4)."""
    return {"action": "audit.clock_accepted", "key_id": None, "key_version": None, "actor": "operator:o@h", "ip_address": None,
            "metadata": json.dumps({"ahead_until": until, "reason": "the battery"}, separators=(",", ":")), "created_at": "2026-08-11T09:30:00.003Z", **changes}


def rollback_draft(through, after=0, ms=20, **told):
    """The entry by which an operator accepts that entries were lost (chain.md 10)."""
    metadata = {"agrees_through": after, "policy_version": 1, "reason": "a drill", "witnessed_hash": "0" * 64, "witnessed_id": through, **told}
    return {**clock_draft(""), "action": "audit.rollback_accepted", "metadata": json.dumps(metadata, separators=(",", ":")), "created_at": f"2026-08-11T09:30:00.{ms:03d}Z"}


def status_draft(status, replaces):
    return {**purge_draft(0, metadata=f'{{"envelope_only":true,"replaces":{replaces},"status":"{status}"}}'), "action": "tenant.update"}


def export_vectors():
    drafts = export_drafts()
    good = Export(drafts)
    lines, file = good.lines(), good.file()
    hashes = [good.after_hash] + [bytes.fromhex(entry["hash"]) for entry in good.entries]
    purged = Export([*drafts[3:], purge_draft(3)], 3, hashes[3])
    part = Export(drafts[3:], 3, hashes[3])
    begun_once = Export(drafts[:1])
    key = public_key_text(ed25519_public(SIGNING_SEED))
    kept = {at: note_of(checkpoint_text(last_id=at, hash_=hashes[at])) for at in range(1, 7)}

    def verdict(export, whole=True, missing=None, head_id=None, **more):
        missing = ([] if whole else ["beginning"]) if missing is None else missing
        return {"tenant_id": export.tenant, "verified_entries": len(export.entries), "after_id": export.after_id,
                "head_id": export.last_id if head_id is None else head_id, "missing": missing, "whole": missing == [], **more}

    twice = Export([*drafts[3:], purge_draft(2), purge_draft(3, 21)], 3, hashes[3])
    other_last = Export([*drafts[3:], purge_draft(3), purge_draft(5, 21)], 3, hashes[3])
    unreadable = Export([*drafts[3:], purge_draft(3, metadata="no JSON")], 3, hashes[3])
    worded = Export([*drafts[3:], purge_draft(3, metadata='{"purged_through":"3"}')], 3, hashes[3])
    accepted = Export([*drafts[:3], {**drafts[3], "created_at": AHEAD}, clock_draft(AHEAD), *drafts[4:]])
    empty = Export([], 6, hashes[6])
    long_ = Export([{**drafts[4], "actor": "system", "metadata": "\u00e4" * 2_000}])
    longest = Export([{**drafts[2], "key_version": 2**53 - 1}], 2**53 - 2, hashes[6])
    begun, middle = Export(drafts[:4]), Export(drafts[2:4], 2, hashes[2])
    start_of_purged = Export([*drafts[3:], purge_draft(3)], 3, hashes[3])
    nothing_yet = Export([], 4, hashes[4])
    good_cut = Export(drafts[:4])
    gone = Export([*drafts, status_draft("moved", 1)])
    came = Export([*drafts, status_draft("moved", 1), status_draft("active", 7)])
    first, second, third = written(OTHER_SEED), key, written(THIRD_SEED)
    changes = [key_change(OTHER_SEED, SIGNING_SEED)]
    later = [*changes, key_change(SIGNING_SEED, THIRD_SEED)]
    lost = note_of(checkpoint_text(last_id=5, hash_=hashes[2]))
    lossy, twice_lossy = Export([*drafts, rollback_draft(5)]), Export([*drafts, rollback_draft(5), rollback_draft(7, after=7, ms=21)])
    changed_key, twice_changed = Export(drafts, key_changes=changes, keys=[OTHER_SEED, SIGNING_SEED]), Export(drafts, seed=THIRD_SEED, key_changes=later)
    kept_since = note_of(checkpoint_text(last_id=3, hash_=hashes[3], time="2026-08-11T09:30:00.030Z"))
    kept_before = note_of(checkpoint_text(last_id=3, hash_=hashes[3]), OTHER_SEED)
    kept_after = note_of(checkpoint_text(last_id=3, hash_=hashes[3]), THIRD_SEED)

    def told(before, after):
        return {"from": before, "to": after, "created_at": SIGNED_AT}

    anchored_since = Anchored(changed_key)
    linked_since = changed_key.file_with(anchored_since.line(signed=anchored_since.stretch()) + anchored_since.links(
        note=tree_note(tree_text(anchored_since.leaves(), OTHER_SEED), SIGNING_SEED, tree_origin(ed25519_public(OTHER_SEED)))))
    valid = [
        {"name": "a whole log", "file": file, "verdict": verdict(good, public_key=key)},
        {"name": "a whole log with a signed tree of its entries", "file": good.file(good.trailer(tree=good.tree())), "verdict": verdict(good, public_key=key)},
        {"name": "a part with a signed tree of its entries", "file": part.file(part.trailer(tree=part.tree())), "verdict": verdict(part, whole=False)},
        {"name": "one entry with a signed tree of it", "file": begun_once.file(begun_once.trailer(tree=begun_once.tree())), "verdict": verdict(begun_once)},
        {"name": "a whole log, with a checkpoint of its middle", "file": file, "checkpoint": kept[3],
         "verdict": verdict(good, checkpoint_compared=True)},
        {"name": "a whole log, with a checkpoint of its end", "file": file, "checkpoint": kept[6],
         "verdict": verdict(good, checkpoint_compared=True)},
        {"name": "a whole log, with several checkpoints", "file": file, "checkpoint": kept[6], "checkpoints": [kept[1], kept[3], kept[6]],
         "verdict": verdict(good, checkpoint_compared=True, checkpoints={"given": 3, "not_compared": 0, "accepted": 0})},
        {"name": "a whole log, with several checkpoints of which none is named", "file": file, "checkpoints": [kept[1], kept[3], kept[6]],
         "verdict": verdict(good, checkpoint_compared=True, checkpoints={"given": 3, "not_compared": 0, "accepted": 0})},
        {"name": "a log after a purge, with checkpoints of before it and behind it", "file": purged.file(), "checkpoint": kept[4], "checkpoints": [kept[2], kept[4]],
         "verdict": verdict(purged, checkpoint_compared=False, checkpoints={"given": 2, "not_compared": 1, "accepted": 0})},
        {"name": "a log that accepts a rollback, with a checkpoint of what it lost", "file": lossy.file(), "checkpoint": kept[6], "checkpoints": [lost, kept[6]],
         "verdict": verdict(lossy, checkpoint_compared=True, checkpoints={"given": 2, "not_compared": 0, "accepted": 1},
                            accepted_rollbacks={"entries": 1, "newest_id": 7})},
        {"name": "a log that accepts two rollbacks", "file": twice_lossy.file(),
         "verdict": verdict(twice_lossy, accepted_rollbacks={"entries": 2, "newest_id": 8})},
        {"name": "a log that accepts a rollback, with a checkpoint of more than it has again", "file": Export([*drafts[:3], rollback_draft(5)]).file(),
         "checkpoint": kept_since, "checkpoints": [kept[5], kept_since],
         "verdict": verdict(Export([*drafts[:3], rollback_draft(5)]), checkpoint_compared=True, checkpoints={"given": 2, "not_compared": 0, "accepted": 1},
                            accepted_rollbacks={"entries": 1, "newest_id": 4})},
        {"name": "a stretch, with a checkpoint of what was written since", "file": begun.file(begun.stretch(6, hashes[6])), "checkpoint": kept[4],
         "checkpoints": [kept[4], note_of(checkpoint_text(last_id=7, hash_=hashes[1], time="2026-08-13T00:00:00.000Z"))],
         "verdict": verdict(begun, missing=["end"], head_id=6, checkpoint_compared=False, checkpoints={"given": 2, "not_compared": 1, "accepted": 0})},
        {"name": "a log that accepts that a clock was ahead", "file": accepted.file(), "verdict": verdict(accepted)},
        {"name": "a log after a purge", "file": purged.file(), "verdict": verdict(purged, purged_through=3)},
        {"name": "a log after two purges", "file": twice.file(), "verdict": verdict(twice)},
        {"name": "a log after a purge, with a checkpoint of what was purged", "file": purged.file(), "checkpoint": kept[2],
         "verdict": verdict(purged, checkpoint_compared=False)},
        {"name": "a log after a purge, with a checkpoint of the last entry that was purged", "file": purged.file(),
         "checkpoint": kept[3], "verdict": verdict(purged, checkpoint_compared=True)},
        {"name": "a part", "file": part.file(), "verdict": verdict(part, whole=False)},
        {"name": "a part that a checkpoint joins on to", "file": part.file(), "checkpoint": kept[3],
         "verdict": verdict(part, checkpoint_compared=True)},
        {"name": "a part, with a checkpoint of before", "file": part.file(), "checkpoint": kept[1],
         "verdict": verdict(part, whole=False, checkpoint_compared=False)},
        {"name": "a log after a purge, and a later one elsewhere", "file": other_last.file(), "verdict": verdict(other_last)},
        {"name": "a part whose purge can't be read", "file": unreadable.file(), "verdict": verdict(unreadable, whole=False)},
        {"name": "a part whose purge names no number", "file": worded.file(), "verdict": verdict(worded, whole=False)},
        {"name": "no entries, behind the last one", "file": empty.file(), "verdict": verdict(empty, whole=False)},
        {"name": "no entries, joined on to by a checkpoint", "file": empty.file(), "checkpoint": kept[6],
         "verdict": verdict(empty, checkpoint_compared=True)},
        {"name": "a long entry", "file": long_.file(), "verdict": verdict(long_)},
        {"name": "a stretch from the first entry on", "file": begun.file(begun.stretch(6, hashes[6])),
         "verdict": verdict(begun, missing=["end"], head_id=6)},
        {"name": "a stretch without beginning and end", "file": middle.file(middle.stretch(6, hashes[6])),
         "verdict": verdict(middle, missing=["beginning", "end"], head_id=6)},
        {"name": "a stretch that a checkpoint joins on to", "file": middle.file(middle.stretch(6, hashes[6])), "checkpoint": kept[2],
         "verdict": verdict(middle, missing=["end"], head_id=6, checkpoint_compared=True)},
        {"name": "a stretch, with a checkpoint of its end", "file": begun.file(begun.stretch(6, hashes[6])), "checkpoint": kept[4],
         "verdict": verdict(begun, missing=["end"], head_id=6, checkpoint_compared=True)},
        {"name": "a stretch, with a checkpoint of an entry behind it", "file": begun.file(begun.stretch(6, hashes[6])),
         "checkpoint": kept[5], "verdict": verdict(begun, missing=["end"], head_id=6, checkpoint_compared=False)},
        {"name": "a stretch, with a checkpoint of the head", "file": begun.file(begun.stretch(6, hashes[6])),
         "checkpoint": kept[6], "verdict": verdict(begun, missing=["end"], head_id=6, checkpoint_compared=False)},
        {"name": "a stretch behind a purge", "file": start_of_purged.file(start_of_purged.stretch(9, hashes[6])),
         "verdict": verdict(start_of_purged, missing=["end"], head_id=9)},
        {"name": "a stretch without entries", "file": nothing_yet.file(nothing_yet.stretch(6, hashes[6])),
         "verdict": verdict(nothing_yet, missing=["beginning", "end"], head_id=6)},
        {"name": "the highest numbers", "file": longest.file(), "verdict": verdict(longest, whole=False)},
        {"name": "a log whose tenant moved to another installation", "file": gone.file(), "verdict": verdict(gone, missing=["end"])},
        {"name": "a log whose tenant moved here from another installation", "file": came.file(), "verdict": verdict(came)},
    ]
    anchored = Anchored(good)
    with_anchor = good.file_with(anchored.line())
    valid += [
        {"name": "an anchor of the last entry", "file": with_anchor, "verdict": verdict(good, anchor=anchored.report())},
        {"name": "an anchor of an entry before", "file": good.file_with(Anchored(good, last_id=4).line()),
         "verdict": verdict(good, anchor=Anchored(good, last_id=4).report())},
        {"name": "an anchor of one tenant alone", "file": good.file_with(Anchored(good, others=()).line()),
         "verdict": verdict(good, anchor=Anchored(good, others=()).report())},
        {"name": "an anchor behind which the installation's log went on", "file": good.file_with(anchored.line(signed=anchored.stretch())),
         "verdict": verdict(good, anchor=anchored.report())},
        {"name": "an anchor of what was purged", "file": purged.file_with(Anchored(good, last_id=2).line()),
         "verdict": verdict(purged, anchor=Anchored(good, last_id=2).report(compared=False))},
        {"name": "an anchor of the last entry that was purged", "file": purged.file_with(Anchored(good, last_id=3).line()),
         "verdict": verdict(purged, anchor=Anchored(good, last_id=3).report())},
        {"name": "an anchor of an entry behind a stretch", "file": begun.file_with(anchored.line(), begun.stretch(6, hashes[6])),
         "verdict": verdict(begun, missing=["end"], head_id=6, anchor=anchored.report(compared=False))},
        {"name": "an anchor, with the checkpoint of it", "file": with_anchor, "checkpoint": anchored.note(),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
        {"name": "an anchor, with a checkpoint of the installation from before", "file": with_anchor,
         "checkpoint": anchored.note(last_id=2, hash_=anchored.before),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False)},
        {"name": "an anchor, with a checkpoint of the installation's end", "file": good.file_with(anchored.line(signed=anchored.stretch())),
         "checkpoint": anchored.note(last_id=5, hash_=sha256(b"the installation's head")),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
        {"name": "an anchor that is not compared, with the checkpoint of it", "file": purged.file_with(Anchored(good, last_id=2).line()),
         "checkpoint": Anchored(good, last_id=2).note(),
         "verdict": verdict(purged, anchor=Anchored(good, last_id=2).report(compared=False), checkpoint_compared=False)},
        {"name": "no anchor, with a checkpoint of the installation", "file": file, "checkpoint": anchored.note(),
         "verdict": verdict(good, checkpoint_compared=False)},
        {"name": "an anchor, with a checkpoint of the tenant", "file": with_anchor, "checkpoint": kept[3],
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
    ]
    went_on = anchored.line(signed=anchored.stretch())
    with_links, leaves = good.file_with(went_on + anchored.links()), anchored.leaves()
    linked = lambda id_, **more: anchored.note(last_id=id_, hash_=leaves[id_ - 1], **more)
    not_compared = Anchored(good, last_id=2)
    stated = lambda id_: {"tenant_id": MAX, "id": id_, "hash": b64(leaves[id_ - 1]), "signed_at": "2026-08-12T00:00:00.000Z"}
    valid += [
        {"name": "no anchor, with a checkpoint of the tenant and a newer one of the installation", "file": file, "checkpoint": kept[3],
         "checkpoints": [kept[3], linked(3)],
         "verdict": verdict(good, checkpoint_compared=False, checkpoints={"given": 2, "not_compared": 1, "accepted": 0})},
        {"name": "a linked anchor, with checkpoints of another installation", "file": with_links, "checkpoint": kept[3],
         "checkpoints": [kept[3], anchored.note(OTHER_SEED, last_id=2, hash_=hashes[1]), anchored.note(OTHER_SEED, last_id=6)],
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False, checkpoints={"given": 3, "not_compared": 2, "accepted": 0})},
        {"name": "a linked anchor, with checkpoints of the tenant and of the installation", "file": with_links, "checkpoint": kept[3],
         "checkpoints": [kept[3], linked(2), linked(3), linked(5)],
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True, checkpoints={"given": 4, "not_compared": 0, "accepted": 0})},
        {"name": "a linked anchor, with checkpoints of which the newest is not linked", "file": with_links, "checkpoint": kept[3],
         "checkpoints": [kept[3], linked(2, time="2026-08-11T23:00:00.000Z"), linked(4)],
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False, checkpoint=stated(4),
                            checkpoints={"given": 3, "not_compared": 1, "accepted": 0})},
        {"name": "a linked anchor, with checkpoints of which one that is not linked is older", "file": with_links, "checkpoint": kept[3],
         "checkpoints": [kept[3], linked(4, time="2026-08-11T23:00:00.000Z"), linked(2)],
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False, checkpoints={"given": 3, "not_compared": 1, "accepted": 0})},
        {"name": "a linked anchor, with a checkpoint of the installation of what was written since", "file": with_links, "checkpoint": kept[3],
         "checkpoints": [kept[3], anchored.note(last_id=6, time="2026-08-13T00:00:00.000Z")],
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False, checkpoints={"given": 2, "not_compared": 1, "accepted": 0})},
    ]
    # A tenant that came here from the installation of another key; this one's key was replaced before.
    arrived = Export(drafts, key_changes=changes, keys=[THIRD_SEED, SIGNING_SEED])
    with_arrival = arrived.file_with(went_on + anchored.links(
        note=tree_note(tree_text(leaves, THIRD_SEED), SIGNING_SEED, tree_origin(ed25519_public(THIRD_SEED)))))
    own = Export([{name: value for name, value in anchored.entry.items() if name != "id"}], tenant=MAX)
    valid += [
        *({"name": f"an arrived tenant, with a checkpoint {name}", "file": with_arrival, "checkpoint": checkpoint,
           "verdict": verdict(arrived, anchor=Anchored(arrived).report(), checkpoint_compared=compared)}
          for name, checkpoint, compared in (
              ("of the tenant, by the key that it had before", kept_before, True),
              ("of the installation, by its key from before", anchored.note(THIRD_SEED, last_id=2, hash_=leaves[1]), True))),
        {"name": "an arrived tenant, with a checkpoint of the former installation", "file": with_arrival, "checkpoint": kept_before,
         "checkpoints": [kept_before, anchored.note(OTHER_SEED, last_id=2, hash_=hashes[1])],
         "verdict": verdict(arrived, anchor=Anchored(arrived).report(), checkpoint_compared=False)},
        {"name": "the log of the installation itself", "file": own.file_with(""), "checkpoint": own.note(), "verdict": verdict(own, checkpoint_compared=True)},
        {"name": "an anchor of the tree that was given", "file": with_arrival, "tree": tree_origin(ed25519_public(THIRD_SEED)),
         "verdict": verdict(arrived, anchor=Anchored(arrived).report(), tree=tree_origin(ed25519_public(THIRD_SEED)), trusted_tree=True)},
        {"name": "a whole log, with a checkpoint that cannot be read", "file": file, "checkpoint": kept[3], "checkpoints": [kept[3], "no note"],
         "verdict": verdict(good, checkpoint_compared=False, checkpoints={"given": 2, "not_compared": 1, "accepted": 0})},
        {"name": "a log without an anchor that states the keys of the installation", "file": good.file_with(""), "verdict": verdict(good)},
    ]
    valid += [
        {"name": "a linked anchor", "file": with_links, "verdict": verdict(good, anchor=anchored.report())},
        {"name": "a linked anchor at the end of the installation's log", "file": good.file_with(anchored.line() + anchored.links((1,), 3)),
         "checkpoint": linked(1), "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=True)},
        {"name": "a linked anchor to which nothing is linked", "file": good.file_with(went_on + anchored.links(())), "checkpoint": linked(2),
         "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=False)},
        *({"name": f"a linked anchor, with a checkpoint of {name}", "file": with_links, "checkpoint": linked(id_),
           "verdict": verdict(good, anchor=anchored.report(), checkpoint_compared=compared,
                              checkpoint={"tenant_id": MAX, "id": id_, "hash": b64(leaves[id_ - 1]), "signed_at": "2026-08-12T00:00:00.000Z"})}
          for id_, name, compared in ((1, "the installation's first entry", True), (2, "the entry before the anchor", True),
                                      (3, "the anchor", True), (4, "an entry that is not linked", False), (5, "the installation's end", True))),
        {"name": "a linked anchor that is not compared", "file": purged.file_with(
            not_compared.line(signed=not_compared.stretch()) + not_compared.links()), "checkpoint": linked(1),
         "verdict": verdict(purged, anchor=not_compared.report(compared=False), checkpoint_compared=False)},
        {"name": "a linked anchor in a log without entries", "file": empty.file_with(went_on + anchored.links()), "checkpoint": linked(2),
         "verdict": verdict(empty, whole=False, anchor=anchored.report(), checkpoint_compared=True)},
    ]
    refuse, file_bytes = [], file.encode()
    history = history_drafts()
    lived = Export(history)
    after_ten = bytes.fromhex(lived.entries[9]["hash"])
    lived_on = Export([draft for at, draft in enumerate(history) if at >= 10], 10, after_ten)
    unknown = Export([
        change("api_key.update", actor="system", api_key_id=SECOND_API_KEY, permissions="api_keys:manage", replaces=9),
        change("api_key.update", actor=SECOND_API_KEY, api_key_id=FIRST_API_KEY, permissions="decrypt", replaces=1),
        change("key.unwrap", 1),
    ], 10, after_ten)
    restated = Export([
        change("key.unwrap", 1),
        restated_key(8, "active"),
        restated_api_key(1, ALL_PERMISSIONS, api_key_id=FIRST_API_KEY),
        restated_api_key(9, "api_keys:manage encrypt", revoked=True),
        restated_tenant(1),
        change("encrypt", 2),
        change("key.rotation_policy", 2, interval_days=None, status="active", replaces=12),
        restated_api_key(14, "encrypt api_keys:manage", revoked=True),
        restated_tenant(15),
    ], 10, after_ten)
    limited = Export([
        granted(SECOND_API_KEY, "api_keys:manage encrypt", ["customers/*"], actor="system", replaces=9),
        change("key.wrap", 2, actor=SECOND_API_KEY),
        granted(LISTED, "encrypt", [KEY], actor=SECOND_API_KEY),
        change("api_key.revoke", api_key_id=THIRD_API_KEY, actor=SECOND_API_KEY, replaces=3),
        restated_key(8, "active", folder="customers/"),
        change("key.wrap", 2, actor=SECOND_API_KEY),
    ], 10, after_ten)
    valid += [
        {"name": "a part that does not know the folder of a key", "file": limited.file(), "verdict": verdict(limited, whole=False)},
        {"name": "a part that restates what it begins with", "file": restated.file(), "verdict": verdict(restated, whole=False)},
        {"name": "a part that does not know what its API keys may do", "file": unknown.file(), "verdict": verdict(unknown, whole=False)},
        {"name": "a history of every change", "file": lived.file(), "verdict": verdict(lived)},
        {"name": "a history of every change from its middle on", "file": lived_on.file(), "verdict": verdict(lived_on, whole=False)},
    ]
    broken = [(f"a history: {name}", fault, Export([*history[:before], draft]), valid[-2])
              for name, fault, before, draft in history_faults()]
    broken += [(f"a part: {name}", fault, Export(drafts_, 10, after_ten), valid[-1]) for name, fault, drafts_ in history_part_faults()]
    left = [(f"a history: {name}", Export([*history[:10], *drafts_]), valid[-2]) for name, drafts_ in deletion_faults()]
    left += [(f"a part: {name}", Export(drafts_, 10, after_ten), valid[-1]) for name, drafts_ in deletion_part_faults()]
    for name, export, base in left:
        refuse.append({"name": name, "line": 2 + len(export.entries), "fault": "deletion_incomplete", "base": base["name"],
                       **spliced(base["file"].encode(), export.file().encode())})
    for name, fault, export, base in broken:
        refuse.append({"name": name, "line": 1 + len(export.entries), "fault": fault, "base": base["name"],
                       **spliced(base["file"].encode(), export.file().encode())})

    deleted = Export([*history[:10], *deletion()])
    suspended, destroyed, *others = deletion()
    late = Export([*history[:10], suspended, *others, destroyed])
    gone = Export([restated_key(8, "destroyed"), restated_api_key(1, ALL_PERMISSIONS, revoked=True, api_key_id=FIRST_API_KEY),
                   restated_tenant(1, status="deleted")], 10, after_ten)
    valid += [
        {"name": "a history that ends with the deletion of the tenant", "file": deleted.file(), "verdict": verdict(deleted)},
        {"name": "a deletion that was finished later", "file": late.file(), "verdict": verdict(late)},
        {"name": "a part that restates what a deleted tenant left", "file": gone.file(), "verdict": verdict(gone, whole=False)},
    ]

    valid += [
        {"name": "a log whose key replaced another one", "file": changed_key.file(), "verdict": verdict(changed_key, public_key=key, trusted_key=True)},
        {"name": "a log whose key replaced the one given", "file": twice_changed.file(),
         "verdict": verdict(twice_changed, public_key=third, trusted_key=False, key_changes=[told(second, third)])},
        {"name": "a log whose key replaced one that replaced the one given", "public_key": first, "file": twice_changed.file(),
         "verdict": verdict(twice_changed, public_key=third, trusted_key=False, key_changes=[told(first, second), told(second, third)])},
        {"name": "a log whose key replaced another one, which signed the checkpoint", "file": changed_key.file(), "checkpoint": kept_before,
         "verdict": verdict(changed_key, checkpoint_compared=True)},
        {"name": "a log whose key replaced the one given, with a checkpoint of before that one", "file": twice_changed.file(), "checkpoint": kept_before,
         "verdict": verdict(twice_changed, checkpoint_compared=True, trusted_key=False)},
        {"name": "a log whose key replaced the one given, with a checkpoint by the new one", "file": twice_changed.file(), "checkpoint": kept_after,
         "verdict": verdict(twice_changed, checkpoint_compared=True, trusted_key=False)},
        {"name": "a linked log whose key replaced another one", "file": linked_since, "verdict": verdict(changed_key, trusted_key=True)},
    ]

    def add(name, file, line, checkpoint=None, public_key=key, checkpoints=None, tree=None):
        """`line` is the first line that is wrong, counted from 1."""
        row = {"name": name, "line": line, **spliced(file_bytes, file if isinstance(file, bytes) else file.encode())}
        if checkpoint is not None:
            row["checkpoint"] = checkpoint
        if checkpoints is not None:
            row["checkpoints"] = checkpoints
        if public_key != key:
            row["public_key"] = public_key
        if tree is not None:
            row["tree"] = tree
        refuse.append(row)

    parts = [good.header(), *lines, good.trailer()]

    def replaced(at, line):
        """The file with another line in the place of the one that is counted from 1."""
        return "".join([*parts[: at - 1], line, *parts[at:]])

    def wrong(name, at, old, new):
        if parts[at - 1].count(old) < 1:
            raise RuntimeError(f"{name}: {old} is not in line {at}")
        add(name, replaced(at, parts[at - 1].replace(old, new, 1)), at)

    # The file: what is missing, twice or out of its place.
    add("nothing", "", 1)
    add("a line feed alone", "\n", 1)
    for at in range(1, len(parts)):
        add(f"cut after line {at}", "".join(parts[:at]), at + 1)
    for at in range(1, len(parts) + 1):
        # Without the header or the trailer, the next line, or the end, is what is wrong.
        add(f"line {at} missing", "".join(parts[: at - 1] + parts[at:]), at)
        add(f"line {at} twice", "".join(parts[:at] + parts[at - 1 :]), at + 1)
        add(f"line {at} without its line feed" if at < len(parts) else "the last line feed missing",
            "".join([*parts[: at - 1], parts[at - 1][:-1], *parts[at:]]), at)
        add(f"line {at} ended by CRLF", replaced(at, parts[at - 1][:-1] + "\r\n"), at)
        add(f"line {at} with a blank behind", replaced(at, parts[at - 1][:-1] + " \n"), at)
        add(f"line {at} with a blank in front", replaced(at, " " + parts[at - 1]), at)
        add(f"an empty line before line {at}", replaced(at, "\n" + parts[at - 1]), at)
    for at in range(1, len(parts)):
        swapped = [*parts]
        swapped[at - 1], swapped[at] = swapped[at], swapped[at - 1]
        add(f"lines {at} and {at + 1} exchanged", "".join(swapped), at)
    add("cut within the last line", file[:-40], len(parts))
    add("an empty line behind", file + "\n", len(parts) + 1)
    add("a blank behind", file + " ", len(parts) + 1)
    add("a line behind", file + lines[-1], len(parts) + 1)
    add("the file twice", file + file, len(parts) + 1)
    add("another log behind", file + part.file(), len(parts) + 1)
    add("CRLF throughout", file.replace("\n", "\r\n"), 1)
    add("CR throughout", file.replace("\n", "\r"), 1)
    add("a byte order mark", "\ufeff" + file, 1)
    add("UTF-16", file.encode("utf-16-le"), 1)
    add("a byte that is not UTF-8", file.encode().replace(b"Ren\xc3\xa9e", b"Ren\xe9e"), 3)
    add("an overlong form of a character", file.encode().replace(b"/script", b"\xc0\xafscript"), 6)
    add("an emoji as two surrogates of three bytes", file.encode().replace(b"\xf0\x9f\x94\x90", b"\xed\xa0\xbd\xed\xb4\x90"), 3)
    add("a NUL behind", file + "\x00", len(parts) + 1)
    add("JSON array of the lines", "[" + ",".join(part[:-1] for part in parts) + "]\n", 1)

    # The header.
    wrong("another format", 1, "export/v1", "export/v2")
    wrong("another tenant", 1, TENANT, OTHER_TENANT)
    wrong("the tenant in upper case", 1, TENANT, TENANT.upper())
    wrong("the tenant without dashes", 1, TENANT, TENANT.replace("-", ""))
    wrong("after_id as a string", 1, '"after_id":0', '"after_id":"0"')
    wrong("a negative after_id", 1, '"after_id":0', '"after_id":-1')
    wrong("after_id -0", 1, '"after_id":0', '"after_id":-0')
    wrong("after_id 0.0", 1, '"after_id":0', '"after_id":0.0')
    wrong("after_id 0e0", 1, '"after_id":0', '"after_id":0e0')
    wrong("after_id 00", 1, '"after_id":0', '"after_id":00')
    wrong("after_id null", 1, '"after_id":0', '"after_id":null')
    wrong("after_id false", 1, '"after_id":0', '"after_id":false')
    wrong("after_id 2^53", 1, '"after_id":0', f'"after_id":{2**53}')
    wrong("no after_id", 1, '"after_id":0,', "")
    wrong("after_id twice", 1, '"after_id":0,', '"after_id":0,"after_id":0,')
    wrong("a member more in the header", 1, "}\n", ',"note":"x"}\n')
    wrong("members of the header exchanged", 1, f'"tenant_id":"{TENANT}","after_id":0', f'"after_id":0,"tenant_id":"{TENANT}"')
    wrong("a blank in the header", 1, '"after_id":0', '"after_id": 0')
    wrong("an escape in the header", 1, '"format"', '"f\\u006frmat"')
    wrong("an escaped slash in the header", 1, "eaas/audit", "eaas\\/audit")
    wrong("after_hash in upper case", 1, hashes[0].hex(), hashes[0].hex().upper())
    wrong("after_hash cut", 1, hashes[0].hex(), hashes[0].hex()[:62])
    wrong("after_hash in base64", 1, hashes[0].hex(), b64(hashes[0]))
    wrong("after_hash of another tenant", 1, hashes[0].hex(), genesis(OTHER_TENANT).hex())
    wrong("after_hash of zeros", 1, hashes[0].hex(), "00" * 32)
    add("after_id 1 more", good.header(after_id=1) + "".join(parts[1:]), 2)
    add("the header of the part, the entries of the whole", part.header() + "".join(parts[1:]), 2)
    add("a part that says it is whole", part.header(after_id=0) + "".join(parts[4:]), 1)
    add("a part after another hash", part.header(after_hash=hashes[2].hex()) + "".join(parts[4:]), 2)
    add("no entries, after another hash", empty.header(after_hash=hashes[5].hex()) + empty.trailer(), 2)
    add("no entries, after another id", empty.header(after_id=5) + empty.trailer(), 2)
    add("no entries and no log", Export([]).header() + Export([]).trailer(), 2)

    # The entries: what they say.
    last = len(good.entries)
    for column, old, new in (
        ("id", '"id":3', '"id":4'), ("id", '"id":3', '"id":30'), ("id", '"id":3', '"id":-3'), ("id", '"id":3', '"id":0'),
        ("action", "key.wrap", "key.unwrap"), ("action", "key.wrap", "Key.wrap"), ("action", '"key.wrap"', "null"),
        ("key_id", KEY, OTHER_KEY), ("key_id", KEY, KEY.upper()), ("key_id", f'"{KEY}"', "null"), ("key_id", f'"{KEY}"', '""'),
        ("key_version", '"key_version":1', '"key_version":2'), ("key_version", '"key_version":1', '"key_version":null'),
        ("key_version", '"key_version":1', '"key_version":"1"'), ("key_version", '"key_version":1', '"key_version":true'),
        ("actor", "6f1b6c1e", "6f1b6c1f"), ("actor", "6f1b6c1e", "6F1B6C1E"),
        ("ip_address", "10.0.0.1", "10.0.0.2"), ("ip_address", "10.0.0.1", "010.0.0.1"), ("ip_address", '"10.0.0.1"', "null"),
        ("ip_address", '"10.0.0.1"', '""'),
        ("metadata", '"metadata":null', '"metadata":""'), ("metadata", '"metadata":null', '"metadata":"null"'),
        ("metadata", '"metadata":null', '"metadata":{}'), ("metadata", '"metadata":null', '"metadata":[]'),
        ("created_at", "00.001Z", "00.002Z"), ("created_at", "00.001Z", "00.0010Z"), ("created_at", "00.001Z", "00.001+00:00"),
        ("hash", hashes[3].hex(), flip(hashes[3], 0).hex()), ("hash", hashes[3].hex(), hashes[3].hex().upper()),
        ("hash", hashes[3].hex(), hashes[2].hex()), ("hash", hashes[3].hex(), ""), ("hash", f'"{hashes[3].hex()}"', "null"),
        ("hash", hashes[3].hex(), b64(hashes[3])),
    ):
        wrong(f"{column}: {old} altered to {new}", 4, old, new)

    # The entries: how they are spelt.
    for name, at, old, new in (
        ("1.0", 4, '"key_version":1', '"key_version":1.0'), ("1e0", 4, '"key_version":1', '"key_version":1e0'),
        ("10e-1", 4, '"key_version":1', '"key_version":10e-1'), ("+1", 4, '"key_version":1', '"key_version":+1'),
        ("01", 4, '"key_version":1', '"key_version":01'), ("0x1", 4, '"key_version":1', '"key_version":0x1'),
        ("an id of 3.0", 4, '"id":3', '"id":3.0'), ("NaN", 4, '"key_version":1', '"key_version":NaN'),
        ("a letter as \\u", 4, "key.wrap", "key.wr\\u0061p"), ("a digit as \\u", 4, "10.0.0.1", "1\\u0030.0.0.1"),
        ("the name of a member as \\u", 4, '"actor"', '"act\\u006fr"'),
        ("\u00e9 as \\u", 3, "\u00e9", "\\u00e9"), ("an emoji as \\u", 3, "\U0001f510", "\\ud83d\\udd10"),
        ("a line separator as \\u", 3, "\u2028", "\\u2028"),
        ("\u00e9 decomposed", 3, "\u00e9", "e\u0301"),
        ("a tab as \\u", 6, "\\t", "\\u0009"), ("a tab as it is", 6, "\\t", "\t"),
        ("a control character in upper case", 6, "\\u001f", "\\u001F"), ("DEL as \\u", 6, "\x7f", "\\u007f"),
        ("a slash escaped", 6, "</script>", "<\\/script>"), ("a control character as it is", 6, "\\u0001", "\x01"),
        ("a blank behind a colon", 4, '"actor":', '"actor": '), ("a blank behind a comma", 4, ',"actor"', ', "actor"'),
        ("a tab behind a comma", 4, ',"actor"', ',\t"actor"'),
        ("a member more", 4, "}\n", ',"note":null}\n'), ("the tenant besides", 4, '{"id"', f'{{"tenant_id":"{TENANT}","id"'),
        ("the MAC besides", 4, "}\n", f',"mac":"{"00" * 32}"}}\n'), ("__proto__", 4, "}\n", ',"__proto__":null}\n'),
        ("a member twice", 4, '"id":3', '"id":3,"id":3'), ("a member twice, the first one another", 4, '"id":3', '"id":9,"id":3'),
        ("a comma behind the last member", 4, "}\n", ",}\n"), ("single quotes", 4, '"actor"', "'actor'"),
        ("a comment", 4, "}\n", "} // x\n"), ("two objects", 4, "}\n", "}{}\n"), ("in an array", 4, "{", "[{"),
        ("a member in capitals", 4, '"actor"', '"Actor"'), ("a blank in a member's name", 4, '"actor"', '"actor "'),
    ):
        wrong(f"spelt otherwise: {name}", at, old, new)
    reordered = dict(sorted(good.entries[2].items()))
    add("members in the order of the alphabet", replaced(4, export_members(reordered)), 4)
    for member in good.entries[2]:
        add(f"no {member}", replaced(4, export_members({k: v for k, v in good.entries[2].items() if k != member})), 4)
    for name, line in (("null", "null\n"), ("a number", "3\n"), ("a string", '"x"\n'), ("an empty object", "{}\n"),
                       ("an empty array", "[]\n"), ("no JSON", "x\n")):
        add(f"{name} for an entry", replaced(4, line), 4)

    # Signed by the server's key, and yet not of the format: what no server writes.
    def signed(name, line, drafts=drafts, export=None):
        add(f"signed: {name}", (export or Export(drafts)).file(), line)

    def changed(at, **changes):
        return [{**draft, **changes} if index == at else draft for index, draft in enumerate(drafts)]

    signed("time that goes back", 5, changed(3, created_at="2026-08-11T09:30:00.000Z"))
    after_ahead = [*drafts[:3], {**drafts[3], "created_at": AHEAD}]
    for name, entry in (
        ("that accepts another time", clock_draft("2027-08-11T09:30:00.001Z")),
        ("that accepts no time", clock_draft(AHEAD, metadata='{"reason":"the battery"}')),
        ("that accepts a number", clock_draft(AHEAD, metadata='{"ahead_until":1,"reason":"the battery"}')),
        ("that accepts nothing", clock_draft(AHEAD, metadata=None)),
        ("whose metadata are not JSON", clock_draft(AHEAD, metadata="{")),
        ("of another action", clock_draft(AHEAD, action="audit.rollback_accepted")),
    ):
        signed(f"time that goes back at an entry {name}", 6, [*after_ahead, entry])
    signed("time that goes back after the entry that accepts a clock", 7,
           [*after_ahead, clock_draft(AHEAD), {**drafts[4], "created_at": "2026-08-11T09:30:00.000Z"}])
    signed("time without milliseconds", 4, changed(2, created_at="2026-08-11T09:30:00Z"))
    signed("time with an offset", 4, changed(2, created_at="2026-08-11T09:30:00.001+00:00"))
    signed("time in other digits", 4, changed(2, created_at="\u0662026-08-11T09:30:00.001Z"))
    signed("a time with a line feed behind", 4, changed(2, created_at="2026-08-11T09:30:00.001Z\n"))
    signed("no time", 4, changed(2, created_at=""))
    for name, time in (
        ("a month that does not exist", "2026-13-01T00:00:00.000Z"), ("a month of 0", "2027-00-01T00:00:00.000Z"),
        ("a day that the month does not have", "2026-09-31T00:00:00.000Z"), ("29 February of no leap year", "2027-02-29T00:00:00.000Z"),
        ("an hour of 24", "2026-08-11T24:00:00.000Z"), ("a minute of 60", "2026-08-11T09:60:00.000Z"),
        ("a second of 61", "2026-08-11T09:30:61.000Z"),
    ):
        signed(name, 4, changed(2, created_at=time))
    signed("a key in upper case", 4, changed(2, key_id=KEY.upper()))
    signed("a key without dashes", 4, changed(2, key_id=KEY.replace("-", "")))
    signed("a key that is no UUID", 4, changed(2, key_id="users"))
    signed("a NUL in the metadata", 4, changed(2, metadata="a\x00b"))
    signed("a NUL for an actor", 4, changed(2, actor="\x00"))
    signed("a negative key version", 4, changed(2, key_version=-1))
    signed("a key version of 2^53", 4, changed(2, key_version=2**53))
    ids = Export(drafts)
    ids.entries = [*ids.entries[:2], *Export(drafts[2:], 3, hashes[2]).entries]
    ids.last_id, ids.hash = 7, bytes.fromhex(ids.entries[-1]["hash"])
    signed("an id that is left out", 4, export=ids)

    # The trailer.
    def trailed(name, line=last + 2, **changes):
        add(name, replaced(last + 2, good.trailer(**changes)), line)

    public, other = ed25519_public(SIGNING_SEED), ed25519_public(OTHER_SEED)
    trailed("checkpoint of the entry before", checkpoint=kept[5])
    trailed("checkpoint of the first entry", checkpoint=kept[1])
    trailed("checkpoint of another hash", checkpoint=good.note(hash_=hashes[5]))
    trailed("checkpoint of a later entry", checkpoint=good.note(last_id=7))
    trailed("checkpoint of another tenant", checkpoint=good.note(tenant=OTHER_TENANT))
    trailed("checkpoint by another key", checkpoint=note_of(checkpoint_text(last_id=last, hash_=good.hash), OTHER_SEED))
    trailed("checkpoint with a bit altered", checkpoint=good.note().replace("2026-08-12", "2026-08-13"))
    trailed("checkpoint without its last line feed", checkpoint=good.note()[:-1])
    trailed("checkpoint with CRLF", checkpoint=good.note().replace("\n", "\r\n"))
    trailed("an empty checkpoint", checkpoint="")
    trailed("no note as a checkpoint", checkpoint=None)
    trailed("another public key", public_key=public_key_text(other))
    trailed("the public key under another's id", public_key=public_key_text(public, id_=note_key_id(other)))
    trailed("no public key", public_key=None)
    trailed("an empty public key", public_key="")
    trailed("a member more in the trailer", note="x")
    add("members of the trailer exchanged", replaced(last + 2, export_members(
        {"public_key": key, "checkpoint": good.note()})), last + 2)
    add("no public key in the trailer", replaced(last + 2, export_members({"checkpoint": good.note()})), last + 2)
    add("no checkpoint in the trailer", replaced(last + 2, export_members({"public_key": key})), last + 2)
    wrong("the dash as \\u in the trailer", last + 2, "\u2014", "\\u2014")
    wrong("a slash escaped in the trailer", last + 2, "eaas/audit", "eaas\\/audit")
    wrong("a blank in the trailer", last + 2, ":", ": ")

    # The trailer of a stretch.
    def stretched(name, line=6, checkpoint=None, **statement):
        head = {"head_id": 6, "head_hash": hashes[6], **statement}
        add(name, begun.file(begun.stretch(**head)), line, checkpoint)

    stretched("stretch of another entry", last_id=3)
    stretched("stretch of another hash", hash_=hashes[3])
    stretched("stretch of another tenant", tenant=OTHER_TENANT)
    stretched("stretch that ends at the head", head_id=4, head_hash=hashes[4])
    stretched("stretch that ends behind the head", head_id=3, head_hash=hashes[3])
    stretched("stretch whose text is a checkpoint's with more lines", origin=ORIGIN)
    stretched("stretch of a log that ended before the checkpoint", checkpoint=kept[6], head_id=5, head_hash=hashes[5])
    stretched("stretch of a log that ended otherwise than the checkpoint says", checkpoint=kept[6], head_hash=hashes[5])
    stretched("stretch rewritten at the checkpoint", 4, checkpoint=note_of(checkpoint_text(last_id=3, hash_=hashes[2])))
    note = json.loads(begun.stretch(6, hashes[6]))["stretch"]
    add("a stretch in the place of the checkpoint", begun.file(export_members({"checkpoint": note, "public_key": key})), 6)
    add("a checkpoint in the place of the stretch", begun.file(export_members({"stretch": begun.note(), "public_key": key})), 6)
    add("the checkpoint of the whole behind a stretch", begun.file(good.trailer()), 6)
    add("checkpoint and stretch", begun.file(export_members(
        {"checkpoint": begun.note(), "stretch": note, "public_key": key})), 6)
    add("stretch and checkpoint", begun.file(export_members(
        {"stretch": note, "checkpoint": begun.note(), "public_key": key})), 6)
    add("a stretch without a public key", begun.file(export_members({"stretch": note})), 6)
    add("a stretch by another key", begun.file(export_members({
        "stretch": note_of(stretch_text(last_id=4, hash_=hashes[4], head_id=6, head_hash=hashes[6]), OTHER_SEED),
        "public_key": key})), 6)
    add("a stretch behind the entries of the whole", good.file(begun.stretch(6, hashes[6])), last + 2)

    # The anchor.
    def covered(name, line=2, checkpoint=None, export=good, last_line=None, **changes):
        add(f"anchor: {name}", export.file_with(anchored.line(**changes), last_line), line, checkpoint)

    end = last + 3
    entry_line = anchored.entry_text()
    tampered = Anchored(good, root=sha256(b"another root"))
    elsewhere = Anchored(good, action="installation.start")
    rewritten_head = Anchored(good, hash_=hashes[5])
    covered("of another entry", last_id=5)
    covered("of another hash", hash=hashes[5].hex())
    covered("of entry 0", last_id=0)
    covered("of a later entry", last_id=7)
    covered("another index", index=anchored.index - 1)
    covered("an index beyond the tree", index=anchored.index + 4)
    covered("an index of 2^53", index=2**53)
    covered("a negative index", index=-1)
    covered("no proof", proof=[])
    covered("a proof with a node less", proof=anchored.proof[:-1])
    covered("a proof with a node more", proof=[*anchored.proof, anchored.proof[0]])
    covered("a proof with a bit altered", proof=[flip(anchored.proof[0], 0), *anchored.proof[1:]])
    covered("a proof in another order", proof=anchored.proof[::-1])
    covered("a node of 31 bytes", proof=[anchored.proof[0][:31], *anchored.proof[1:]])
    covered("another entry before it", after_hash=hashes[1].hex())
    covered("the hash in upper case", hash=anchored.hash_.hex().upper())
    covered("the id as a string", last_id="6")
    covered("signed by nobody", signed=None)
    covered("no note", end, signed="")
    covered("signed by another key", end, signed=anchored.note(seed=OTHER_SEED))
    covered("a note of the tenant", end, signed=good.note())
    covered("a note of an entry before", end, signed=anchored.note(last_id=2, hash_=anchored.before))
    covered("a note of another hash", end, signed=anchored.note(hash_=hashes[1]))
    covered("a note of the same hash at another entry", end, signed=anchored.note(last_id=4))
    covered("a note with a bit altered", end, signed=anchored.note().replace("2026-08-12", "2026-08-13"))
    covered("a stretch of an entry before", end, signed=anchored.stretch(last_id=2, hash_=anchored.before))
    covered("a stretch of the tenant", end, signed=anchored.stretch(tenant=TENANT))
    covered("a stretch by another key", end, signed=anchored.stretch(seed=OTHER_SEED))
    for name, old, new in (
        ("another root", anchored.root.hex(), hashes[1].hex()), ("another number of tenants", 'tenants\\":4', 'tenants\\":3'),
        ("another id", '"id":3', '"id":4'), ("another time", "31:00.000Z", "31:00.001Z"),
        ("another actor", '"actor":"system"', '"actor":"nobody"'), ("another action", "installation.anchor", "installation.start"),
        ("another hash of its own", anchored.own_hash.hex(), hashes[1].hex()),
    ):
        if entry_line.count(old) != 1:
            raise RuntimeError(f"{name}: {old} is not in the anchor once")
        add(f"anchor: {name}", good.file_with(anchored.line(entry_text=entry_line.replace(old, new))), 2)
    add("anchor: of a tree without the tenant", good.file_with(tampered.line()), 2)
    add("anchor: another entry of the installation's log", good.file_with(elsewhere.line()), 2)
    add("anchor: of a head that was rewritten", good.file_with(rewritten_head.line()), last + 2)
    add("anchor: of a head before the end that was rewritten", good.file_with(Anchored(good, last_id=4, hash_=hashes[3]).line()), 6)
    add("anchor: of a log that was cut since", good_cut.file_with(anchored.line()), 7)
    add("anchor: of a stretch's log that was cut since", begun.file_with(anchored.line(), begun.stretch(5, hashes[5])), 7)
    add("anchor: of what joins on otherwise", part.file_with(Anchored(good, last_id=3, hash_=hashes[2]).line()), 2)
    add("anchor: a root that is no hash", good.file_with(Anchored(good, metadata='{"root":"x","tenants":4}').line()), 2)
    add("anchor: no metadata", good.file_with(Anchored(good, metadata=None).line()), 2)
    add("anchor: metadata with a blank", good.file_with(Anchored(good, metadata=anchored.metadata.replace(",", ", ")).line()), 2)
    add("anchor: metadata with a member more", good.file_with(Anchored(good, metadata=anchored.metadata[:-1] + ',"x":1}').line()), 2)
    add("anchor: twice", good.file_with(anchored.line() + anchored.line()), 3)
    add("anchor: behind an entry", "".join([good.header(), lines[0], anchored.line(), *lines[1:], good.trailer()]), 3)
    add("anchor: behind the entries", "".join([good.header(), *lines, anchored.line(), good.trailer()]), last + 2)
    add("anchor: before the header", anchored.line() + file, 1)
    add("anchor: in the place of the last line", "".join([good.header(), *lines, anchored.line()]), last + 2)
    add("anchor: with another tenant's header", Export(drafts, tenant=OTHER_TENANT).file_with(anchored.line()), 2)
    add("anchor: a member more", good.file_with(anchored.line().replace('"signed"', '"note":null,"signed"')), 2)
    add("anchor: a blank", good.file_with(anchored.line().replace('"index":', '"index": ')), 2)
    add("anchor: members exchanged", good.file_with(anchored.line(exchanged=True)), 2)
    # The keys of the installation.
    def stated(name, installation, line=1, export=changed_key, checkpoint=None, **more):
        add(f"installation: {name}", export.file_with(anchored.line(), installation=installation), line, checkpoint, **more)

    stated("missing", None, 2)
    stated("missing, with a checkpoint of the installation", None, 2, checkpoint=anchored.note())
    stated("no note", "x")
    stated("signed by the earlier key", installation_note(OTHER_SEED), end)
    stated("signed by the earlier key, which the checkpoint names", installation_note(SIGNING_SEED, OTHER_SEED), end, checkpoint=anchored.note())
    stated("of another installation", installation_note(THIEF_SEED), end)
    for malformed in key_change_vectors()["refuse_installation"]:
        if malformed["note"]:
            stated(f"malformed: {malformed['name']}", malformed["note"])
    stated("a checkpoint of the installation by a key that it does not name", installation_note(SIGNING_SEED), checkpoint=anchored.note(OTHER_SEED))
    stated("another tree was given", installation_note(OTHER_SEED, SIGNING_SEED), tree=tree_origin(ed25519_public(SIGNING_SEED)))
    add("a tree was given, and the file states no keys of the installation", purged.file(), 1, tree=tree_origin(ed25519_public(SIGNING_SEED)))
    add("installation: missing in the log of the installation itself", own.file(), 1)
    add("installation: before the changes of the key", changed_key.file_with(anchored.line()).replace(
        changed_key.header(installation_note(*changed_key.keys)),
        Export(drafts).header(installation_note(*changed_key.keys))[:-2] + changed_key.header()[len(Export(drafts).header()) - 2:]), 1)
    # What links entries to the anchor.
    def links(name, line=last + 4, checkpoint=None, anchor=went_on, **changes):
        add(f"links: {name}", good.file_with(anchor + anchored.links(**changes)), line, checkpoint)

    def beside(name, *notes):
        add(f"links: beside a checkpoint of the tenant, {name}", with_links, last + 4, kept[3], checkpoints=[kept[3], *notes])

    beside("another one of a linked entry", anchored.note(last_id=2, hash_=hashes[1]))
    beside("one behind the end of the installation's log", anchored.note(last_id=6))
    beside("two with different hashes of an entry that is not linked", linked(4), anchored.note(last_id=4, hash_=hashes[1]))
    add("without an anchor, beside a checkpoint of the tenant, two of the installation with different hashes of an entry", file, last + 2, kept[3],
        checkpoints=[kept[3], linked(4), anchored.note(last_id=4, hash_=hashes[1])])
    back = Anchored(lossy)
    back_with_links = lossy.file_with(back.line(signed=back.stretch()) + back.links())
    add("a log that accepts a rollback, and its newest checkpoint is of what it lost, beside an older one of the installation", back_with_links, last + 5,
        back.note(last_id=2, hash_=back.before, time="2026-08-11T09:29:00.000Z"),
        checkpoints=[back.note(last_id=2, hash_=back.before, time="2026-08-11T09:29:00.000Z"), lost])
    path = inclusion_proof(1, leaves)
    links("another checkpoint of a linked entry is known", checkpoint=anchored.note(last_id=2, hash_=hashes[1]))
    links("another checkpoint of the first entry is known", checkpoint=anchored.note(last_id=1, hash_=hashes[1]))
    links("a checkpoint behind the end is known", checkpoint=anchored.note(last_id=6))
    links("the anchor is at another place of the tree", proof=inclusion_proof(3, leaves))
    links("no proof of the anchor", proof=[])
    links("a proof of the anchor with a bit altered", proof=[flip(inclusion_proof(2, leaves)[0], 0), *inclusion_proof(2, leaves)[1:]])
    links("another hash of an entry", link_2=anchored.link(2, hash_=hashes[1]))
    links("an entry with the proof of another", link_2=anchored.link(2, proof=inclusion_proof(0, leaves)))
    links("an entry under the id of another", ids=(1, 2), link_2=anchored.link(2, shown_id=4))
    links("an entry behind the tree", ids=(1, 2), link_2=anchored.link(2, shown_id=7))
    links("a proof with a node less", link_2=anchored.link(2, proof=path[:-1]))
    links("a proof with a node more", link_2=anchored.link(2, proof=[*path, path[0]]))
    links("a tree of another size", size=4, ids=(1, 2))
    links("a tree that is larger than the log that was signed", anchor=anchored.line())
    add("links: a tree under the name of the first key of the changes", arrived.file_with(went_on + anchored.links(
        note=tree_note(tree_text(leaves, OTHER_SEED), SIGNING_SEED, tree_origin(ed25519_public(OTHER_SEED))))), last + 4)
    links("a tree by another key", note=tree_note(tree_text(leaves, OTHER_SEED), OTHER_SEED))
    links("a tree that another key signed under this name", note=tree_note(tree_text(leaves), OTHER_SEED))
    links("a tree with another root", note=tree_note(tree_text(leaves, root=hashes[1])))
    links("a tree with a bit altered", note=tree_note(tree_text(leaves)).replace("\n5\n", "\n6\n"))
    links("a note that is no tree", note=anchored.note())
    links("entry 0", 3, link_1=anchored.link(1, shown_id=0))
    links("entries in another order", 3, ids=(2, 1, 5))
    links("an entry twice", 3, ids=(1, 2, 2))
    links("an id of 2^53", 3, link_5=anchored.link(5, shown_id=2**53))
    links("an id as a string", 3, link_5=anchored.link(5, shown_id='"5"'))
    links("a node of 31 bytes", 3, link_2=anchored.link(2, proof=[path[0][:31], *path[1:]]))
    add("links: a member more", good.file_with(went_on + anchored.links().replace('"proof"', '"x":1,"proof"', 1)), 3)
    add("links: a blank", good.file_with(went_on + anchored.links().replace('"entries":', '"entries": ')), 3)
    add("links: without the anchor", good.file_with(anchored.links()), 2)
    add("links: before the anchor", good.file_with(anchored.links() + went_on), 2)
    add("links: twice", good.file_with(went_on + anchored.links() + anchored.links()), 4)
    add("links: behind an entry", "".join([good.header(installation_note(SIGNING_SEED)), went_on, lines[0], anchored.links(), *lines[1:], good.trailer()]), 4)
    covered("another checkpoint of the same entry is known", end, anchored.note(hash_=hashes[1]))
    covered("a checkpoint of a later entry is known", end, anchored.note(last_id=4))
    covered("a checkpoint of another end is known", end, anchored.note(last_id=5), signed=anchored.stretch())
    covered("a checkpoint behind the end is known", end, anchored.note(last_id=6), signed=anchored.stretch())
    covered("a checkpoint by another key is known", 1, anchored.note(seed=OTHER_SEED))

    # Against what the auditor knows.
    forged = Export(changed(2, ip_address="10.9.9.9"), seed=OTHER_SEED)
    cut = Export(drafts[:4])
    rewritten = Export(changed(2, ip_address="10.9.9.9"))
    add("forged throughout, by another key", forged.file(), last + 2)
    add("forged throughout, this key named in the trailer",
        "".join([forged.header(), *forged.lines(), forged.trailer(public_key=key)]), last + 2)
    add("another public key is known", file, last + 2, public_key=public_key_text(other))
    add("the log was cut before the checkpoint", cut.file(), 6, kept[5])
    add("the log was rewritten before the checkpoint, by the key's owner", rewritten.file(), 6, kept[5])
    add("the log was rewritten at the checkpoint", rewritten.file(), 4, kept[3])
    add("the log was rewritten up to the checkpoint, which is the end", rewritten.file(), 7, kept[6])
    add("the log was rewritten before the older of two checkpoints", rewritten.file(), last + 2, rewritten.note(), checkpoints=[kept[5], rewritten.note()])
    add("the log was rewritten before the older of two checkpoints, by a note of its end", rewritten.file(), last + 2, rewritten.note(),
        checkpoints=[kept[6], rewritten.note()])
    add("the log was rewritten before the older of two checkpoints of which none is named", rewritten.file(), last + 2,
        checkpoints=[kept[5], rewritten.note()])
    add("the log was cut before the older of two checkpoints", cut.file(), 6, kept[4], checkpoints=[kept[5], kept[4]])
    add("a stretch of a log whose end is not that of the older of two checkpoints", begun.file(begun.stretch(6, hashes[5])), 6, kept[4],
        checkpoints=[kept[6], kept[4]])
    for what, log, note in (
        ("of an entry behind", Export([*drafts, rollback_draft(4)]), lost),
        ("of an entry before", Export([*drafts, rollback_draft(6, after=5)]), lost),
        ("of later", lossy, note_of(checkpoint_text(last_id=5, hash_=hashes[2], time="2026-08-11T09:30:00.021Z"))),
        ("of an acceptance without an end", Export([*drafts, rollback_draft(None)]), lost),
        ("of an acceptance without a beginning", Export([*drafts, rollback_draft(5, after="0")]), lost),
    ):
        add(f"a log that accepts a rollback, and a checkpoint {what}", log.file(), 9, kept[6], checkpoints=[note, kept[6]])
    add("a log that accepts a rollback, and no checkpoint but one of what it lost", lossy.file(), 6, lost)
    add("two checkpoints of a purged entry have different hashes", purged.file(), 6, kept[5],
        checkpoints=[note_of(checkpoint_text(last_id=2, hash_=hashes[1])), kept[2], kept[5]])
    add("a part that does not join on to the checkpoint", Export(drafts[3:], 3, hashes[2]).file(), 1, kept[3])
    add("no entries, and another log's checkpoint", Export([], 6, hashes[5]).file(), 1, kept[6])
    add("the checkpoint of another tenant", file, 1, note_of(checkpoint_text(tenant=OTHER_TENANT, last_id=3, hash_=hashes[3])))
    add("the checkpoint by another key", file, 1, note_of(checkpoint_text(last_id=3, hash_=hashes[3]), OTHER_SEED))
    add("the checkpoint altered", file, 1, kept[3].replace("\n3\n", "\n2\n"))
    add("the checkpoint of nothing", file, 1, "")

    # The tree over the entries.
    def with_tree(name, note=None, seed=SIGNING_SEED, **statement):
        add(f"a tree {name}", good.file(good.trailer(tree=good.tree(seed, **statement) if note is None else note)), last + 2)

    with_tree("with another root", root=sha256(b"another root"))
    with_tree("of other entries", root=merkle_root(hashes[1:6]))
    with_tree("of an entry more", last_id=7)
    with_tree("of an entry less", last_id=5)
    with_tree("that begins later", after_id=1)
    with_tree("of another tenant", tenant=OTHER_TENANT)
    with_tree("by another key", seed=OTHER_SEED)
    with_tree("with an altered root", note=good.tree().replace(b64(merkle_root(hashes[1:])), b64(sha256(b"another root"))))
    with_tree("that is a checkpoint", note=kept[6])
    with_tree("that is nothing", note="")
    add("a tree before the public key", good.file(export_members({
        "checkpoint": good.note(), "tree": good.tree(), "public_key": key})), last + 2)
    add("a tree of no entry", empty.file(empty.trailer(tree=empty.tree(root=sha256(b"")))), 2)

    # A new signing key. Its files are not the first one with a fault, so they are given whole.
    def after_change(name, export, line, **more):
        add(f"a new key: {name}", export.file(), line, **more)

    after_change("the export is signed by the earlier one", Export(drafts, seed=OTHER_SEED, key_changes=changes), last + 2, public_key=first)
    after_change("the export is signed by the one given, which was replaced", Export(drafts, key_changes=later), last + 2)
    after_change("the statement was signed by a thief alone", Export(drafts, seed=THIEF_SEED, key_changes=[
        key_change(THIEF_SEED, SIGNING_SEED).replace(written(THIEF_SEED), first, 1)]), 1)
    after_change("a statement of other keys", Export(drafts, seed=THIEF_SEED, key_changes=[key_change(OTHER_SEED, THIEF_SEED)]), 1)
    after_change("no statement leads to it", Export(drafts, seed=THIEF_SEED), last + 2)
    after_change("two statements of one key", Export(drafts, seed=THIEF_SEED, key_changes=[*changes, key_change(OTHER_SEED, THIEF_SEED)]), 1)
    after_change("the statements in another order", Export(drafts, seed=THIRD_SEED, key_changes=later[::-1]), 1)
    after_change("one of the statements is missing", Export(drafts, seed=THIRD_SEED, key_changes=later[:1]), last + 2)
    after_change("a list without statements", Export(drafts, key_changes=[]), 1)
    after_change("a checkpoint by another key", changed_key, 1, checkpoint=note_of(checkpoint_text(last_id=3, hash_=hashes[3]), THIEF_SEED))
    after_change("another checkpoint by the earlier key", changed_key, 4, checkpoint=note_of(checkpoint_text(last_id=3, hash_=hashes[2]), OTHER_SEED))
    add("a new key: its tree under an origin of its own", linked_since.replace(
        json_string(tree_note(tree_text(anchored_since.leaves(), OTHER_SEED), SIGNING_SEED, tree_origin(ed25519_public(OTHER_SEED)))),
        json_string(tree_note(tree_text(anchored_since.leaves())))), last + 4)
    add("a new key: the tree by the earlier key", linked_since.replace(
        json_string(tree_note(tree_text(anchored_since.leaves(), OTHER_SEED), SIGNING_SEED, tree_origin(ed25519_public(OTHER_SEED)))),
        json_string(tree_note(tree_text(anchored_since.leaves(), OTHER_SEED), OTHER_SEED))), last + 4)

    names = [row["name"] for row in valid + refuse]
    if len(set(names)) != len(names):
        raise RuntimeError(f"names twice: {sorted(name for name in names if names.count(name) > 1)}")
    for row in refuse:
        if "base" not in row and row["head"] + row["tail"] == len(file_bytes) and row.get("insert") == "" and not {"checkpoint", "public_key"} & {*row}:
            raise RuntimeError(f"{row['name']} is the good file")
    return {
        "format": "audit export 1",
        "about": "export.md 7. Each `file` of `valid` verifies with `public_key`, and with its `checkpoint` and all its `checkpoints` where it has some, to "
                 "this verdict. Each of `refuse` is the first of those files, or the one that it names as its `base`, with one fault: "
                 "its first `head` bytes, then `insert` (UTF-8, or `insert_base64` where it is not), then its last `tail` bytes. It must be refused "
                 "with the same key, or its own where it names one; `line` is the first line that is wrong, counted from "
                 "1, one more than the file has where its end is missing. `fault` is what chain.md 9 calls it, for faults of chain.md 11.",
        "made_by": MADE_BY.replace("AES-256-GCM", "Ed25519"),
        "public_key": key,
        "valid": valid,
        "refuse": refuse,
    }
