"""The vectors of merkle.md."""
from .chain import json_array
from .checkpoint import CHECKPOINT_HASH
from .common import MADE_BY, NIL, OTHER_TENANT, TENANT, flip, sha256


def leaf_hash(leaf):
    return sha256(b"\x00" + leaf)


def node_hash(left, right):
    return sha256(b"\x01" + left + right)


def split_of(count):
    return 1 << ((count - 1).bit_length() - 1)


def merkle_root(leaves):
    if len(leaves) < 2:
        return leaf_hash(leaves[0]) if leaves else sha256(b"")
    split = split_of(len(leaves))
    return node_hash(merkle_root(leaves[:split]), merkle_root(leaves[split:]))


def inclusion_proof(index, leaves):
    """RFC 6962 section 2.1.1: PATH."""
    if len(leaves) == 1:
        return []
    split = split_of(len(leaves))
    if index < split:
        return inclusion_proof(index, leaves[:split]) + [merkle_root(leaves[split:])]
    return inclusion_proof(index - split, leaves[split:]) + [merkle_root(leaves[:split])]


def consistency_proof(old_size, leaves, whole=True):
    """RFC 6962 section 2.1.2: SUBPROOF; of an old tree without leaves, nothing."""
    if old_size == 0 or (old_size == len(leaves) and whole):
        return []
    if old_size == len(leaves):
        return [merkle_root(leaves)]
    split = split_of(len(leaves))
    if old_size <= split:
        return consistency_proof(old_size, leaves[:split], whole) + [merkle_root(leaves[split:])]
    return consistency_proof(old_size - split, leaves[split:], False) + [merkle_root(leaves[:split])]


class NotProved(Exception):
    pass


def require(condition):
    if not condition:
        raise NotProved()


def root_by_inclusion(index, size, leaf, proof):
    """PATH read backwards, from the root down: not the way that RFC 9162 describes."""
    if size == 1:
        require(not proof)
        return leaf_hash(leaf)
    require(proof)
    split = split_of(size)
    if index < split:
        return node_hash(root_by_inclusion(index, split, leaf, proof[:-1]), proof[-1])
    return node_hash(proof[-1], root_by_inclusion(index - split, size - split, leaf, proof[:-1]))


def roots_by_consistency(old_size, size, old_root, proof, whole=True):
    """SUBPROOF read backwards: the old root and the new one."""
    if old_size == size:
        require(len(proof) == (0 if whole else 1))
        return (old_root, old_root) if whole else (proof[0], proof[0])
    require(proof)
    split = split_of(size)
    if old_size <= split:
        old, new = roots_by_consistency(old_size, split, old_root, proof[:-1], whole)
        return old, node_hash(new, proof[-1])
    old, new = roots_by_consistency(old_size - split, size - split, old_root, proof[:-1], False)
    return node_hash(proof[-1], old), node_hash(proof[-1], new)


def is_count(value):
    return type(value) is int and 0 <= value <= 2**53 - 1


def are_hashes(values):
    return all(type(value) is bytes and len(value) == 32 for value in values)


def proves_inclusion(size, index, leaf, root, proof):
    if not (is_count(size) and is_count(index) and index < size and are_hashes([root, *proof])):
        return False
    try:
        return root_by_inclusion(index, size, leaf, proof) == root
    except NotProved:
        return False


def proves_consistency(old_size, new_size, old_root, new_root, proof):
    if not (is_count(old_size) and is_count(new_size) and old_size <= new_size and are_hashes([old_root, new_root, *proof])):
        return False
    if old_size == 0:
        return old_root == sha256(b"") and not proof and (new_size > 0 or new_root == old_root)
    try:
        return roots_by_consistency(old_size, new_size, old_root, proof) == (old_root, new_root)
    except NotProved:
        return False


def anchor_leaf(tenant, last_id, hash_):
    return json_array(["eaas/audit/anchor-leaf/v1", tenant, last_id, hash_])


