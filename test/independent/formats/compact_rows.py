"""The vectors of compact-rows.md."""
import json

from .common import KEY, MADE_BY, OTHER_KEY, b64, iv_of, stream


def compact_row_vectors():
    wrapped, iv = b64(b"opaque"), lambda name: b64(iv_of(name))

    def envelope(name, **changes):
        whole = {"ciphertext": b64(stream(f"ciphertext {name}", 20)), "wrapped_key": wrapped, "iv": iv(name), "key_id": KEY,
                 "key_version": 1, "envelope_version": 1}
        return {member: value for member, value in {**whole, **changes}.items() if value is not ...}

    def own(sealed):
        return {"c": sealed["ciphertext"], "i": sealed["iv"]}

    header = {"wrapped_key": wrapped, "key_id": KEY, "key_version": 1, "envelope_version": 1}
    email, notes, street = envelope("email"), envelope("notes"), envelope("street")
    both = [["email"], ["notes"]]
    bundle = {"envelope_version": ...}
    pack = [
        {"name": "two fields", "paths": both, "header": "envelope", "row": {"id": 7, "email": email, "notes": notes},
         "compact": {"id": 7, "email": own(email), "notes": own(notes), "envelope": header}},
        {"name": "one field", "paths": [["email"]], "header": "envelope", "row": {"email": email},
         "compact": {"email": own(email), "envelope": header}},
        {"name": "a field without a value", "paths": both, "header": "envelope", "row": {"email": email, "notes": None},
         "compact": {"email": own(email), "notes": None, "envelope": header}},
        {"name": "a field that is missing", "paths": both, "header": "envelope", "row": {"email": email},
         "compact": {"email": own(email), "envelope": header}},
        {"name": "no value at all", "paths": both, "header": "envelope", "row": {"id": 7, "email": None, "notes": None},
         "compact": {"id": 7, "email": None, "notes": None, "envelope": None}},
        {"name": "a field in an object", "paths": [["email"], ["address", "street"]], "header": "envelope",
         "row": {"email": email, "address": {"street": street, "city": "Paris"}},
         "compact": {"email": own(email), "address": {"street": own(street), "city": "Paris"}, "envelope": header}},
        {"name": "another header column", "paths": both, "header": "sealed_by", "row": {"email": email, "notes": notes, "envelope": "C5"},
         "compact": {"email": own(email), "notes": own(notes), "envelope": "C5", "sealed_by": header}},
        {"name": "of server mode: no envelope_version", "paths": [["email"], ["notes"]], "header": "envelope",
         "row": {"email": envelope("email", **bundle), "notes": envelope("notes", **bundle)},
         "compact": {"email": own(email), "notes": own(notes),
                     "envelope": {"wrapped_key": wrapped, "key_id": KEY, "key_version": 1}}},
        {"name": "a high key version and a longer wrapped key", "paths": [["email"]], "header": "envelope",
         "row": {"email": envelope("email", key_version=2**31 - 1, wrapped_key=b64(stream("kms", 200)))},
         "compact": {"email": own(email), "envelope": {**header, "key_version": 2**31 - 1, "wrapped_key": b64(stream("kms", 200))}}},
        {"name": "columns of every type", "paths": [["email"]], "header": "envelope",
         "row": {"email": email, "a": None, "b": [1, {"c": "x", "i": "y"}], "c": "text", "i": False},
         "compact": {"email": own(email), "a": None, "b": [1, {"c": "x", "i": "y"}], "c": "text", "i": False, "envelope": header}},
    ]
    bound = {"envelope_version": 2, "commitment": b64(stream("commitment", 32))}
    pack.append({"name": "format v2", "paths": both, "header": "envelope", "row": {"email": envelope("email", **bound), "notes": envelope("notes", **bound)},
                 "compact": {"email": own(email), "notes": own(notes), "envelope": {**header, **bound}}})
    expand = [
        {"name": "one field compact, one an envelope of another DEK", "paths": both, "header": "envelope",
         "compact": {"email": own(email), "notes": envelope("notes", wrapped_key=b64(b"another")), "envelope": header},
         "row": {"email": email, "notes": envelope("notes", wrapped_key=b64(b"another"))}},
        {"name": "no field compact: the column is the application's", "paths": both, "header": "envelope",
         "compact": {"email": email, "notes": notes, "envelope": "C5"}, "row": {"email": email, "notes": notes, "envelope": "C5"}},
        {"name": "no value, and a column of the application's", "paths": both, "header": "envelope",
         "compact": {"email": None, "envelope": "C5"}, "row": {"email": None, "envelope": "C5"}},
        {"name": "fields and header as JSON text", "paths": both, "header": "envelope",
         "compact": {"email": json.dumps(own(email)), "notes": json.dumps(own(notes), separators=(",", ":")), "envelope": json.dumps(header)},
         "row": {"email": email, "notes": notes}},
        {"name": "one field and the header as JSON text", "paths": both, "header": "envelope",
         "compact": {"email": json.dumps(own(email)), "notes": own(notes), "envelope": json.dumps(header)}, "row": {"email": email, "notes": notes}},
        {"name": "one field as JSON text", "paths": both, "header": "envelope",
         "compact": {"email": json.dumps(own(email)), "notes": notes, "envelope": header}, "row": {"email": email, "notes": notes}},
    ]
    refuse_pack = [{"name": name, "paths": both, "header": "envelope", "row": {"email": email, "notes": value}} for name, value in (
        ("another wrapped key", envelope("notes", wrapped_key=b64(b"another"))),
        ("another key", envelope("notes", key_id=OTHER_KEY)),
        ("another version of the key", envelope("notes", key_version=2)),
        ("one of server mode", envelope("notes", **bundle)),
        ("text", "called twice"), ("no text", ""), ("a number", 1), ("false", False), ("a list", [notes]), ("an empty object", {}),
        ("no ciphertext", envelope("notes", ciphertext=...)), ("no wrapped key", envelope("notes", wrapped_key=...)),
        ("no iv", envelope("notes", iv=...)), ("no key", envelope("notes", key_id=...)), ("no version", envelope("notes", key_version=...)),
        ("an iv of 11 bytes", envelope("notes", iv=b64(bytes(11)))), ("an iv of 16 bytes", envelope("notes", iv=b64(bytes(16)))),
        ("a ciphertext of 15 bytes", envelope("notes", ciphertext=b64(bytes(15)))),
        ("base64 without padding", envelope("notes", ciphertext=notes["ciphertext"].rstrip("="))),
        ("envelope_version 2", envelope("notes", envelope_version=2)), ("envelope_version as text", envelope("notes", envelope_version="1")),
        ("a key id in upper case", envelope("notes", key_id=KEY.upper())), ("version 0", envelope("notes", key_version=0)),
        ("a version as text", envelope("notes", key_version="1")), ("an envelope as JSON text that is cut", json.dumps(notes)[:-1]),
        ("an envelope of format v2 beside v1", envelope("notes", envelope_version=2, commitment=b64(bytes(32)))),
    )]
    refuse_pack += [{"name": f"a column under the header's name: {name}", "paths": both, "header": "envelope",
                     "row": {"email": email, "notes": notes, "envelope": value}} for name, value in (
        ("text", "C5"), ("no text", ""), ("a number", 0), ("false", False), ("a list", []), ("an object", {"size": "C5"}), ("an envelope", email))]
    refuse_pack.append({"name": "two commitments", "paths": both, "header": "envelope", "row": {
        "email": envelope("email", **bound), "notes": envelope("notes", **{**bound, "commitment": b64(stream("another", 32))})}})
    compact = {"email": own(email), "notes": own(notes)}
    refuse_expand = [{"name": f"the header: {name}", "paths": both, "header": "envelope", "row": {**compact, **column}} for name, column in (
        ("missing", {}), ("null", {"envelope": None}), ("text", {"envelope": "C5"}), ("as JSON text that is cut", {"envelope": json.dumps(header)[:-1]}),
        ("an envelope as JSON text", {"envelope": json.dumps(email)}), ("a number", {"envelope": 1}), ("true", {"envelope": True}), ("an empty object", {"envelope": {}}), ("a list", {"envelope": [header]}),
        ("without wrapped_key", {"envelope": {"key_id": KEY, "key_version": 1, "envelope_version": 1}}), ("an envelope", {"envelope": email}),
        ("under another name", {"Envelope": header}), ("a field of the header", {"wrapped_key": wrapped, "key_id": KEY, "key_version": 1}),
    )]
    refuse_expand.append({"name": "one compact field among envelopes, without a header", "paths": both, "header": "envelope",
                          "row": {"email": email, "notes": own(notes)}})
    return {
        "format": "compact rows 1",
        "about": "compact-rows.md 5. `paths` are the sealed fields, `header` the header column. `pack`: `row` packs to `compact`, which expands to `row`; `expand`: "
                 "`compact` expands to `row`. Each of `refuse_pack` must not pack, each of `refuse_expand` must not expand.",
        "made_by": MADE_BY,
        "pack": pack,
        "expand": expand,
        "refuse_pack": refuse_pack,
        "refuse_expand": refuse_expand,
    }
