"""The vectors of blind-hash.md: ristretto255 (RFC 9496) and its VOPRF (RFC 9497), in plain integers. Not in constant time."""
import hashlib

from .common import KEY, MADE_BY, b64, flip, hmac_sha256, key_of, stream

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_M1 = pow(2, (P - 1) // 4, P)
ROOT_AD_M1 = 25063068953384623474111414158702152701244531502492656460079210482610430750235
INV_ROOT_A_D = 54469307008909316920995813868745141605393597292927456921205312896311721017578
SUITE = b"ristretto255-SHA512"
CONTEXT = b"OPRFV1-\x01-" + SUITE
KEY_INFO = b"EaaS blind hash v1"


class Refused(Exception):
    pass


# The group (RFC 9496 4). A point is (X, Y, Z, T) on the twisted Edwards curve.

def positive(x):
    return P - x if x % 2 else x


def root_of_ratio(u, v):
    """Whether u/v is a square, and its root, or that of u/v times the root of -1."""
    r = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    check = v * r * r % P
    if check in (-u % P, -u * ROOT_M1 % P):
        r = r * ROOT_M1 % P
    return check in (u % P, -u % P), positive(r)


def decode(data):
    s = int.from_bytes(data, "little")
    if len(data) != 32 or s >= P or s % 2:
        raise Refused("not canonical")
    u1, u2 = (1 - s * s) % P, (1 + s * s) % P
    v = (-D * u1 * u1 - u2 * u2) % P
    is_square, inverse = root_of_ratio(1, v * u2 * u2)
    x, y = positive(2 * s * inverse * u2 % P), u1 * inverse * inverse * u2 * v % P
    if not is_square or x * y % P % 2 or y == 0:
        raise Refused("no element")
    return x, y, 1, x * y % P


def encode(point):
    x, y, z, t = point
    u1, u2 = (z + y) * (z - y) % P, x * y % P
    _, inverse = root_of_ratio(1, u1 * u2 * u2)
    one, two = inverse * u1 % P, inverse * u2 % P
    z_inverse = one * two * t % P
    if t * z_inverse % P % 2:
        x, y, two = y * ROOT_M1 % P, x * ROOT_M1 % P, one * INV_ROOT_A_D % P
    if x * z_inverse % P % 2:
        y = -y
    return positive(two * (z - y) % P).to_bytes(32, "little")


def add(one, other):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = one, other
    a, b, c, d = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2), 2 * D * t1 * t2, 2 * z1 * z2
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


ZERO = (0, 1, 1, 0)
_y = 4 * pow(5, -1, P) % P
_x = root_of_ratio(_y * _y - 1, D * _y * _y + 1)[1]
BASE = (_x, _y, 1, _x * _y % P)


def times(scalar, point):
    result = ZERO
    for bit in bin(scalar % ORDER)[2:]:
        result = add(result, result)
        if bit == "1":
            result = add(result, point)
    return result


def map_to_point(data):
    t = int.from_bytes(data, "little") % 2**255 % P
    r = ROOT_M1 * t * t % P
    v = (-1 - r * D) * (r + D) % P
    is_square, s = root_of_ratio((r + 1) * (1 - D * D), v)
    c = P - 1
    if not is_square:
        s, c = -positive(s * t % P), r
    n = c * (r - 1) * (D - 1) ** 2 - v
    w0, w1, w2, w3 = 2 * s * v, n * ROOT_AD_M1, 1 - s * s, 1 + s * s
    return w0 * w3 % P, w2 * w1 % P, w1 * w3 % P, w0 * w2 % P


# RFC 9497

def sha512(data):
    return hashlib.sha512(data).digest()


def expand(message, tag):
    """expand_message_xmd of RFC 9380 5.3.1, 64 bytes."""
    tag += bytes([len(tag)])
    first = sha512(bytes(128) + message + b"\x00\x40\x00" + tag)
    return sha512(first + b"\x01" + tag)


def hash_to_group(message, context=CONTEXT):
    data = expand(message, b"HashToGroup-" + context)
    return add(map_to_point(data[:32]), map_to_point(data[32:]))


def hash_to_scalar(message, tag=b"HashToScalar-" + CONTEXT):
    return int.from_bytes(expand(message, tag), "little") % ORDER


def short(*parts):
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts)


def scalar_bytes(scalar):
    return scalar.to_bytes(32, "little")


def derive(seed, info=KEY_INFO, context=CONTEXT):
    for counter in range(256):
        secret = hash_to_scalar(seed + short(info) + bytes([counter]), b"DeriveKeyPair" + context)
        if secret:
            return secret, encode(times(secret, BASE))
    raise Refused("no key")