#: The leaves and roots of the reference implementation of RFC 6962 (google/certificate-transparency, merkle_tree_test.cc).
RFC6962_LEAVES = [bytes.fromhex(leaf) for leaf in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")]
RFC6962_ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def anchored_leaves(count):
    return [anchor_leaf(f"{NIL[:-4]}{number:04x}", number + 1, sha256(f"head {number}".encode()).hex())
            for number in range(count)]


def large_inclusion(index, size):
    """Of a tree that nobody can build: its proof is made up, and its root follows from it."""
    leaf, count = b"a leaf among many", 0
    low, high = 0, size
    while high - low > 1:
        split = low + split_of(high - low)
        low, high = (low, split) if index < split else (split, high)
        count += 1
    proof = [sha256(f"node {number}".encode()) for number in range(count)]
    return {"size": size, "index": index, "leaf": leaf, "root": root_by_inclusion(index, size, leaf, proof), "proof": proof}


def large_consistency(old_size, new_size):
    """As above: both roots follow from the proof, unless the old tree is a whole subtree, whose root is made up too."""
    for count in range(110):
        proof = [sha256(f"node {number}".encode()) for number in range(count)]
        try:
            old, new = roots_by_consistency(old_size, new_size, sha256(b"an old root"), proof)
            return {"old_size": old_size, "new_size": new_size, "old_root": old, "new_root": new, "proof": proof}
        except NotProved:
            continue
    raise RuntimeError("no proof has a length that fits")


def merkle_vectors():
    trees = [{"name": f"the reference implementation's tree of {count}", "leaves": RFC6962_LEAVES[:count], "root": root}
             for count, root in enumerate(RFC6962_ROOTS)]
    trees += [{"name": f"heads of {count} tenants", "leaves": anchored_leaves(count),
               "root": merkle_root(anchored_leaves(count)).hex()} for count in (1, 2, 3, 5, 11)]
    if any(merkle_root(tree["leaves"]).hex() != tree["root"] for tree in trees):
        raise RuntimeError("a root is not that of the reference implementation")

    def inclusion(index, leaves):
        return {"size": len(leaves), "index": index, "leaf": leaves[index], "root": merkle_root(leaves),
                "proof": inclusion_proof(index, leaves)}

    def consistency(old_size, leaves):
        return {"old_size": old_size, "new_size": len(leaves), "old_root": merkle_root(leaves[:old_size]),
                "new_root": merkle_root(leaves), "proof": consistency_proof(old_size, leaves)}

    inclusions = {f"leaf {index} of {size}": inclusion(index, RFC6962_LEAVES[:size])
                  for size, indices in ((1, [0]), (2, [0, 1]), (3, [0, 2]), (5, [4]), (7, [0, 4, 6]), (8, [0, 3, 7])) for index in indices}
    inclusions["head 6 of 11"] = inclusion(6, anchored_leaves(11))
    inclusions["head 10 of 11, which has no neighbour in its row"] = inclusion(10, anchored_leaves(11))
    for index, size in ((2**31, 2**32 + 1), (2**32, 2**32 + 1), (2**53 - 2, 2**53 - 1), (2**52 + 12345, 2**53 - 1)):
        inclusions[f"leaf {index} of {size}"] = large_inclusion(index, size)
    consistencies = {f"{old} to {new}": consistency(old, RFC6962_LEAVES[:new]) for old, new in (
        (0, 0), (0, 1), (0, 5), (1, 1), (1, 2), (1, 8), (2, 3), (3, 3), (3, 7), (4, 7), (4, 8), (6, 7), (6, 8), (7, 8), (8, 8))}
    for old, new in ((2**31 + 1, 2**32 + 1), (2**32, 2**32 + 1), (2**53 - 2, 2**53 - 1)):
        consistencies[f"{old} to {new}"] = large_consistency(old, new)

    seven, eight = RFC6962_LEAVES[:7], RFC6962_LEAVES
    good = inclusion(4, seven)
    proof = good["proof"]
    last = inclusion(6, seven)
    refuse_inclusions = {
        "another leaf": {"leaf": eight[3]},
        "a leaf with a byte more": {"leaf": good["leaf"] + b"\x00"},
        "a leaf without its last byte": {"leaf": good["leaf"][:-1]},
        "no byte of the leaf": {"leaf": b""},
        "the hash of the leaf as the leaf": {"leaf": leaf_hash(good["leaf"])},
        "the leaf with its prefix": {"leaf": b"\x00" + good["leaf"]},
        "the index before": {"index": 3},
        "the index after": {"index": 5},
        "the first index": {"index": 0},
        "the last index": {"index": 6},
        "an index that is the size": {"index": 7},
        "an index beyond the size": {"index": 8},
        "an index of 2^32 more": {"index": 2**32 + 4},
        "a negative index": {"index": -1},
        "an index with a fraction": {"index": 4.5},
        "an index that is a text": {"index": "4"},
        "no index": {"index": None},
        "the size 0": {"size": 0, "index": 0},
        "a size of the index": {"size": 4},
        "a size that is too small": {"size": 5},
        "a size of another height": {"size": 9},
        "a size of 2^32 more": {"size": 2**32 + 7},
        "the size 2^53": {"size": 2**53},
        "a negative size": {"size": -7},
        "a size with a fraction": {"size": 7.5},
        "a size that is a text": {"size": "7"},
        "no size": {"size": None},
        "another root": {"root": merkle_root(eight)},
        "the first bit of the root altered": {"root": flip(good["root"], 0, 7)},
        "the last bit of the root altered": {"root": flip(good["root"], 31)},
        "a root of 31 bytes": {"root": good["root"][:31]},
        "a root of 33 bytes": {"root": good["root"] + b"\x00"},
        "no byte of the root": {"root": b""},
        "the empty tree's root": {"root": sha256(b"")},
        "an empty proof": {"proof": []},
        "the first node missing": {"proof": proof[1:]},
        "the last node missing": {"proof": proof[:-1]},
        "a node more at the end": {"proof": proof + [sha256(b"more")]},
        "a node more at the beginning": {"proof": [sha256(b"more")] + proof},
        "the last node twice": {"proof": proof + proof[-1:]},
        "a node of zeros more": {"proof": proof + [bytes(32)]},
        "the nodes in the other order": {"proof": proof[::-1]},
        "the first two nodes exchanged": {"proof": [proof[1], proof[0], *proof[2:]]},
        "a bit of the first node altered": {"proof": [flip(proof[0], 0), *proof[1:]]},
        "a bit of the last node altered": {"proof": [*proof[:-1], flip(proof[-1], 31, 7)]},
        "a node of 31 bytes": {"proof": [proof[0][:31], *proof[1:]]},
        "a node of 33 bytes": {"proof": [proof[0] + b"\x00", *proof[1:]]},
        "an empty node": {"proof": [b"", *proof[1:]]},
        "two nodes in one": {"proof": [proof[0] + proof[1], *proof[2:]]},
        "the proof of another leaf": {"proof": inclusion_proof(5, seven)},
        "the proof of the same leaf in a larger tree": {"proof": inclusion_proof(4, eight)},
        "two leaves' node passed off as a leaf": {
            "size": 4, "index": 2, "leaf": leaf_hash(seven[4]) + leaf_hash(seven[5]), "proof": proof[1:]},
        "a node passed off as a leaf, with its prefix": {
            "size": 4, "index": 2, "leaf": b"\x01" + leaf_hash(seven[4]) + leaf_hash(seven[5]), "proof": proof[1:]},
        "the last leaf's node passed off as one of a full tree": {**last, "size": 8},
        "a tree without prefixes": {
            "size": 2, "index": 0, "leaf": b"a", "root": sha256(sha256(b"a") + sha256(b"b")), "proof": [sha256(b"b")]},
        "a tree whose leaves have no prefix": {
            "size": 2, "index": 0, "leaf": b"a", "root": node_hash(sha256(b"a"), sha256(b"b")), "proof": [sha256(b"b")]},
        "a tree whose odd leaf is paired with itself": {
            "size": 3, "index": 2, "leaf": seven[2], "root": node_hash(
                node_hash(leaf_hash(seven[0]), leaf_hash(seven[1])), node_hash(leaf_hash(seven[2]), leaf_hash(seven[2]))),
            "proof": [leaf_hash(seven[2]), node_hash(leaf_hash(seven[0]), leaf_hash(seven[1]))]},
        "one leaf with a proof": {"size": 1, "index": 0, "leaf": b"", "root": leaf_hash(b""), "proof": [bytes(32)]},
        "the empty leaf in the empty tree": {"size": 1, "index": 0, "leaf": b"", "root": sha256(b""), "proof": []},
    }
    old = consistency(6, seven)
    proof = old["proof"]
    power = consistency(4, seven)
    same = {"old_size": 7, "new_size": 7, "old_root": merkle_root(seven), "new_root": merkle_root(seven), "proof": []}
    nothing = consistency(0, seven)
    rewritten = [*seven[:2], b"rewritten", *seven[3:]]
    refuse_consistencies = {
        "another old root": {"old_root": merkle_root(seven[:5])},
        "another new root": {"new_root": merkle_root(eight)},
        "old and new root exchanged": {"old_root": old["new_root"], "new_root": old["old_root"]},
        "the old root altered": {"old_root": flip(old["old_root"], 31)},
        "the new root altered": {"new_root": flip(old["new_root"], 0, 7)},
        "an old root of 31 bytes": {"old_root": old["old_root"][:31]},
        "a new root of 33 bytes": {"new_root": old["new_root"] + b"\x00"},
        "no old root": {"old_root": b""},
        "no new root": {"new_root": b""},
        "a leaf of the old tree rewritten": {"new_root": merkle_root(rewritten), "proof": consistency_proof(6, rewritten)},
        "a leaf of the old tree removed": {"new_root": merkle_root(eight[1:]), "proof": consistency_proof(6, eight[1:])},
        "two leaves exchanged": {
            "new_root": merkle_root([eight[1], eight[0], *seven[2:]]),
            "proof": consistency_proof(6, [eight[1], eight[0], *seven[2:]])},
        "an old size that is too small": {"old_size": 5},
        "an old size that is a power of two": {"old_size": 4},
        "an old size of the new one": {"old_size": 7},
        "an old size above the new one": {"old_size": 8},
        "the old size 0": {"old_size": 0},
        "an old size of 2^32 more": {"old_size": 2**32 + 6, "new_size": 2**32 + 7},
        "a negative old size": {"old_size": -6},
        "an old size with a fraction": {"old_size": 6.5},
        "an old size that is a text": {"old_size": "6"},
        "no old size": {"old_size": None},
        "a new size below the old one": {"new_size": 5},
        "the old size as the new one": {"new_size": 6},
        "the new size 0": {"new_size": 0},
        "a new size of another height": {"new_size": 9},
        "the new size 2^53": {"new_size": 2**53},
        "a new size that is a text": {"new_size": "7"},
        "no new size": {"new_size": None},
        "an empty proof": {"proof": []},
        "the first node missing": {"proof": proof[1:]},
        "the last node missing": {"proof": proof[:-1]},
        "a node more at the end": {"proof": proof + [sha256(b"more")]},
        "a node more at the beginning": {"proof": [sha256(b"more")] + proof},
        "the old root in front": {"proof": [old["old_root"], *proof]},
        "the nodes in the other order": {"proof": proof[::-1]},
        "a bit of the first node altered": {"proof": [flip(proof[0], 0), *proof[1:]]},
        "a bit of the last node altered": {"proof": [*proof[:-1], flip(proof[-1], 31, 7)]},
        "a node of 31 bytes": {"proof": [proof[0][:31], *proof[1:]]},
        "a node of 33 bytes": {"proof": [*proof[:-1], proof[-1] + b"\x00"]},
        "a power of two with its root in the proof": {**power, "proof": [power["old_root"], *power["proof"]]},
        "a power of two without a proof": {**power, "proof": []},
        "a power of two with another old root": {**power, "old_root": sha256(b"another")},
        "a power of two with a node more": {**power, "proof": power["proof"] + [bytes(32)]},
        "the same size with another root": {**same, "new_root": merkle_root(rewritten)},
        "the same size with another old root": {**same, "old_root": merkle_root(rewritten)},
        "the same size with a proof": {**same, "proof": [merkle_root(seven)]},
        "an old size above the new one, with the same root": {**same, "old_size": 2, "new_size": 1},
        "no leaf, with a proof": {**nothing, "proof": [merkle_root(seven)]},
        "no leaf, with the root of one": {**nothing, "old_root": leaf_hash(b"")},
        "no leaf, with a root of zeros": {**nothing, "old_root": bytes(32)},
        "no leaf twice, with a new root": {**nothing, "new_size": 0},
        "no leaf twice, with two roots of one": {**nothing, "new_size": 0, "old_root": leaf_hash(b""), "new_root": leaf_hash(b"")},
        "no leaf, with a new root of 31 bytes": {**nothing, "new_root": bytes(31)},
    }
    refused = {name: {**good, **fault} for name, fault in refuse_inclusions.items()}
    refused_consistencies = {name: {**old, **fault} for name, fault in refuse_consistencies.items()}
    for name, case in [*inclusions.items(), *refused.items()]:
        if proves_inclusion(**case) != (name in inclusions):
            raise RuntimeError(f"inclusion: {name}")
    for name, case in [*consistencies.items(), *refused_consistencies.items()]:
        if proves_consistency(**case) != (name in consistencies):
            raise RuntimeError(f"consistency: {name}")

    heads = {
        "of a tenant": (TENANT, 42, CHECKPOINT_HASH), "of its first entry": (TENANT, 1, CHECKPOINT_HASH),
        "of the longest log": (TENANT, 2**53 - 1, CHECKPOINT_HASH), "of another tenant": (OTHER_TENANT, 42, CHECKPOINT_HASH),
        "with a hash of zeros": (NIL, 42, bytes(32)),
    }
    refuse_heads = {
        "the id 0": (TENANT, 0, CHECKPOINT_HASH), "a negative id": (TENANT, -1, CHECKPOINT_HASH),
        "an id with a fraction": (TENANT, 42.5, CHECKPOINT_HASH), "the id 2^53": (TENANT, 2**53, CHECKPOINT_HASH),
        "an id that is a text": (TENANT, "42", CHECKPOINT_HASH), "no id": (TENANT, None, CHECKPOINT_HASH),
        "a hash of 31 bytes": (TENANT, 42, CHECKPOINT_HASH[:31]), "a hash of 33 bytes": (TENANT, 42, CHECKPOINT_HASH + b"\x00"),
        "no hash": (TENANT, 42, b""), "the tenant in upper case": (TENANT.upper(), 42, CHECKPOINT_HASH),
        "the tenant without dashes": (TENANT.replace("-", ""), 42, CHECKPOINT_HASH), "the tenant's name": ("acme", 42, CHECKPOINT_HASH),
        "no tenant": ("", 42, CHECKPOINT_HASH), "a line feed behind the tenant": (TENANT + "\n", 42, CHECKPOINT_HASH),
    }

    def shown(value):
        if isinstance(value, list):
            return [shown(item) for item in value]
        return value.hex() if isinstance(value, bytes) else value

    def listed(cases):
        return [{"name": name, **{member: shown(value) for member, value in case.items()}} for name, case in cases.items()]

    def head(values):
        return dict(zip(("tenant_id", "last_id", "hash"), values))

    return {
        "format": "merkle 1",
        "about": "merkle.md 6. Bytes are lower-case hexadecimal; `leaf` of a head is its text. Roots of the trees of the reference "
                 "implementation of RFC 6962 are that project's. The trees of the largest proofs don't exist: proofs were made up, and "
                 "roots computed from them. Each of `refuse_inclusion` is leaf 4 of 7 with one fault, each of `refuse_consistency` "
                 "is 6 to 7 with one fault, unless its name says otherwise.",
        "made_by": MADE_BY.replace("AES-256-GCM by OpenSSL, HMAC and SHA-256", "SHA-256"),
        "trees": [{**tree, "leaves": shown(tree["leaves"])} for tree in trees],
        "anchor_leaves": [{"name": name, **{member: shown(value) for member, value in head(values).items()},
                           "leaf": anchor_leaf(*values[:2], values[2].hex()).decode()} for name, values in heads.items()],
        "inclusion": listed(inclusions),
        "consistency": listed(consistencies),
        "refuse_anchor_leaves": listed({name: head(values) for name, values in refuse_heads.items()}),
        "refuse_inclusion": listed(refused),
        "refuse_consistency": listed(refused_consistencies),
    }
