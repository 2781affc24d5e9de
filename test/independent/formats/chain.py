"""The vectors of chain.md."""
import json

from .common import KEY, MADE_BY, OTHER_KEY, OTHER_TENANT, TENANT, flip, hmac_sha256, key_of, sha256, uuid_bytes


ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def json_string(text):
    """RFC 8785 section 3.2.2.2."""
    return '"' + "".join(
        ESCAPES.get(character) or (f"\\u{ord(character):04x}" if character < " " else character) for character in text
    ) + '"'


def json_array(values):
    def item(value):
        if value is None:
            return "null"
        return json_string(value) if isinstance(value, str) else str(value)

    return ("[" + ",".join(item(value) for value in values) + "]").encode()


COLUMNS = ("tenant_id", "id", "action", "key_id", "key_version", "actor", "ip_address", "metadata", "created_at")


def entry_bytes(entry):
    return json_array(["eaas/audit/entry/v1", *(entry[column] for column in COLUMNS)])


def entry_hash(previous, entry):
    return sha256(b"eaas/audit/hash/v1" + previous + entry_bytes(entry))


def entry_mac(key, hash_):
    return hmac_sha256(key, b"eaas/audit/mac/v1" + hash_)


def genesis(tenant):
    return sha256(b"eaas/audit/genesis/v1" + tenant.encode("ascii"))


def head_bytes(head, label="eaas/audit/head/v1"):
    return json_array([label, head["tenant_id"], head["last_id"], head["hash"], head["policy_version"], head["created_at"]])


