"""The vectors of key-change.md."""
from .checkpoint import OTHER_SEED, SIGNED_AT, SIGNING_SEED, note_key_id, note_of, checkpoint_text, public_key_text, signature_line
from .common import MADE_BY, ed25519_public, ed25519_sign, key_of

THIRD_SEED, THIEF_SEED = key_of("a third signing"), key_of("a thief's signing")


def written(seed):
    return public_key_text(ed25519_public(seed))


def change_text(before, after, time=SIGNED_AT, origin="eaas/audit/key-change/v1"):
    return f"{origin}\n{written(before)}\n{written(after)}\n{time}\n"


def change_line(text, seed, name="eaas-audit", id_of=None):
    return signature_line(ed25519_sign(seed, text.encode()), note_key_id(ed25519_public(id_of or seed)), name)


def key_change(before, after, **changes):
    text = change_text(before, after, **changes)
    return text + "\n" + change_line(text, before) + change_line(text, after)


def key_change_vectors():
    sign = [{"name": name, "from_seed": before.hex(), "to_seed": after.hex(), "from": written(before), "to": written(after),
             "created_at": time, "note": key_change(before, after, time=time)}
            for name, before, after, time in (
                ("of the first key", SIGNING_SEED, OTHER_SEED, SIGNED_AT),
                ("of a later key", OTHER_SEED, THIRD_SEED, "9999-12-31T23:59:59.999Z"))]
    text = change_text(SIGNING_SEED, OTHER_SEED)
    good, old, new = sign[0]["note"], change_line(text, SIGNING_SEED), change_line(text, OTHER_SEED)
    lines = text.split("\n")[:4]

    def lined(*lines):
        return "".join(line + "\n" for line in lines)

    def signed(text):
        return text + "\n" + change_line(text, SIGNING_SEED) + change_line(text, OTHER_SEED)

    refuse = {
        "another time": good.replace("09:30", "09:31"),
        "another new key": good.replace(written(OTHER_SEED), written(THIRD_SEED)),
        "another earlier key": good.replace(written(SIGNING_SEED), written(THIRD_SEED)),
        "the keys exchanged": change_text(OTHER_SEED, SIGNING_SEED) + "\n" + old + new,
        "the signatures exchanged": text + "\n" + new + old,
        "signed by the earlier key alone": text + "\n" + old,
        "signed by the new key alone": text + "\n" + new,
        "signed by the earlier key twice": text + "\n" + old + old,
        "a third signature behind": good + change_line(text, THIRD_SEED),
        "a third signature in front": text + "\n" + change_line(text, THIRD_SEED) + old + new,
        "the earlier key's line signed by another": text + "\n" + change_line(text, THIEF_SEED, id_of=SIGNING_SEED) + new,
        "the new key's line signed by another": text + "\n" + old + change_line(text, THIEF_SEED, id_of=OTHER_SEED),
        "the earlier key's line under another name": text + "\n" + change_line(text, SIGNING_SEED, "other.example") + new,
        "a thief's note, whose line has the id of the earlier key":
            change_text(SIGNING_SEED, THIEF_SEED) + "\n" + change_line(change_text(SIGNING_SEED, THIEF_SEED), THIEF_SEED, id_of=SIGNING_SEED)
            + change_line(change_text(SIGNING_SEED, THIEF_SEED), THIEF_SEED),
        "the text alone": text,
        "no signature": text + "\n",
        "no empty line": text + old + new,
        "the last line feed missing": good[:-1],
        "CRLF throughout": good.replace("\n", "\r\n"),
        "nothing": "",
        "a checkpoint": note_of(checkpoint_text()),
        "signed: one key twice": key_change(SIGNING_SEED, SIGNING_SEED),
        "signed: another first line": signed(change_text(SIGNING_SEED, OTHER_SEED, origin="eaas/audit/key-change/v2")),
        "signed: a line more": signed(lined(*lines, "more")),
        "signed: a line less": signed(lined(*lines[:3])),
        "signed: a time without milliseconds": signed(change_text(SIGNING_SEED, OTHER_SEED, time="2026-08-11T09:30:00Z")),
        "signed: a key without its id": signed(lined(lines[0], lines[1].split("+")[0] + "+" + lines[1].split("+", 2)[2], *lines[2:])),
        "signed: a key of another name": signed(lined(lines[0], public_key_text(ed25519_public(SIGNING_SEED), "other"), *lines[2:])),
    }
    first, second = good, sign[1]["note"]
    follow = [{"name": "none", "notes": [], "keys": []},
              {"name": "one", "notes": [first], "keys": [written(SIGNING_SEED), written(OTHER_SEED)]},
              {"name": "two", "notes": [first, second], "keys": [written(SIGNING_SEED), written(OTHER_SEED), written(THIRD_SEED)]}]
    refuse_lists = {
        "in another order": [second, first],
        "one is missing": [first, key_change(THIRD_SEED, THIEF_SEED)],
        "two from one key": [first, key_change(SIGNING_SEED, THIRD_SEED)],
        "the same twice": [first, first],
        "back to the first key": [first, key_change(OTHER_SEED, SIGNING_SEED)],
        "back to the second key": [first, second, key_change(THIRD_SEED, OTHER_SEED)],
        "one that does not verify": [first, second[:-1]],
    }
    return {
        "format": "audit key change 1",
        "about": "key-change.md 6. Each of `sign` is what the two seeds sign; none of `refuse` may be read. Each list of `follow` leads through "
                 "`keys`; none of `refuse_lists` may be followed.",
        "made_by": MADE_BY.replace("AES-256-GCM", "Ed25519"),
        "sign": sign,
        "refuse": [{"name": name, "note": note} for name, note in refuse.items()],
        "follow": follow,
        "refuse_lists": [{"name": name, "notes": notes} for name, notes in refuse_lists.items()],
    }
