"""The vectors of compact-rows.md."""
import json
import re

from .common import KEY, MADE_BY, OTHER_KEY, b64, iv_of, stream
from .envelope_text import base64url, from_base64url, from_text, to_text


def halves(envelope):
    """The texts of the header and of the field: of the envelope's text, the bytes before the iv and the rest."""
    version, encoded = re.fullmatch(r"eaas\.(\w+)\.(.+)", to_text(envelope)).groups()
    data = from_base64url(encoded)
    at = 22 + int.from_bytes(data[20:22], "big") + (0 if version == "1" else 32)
    return f"eaas.h{version}." + base64url(data[:at]), "eaas.c." + base64url(data[at:])


def join(header, field):
    """The envelope of two texts. Raises ValueError where they are no halves of its text."""
    of_header, of_field = re.fullmatch(r"eaas\.h([12])\.([\w-]+)", header), re.fullmatch(r"eaas\.c\.([\w-]+)", field)
    if not of_header or not of_field:
        raise ValueError("text")
    shared = from_base64url(of_header[2])
    if len(shared) != 22 + int.from_bytes(shared[20:22], "big") + (0 if of_header[1] == "1" else 32):
        raise ValueError("header")
    return from_text(f"eaas.{of_header[1]}." + base64url(shared + from_base64url(of_field[1])))


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
    pack_text = []
    for one in pack:
        sealed = [one["row"].get("email"), one["row"].get("notes"), one["row"].get("address", {}).get("street")]
        first = next((envelope for envelope in sealed if envelope), None)
        if first and "envelope_version" not in first:
            continue
        texts = dict(zip(("email", "notes", "street"), (envelope and halves(envelope)[1] for envelope in sealed)))
        assert all(join(halves(first)[0], halves(envelope)[1]) == envelope for envelope in sealed if envelope)
        text = {**one["compact"], one["header"]: first and halves(first)[0]}
        text.update({name: texts[name] for name in ("email", "notes") if one["row"].get(name)})
        if "address" in text:
            text["address"] = {**text["address"], "street": texts["street"]}
        pack_text.append({**one, "compact": text})
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
    shared, field = halves(email)
    shared_v2 = halves(envelope("email", **bound))[0]
    changed = lambda text, change: text[: text.index(".", 5) + 1] + base64url(change(from_base64url(text[text.index(".", 5) + 1:])))
    for name, header_text, value in (
        ("missing", ..., field), ("null", None, field), ("empty", "", field), ("of the JSON form", header, field), ("as JSON text", json.dumps(header), field),
        ("the text of an envelope", to_text(email), field), ("of version 3", shared.replace("h1", "h3"), field), ("without its version", shared.replace("h1.", "h."), field),
        ("of version 1, with a commitment", shared_v2.replace("h2", "h1"), field), ("of version 2, without a commitment", shared.replace("h1", "h2"), field),
        ("a byte shorter", changed(shared, lambda data: data[:-1]), field), ("a byte longer", changed(shared, lambda data: data + b"\0"), field),
        ("of 21 bytes", changed(shared, lambda data: data[:21]), field), ("with padding", shared + "=", field), ("with a blank", shared + " ", field),
        ("of key version 0", changed(shared, lambda data: data[:16] + bytes(4) + data[20:]), field),
        ("with a wrapped key of no bytes", changed(shared, lambda data: data[:20] + bytes(2)), field),
        ("whole, and the field is one of JSON", shared, own(email)), ("whole, and the field is empty", shared, "eaas.c."),
        ("whole, and the field has 27 bytes", shared, changed(field, lambda data: data[:27])), ("whole, and the field has padding", shared, field + "="),
        ("whole, and the field's last bits are not zero", shared, "eaas.c." + "A" * 37 + "B"),
        ("whole, and the field is plain base64", shared, field[:-1] + "+"), ("whole, and the field has a blank", shared, field + "\n"),
    ):
        column = {} if header_text is ... else {"envelope": header_text}
        refuse_expand.append({"name": f"the header as text: {name}", "paths": [["email"]], "header": "envelope", "row": {"email": value, **column}})
        if isinstance(header_text, str) and isinstance(value, str):
            try:
                join(header_text, value)
            except ValueError:
                continue
            raise AssertionError(f"joins: {name}")
    return {
        "format": "compact rows 1",
        "about": "compact-rows.md 6. `paths` are the sealed fields, `header` the header column. `pack`: `row` packs to `compact`, which expands to `row`, and so does `pack_text` with compact-text; `expand`: "
                 "`compact` expands to `row`. Each of `refuse_pack` must not pack, each of `refuse_expand` must not expand.",
        "made_by": MADE_BY,
        "pack": pack,
        "pack_text": pack_text,
        "expand": expand,
        "refuse_pack": refuse_pack,
        "refuse_expand": refuse_expand,
    }
