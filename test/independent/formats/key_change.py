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


def installation_text(*seeds, origin="eaas/audit/installation/v1"):
    return f"{origin}\n" + "".join(f"{written(seed)}\n" for seed in seeds)


def installation_note(*seeds, by=None, **changes):
    """The statement of an installation's keys (key-change.md 7)."""
    return note_of(installation_text(*seeds, **changes), by or seeds[-1])


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
    def of(keys, by=SIGNING_SEED, end="\n"):
        return note_of("eaas/audit/installation/v1\n" + "".join(f"{key}{end}" for key in keys), by)

    state = [{"name": name, "seed": seeds[-1].hex(), "keys": [written(seed) for seed in seeds], "note": installation_note(*seeds)}
             for name, seeds in (("one key", [SIGNING_SEED]), ("two", [OTHER_SEED, SIGNING_SEED]), ("three", [THIRD_SEED, SIGNING_SEED, OTHER_SEED]))]
    own, stated = written(SIGNING_SEED), state[1]["note"]
    refuse_installation = {
        "no key": of([]),
        "a key twice": of([written(OTHER_SEED), written(OTHER_SEED), own]),
        "the signer twice": of([own, own]),
        "the signer first": installation_note(SIGNING_SEED, OTHER_SEED, by=SIGNING_SEED),
        "signed by the earlier key": installation_note(OTHER_SEED, SIGNING_SEED, by=OTHER_SEED),
        "signed by another key": installation_note(OTHER_SEED, SIGNING_SEED, by=THIEF_SEED),
        "a thief's signature with the id of the last key":
            installation_text(OTHER_SEED, SIGNING_SEED) + "\n" + change_line(installation_text(OTHER_SEED, SIGNING_SEED), THIEF_SEED, id_of=SIGNING_SEED),
        "a second signature": stated + change_line(installation_text(OTHER_SEED, SIGNING_SEED), OTHER_SEED),
        "a signature under another name": installation_text(OTHER_SEED, SIGNING_SEED) + "\n" + change_line(installation_text(OTHER_SEED, SIGNING_SEED), SIGNING_SEED, "other.example"),
        "a key less, its signature kept": stated.replace(written(OTHER_SEED) + "\n", ""),
        "a key more, its signature kept": stated.replace(written(OTHER_SEED), written(THIEF_SEED) + "\n" + written(OTHER_SEED)),
        "another key, its signature kept": stated.replace(written(OTHER_SEED), written(THIEF_SEED)),
        "the keys exchanged, its signature kept": stated.replace(installation_text(OTHER_SEED, SIGNING_SEED), installation_text(SIGNING_SEED, OTHER_SEED)),
        "another first line": installation_note(OTHER_SEED, SIGNING_SEED, origin="eaas/audit/installation/v2"),
        "a key that is none": of(["eaas-audit+x", own]),
        "a key of another name": of([public_key_text(ed25519_public(OTHER_SEED), "other"), own]),
        "a key that does not fit its id": of([written(OTHER_SEED)[:-1] + chr(ord(written(OTHER_SEED)[-1]) + 1), own]),
        "a blank behind a key": of([written(OTHER_SEED) + " ", own]),
        "an empty line": of([written(OTHER_SEED) + "\n", own]),
        "the last line feed missing": stated[:-1],
        "CRLF throughout": stated.replace("\n", "\r\n"),
        "the text alone": installation_text(OTHER_SEED, SIGNING_SEED),
        "nothing": "",
        "a checkpoint": note_of(checkpoint_text()),
        "a statement about a new key": good,
    }
    return {
        "format": "audit key change 1",
        "about": "key-change.md 6. Each of `sign` is what the two seeds sign; none of `refuse` may be read. Each list of `follow` leads through "
                 "`keys`; none of `refuse_lists` may be followed. Each of `state` is what the seed signs of `keys`; none of `refuse_installation` may be read.",
        "made_by": MADE_BY.replace("AES-256-GCM", "Ed25519"),
        "sign": sign,
        "refuse": [{"name": name, "note": note} for name, note in refuse.items()],
        "follow": follow,
        "refuse_lists": [{"name": name, "notes": notes} for name, notes in refuse_lists.items()],
        "state": state,
        "refuse_installation": [{"name": name, "note": note} for name, note in refuse_installation.items()],
    }