def chain_vectors():
    key = key_of("audit")
    actor = "6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f10"
    drafts = [
        ("nothing but what must be", "api_key.create", None, None, "system", None, None, 0),
        ("a call with everything", "key.create", KEY, 1, actor, "10.0.0.1", '{"name":"users"}', 1),
        ("an IPv6 address", "key.wrap", KEY, 1, actor, "2001:db8::1", None, 0),
        ("a high key version", "key.unwrap", KEY, 2**31 - 1, actor, "127.0.0.1", None, 999),
    ]
    awkward = {
        "quotes and backslashes": '{"a":"\\"\\\\"}',
        "two backslashes and a u": "\\u0041",
        "short escapes": "\b\t\n\f\r",
        "every other control character": "".join(chr(c) for c in range(1, 32) if chr(c) not in ESCAPES),
        "DEL and C1 controls": "\x7f\x80\x9f",
        "a slash, which is not escaped": "</script>",
        "line and paragraph separators": "\u2028\u2029",
        "an emoji beyond the basic plane": '{"emoji":"\U0001f510"}',
        "joined emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "the highest character": "\U0010ffff",
        "composed": "Ren\u00e9e",
        "decomposed": "Rene\u0301e",
        "right to left": "\u200f\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627\u200e",
        "an override of direction": "\u202etxt.exe\u202c",
        "a byte order mark": "\ufeff",
        "the replacement character": "\ufffd",
        "combining accents without a letter": "\u0301\u0302",
        "empty": "",
        "blanks": "  ",
        "null as text": "null",
        "a number as text": "1",
        "what would close the string": '","created_at":"',
        "an empty object": "{}",
        "sorted members": '{"a":1,"b":null,"c":true}',
        "10,000 characters": "\u00e4" * 10_000,
    }
    drafts += [(f"metadata: {name}", "tenant.update", None, None, actor, "127.0.0.1", text, at % 3)
               for at, (name, text) in enumerate(awkward.items())]
    drafts += [
        ("an actor in another writing", "key.export", KEY, 3, "\u00e4\u6f22\U0001f510\"", "::1", None, 0),
        ("an address that is no address", "decrypt", KEY, 3, actor, "unknown", None, 0),
        ("an empty actor and address", "encrypt", KEY, 3, "", "", "", 0),
        ("the last action", "audit.purge", None, None, "system", None, '{"entries":1000,"through":1000}', 0),
    ]
    hash_, entries, ms = genesis(TENANT), [], 0
    for at, (name, action, key_id, version, who, address, metadata, step) in enumerate(drafts):
        ms += step
        entry = {"tenant_id": TENANT, "id": at + 1, "action": action, "key_id": key_id, "key_version": version, "actor": who,
                 "ip_address": address, "metadata": metadata,
                 "created_at": f"2026-08-11T09:30:{ms // 1000:02d}.{ms % 1000:03d}Z"}
        data, hash_ = entry_bytes(entry), entry_hash(hash_, entry)
        row = {"name": name, "entry": entry, "bytes": data.hex(), "hash": hash_.hex(), "mac": entry_mac(key, hash_).hex()}
        if len(data) > 1000:
            row["bytes_sha256"] = sha256(data).hex()
            del row["bytes"]
        entries.append(row)

    def head(last_id, hash_, policy_version, created_at, tenant=TENANT):
        value = {"tenant_id": tenant, "last_id": last_id, "hash": hash_, "policy_version": policy_version,
                 "created_at": created_at}
        data = head_bytes(value)
        return {"head": value, "bytes": data.hex(), "mac": hmac_sha256(key, data).hex()}

    time_0 = entries[0]["entry"]["created_at"]
    heads = [
        {"name": "of a chain without entries", **head(0, genesis(TENANT).hex(), 1, time_0)},
        *({"name": f"after entry {row['entry']['id']}", **head(
            row["entry"]["id"], row["hash"], 1 + row["entry"]["id"] // 2, row["entry"]["created_at"])}
          for row in (*entries[:8], entries[-1])),
        {"name": "far on", **head(2**53 - 1, entries[-1]["hash"], 2**53 - 1, "9999-12-31T23:59:59.999Z")},
    ]
    return {
        "format": "audit chain 1",
        "about": "chain.md 7. Byte strings are lower-case hexadecimal; `bytes` of an entry or a head as in 1 and 5, long ones "
                 "as their SHA-256. `entries` is one chain, from `genesis` on. Each of `refuse` is an entry of it with one "
                 "fault, given with the hash before it, and each of `refuse_heads` a head with one: none may be taken as "
                 "the server's. `purge_marks` (chain.md 8) are two marks in a row, each of `refuse_purge_marks` the "
                 "second with one fault. `genesis_refuse` holds what is not the genesis of `tenant_id`.",
        "made_by": MADE_BY,
        "audit_key": key.hex(),
        "tenant_id": TENANT,
        "genesis": genesis(TENANT).hex(),
        "genesis_refuse": [{"name": name, "hash": value.hex()} for name, value in (
            ("of another tenant", genesis(OTHER_TENANT)),
            ("of the tenant's UUID as 16 bytes", sha256(b"eaas/audit/genesis/v1" + uuid_bytes(TENANT))),
            ("of the UUID in upper case", genesis(TENANT.upper())),
            ("without a label", sha256(TENANT.encode())),
            ("with the label of entries", sha256(b"eaas/audit/hash/v1" + TENANT.encode())),
            ("zeros", bytes(32)),
        )],
        "entries": entries,
        "heads": heads,
        **purge_marks(key, entries),
        "refuse": refused_entries(key, entries),
        "refuse_heads": refused_heads(key, heads, entries),
    }


MARK_COLUMNS = ("tenant_id", "purged_through", "hash", "entries", "cutoff", "created_at", "previous_mac")


def mark_mac(key, mark, label="eaas/audit/purge-mark/v1", columns=MARK_COLUMNS):
    return hmac_sha256(key, json_array([label, *(mark[column] for column in columns)]))


def purge_marks(key, entries):
    marks, previous = [], bytes(32)
    for through, taken in ((3, 3), (7, 4)):
        mark = {"tenant_id": TENANT, "purged_through": through, "hash": entries[through - 1]["hash"], "entries": taken,
                "cutoff": "2026-08-11T09:30:00.500Z", "created_at": "2031-08-11T09:30:00.000Z",
                "previous_mac": previous.hex()}
        previous = mark_mac(key, mark)
        marks.append({"mark": mark, "mac": previous.hex()})
    mark, mac = marks[1]["mark"], bytes.fromhex(marks[1]["mac"])
    refuse = []

    def add(name, changes=None, mac=mac):
        refuse.append({"name": name, "mark": {**mark, **(changes or {})}, "mac": mac.hex()})

    for column, value in (("tenant_id", OTHER_TENANT), ("purged_through", 8), ("purged_through", 3), ("hash", entries[7]["hash"]),
                          ("hash", ""), ("entries", 7), ("entries", 0), ("cutoff", "2026-08-11T09:30:00.501Z"),
                          ("created_at", "2031-08-11T09:30:00.001Z"), ("previous_mac", "00" * 32), ("previous_mac", "")):
        add(f"{column} altered to {json.dumps(value)}", {column: value})
    for column in MARK_COLUMNS:
        add(f"MAC without {column}", mac=mark_mac(key, mark, columns=[other for other in MARK_COLUMNS if other != column]))
    add("cut-off and time exchanged", {"cutoff": mark["created_at"], "created_at": mark["cutoff"]})
    add("last id and count exchanged", {"purged_through": mark["entries"], "entries": mark["purged_through"]})
    add("the MAC of the mark before", mac=bytes.fromhex(marks[0]["mac"]))
    add("the mark before with this MAC", marks[0]["mark"])
    add("under the label of heads", mac=mark_mac(key, mark, "eaas/audit/head/v1"))
    add("under another audit key", mac=mark_mac(key_of("another audit"), mark))
    add("under the row key", mac=mark_mac(hmac_sha256(key, b"eaas/row-key/v1"), mark))
    add("a MAC of zeros", mac=bytes(32))
    add("no MAC", mac=b"")
    add("the MAC cut", mac=mac[:-1])
    add("last bit altered", mac=flip(mac, 31, 7))
    return {"purge_marks": marks, "refuse_purge_marks": refuse}


def refused_entries(key, entries):
    at = 1  # the entry that has a value in every column
    entry = entries[at]["entry"]
    previous, hash_, mac = (bytes.fromhex(text) for text in (entries[at - 1]["hash"], entries[at]["hash"], entries[at]["mac"]))
    refuse = []

    def add(name, entry=entry, previous=previous, hash_=hash_, mac=mac):
        refuse.append({"name": name, "previous": previous.hex(), "entry": entry, "hash": hash_.hex(), "mac": mac.hex()})

    for column, values in {
        "tenant_id": [OTHER_TENANT, TENANT.upper()],
        "id": [1, 3, 20],
        "action": ["key.rotate", "key.create ", "Key.create", ""],
        "key_id": [None, OTHER_KEY, KEY.upper(), KEY.replace("-", ""), ""],
        "key_version": [None, 0, 2, 10],
        "actor": ["system", entry["actor"].upper(), ""],
        "ip_address": [None, "", "10.0.0.2", "::ffff:10.0.0.1", "10.0.0.1/32", "010.0.0.1"],
        "metadata": [None, "", "{}", '{"name": "users"}', '{"name":"Users"}', '{"name":"users"} ', '{"name":"\\u0075sers"}'],
        "created_at": ["2026-08-11T09:30:00.002Z", "2026-08-11T09:30:00Z", "2026-08-11T09:30:00.001+00:00",
                       "2026-08-11T09:30:00.001000Z", "2026-08-11 09:30:00.001Z"],
    }.items():
        for value in values:
            add(f"{column} altered to {json.dumps(value)}", {**entry, column: value})

    def slid(name, **changes):
        add(f"slid: {name}", {**entry, **changes})

    slid("the action's end is the key's beginning", action="key.creat", key_id="e" + KEY)
    slid("actor and address exchanged", actor=entry["ip_address"], ip_address=entry["actor"])
    slid("address and metadata exchanged", ip_address=entry["metadata"], metadata=entry["ip_address"])
    slid("the version as the actor", key_version=None, actor="1")

    def chained(name, data, previous_hash=previous, label=b"eaas/audit/hash/v1"):
        wrong = sha256(label + previous_hash + data)
        add(f"hash of {name}", hash_=wrong, mac=entry_mac(key, wrong))

    data, text = entry_bytes(entry), entry["metadata"]
    values = [entry[column] for column in COLUMNS]
    chained("an entry with its columns in another order", json_array(["eaas/audit/entry/v1", *reversed(values)]))
    chained("an entry without a label", json_array(values))
    chained("an entry of another format", json_array(["eaas/audit/entry/v2", *values]))
    chained("JSON with blanks", data.replace(b",", b", "))
    chained("a JSON object", json.dumps(entry, separators=(",", ":")).encode())
    chained("metadata as an object", data.replace(json_string(text).encode(), text.encode()))
    chained("the id as a string", data.replace(b",2,", b',"2",', 1))
    chained("an entry without its key", json_array(["eaas/audit/entry/v1", *(v for v in values if v != entry["key_id"])]))
    chained("an entry with a line feed behind", data + b"\n")
    chained("an entry without the hash before it", data, b"")
    chained("an entry after the genesis", data, genesis(TENANT))
    chained("an entry after zeros", data, bytes(32))
    chained("an entry after itself", data, hash_)
    chained("an entry under another label", data, previous, b"eaas/audit/genesis/v1")
    chained("an entry without that label", data, previous, b"")
    chained("an entry after the hash in hexadecimal", data, previous.hex().encode())

    def maced(name, value):
        add(f"MAC: {name}", mac=value)

    maced("under another audit key", entry_mac(key_of("another audit"), hash_))
    maced("under a key of zeros", entry_mac(bytes(32), hash_))
    maced("under the row key", entry_mac(hmac_sha256(key, b"eaas/row-key/v1"), hash_))
    maced("without a label", hmac_sha256(key, hash_))
    maced("of another label", hmac_sha256(key, b"eaas/audit/head/v1" + hash_))
    maced("of the hash in hexadecimal", hmac_sha256(key, b"eaas/audit/mac/v1" + hash_.hex().encode()))
    maced("of the bytes themselves", hmac_sha256(key, b"eaas/audit/mac/v1" + data))
    maced("of the entry before", bytes.fromhex(entries[at - 1]["mac"]))
    maced("the hash in its place", hash_)
    maced("zeros", bytes(32))
    maced("nothing", b"")
    maced("cut", mac[:-1])
    maced("one byte more", mac + b"\x00")
    maced("first bit altered", flip(mac, 0))
    maced("last bit altered", flip(mac, 31, 7))
    add("the hash of the entry before", hash_=previous)
    add("a hash of zeros", hash_=bytes(32))
    add("the hash cut", hash_=hash_[:-1])
    add("after another entry", previous=bytes.fromhex(entries[2]["hash"]))
    add("after the genesis of another tenant", previous=genesis(OTHER_TENANT))

    # Texts that look alike, or that a careless writer of JSON gives the same bytes.
    by_name = {row["name"]: row for row in entries}
    for name, other in (
        ("metadata: composed", "Rene\u0301e"),
        ("metadata: decomposed", "Ren\u00e9e"),
        ("metadata: two backslashes and a u", "A"),
        ("metadata: the replacement character", "\ufffd\ufffd"),
        ("metadata: an emoji beyond the basic plane", '{"emoji":"\ufffd"}'),
        ("metadata: line and paragraph separators", "\\u2028\\u2029"),
        ("metadata: empty", None),
        ("metadata: null as text", None),
        ("metadata: blanks", " "),
        ("metadata: a byte order mark", ""),
        ("metadata: sorted members", '{"b":null,"a":1,"c":true}'),
    ):
        row = by_name[name]
        before = entries[row["entry"]["id"] - 2]["hash"]
        add(f"{name}, altered to {json.dumps(other)}", {**row["entry"], "metadata": other}, bytes.fromhex(before),
            bytes.fromhex(row["hash"]), bytes.fromhex(row["mac"]))
    return refuse


def refused_heads(key, heads, entries):
    head, mac = heads[3]["head"], bytes.fromhex(heads[3]["mac"])
    refuse = []

    def add(name, changes=None, mac=mac):
        refuse.append({"name": name, "head": {**head, **(changes or {})}, "mac": mac.hex()})

    add("of another tenant", {"tenant_id": OTHER_TENANT})
    add("the id before", {"last_id": head["last_id"] - 1})
    add("the id after", {"last_id": head["last_id"] + 1})
    add("id 0", {"last_id": 0})
    add("the hash of the entry before", {"hash": entries[1]["hash"]})
    add("the genesis", {"hash": heads[0]["head"]["hash"]})
    add("a hash of zeros", {"hash": "00" * 32})
    add("no hash", {"hash": ""})
    add("a policy version before", {"policy_version": head["policy_version"] - 1})
    add("a policy version after", {"policy_version": head["policy_version"] + 1})
    add("id and policy version exchanged", {"last_id": head["policy_version"], "policy_version": head["last_id"]})
    add("a millisecond later", {"created_at": "2026-08-11T09:30:00.002Z"})
    add("the time of the genesis", {"created_at": heads[0]["head"]["created_at"]})
    add("the head before, with this head's MAC", heads[2]["head"])
    add("this head, with the MAC of the head before", mac=bytes.fromhex(heads[2]["mac"]))
    add("the MAC of the last entry: its domain is another", mac=bytes.fromhex(entries[2]["mac"]))
    add("the MAC of its hash alone", mac=hmac_sha256(key, b"eaas/audit/head/v1" + bytes.fromhex(head["hash"])))
    add("under the label of entries", mac=hmac_sha256(key, head_bytes(head, "eaas/audit/entry/v1")))
    add("under the label of MACs", mac=hmac_sha256(key, head_bytes(head, "eaas/audit/mac/v1")))
    add("under another audit key", mac=hmac_sha256(key_of("another audit"), head_bytes(head)))
    add("under the row key", mac=hmac_sha256(hmac_sha256(key, b"eaas/row-key/v1"), head_bytes(head)))
    add("of the SHA-256 of its bytes", mac=hmac_sha256(key, sha256(head_bytes(head))))
    add("of bytes without the policy version", mac=hmac_sha256(key, json_array(
        ["eaas/audit/head/v1", head["tenant_id"], head["last_id"], head["hash"], head["created_at"]])))
    add("no secret: SHA-256 of its bytes", mac=sha256(head_bytes(head)))
    add("a MAC of zeros", mac=bytes(32))
    add("no MAC", mac=b"")
    add("the MAC cut", mac=mac[:-1])
    add("one byte more", mac=mac + b"\x00")
    add("first bit altered", mac=flip(mac, 0))
    add("last bit altered", mac=flip(mac, 31, 7))
    return refuse