def read_element(data):
    point = decode(data)
    if encode(point) == bytes(32):
        raise Refused("identity")
    return point


def blind(message, scalar):
    return encode(times(scalar, hash_to_group(message)))


def composites(public, blinded, evaluated):
    seed = sha512(short(public, b"Seed-" + CONTEXT))
    m = z = ZERO
    for at, (c, d) in enumerate(zip(blinded, evaluated)):
        weight = hash_to_scalar(short(seed) + at.to_bytes(2, "big") + short(c, d) + b"Composite")
        m, z = add(m, times(weight, read_element(c))), add(z, times(weight, read_element(d)))
    return m, z


def challenge(public, *points):
    return hash_to_scalar(short(public, *map(encode, points)) + b"Challenge")


def evaluate(secret, public, blinded, scalar):
    evaluated = [encode(times(secret, read_element(data))) for data in blinded]
    m, z = composites(public, blinded, evaluated)
    c = challenge(public, m, z, times(scalar, BASE), times(scalar, m))
    return evaluated, scalar_bytes(c) + scalar_bytes((scalar - c * secret) % ORDER)


def finalize(messages, blinds, blinded, evaluated, public, proof):
    if not len(messages) == len(blinds) == len(blinded) == len(evaluated) or len(proof) != 64:
        raise Refused("not as many")
    c, s = (int.from_bytes(proof[at : at + 32], "little") for at in (0, 32))
    m, z = composites(public, blinded, evaluated)
    if c >= ORDER or s >= ORDER:
        raise Refused("not a scalar")
    at_base = add(times(s, BASE), times(c, read_element(public)))
    if challenge(public, m, z, at_base, add(times(s, m), times(c, z))) != c:
        raise Refused("proof")
    return [hash_of(message, times(pow(scalar, -1, ORDER), read_element(data))) for message, scalar, data in zip(messages, blinds, evaluated)]


def hash_of(message, point):
    return sha512(short(message, encode(point)) + b"Finalize")


def blind_hash_of(seed, message):
    return hash_of(message, times(derive(seed)[0], hash_to_group(message)))


# Vectors

def refuses(call):
    try:
        call()
    except Refused:
        return True
    return False


RFC_SEED, RFC_INFO = bytes([0xA3]) * 32, b"test key"
RFC_BLIND = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"
RFC_RANDOM = "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e"
RFC_OUTPUTS = (
    "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7da4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c",
    "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6",
)
# RFC 9497 A.1.2: inputs, blinds, the random scalar of the proof, blinded and evaluated elements, proof, outputs
RFC = (
    (["00"], [RFC_BLIND], RFC_RANDOM, ["863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945"],
     ["aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e"],
     "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd066d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d",
     [RFC_OUTPUTS[0]]),
    (["5a" * 17], [RFC_BLIND], RFC_RANDOM, ["cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c"],
     ["60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468"],
     "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a67154fabf031fd936051dec80b0b6ae29c9503493dde7393b722eafdf5a50b02",
     [RFC_OUTPUTS[1]]),
    (["00", "5a" * 17], [RFC_BLIND, RFC_RANDOM], "419c4f4f5052c53c45f3da494d2b67b220d02118e0857cdbcf037f9ea84bbe0c",
     ["863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945", "90a0145ea9da29254c3a56be4fe185465ebb3bf2a1801f7124bbbadac751e654"],
     ["aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e", "cc5ac221950a49ceaa73c8db41b82c20372a4c8d63e5dded2db920b7eee36a2a"],
     "cc203910175d786927eeb44ea847328047892ddf8590e723c37205cb74600b0a5ab5337c8eb4ceae0494c2cf89529dcf94572ed267473d567aeed6ab873dee08",
     list(RFC_OUTPUTS)),
)


def run(name, pair, messages, blinds, scalar):
    """A run of the protocol, checked as its client does."""
    secret, public = pair
    blinded = [blind(message, one) for message, one in zip(messages, blinds)]
    evaluated, proof = evaluate(secret, public, blinded, scalar)
    outputs = finalize(messages, blinds, blinded, evaluated, public, proof)
    assert outputs == [hash_of(message, times(secret, hash_to_group(message))) for message in messages]
    hexes = lambda parts: [part.hex() for part in parts]
    return {"name": name, "public_key": public.hex(), "inputs": hexes(messages), "blinds": hexes(map(scalar_bytes, blinds)), "blinded": hexes(blinded),
            "proof_random": scalar_bytes(scalar).hex(), "evaluated": hexes(evaluated), "proof": proof.hex(), "outputs": hexes(outputs)}


