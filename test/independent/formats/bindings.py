"""The vectors of bindings.md."""
import base64
import json

from .common import DoesNotOpen, KEY, MADE_BY, OTHER_KEY, b64, flip, gcm_open, gcm_seal, iv_of, key_of, prefixed
from .envelope_text import from_text, to_text
from .envelope_v2 import v2_aad, v2_keys, v2_context, v2_envelope, v2_open
from .uses import uses_of


class NotBound(Exception):
    """A row of which no context can be made."""


def binding_text(value):
    if isinstance(value, str) and value != "":
        return value
    if type(value) is int and abs(value) < 2**53:
        return str(value)
    raise NotBound()


def binding_context(model, field, bind, row):
    def value_at(column):
        value = row
        for name in column.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    context = {"model": model, "field": field, **{f"row.{column}": binding_text(value_at(column)) for column in bind}}
    try:
        v2_context(context)
    except ValueError:
        raise NotBound() from None
    return context


def row_seal_aad(row, bind, indexes, model="users", fields=("email", "address.street")):
    """bindings.md 4."""
    cells = []
    for field in sorted(fields, key=str.encode):
        value = row
        for name in field.split("."):
            value = value.get(name)
        raw = lambda member: base64.b64decode(value[member])
        cells += [field.encode(), raw("iv"), raw("ciphertext")] if value else []
    columns = []
    for name in sorted(indexes, key=str.encode):
        value = row.get(name)
        if value is None:
            continue
        one = b"\1" + value.encode() if isinstance(value, str) else b"\2" + prefixed(*(part.encode() for part in value))
        columns += [name.encode(), one]
    head = v2_aad(binding_context(model, "row_seal", bind, row))
    return head + prefixed(b"eaas/row/v1", prefixed(*cells), prefixed(*columns))


