"""The vectors of row-mac.md."""
import json

from .chain import json_string
from .common import KEY, MADE_BY, OTHER_KEY, OTHER_TENANT, TENANT, b64, flip, hmac_sha256, key_of, sha256, stream


ROW_COLUMNS = {
    "tenants": ("tenant_id", "name", "envelope_only", "monthly_encrypt_quota", "wrapped_audit_key", "created_at", "entry_id",
                "plaintext_encoding", "status"),
    "keys": ("tenant_id", "key_id", "name", "algorithm", "status", "current_version", "rotation_interval_days",
             "next_rotation_at", "destroy_at", "wrapped_hash_key", "created_at", "updated_at", "entry_id", "min_unwrap_version", "min_unwrap_since",
             "destroyed_through"),
    "key_versions": ("tenant_id", "key_id", "version", "status", "wrapped_kek", "created_at", "entry_id"),
    "api_keys": ("tenant_id", "api_key_id", "digest", "name", "prefix", "permissions", "allowed_ips", "expires_at", "revoked_at",
                 "created_at", "entry_id", "keys", "budgets"),
}


def json_of(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(json_of(item) for item in value) + "]"
    return json_string(value)


SECRETS = ("wrapped_audit_key", "wrapped_hash_key", "wrapped_kek")


def covered(column, value):
    """A secret is covered by whether there is one."""
    return value if column not in SECRETS or value is None else True


def row_values(table, row):
    return [covered(column, row[column]) for column in ROW_COLUMNS[table]]


def row_bytes(table, row, label="eaas/row/v1", values=None):
    return json_of([label, table, row_values(table, row) if values is None else values]).encode()


def row_mac_vectors():
    audit_key, other_audit_key = key_of("audit"), key_of("another audit")
    key, other = (hmac_sha256(secret, b"eaas/row-key/v1") for secret in (audit_key, other_audit_key))
    early, late = "2026-08-11T09:30:00.000Z", "2026-11-09T09:30:00.000Z"
    wrapped = (b"\x01" + stream("a sealed secret", 60)).hex()
    tenant = {"tenant_id": TENANT, "name": "first", "envelope_only": True, "monthly_encrypt_quota": None,
              "plaintext_encoding": "utf8", "status": "active", "wrapped_audit_key": wrapped, "created_at": early, "entry_id": 1}
    named = {"tenant_id": TENANT, "key_id": KEY, "name": "users", "algorithm": "AES-256-GCM", "status": "active",
             "current_version": 2, "rotation_interval_days": 90, "next_rotation_at": late, "destroy_at": None,
             "wrapped_hash_key": wrapped, "created_at": early, "updated_at": early, "entry_id": 3, "min_unwrap_version": 1,
             "min_unwrap_since": None, "destroyed_through": 0}
    version = {"tenant_id": TENANT, "key_id": KEY, "version": 2, "status": "active", "wrapped_kek": wrapped,
               "created_at": early, "entry_id": 3}
    api_key = {"tenant_id": TENANT, "api_key_id": OTHER_KEY, "digest": sha256(b"an API key").hex(), "name": "backend",
               "prefix": "eaas_sk_AbCd", "permissions": ["encrypt", "decrypt"], "allowed_ips": ["10.0.0.0/8", "::1"],
               "expires_at": late, "revoked_at": None, "created_at": early, "entry_id": 2, "keys": None, "budgets": None}
    budgets = '{"hash":{"per_day":9},"unwrap":{"per_minute":600},"when_over":"expire"}'
    rows = [
        ("a tenant of the defaults", "tenants", tenant),
        ("a tenant of another encoding", "tenants", {**tenant, "plaintext_encoding": "base64"}),
        ("a suspended tenant", "tenants", {**tenant, "status": "suspended"}),
        ("a tenant with every column", "tenants", {**tenant, "envelope_only": False, "monthly_encrypt_quota": 1000,
                                                   "plaintext_encoding": "base64", "status": "deleted"}),
        ("a key that rotates", "keys", named),
        ("a key without times", "keys", {**named, "rotation_interval_days": None, "next_rotation_at": None}),
        ("a destroyed key: no secret", "keys", {**named, "status": "destroyed", "wrapped_hash_key": None}),
        ("a key whose name needs escapes", "keys", {**named, "name": 'a"b\\c\n\u2028\U0001f510'}),
        ("a key whose first version no longer opens", "keys", {**named, "min_unwrap_version": 2}),
        ("a key whose first version is closed since a time", "keys", {**named, "min_unwrap_version": 2, "min_unwrap_since": late}),
        ("a key whose closed version was opened again", "keys", {**named, "min_unwrap_since": late}),
        ("a key whose first version is destroyed", "keys",
         {**named, "min_unwrap_version": 2, "min_unwrap_since": late, "destroyed_through": 1}),
        ("a key version", "key_versions", version),
        ("a destroyed key version", "key_versions", {**version, "status": "destroyed", "wrapped_kek": None}),
        ("an API key", "api_keys", api_key),
        ("an API key without lists and times", "api_keys", {**api_key, "permissions": [], "allowed_ips": [], "expires_at": None}),
        ("a revoked API key", "api_keys", {**api_key, "revoked_at": late}),
        ("an API key that is limited to keys", "api_keys", {**api_key, "keys": ["customers/*", KEY]}),
        ("an API key that may use no key", "api_keys", {**api_key, "keys": []}),
        ("an API key with budgets", "api_keys", {**api_key, "budgets": budgets}),
        ("an API key that is limited to keys, with budgets", "api_keys", {**api_key, "keys": [KEY], "budgets": budgets}),
        ("an API key whose lists hold quotes and commas", "api_keys", {**api_key, "allowed_ips": ['a","b', "c,d", "]"]}),
    ]
    mac = [{"name": name, "row_key": key.hex(), "table": table, "row": row, "bytes": row_bytes(table, row).decode(),
            "mac": hmac_sha256(key, row_bytes(table, row)).hex()} for name, table, row in rows]
    mac.append({"name": "a key of another tenant, under its row key", "row_key": other.hex(), "table": "keys",
                "row": {**named, "tenant_id": OTHER_TENANT},
                "bytes": row_bytes("keys", {**named, "tenant_id": OTHER_TENANT}).decode(),
                "mac": hmac_sha256(other, row_bytes("keys", {**named, "tenant_id": OTHER_TENANT})).hex()})

    refuse = []

    def wrong(name, table, row, data, row_key=key):
        refuse.append({"name": name, "row_key": key.hex(), "table": table, "row": row,
                       "mac": (hmac_sha256(row_key, data)).hex()})

    good = row_bytes("keys", named)
    values = row_values("keys", named)
    wrong("the audit key in place of the row key", "keys", named, good, audit_key)
    wrong("another tenant's row key", "keys", named, good, other)
    wrong("a row key of one other bit", "keys", named, good, flip(key, 31))
    wrong("no label", "keys", named, json_of(["keys", values]).encode())
    wrong("label of another format", "keys", named, row_bytes("keys", named, "eaas/row/v2"))
    wrong("label of an audit entry", "keys", named, row_bytes("keys", named, "eaas/audit/entry/v1"))
    wrong("the name of another table", "keys", named, json_of(["eaas/row/v1", "key_versions", values]).encode())
    wrong("no name of a table", "keys", named, json_of(["eaas/row/v1", values]).encode())
    wrong("columns not in a list of their own", "keys", named, json_of(["eaas/row/v1", "keys", *values]).encode())
    wrong("columns as an object", "keys", named, json.dumps(["eaas/row/v1", "keys", named], separators=(",", ":")).encode())
    wrong("columns in reverse", "keys", named, row_bytes("keys", named, values=values[::-1]))
    wrong("the last column missing", "keys", named, row_bytes("keys", named, values=values[:-1]))
    wrong("missing values left out", "keys", named, row_bytes("keys", named, values=[v for v in values if v is not None]))
    wrong("missing values as empty text", "keys", named, row_bytes("keys", named, values=["" if v is None else v for v in values]))
    wrong("numbers as text", "keys", named, row_bytes("keys", named, values=[str(v) if isinstance(v, int) else v for v in values]))
    wrong("white space between the values", "keys", named, json.dumps(["eaas/row/v1", "keys", values]).encode())
    wrong("a line feed behind", "keys", named, good + b"\n")
    def with_secret(value):
        return row_bytes("keys", named, values=[value if column == "wrapped_hash_key" else covered(column, named[column])
                                                for column in ROW_COLUMNS["keys"]])

    wrong("the secret in hexadecimal", "keys", named, with_secret(wrapped))
    wrong("the secret in base64", "keys", named, with_secret(b64(bytes.fromhex(wrapped))))
    wrong("the secret as 1", "keys", named, with_secret(1))
    wrong("the secret as false", "keys", named, with_secret(False))
    wrong("times without milliseconds", "keys", named, good.replace(b".000Z", b"Z"))
    wrong("UUIDs in upper case", "keys", named, good.replace(KEY.encode(), KEY.upper().encode()))
    wrong("UUIDs without dashes", "keys", named, good.replace(KEY.encode(), KEY.replace("-", "").encode()))
    wrong("SHA-256 without a key", "keys", named, good, b"")
    wrong("the encoding left out where it is utf8", "tenants", tenant,
          row_bytes("tenants", tenant, values=[v for v in row_values("tenants", tenant) if v != "utf8"]))
    wrong("the status left out where it is active", "tenants", tenant,
          row_bytes("tenants", tenant, values=row_values("tenants", tenant)[:-1]))
    wrong("the encoding as null where it is utf8", "tenants", tenant, row_bytes("tenants", {**tenant, "plaintext_encoding": None}))
    wrong("status and encoding exchanged", "tenants", {**tenant, "plaintext_encoding": "base64", "status": "suspended"},
          row_bytes("tenants", {**tenant, "plaintext_encoding": "suspended", "status": "base64"}))
    closed = {**named, "min_unwrap_version": 2, "min_unwrap_since": late, "destroyed_through": 1}
    wrong("the oldest version that opens left out where it is 1", "keys", named, row_bytes("keys", named, values=[*values[:-3], *values[-2:]]))
    wrong("the last destroyed version as text", "keys", closed, row_bytes("keys", {**closed, "destroyed_through": "1"}))
    wrong("the last destroyed version left out", "keys", closed, row_bytes("keys", closed, values=row_values("keys", closed)[:-1]))
    wrong("the time of the closing left out where it is null", "keys", named, row_bytes("keys", named, values=[*values[:-2], values[-1]]))
    wrong("the last three columns in another order", "keys", closed,
          row_bytes("keys", closed, values=[*row_values("keys", closed)[:-3], 1, late, 2]))
    wrong("the last destroyed version in place of the oldest that opens", "keys", {**named, "destroyed_through": 2},
          row_bytes("keys", {**named, "min_unwrap_version": 2}))
    wrong("truth values as numbers", "tenants", tenant,
          row_bytes("tenants", tenant, values=[1 if v is True else v for v in row_values("tenants", tenant)]))
    wrong("lists joined with commas", "api_keys", api_key, row_bytes("api_keys", api_key, values=[
        ",".join(v) if isinstance(v, list) else v for v in row_values("api_keys", api_key)]))
    no_keys = {**api_key, "keys": []}
    limited = {**api_key, "keys": [KEY], "budgets": budgets}
    wrong("the keys left out where they are all", "api_keys", api_key, row_bytes("api_keys", api_key, values=row_values("api_keys", api_key)[:-1]))
    wrong("the keys left out where there are none", "api_keys", no_keys,
          row_bytes("api_keys", no_keys, values=[*row_values("api_keys", no_keys)[:-2], None]))
    wrong("no keys as all of them", "api_keys", no_keys, row_bytes("api_keys", api_key))
    wrong("the keys beside the addresses", "api_keys", limited,
          row_bytes("api_keys", limited, values=[*row_values("api_keys", limited)[:7], [KEY], *row_values("api_keys", limited)[7:-2], budgets]))
    wrong("the keys as text", "api_keys", limited, row_bytes("api_keys", {**limited, "keys": KEY}))
    wrong("budgets left out where there are none", "api_keys", {**limited, "budgets": None},
          row_bytes("api_keys", limited, values=row_values("api_keys", limited)[:-1]))
    wrong("budgets as an object", "api_keys", limited,
          row_bytes("api_keys", limited, values=[*row_values("api_keys", limited)[:-1], json.loads(budgets)]))
    wrong("budgets before the keys", "api_keys", limited,
          row_bytes("api_keys", limited, values=[*row_values("api_keys", limited)[:-2], budgets, [KEY]]))
    wrong("when it was last used, which is not covered", "api_keys", api_key,
          row_bytes("api_keys", api_key, values=[*row_values("api_keys", api_key), late]))
    for name, table, row, changes in (
        ("a tenant resumed", "tenants", {**tenant, "status": "suspended"}, {"status": "active"}),
        ("a quota lifted", "tenants", {**tenant, "monthly_encrypt_quota": 1000}, {"monthly_encrypt_quota": None}),
        ("server mode allowed", "tenants", tenant, {"envelope_only": False}),
        ("a key enabled", "keys", {**named, "status": "disabled"}, {"status": "active"}),
        ("a key taken to an old version", "keys", named, {"current_version": 1}),
        ("a closed version opened again", "keys", {**named, "min_unwrap_version": 2}, {"min_unwrap_version": 1}),
        ("a closing moved to an earlier time", "keys", closed, {"min_unwrap_since": early}),
        ("a destruction undone", "keys", closed, {"destroyed_through": 0}),
        ("another version destroyed", "keys", closed, {"destroyed_through": 2}),
        ("a key moved to another tenant", "keys", named, {"tenant_id": OTHER_TENANT}),
        ("a secret put back", "key_versions", {**version, "status": "destroyed", "wrapped_kek": None}, {"wrapped_kek": wrapped}),
        ("a secret erased", "key_versions", version, {"wrapped_kek": None}),
        ("a version renumbered", "key_versions", version, {"version": 3}),
        ("a permission added", "api_keys", api_key, {"permissions": ["encrypt", "decrypt", "admin"]}),
        ("permissions in another order", "api_keys", api_key, {"permissions": ["decrypt", "encrypt"]}),
        ("addresses lifted", "api_keys", api_key, {"allowed_ips": []}),
        ("a limit to keys removed", "api_keys", {**api_key, "keys": [KEY]}, {"keys": None}),
        ("a limit to keys added", "api_keys", api_key, {"keys": [KEY]}),
        ("a limit to no key removed", "api_keys", {**api_key, "keys": []}, {"keys": None}),
        ("a limit to a key made one to its folder", "api_keys", {**api_key, "keys": [KEY]}, {"keys": ["customers/*"]}),
        ("budgets removed", "api_keys", {**api_key, "budgets": budgets}, {"budgets": None}),
        ("budgets added", "api_keys", api_key, {"budgets": budgets}),
        ("a budget raised", "api_keys", {**api_key, "budgets": budgets}, {"budgets": budgets.replace("600", "6000")}),
        ("a limit to keys made a budget", "api_keys", {**api_key, "keys": []}, {"keys": None, "budgets": "[]"}),
        ("an expiry removed", "api_keys", api_key, {"expires_at": None}),
        ("a revocation removed", "api_keys", {**api_key, "revoked_at": late}, {"revoked_at": None}),
        ("a row of another entry", "api_keys", api_key, {"entry_id": 9}),
    ):
        wrong(name, table, {**row, **changes}, row_bytes(table, row))
    right = hmac_sha256(key, good)
    for name, value in (("cut to 16 bytes", right[:16]), ("empty", b""), ("one byte more", right + b"\x00"),
                        ("one other bit", flip(right, 31, 7)), ("zeros", bytes(32)), ("bytes in reverse", right[::-1])):
        refuse.append({"name": f"the MAC: {name}", "row_key": key.hex(), "table": "keys", "row": named, "mac": value.hex()})
    return {
        "format": "row MAC 1",
        "about": "row-mac.md 4. Byte strings are lower-case hexadecimal, in the rows too; `bytes` is UTF-8. `mac` holds rows with their "
                 "MAC, `refuse` rows whose MAC is wrong by one mistake of the writer, or by one change of the row after it.",
        "made_by": MADE_BY,
        "mac": mac,
        "refuse": refuse,
    }
