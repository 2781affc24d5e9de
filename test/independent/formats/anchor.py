"""The vectors of anchor.md."""
import json

from .checkpoint import CHECKPOINT_HASH
from .common import MADE_BY, NIL, OTHER_TENANT, TENANT, b64
from .merkle import anchor_leaf, merkle_root


def anchor_vectors():
    def metadata(heads):
        root = merkle_root([anchor_leaf(tenant, last_id, hash_.hex()) for tenant, last_id, hash_ in heads])
        return f'{{"root":"{root.hex()}","tenants":{len(heads)}}}'

    three = [(NIL, 1, bytes(32)), (TENANT, 42, CHECKPOINT_HASH), (OTHER_TENANT, 2**53 - 1, b"\xff" * 32)]
    anchors = [{
        "name": name, "heads": [{"tenant_id": tenant, "last_id": last_id, "hash": hash_.hex()} for tenant, last_id, hash_ in heads],
        "metadata": metadata(heads),
    } for name, heads in (("no tenant", []), ("one tenant", three[:1]), ("two tenants", three[:2]), ("three tenants", three))]
    good = anchors[-1]["metadata"]
    root = json.loads(good)["root"]
    refuse = {
        "nothing": "", "no metadata": None, "null": "null", "a list": "[]", "no JSON": good[:-1],
        "no root": '{"tenants":3}', "no number": f'{{"root":"{root}"}}', "a member more": good[:-1] + ',"x":1}',
        "members exchanged": f'{{"tenants":3,"root":"{root}"}}', "a member twice": good[:-1] + ',"tenants":3}',
        "a blank": good.replace(",", ", "), "a line feed behind": good + "\n", "a blank in front": " " + good,
        "a root in capitals": good.replace(root, root.upper()), "a root of 31 bytes": good.replace(root, root[:62]),
        "a root of 33 bytes": good.replace(root, root + "00"), "a root in base64": good.replace(root, b64(bytes.fromhex(root))),
        "a negative number": good.replace(":3", ":-3"), "a number as text": good.replace(":3", ':"3"'),
        "a fraction": good.replace(":3", ":3.0"), "an exponent": good.replace(":3", ":3e0"), "a number of 2^53": good.replace(":3", f":{2**53}"),
        "an escape": good.replace("root", "r\\u006fot", 1),
    }
    return {
        "format": "anchor 1",
        "about": "anchor.md 5. Hashes are lower-case hexadecimal. Each of `anchors` has heads in the order of their tenants' ids, and the "
                 "metadata of the anchor that covers them. Each of `refuse` is the metadata of no anchor.",
        "made_by": MADE_BY.replace("AES-256-GCM", "SHA-256"),
        "anchors": anchors,
        "refuse": [{"name": name, "metadata": text} for name, text in refuse.items()],
    }