def binding_vectors():
    def shown(name, row, model="users", field="email", bind=("id",)):
        context = binding_context(model, field, bind, row)
        uses = [{"purpose": purpose, "context": stated} for purpose, stated in uses_of(context)]
        return {"name": name, "model": model, "field": field, "bind": list(bind), "row": row, "context": context, "aad": v2_aad(context).hex(), "uses": uses}

    uuid = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    contexts = [
        shown("no column", {"id": 7}, bind=()),
        shown("a UUID", {"id": uuid}),
        shown("a whole number", {"id": 7}),
        shown("the same number as text", {"id": "7"}),
        shown("zero", {"id": 0}),
        shown("a number below zero", {"id": -7}),
        shown("the largest whole number", {"id": 2**53 - 1}),
        shown("a larger one, as text", {"id": str(2**63 - 1)}),
        shown("two columns", {"tenant": "acme", "id": 7}, bind=("tenant", "id")),
        shown("two columns in another order", {"id": 7, "tenant": "acme"}, bind=("id", "tenant")),
        shown("a field and a column in objects", {"address": {"street": "x"}, "meta": {"id": uuid}}, field="address.street", bind=("meta.id",)),
        shown("names beyond ASCII", {"\u00efd": "\u017d\U0001f510"}, model="us\u00e9rs", field="\u00e9mail", bind=("\u00efd",)),
        shown("a decomposed name", {"id": "e\u0301"}, model="use\u0301rs"),
        shown("a column called model", {"model": "T", "field": "x"}, bind=("model", "field")),
        shown("white space and a NUL", {"id": " 7\0"}),
        shown("a value of 4,096 bytes", {"id": "\u00e9" * 2048}),
        shown("a value of 128 characters beyond 16 bits", {"id": "\U0001f510" * 128}),
        shown("a value of 129 characters beyond 16 bits", {"id": "\U0001f510" * 129}),
        shown("the same but for its last character", {"id": "\U0001f510" * 128 + "x"}),
        shown("127 characters, one of them escaped", {"id": "x" * 126 + "/"}),
        shown("a model of 129 characters", {"id": 7}, model="\U0001f510" * 128 + "x"),
        shown("a value of NULs alone", {"id": "\0\0"}),
        shown("a slash in the first of two columns", {"a": "a/b", "b": "c"}, bind=("a", "b")),
        shown("a slash in the second of two columns", {"a": "a", "b": "b/c"}, bind=("a", "b")),
        shown("text as an escaped slash", {"a": "a%2Fb", "b": "c"}, bind=("a", "b")),
        shown("columns in the order of UTF-8, which is not that of UTF-16", {"\U0001f510": "a", "\uff5e": "b/c"}, bind=("\U0001f510", "\uff5e")),
        shown("a column of 252 bytes", {"c" * 252: "x"}, bind=("c" * 252,)),
    ]
    if len({one["aad"] for one in contexts}) != len(contexts) - 2:
        raise AssertionError("only 7 and '7', and the two orders, are the same")

    rows = [one["uses"][1]["context"]["row"] for one in contexts if len(one["uses"]) > 1 and one["field"] == "email" and one["model"] == "users"]
    if len(set(rows)) != len(rows) - 2:
        raise AssertionError("two rows have one text")

    refuse = []
    for name, row, *bind in (
        ("the column is missing", {}), ("null", {"id": None}), ("empty text", {"id": ""}), ("a fraction", {"id": 1.5}), ("2^53", {"id": 2**53}),
        ("true", {"id": True}), ("false", {"id": False}), ("an object", {"id": {"id": 7}}), ("an empty object", {"id": {}}), ("a list", {"id": [7]}),
        ("an empty list", {"id": []}), ("a list of text", {"id": ["7"]}), ("in other capitals", {"Id": 7}), ("one of two missing", {"id": 7}, "id", "tenant"),
        ("one of two null", {"id": 7, "tenant": None}, "id", "tenant"), ("an object that is missing", {"id": 7}, "meta.id"),
        ("an object that is null", {"meta": None}, "meta.id"), ("a member that is missing", {"meta": {}}, "meta.id"),
        ("text in place of an object", {"meta": "id"}, "meta.id"), ("a column with a dot", {"meta.id": 7}, "meta.id"),
        ("a value of 4,097 bytes", {"id": "x" * 4097}), ("a column of 253 bytes", {"c" * 253: "x"}, "c" * 253),
    ):
        bind = bind or ["id"]
        try:
            binding_context("users", "email", bind, row)
        except NotBound:
            refuse.append({"name": name, "bind": bind, "row": row})
        else:
            raise AssertionError(f"is bound: {name}")

    deks = {KEY: key_of("bindings"), OTHER_KEY: key_of("bindings, another key")}
    paths = {"email": ["email"], "address.street": ["address", "street"]}

    def sealed(plain, model="users", key_id=KEY, bind=("id",), dek=None, version=2):
        row = json.loads(json.dumps(plain))
        for field, path in paths.items():
            parent = row
            for name in path[:-1]:
                parent = parent[name]
            context = binding_context(model, field, bind, plain)
            iv, value = iv_of(f"{model} {field} {json.dumps(plain)}"), parent[path[-1]].encode()
            dek = dek or deks[key_id]
            if version == 2:
                parent[path[-1]] = v2_envelope(dek, context, value, iv, key_id=key_id)
            else:
                parent[path[-1]] = {"ciphertext": b64(gcm_seal(dek, iv, b"", value)), "wrapped_key": b64(b"opaque"), "iv": b64(iv), "key_id": key_id,
                                    "key_version": 1, "envelope_version": 1}
        return row

    def compacted(row):
        row = json.loads(json.dumps(row))
        header = {member: row["email"][member] for member in ("wrapped_key", "key_id", "key_version", "envelope_version", "commitment")}
        for parent, name in ((row, "email"), (row["address"], "street")):
            parent[name] = {"c": parent[name]["ciphertext"], "i": parent[name]["iv"]}
        return {**row, "envelope": header}

    def texts(row):
        return {**row, "email": to_text(row["email"]), "address": {**row["address"], "street": to_text(row["address"]["street"])}}

    def envelope_of(value, row):
        if isinstance(value, str):
            return from_text(value)
        return {**row["envelope"], "ciphertext": value["c"], "iv": value["i"]} if "c" in value else value

    def opens(row, bind=("id",)):
        for field, value in (("email", row["email"]), ("address.street", row["address"]["street"])):
            envelope = envelope_of(value, row)
            if envelope["key_id"] != KEY:
                raise DoesNotOpen()
            v2_open(envelope, deks[KEY], binding_context("users", field, bind, row))

    ada = {"id": uuid, "email": "ada@example.org", "address": {"street": "Main St", "city": "London"}}
    bob = {"id": "8d444840-9dc0-11d1-b245-5ffdce74fad2", "email": "bob@example.org", "address": {"street": "5th Ave", "city": "Paris"}}
    row, other = sealed(ada), sealed(bob)
    opened = [
        {"name": "envelopes", "bind": ["id"], "row": row, "plain": ada},
        {"name": "texts", "bind": ["id"], "row": texts(row), "plain": ada},
        {"name": "the compact form", "bind": ["id"], "row": compacted(row), "plain": ada},
        {"name": "bound to no row", "bind": [], "row": sealed(ada, bind=()), "plain": ada},
        {"name": "the other columns changed", "bind": ["id"], "row": {**row, "role": "admin", "address": {**row["address"], "city": "Rome"}},
         "plain": {**ada, "role": "admin", "address": {**ada["address"], "city": "Rome"}}},
    ]
    for one in opened:
        opens(one["row"], bind=one["bind"])
    street = lambda source: {"street": source["address"]["street"], "city": "London"}
    refuse_open = []
    for name, wrong, *more in (
        ("the email of another row", {**row, "email": other["email"]}), ("the street of another row", {**row, "address": street(other)}),
        ("two fields exchanged", {**row, "email": row["address"]["street"], "address": {**row["address"], "street": row["email"]}}),
        ("the email copied to the street", {**row, "address": {**row["address"], "street": row["email"]}}),
        ("all values of another row", {**other, "id": ada["id"]}), ("another id", {**row, "id": bob["id"]}), ("the id in capitals", {**row, "id": uuid.upper()}),
        ("the id with a blank", {**row, "id": uuid + " "}), ("of a model of another name", sealed(ada, model="customers")),
        ("of a model whose name has other capitals", sealed(ada, model="Users")), ("under another key", sealed(ada, key_id=OTHER_KEY)),
        ("under another DEK", sealed(ada, dek=key_of("another DEK"))), ("bound to no row", sealed(ada, bind=())),
        ("bound to one column more", sealed({**ada, "tenant": "acme"}, bind=("id", "tenant"))),
        ("format v1", sealed(ada, version=1)), ("one value of format v1", {**row, "email": sealed(ada, version=1)["email"]}),
        ("texts of another row", {**texts(row), "email": texts(other)["email"]}),
        ("compact values of another row", {**compacted(row), "email": compacted(other)["email"]}),
        ("compact values exchanged", {**compacted(row), "email": compacted(row)["address"]["street"], "address": {**row["address"], "street": compacted(row)["email"]}}),
    ):
        try:
            opens(wrong)
        except DoesNotOpen:
            refuse_open.append({"name": name, "bind": ["id"], "row": wrong})
        else:
            raise AssertionError(f"opens: {name}")
    indexes = ("email_index", "email_parts")

    def with_seal(row, aad=None, plaintext=b"", dek=None):
        iv = iv_of(f"seal {json.dumps(row)}")
        return {**row, "row_seal": v2_envelope(dek or deks[KEY], {}, plaintext, iv, aad=row_seal_aad(row, ("id",), indexes) if aad is None else aad)}

    def opens_sealed(row):
        seal = row["row_seal"]
        if seal is None or seal["key_id"] != KEY or seal["envelope_version"] != 2:
            raise DoesNotOpen()
        key, commitment = v2_keys(deks[KEY])
        if b64(commitment) != seal["commitment"]:
            raise DoesNotOpen()
        gcm_open(key, base64.b64decode(seal["iv"]), row_seal_aad(row, ("id",), indexes), base64.b64decode(seal["ciphertext"]))
        for field, value in (("email", row["email"]), ("address.street", row["address"]["street"])):
            if value:
                v2_open(value, deks[KEY], binding_context("users", field, ("id",), row))

    columns = {"email_index": "00" * 31 + "7f", "email_parts": ["01", "a0"]}
    whole = {**row, **columns}
    no_street = {**whole, "address": {"street": None, "city": "London"}}
    open_sealed = [
        {"name": "all has a value", "row": with_seal(whole), "plain": ada},
        {"name": "a field without one", "row": with_seal(no_street), "plain": {**ada, "address": {"street": None, "city": "London"}}},
        {"name": "no index", "row": with_seal({**whole, "email_index": None, "email_parts": None}), "plain": ada},
        {"name": "no part", "row": with_seal({**whole, "email_parts": []}), "plain": ada},
        {"name": "other columns changed", "row": {**with_seal(whole), "role": "admin"}, "plain": {**ada, "role": "admin"}},
    ]
    for one in open_sealed:
        opens_sealed(one["row"])
        one["aad"] = row_seal_aad(one["row"], ("id",), indexes).hex()
    good = with_seal(whole)
    newer = with_seal({**sealed({**ada, "email": "ada@example.com"}), **columns})
    nested = lambda row, cells=None: row_seal_aad(row, ("id",), indexes) if cells is None else v2_aad(binding_context("users", "row_seal", ("id",), row)) + cells
    raw = lambda member, field: base64.b64decode(field[member])
    flat = [b"address.street", raw("iv", row["address"]["street"]), raw("ciphertext", row["address"]["street"]), b"email", raw("iv", row["email"]), raw("ciphertext", row["email"])]
    named = [b"email_index", b"\1" + columns["email_index"].encode(), b"email_parts", b"\2" + prefixed(b"01", b"a0")]
    assert nested(whole, prefixed(b"eaas/row/v1", prefixed(*flat), prefixed(*named))) == nested(whole)
    refuse_sealed = []
    for name, wrong in (
        ("no seal", {**good, "row_seal": None}), ("a field set to null", {**good, "address": {"street": None, "city": "London"}}),
        ("a field that was null", {**with_seal(no_street), "address": row["address"]}), ("an older value", {**newer, "email": row["email"]}),
        ("the seal of an older row", {**newer, "row_seal": good["row_seal"]}), ("an index set to null", {**good, "email_index": None}),
        ("another index", {**good, "email_index": "00" * 32}), ("a part taken out", {**good, "email_parts": ["01"]}), ("a part more", {**good, "email_parts": ["01", "a0", "ff"]}),
        ("parts in another order", {**good, "email_parts": ["a0", "01"]}), ("parts set to null", {**good, "email_parts": None}),
        ("no part in place of null", {**with_seal({**whole, "email_parts": None}), "email_parts": []}), ("the seal of another row", {**good, "row_seal": with_seal({**other, **columns})["row_seal"]}),
        ("another id beside a seal", {**good, "id": bob["id"]}), ("a value in place of the seal", {**good, "row_seal": row["email"]}), ("the seal in place of a value", {**good, "email": good["row_seal"]}),
        ("a seal under another DEK", with_seal(whole, dek=key_of("another DEK"))), ("a seal of the context alone", with_seal(whole, aad=v2_aad(binding_context("users", "row_seal", ("id",), whole)))),
        ("a seal without indexes", with_seal(whole, aad=nested(whole, prefixed(b"eaas/row/v1", prefixed(*flat), b"")))), ("a seal without fields", with_seal(whole, aad=nested(whole, prefixed(b"eaas/row/v1", b"", prefixed(*named))))),
        ("a seal without its label", with_seal(whole, aad=nested(whole, prefixed(prefixed(*flat), prefixed(*named))))), ("lists that are not nested", with_seal(whole, aad=nested(whole, prefixed(b"eaas/row/v1", *flat, *named)))),
        ("fields in the order of the definition", with_seal(whole, aad=nested(whole, prefixed(b"eaas/row/v1", prefixed(*flat[3:], *flat[:3]), prefixed(*named))))),
        ("one bit of the seal", {**good, "row_seal": {**good["row_seal"], "ciphertext": b64(flip(raw("ciphertext", good["row_seal"]), 3))}}),
        ("a seal of format v1", {**good, "row_seal": {**{member: value for member, value in good["row_seal"].items() if member != "commitment"}, "envelope_version": 1}}),
    ):
        try:
            opens_sealed(wrong)
        except DoesNotOpen:
            refuse_sealed.append({"name": name, "row": wrong})
        else:
            raise AssertionError(f"opens: {name}")
    return {
        "format": "bindings 1",
        "about": "bindings.md 6. `context`: the context of the field in that row, the AAD for the key " + KEY + ", and what its DEK may be wrapped for. `refuse`: rows of which no context can be "
                 "made. `open`: rows of the model `users` with the fields `email` and `address.street`, with what they open to under `dek`; `refuse_open`: rows that "
                 "do not open. `open_sealed` and `refuse_sealed`: rows with a seal, with its AAD, of the model that is bound to `id` and has the index columns "
                 "`email_index` and `email_parts`.",
        "made_by": MADE_BY,
        "key_id": KEY,
        "dek": deks[KEY].hex(),
        "context": contexts,
        "refuse": refuse,
        "open": opened,
        "refuse_open": refuse_open,
        "open_sealed": open_sealed,
        "refuse_sealed": refuse_sealed,
    }