def rfc_runs():
    scalar = lambda text: int.from_bytes(bytes.fromhex(text), "little")
    runs = []
    for inputs, blinds, random, blinded, evaluated, proof, outputs in RFC:
        made = run(f"RFC 9497 A.1.2, {len(runs) + 1}", derive(RFC_SEED, RFC_INFO), [bytes.fromhex(text) for text in inputs], list(map(scalar, blinds)), scalar(random))
        assert (made["blinded"], made["evaluated"], made["proof"], made["outputs"]) == (blinded, evaluated, proof, outputs)
        runs.append({**made, "seed": RFC_SEED.hex(), "info": RFC_INFO.hex()})
    return runs


def scalar_of(name):
    return int.from_bytes(stream(name, 64), "little") % ORDER


def wrong_elements():
    """Encodings that must be refused, one fault each."""
    little = lambda number: number.to_bytes(32, "little")
    wrong = {"the identity": bytes(32), "the identity, as p": little(P), "p plus 2, which is 2": little(P + 2), "the largest below 2^255": little(2**255 - 1),
             "one, which is negative": little(1), "p minus 1, where y is 0": little(P - 1), "the identity with the highest bit": little(2**255),
             "all bits": b"\xff" * 32, "31 bytes": encode(BASE)[:31], "33 bytes": encode(BASE) + b"\x00", "no byte": b"",
             "an element and the highest bit": flip(encode(BASE), 31, 7), "the negative of an element's s": little(P - int.from_bytes(encode(BASE), "little")),
             "the base point of Ed25519": bytes.fromhex("58" + "66" * 31),
             "a point of Ed25519 of order 8": bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")}
    at, faults = 2, {"whose x is no square": [], "whose x times y is negative": []}
    while min(map(len, faults.values())) < 4:
        u1, u2 = 1 - at * at, 1 + at * at
        v = (-D * u1 * u1 - u2 * u2) % P
        is_square, _ = root_of_ratio(1, v * u2 * u2)
        if refuses(lambda: decode(little(at))):
            faults["whose x times y is negative" if is_square else "whose x is no square"].append(little(at))
        at += 2
    for fault, found in faults.items():
        wrong.update({f"{fault}, {number + 1}": data for number, data in enumerate(found[:4])})
    names = [{"name": name, "element": data.hex()} for name, data in wrong.items() if refuses(lambda: read_element(data))]
    assert len(names) == len(wrong), set(wrong) - {one["name"] for one in names}
    return names


def wrong_answers(right, other_key):
    """Answers that a client must refuse, one fault each."""
    read = lambda name: [bytes.fromhex(text) for text in right[name]]
    messages, blinded, evaluated = read("inputs"), read("blinded"), read("evaluated")
    blinds = [int.from_bytes(data, "little") for data in read("blinds")]
    public, proof = bytes.fromhex(right["public_key"]), bytes.fromhex(right["proof"])
    by_other, other_proof = evaluate(*other_key, blinded, scalar_of("proof of another"))
    again, again_proof = evaluate(*derive(key_of("hash key")), blinded[:2], scalar_of("proof of two"))
    c, s = proof[:32], proof[32:]
    over = lambda data: scalar_bytes(int.from_bytes(data, "little") + ORDER)
    wrong = {
        "of another key, with its proof": (by_other, other_proof), "of another key, with the proof of this one": (by_other, proof), "with the proof of another key": (evaluated, other_proof),
        "one element of another key": ([by_other[0], *evaluated[1:]], proof), "elements exchanged": ([evaluated[1], evaluated[0], *evaluated[2:]], proof),
        "the blinded elements back": (blinded, proof), "the last element twice": ([*evaluated[:-1], evaluated[0]], proof), "an element fewer": (evaluated[:-1], proof),
        "an element more": ([*evaluated, evaluated[0]], proof), "no element": ([], proof), "with the proof of fewer elements": (evaluated, again_proof), "the identity": ([bytes(32), *evaluated[1:]], proof),
        "an element that is none": ([bytes.fromhex("01" + "00" * 31), *evaluated[1:]], proof), "c of one other bit": (evaluated, flip(c, 3) + s), "s of one other bit": (evaluated, c + flip(s, 3)),
        "c and s exchanged": (evaluated, s + c), "a proof of zeros": (evaluated, bytes(64)), "c plus the order": (evaluated, over(c) + s), "s plus the order": (evaluated, c + over(s)),
        "a proof of 63 bytes": (evaluated, proof[:63]), "a proof of 65 bytes": (evaluated, proof + b"\x00"), "no proof": (evaluated, b""),
        "s negated": (evaluated, c + scalar_bytes(-int.from_bytes(s, "little") % ORDER)),
    }
    assert again == evaluated[:2]
    for name, (elements, given) in wrong.items():
        assert refuses(lambda: finalize(messages, blinds, blinded, elements, public, given)), name
    return [{"name": name, "evaluated": [data.hex() for data in elements], "proof": given.hex()} for name, (elements, given) in wrong.items()]


def wrong_keys(seed, right):
    wrong = {
        "another info": derive(seed, b"EaaS blind hash v2"), "no info": derive(seed, b""), "the info in lower case": derive(seed, KEY_INFO.lower()), "another hash key": derive(key_of("another hash key")),
        "a hash key of one other bit": derive(flip(seed, 0)), "the mode without proofs": derive(seed, context=b"OPRFV1-\x00-" + SUITE), "the mode with info": derive(seed, context=b"OPRFV1-\x02-" + SUITE),
        "another suite": derive(seed, context=b"OPRFV1-\x01-P256-SHA256"), "HMAC of the info as the seed": derive(hmac_sha256(seed, KEY_INFO)),
        "the hash key as the scalar": (0, encode(times(int.from_bytes(seed, "little"), BASE))),
    }
    assert all(public != right for _, public in wrong.values())
    return [{"name": name, "hash_key": seed.hex(), "public_key": public.hex()} for name, (_, public) in wrong.items()]


def wrong_requests():
    element = b64(encode(BASE))
    body = {"key_id": KEY, "elements": [element]}
    wrong = {
        "another suite": {"suite": "P256-SHA256"}, "the suite in lower case": {"suite": SUITE.decode().lower()}, "a suite that is null": {"suite": None}, "no elements": {"elements": []}, "one text": {"elements": element},
        "without padding": {"elements": [element[:-1]]}, "URL-safe characters": {"elements": ["_" + element[1:]]}, "bits behind the last byte": {"elements": [element[:-2] + "Z="]}, "31 bytes": {"elements": [b64(encode(BASE)[:31])]},
        "33 bytes": {"elements": [b64(encode(BASE) + b"\x00")]}, "hexadecimal": {"elements": [encode(BASE).hex()]}, "a number": {"elements": [7]}, "nothing": {"elements": [None]}, "a line feed": {"elements": [element + "\n"]},
    }
    requests = [{"name": name, "body": {**body, **change}} for name, change in wrong.items()]
    return [*requests, {"name": "257 elements", "body": {"key_id": body["key_id"]}, "element": element, "times": 257}]


def blind_hash_vectors():
    seed, other = key_of("hash key"), key_of("another hash key")
    inputs = {"empty": b"", "ASCII": b"jane@example.com", "beyond ASCII": "Ren\u00e9e \U0001f510".encode()}
    runs = []
    for name, key in (("one value", seed), ("another hash key", other)):
        runs.append({**run(name, derive(key), [inputs["ASCII"]], [scalar_of("blind")], scalar_of("proof")), "seed": key.hex(), "info": KEY_INFO.hex()})
    three = [inputs["empty"], inputs["ASCII"], inputs["beyond ASCII"]]
    right = {**run("three values", derive(seed), three, [scalar_of(f"blind {at}") for at in range(3)], scalar_of("proof of three")), "seed": seed.hex(), "info": KEY_INFO.hex()}
    twice = {**run("a value twice, under two blinds", derive(seed), [inputs["ASCII"]] * 2, [scalar_of("blind"), 1], scalar_of("proof of the same")), "seed": seed.hex(), "info": KEY_INFO.hex()}
    assert twice["outputs"][0] == twice["outputs"][1] == runs[0]["outputs"][0] != runs[1]["outputs"][0]
    return {
        "format": "blind hash",
        "about": "blind-hash.md 7. Bytes are lower-case hexadecimal. `run` holds whole runs, of RFC 9497 A.1.2 first; the others derive their keys from a hash key, the seed. "
                 "`refuse_key` holds public keys that a hash key does not give, `refuse_element` elements, `refuse_answer` answers to the run `three values`, and `refuse_request` bodies of "
                 "POST /v1/hash/blind, one of which repeats its `element` `times` times: all of them must be refused, each for one fault.",
        "made_by": MADE_BY,
        "run": [*rfc_runs(), *runs, right, twice],
        "refuse_key": wrong_keys(seed, bytes.fromhex(right["public_key"])),
        "refuse_element": wrong_elements(),
        "refuse_answer": wrong_answers(right, derive(other)),
        "refuse_request": wrong_requests(),
    }
