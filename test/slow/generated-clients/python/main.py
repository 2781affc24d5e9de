"""The calls of an application in envelope mode, by the client that openapi-python-client makes of the OpenAPI document."""
import base64
import os
import secrets

from client import AuthenticatedClient
from client.api.audit import list_audit
from client.api.envelope_mode import hash_, unwrap, wrap
from client.api.keys import create_key
from client.models import CreateKey, Hash, Unwrap, Wrap

eaas = AuthenticatedClient(base_url=os.environ["EAAS_URL"], token=os.environ["EAAS_API_KEY"])

key = create_key.sync(client=eaas, body=CreateKey(name="python"))
dek = base64.b64encode(secrets.token_bytes(32)).decode()
wrapped = wrap.sync(key.id, client=eaas, body=Wrap(dek=dek))
unwrapped = unwrap.sync(key.id, client=eaas, body=Unwrap(wrapped_key=wrapped.wrapped_key))
hashed = hash_.sync(client=eaas, body=Hash(key_id=str(key.id), value="ada"))
listed = list_audit.sync(client=eaas, key_id=key.id, limit=10)
taken = create_key.sync(client=eaas, body=CreateKey(name="python"))

print(str(unwrapped.dek == dek).lower(), len(hashed.hash_), taken.code)
for entry in listed.logs:
    print(entry.action, entry.key_version)
