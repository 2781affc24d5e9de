"""The vectors of stream.md."""
import base64
import hmac
import json
import struct

from .common import (
    DoesNotOpen, KEY, MADE_BY, OTHER_KEY, UUID_FORM, b64, flip, gcm_open, gcm_seal, key_of, prefixed, sha256, stream,
    uuid_bytes,
)
from .envelope_v2 import canonical, hkdf, opens_under_both, v2_aad, v2_context, v2_keys


S1 = b"eaas/stream/v1"
S1_SEGMENT = 65536
S1_MEMBERS = ("format", "key_id", "key_version", "wrapped_key", "salt", "commitment", "segment_bytes")


def s1_keys(dek, salt, key_id=KEY, label=S1):
    okm = hkdf(dek, label + b"\0" + uuid_bytes(key_id), 64, salt)
    return okm[:32], okm[32:]


def s1_aad(context, key_id=KEY, label=S1, segment_bytes=S1_SEGMENT):
    pairs = (part for pair in v2_context(context) for part in pair)
    return prefixed(label, uuid_bytes(key_id), struct.pack(">I", segment_bytes), *pairs)


def s1_iv(counter, final):
    return counter.to_bytes(11, "big") + bytes([1 if final else 0])


def s1_line(members):
    """The header line of members, whatever they are."""
    line = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    return line + b" " * (-(len(line) + 1) % 512) + b"\n"


def s1_header(dek, salt, key_id=KEY, **changes):
    members = {"format": S1.decode(), "key_id": key_id, "key_version": 1, "wrapped_key": b64(b"opaque"), "salt": b64(salt),
               "commitment": b64(s1_keys(dek, salt, key_id)[1]), "segment_bytes": S1_SEGMENT}
    return {member: value for member, value in {**members, **changes}.items() if value is not ...}


def s1_read_header(data):
    """The members of the header line and its length. Raises ValueError where it is none."""
    end = data.find(b"\n", 0, 1536) + 1
    if end == 0:
        raise ValueError("line")
    members = json.loads(data[:end].decode("ascii"))
    if not isinstance(members, dict) or tuple(members) != S1_MEMBERS or members["format"] != S1.decode():
        raise ValueError("members")
    if not isinstance(members["key_id"], str) or not UUID_FORM.fullmatch(members["key_id"]):
        raise ValueError("key_id")
    if type(members["key_version"]) is not int or not 1 <= members["key_version"] < 2**31:
        raise ValueError("key_version")
    if type(members["segment_bytes"]) is not int or members["segment_bytes"] != S1_SEGMENT:
        raise ValueError("segment_bytes")
    if len(canonical(members["wrapped_key"], least=1)) > 768:
        raise ValueError("wrapped_key")
    canonical(members["salt"], 32)
    canonical(members["commitment"], 32)
    if s1_line(members) != data[:end]:
        raise ValueError("not the only form")
    return members, end


def s1_pieces(plaintext):
    """The pieces of a plaintext, each with whether it is the last one."""
    starts = range(0, max(len(plaintext), 1), S1_SEGMENT)
    return [(plaintext[at:at + S1_SEGMENT], at == starts[-1]) for at in starts]


def s1_seal(dek, context, salt, plaintext, key_id=KEY):
    key, aad = s1_keys(dek, salt, key_id)[0], s1_aad(context, key_id)
    sealed = (gcm_seal(key, s1_iv(at, final), aad, piece) for at, (piece, final) in enumerate(s1_pieces(plaintext)))
    return s1_line(s1_header(dek, salt, key_id)) + b"".join(sealed)


def s1_open(data, dek, context, give):
    """Gives each piece out once it is verified. Raises ValueError where the header is wrong, DoesNotOpen for every other cause."""
    header, at = s1_read_header(data)
    aad = s1_aad(context, header["key_id"])
    key, commitment = s1_keys(dek, base64.b64decode(header["salt"]), header["key_id"])
    if not hmac.compare_digest(commitment, base64.b64decode(header["commitment"])):
        raise DoesNotOpen()
    counter, final = 0, False
    while not final:
        segment = data[at:at + S1_SEGMENT + 16]
        at += len(segment)
        final = at == len(data)
        if len(segment) < 16 or (final and counter > 0 and len(segment) == 16):
            raise DoesNotOpen()
        give(gcm_open(key, s1_iv(counter, final), aad, segment))
        counter += 1


def stream_vectors():
    dek, other = key_of("dek of a stream"), key_of("another dek of a stream")
    salt, other_salt = key_of("salt of a stream"), key_of("another salt of a stream")
    file = {"file": "7", "table": "uploads"}
    aad, (key, commitment) = s1_aad(file), s1_keys(dek, salt)
    length = 3 * S1_SEGMENT + 1000

    derive = [{"name": name, "dek": one.hex(), "salt": by.hex(), "key_id": id_, "key": s1_keys(one, by, id_)[0].hex(),
               "commitment": s1_keys(one, by, id_)[1].hex()}
              for name, one, by, id_ in (("a stream", dek, salt, KEY), ("another salt", dek, other_salt, KEY), ("another key_id", dek, salt, OTHER_KEY),
                                         ("another DEK", other, salt, KEY), ("a salt of zeros", dek, bytes(32), KEY))]
    aads = [{"name": name, "key_id": KEY, "context": context, "aad": s1_aad(context).hex()}
            for name, context in (("a file", file), ("no pair", {}), ("in another order", dict(reversed(file.items()))),
                                  ("beyond the BMP", {"\U00010000": "a", "\uffff": "b"}))]
    ivs = [{"counter": counter, "final": final, "iv": s1_iv(counter, final).hex()}
           for counter in (0, 1, 255, 256, 2**31, 2**32 - 1) for final in (False, True)]
    headers = [{"name": name, "header": members, "line": s1_line(members).decode()} for name, members in (
        ("a stream", s1_header(dek, salt)), ("the largest version", s1_header(dek, salt, key_version=2**31 - 1)),
        ("a wrapped key of the service", s1_header(dek, salt, wrapped_key=b64(stream("wrapped", 65)))),
        ("a wrapped key of one byte", s1_header(dek, salt, wrapped_key=b64(b"\0"))),
        ("filled to 512 bytes without a space", s1_header(dek, salt, wrapped_key=b64(bytes(198)), key_version=1111)),
        ("one byte more than 512", s1_header(dek, salt, wrapped_key=b64(bytes(198)), key_version=11111)),
        ("the longest wrapped key", s1_header(dek, salt, wrapped_key=b64(bytes(768)), key_version=2**31 - 1)))]
    assert [len(one["line"]) for one in headers[-3:]] == [512, 1024, 1536]
    for one in headers:
        assert s1_read_header(one["line"].encode()) == (one["header"], len(one["line"]))

    # A line that is wrong in one respect.
    valid = s1_header(dek, salt)
    line = s1_line(valid)
    bare = line.rstrip(b" \n")
    padded = lambda text: text + b" " * (-(len(text) + 1) % 512) + b"\n"
    changed = lambda **changes: s1_line({member: value for member, value in {**valid, **changes}.items() if value is not ...})
    wrong_lines = [(f"{member} is missing", changed(**{member: ...})) for member in S1_MEMBERS]
    wrong_lines += [(f"{member} is null", changed(**{member: None})) for member in S1_MEMBERS]
    wrong_lines += [
        ("empty", b""), ("a line feed alone", b"\n"), ("no line feed", line[:-1]), ("only spaces", padded(b"")), ("not JSON", padded(bare[:-1])),
        ("a list", padded(b"[" + bare + b"]")), ("text", padded(b'"eaas/stream/v1"')), ("null", padded(b"null")),
        ("another format", changed(format="eaas/stream/v2")), ("the label of envelopes", changed(format="eaas/envelope/v2")),
        ("a format in upper case", changed(format="EAAS/STREAM/V1")),
        ("one member more", changed(name="report.pdf")), ("a version beside it", changed(envelope_version=2)),
        ("members in another order", s1_line(dict(reversed(valid.items())))),
        ("a member twice", padded(bare[:-1] + b',"segment_bytes":65536}')),
        ("a member twice, the first one another", padded(bare.replace(b'"key_version":1', b'"key_version":2,"key_version":1'))),
        ("white space between members", padded(json.dumps(valid).encode())), ("a space in front", padded(b" " + bare)),
        ("a byte order mark", padded(b"\xef\xbb\xbf" + bare)), ("an escape", padded(bare.replace(b"eaas/stream", b"eaas\\/stream"))),
        ("an escape of a letter", padded(bare.replace(b'"key_id"', b'"key\\u005fid"'))),
        ("a space too few", bare + b" " * (510 - len(bare)) + b"\n"), ("a space too many", bare + b" " * (512 - len(bare)) + b"\n"),
        ("no space", bare + b"\n"), ("filled to twice the length", bare + b" " * (1023 - len(bare)) + b"\n"),
        ("tabs in place of spaces", bare + b"\t" * (511 - len(bare)) + b"\n"), ("a carriage return", line[:-2] + b"\r\n"),
        ("the line feed behind 1,536 bytes", bare + b" " * (2047 - len(bare)) + b"\n"), ("a comma at the end", padded(bare + b",")),
        ("key_id in upper case", changed(key_id=KEY.upper())), ("key_id without dashes", changed(key_id=KEY.replace("-", ""))),
        ("key_id with a blank", changed(key_id=KEY + " ")),
        ("key_version 0", changed(key_version=0)), ("key_version 2^31", changed(key_version=2**31)), ("key_version -1", changed(key_version=-1)),
        ("key_version as text", changed(key_version="1")), ("key_version with a fraction", padded(bare.replace(b'"key_version":1', b'"key_version":1.0'))),
        ("key_version with an exponent", padded(bare.replace(b'"key_version":1', b'"key_version":1e0'))),
        ("key_version with a zero in front", padded(bare.replace(b'"key_version":1', b'"key_version":01'))),
        ("wrapped_key empty", changed(wrapped_key="")), ("wrapped_key of 769 bytes", changed(wrapped_key=b64(bytes(769)))),
        ("wrapped_key without padding", changed(wrapped_key="AA")), ("wrapped_key URL-safe", changed(wrapped_key="-_-_")),
        ("wrapped_key that is no base64", changed(wrapped_key="opaque!=")), ("wrapped_key with bits that are not zero at its end", changed(wrapped_key="AB==")),
        ("a salt of 31 bytes", changed(salt=b64(bytes(31)))), ("a salt of 33 bytes", changed(salt=b64(bytes(33)))),
        ("a salt in hexadecimal", changed(salt=salt.hex())), ("an empty salt", changed(salt="")),
        ("a commitment of 31 bytes", changed(commitment=b64(bytes(31)))), ("a commitment of 33 bytes", changed(commitment=b64(bytes(33)))),
        ("an empty commitment", changed(commitment="")), ("a number as the commitment", changed(commitment=7)),
        ("segments of 65,535 bytes", changed(segment_bytes=65535)), ("segments of 16 bytes", changed(segment_bytes=16)),
        ("segments of 1 MiB", changed(segment_bytes=2**20)), ("segments of no byte", changed(segment_bytes=0)),
        ("segment_bytes as text", changed(segment_bytes="65536")), ("segment_bytes with an exponent", padded(bare.replace(b"65536}", b"6.5536e4}"))),
    ]
    refuse_header = []
    for name, text in wrong_lines:
        try:
            s1_read_header(text)
        except ValueError:  # UnicodeDecodeError and JSONDecodeError, too
            refuse_header.append({"name": name, "line": text.decode()})
        else:
            raise AssertionError(f"is a header: {name}")

    def segment(counter, final, start, end, **changes):
        return {"iv": s1_iv(counter, final).hex(), "from": start, "to": end, **changes}

    def segments(length):
        starts = range(0, max(length, 1), S1_SEGMENT)
        return [segment(at, start == starts[-1], start, min(start + S1_SEGMENT, length)) for at, start in enumerate(starts)]

    def built(vector, plaintext):
        data = b""
        for piece in vector["pieces"]:
            if "text" in piece or "hex" in piece:
                data += piece["text"].encode() if "text" in piece else bytes.fromhex(piece["hex"])
                continue
            sealed = gcm_seal(bytes.fromhex(piece.get("key", vector["key"])), bytes.fromhex(piece["iv"]), bytes.fromhex(piece.get("aad", vector["aad"])),
                              plaintext[piece["from"]:piece["to"]])
            if "flip" in piece:
                sealed = flip(sealed, *piece["flip"])
            start, end = piece.get("slice", (0, len(sealed)))
            data += sealed[start:end]
        return data

    def vector(name, pieces, context=file, header=line, one=dek, length=length):
        pieces = pieces if header is None else [{"text": header.decode()}, *pieces]
        return {"name": name, "dek": one.hex(), "context": context, "key": key.hex(), "aad": aad.hex(),
                "plaintext": {"name": "a stream", "bytes": length}, "pieces": pieces}

    opened = [vector(f"{size} bytes", segments(size), length=size) for size in
              (0, 1, 15, 16, 17, 1000, S1_SEGMENT - 1, S1_SEGMENT, S1_SEGMENT + 1, 2 * S1_SEGMENT - 1, 2 * S1_SEGMENT, 2 * S1_SEGMENT + 1, length)]
    opened += [vector("after a rewrap: another version and another wrapped key", segments(1000), length=1000,
                      header=changed(key_version=2, wrapped_key=b64(b"wrapped again"))),
               vector("a header of 1,536 bytes", segments(1000), length=1000, header=changed(wrapped_key=b64(bytes(768)))),
               {**vector("no context", segments(1000), context={}, length=1000), "aad": s1_aad({}).hex()},
               {**vector("another key_id", segments(1000), header=s1_line(s1_header(dek, salt, OTHER_KEY)), length=1000),
                "key": s1_keys(dek, salt, OTHER_KEY)[0].hex(), "aad": s1_aad(file, OTHER_KEY).hex()}]
    for one in opened:
        plaintext, given = stream("a stream", one["plaintext"]["bytes"]), []
        data = built(one, plaintext)
        s1_open(data, dek, one["context"], given.append)
        assert b"".join(given) == plaintext, one["name"]
        one["sha256"] = sha256(data).hex()
    assert built(opened[-5], stream("a stream", length)) == s1_seal(dek, file, salt, stream("a stream", length))

    plaintext = stream("a stream", 5 * S1_SEGMENT)
    whole, refuse = segments(length), []

    def refused(name, error, prefix, pieces=whole, **more):
        one = vector(name, pieces, **more)
        data, given = built(one, plaintext), []
        try:
            s1_open(data, bytes.fromhex(one["dek"]), one["context"], given.append)
        except DoesNotOpen:
            assert error == "decryption", name
        except ValueError:
            assert error == "format", name
        else:
            raise AssertionError(f"opens: {name}")
        given = b"".join(given)
        assert given == plaintext[:prefix] and len(given) == prefix, f"{name}: {len(given)}"
        refuse.append({**one, "sha256": sha256(data).hex(), "error": error, "prefix": prefix})

    first, second, third, last = whole
    n = S1_SEGMENT
    # Cut
    refused("no byte", "format", 0, [], header=None)
    refused("cut within the header", "format", 0, [], header=line[:300])
    refused("cut before the line feed", "format", 0, [], header=line[:-1])
    refused("the header alone", "decryption", 0, [])
    refused("cut within the first tag", "decryption", 0, [{**first, "slice": [0, 15]}])
    refused("cut within the first segment", "decryption", 0, [{**first, "slice": [0, 1000]}])
    refused("cut behind the first segment", "decryption", 0, [first])
    refused("cut one byte behind the first segment", "decryption", n, [first, {**second, "slice": [0, 1]}])
    refused("cut 16 bytes behind the first segment", "decryption", n, [first, {**second, "slice": [0, 16]}])
    refused("cut within a segment", "decryption", n, [first, {**second, "slice": [0, 1000]}])
    refused("cut before the last tag of a full segment", "decryption", n, [first, {**second, "slice": [0, n]}])
    refused("cut behind the second segment", "decryption", n, [first, second])
    refused("the final segment is missing", "decryption", 2 * n, [first, second, third])
    refused("the final segment without its last byte", "decryption", 3 * n, [first, second, third, {**last, "slice": [0, 1015]}])
    refused("the final segment's tag alone", "decryption", 3 * n, [first, second, third, {**last, "slice": [1000, 1016]}])
    refused("the header missing", "format", 0, header=None)
    refused("the first segment missing", "decryption", 0, [second, third, last])
    refused("a segment in the middle missing", "decryption", n, [first, third, last])
    refused("all but the final segment missing", "decryption", 0, [last])
    # The final flag
    not_final = {**last, "iv": s1_iv(3, False).hex()}
    refused("no final flag", "decryption", 3 * n, [first, second, third, not_final])
    refused("the final flag of 2", "decryption", 3 * n, [first, second, third, {**last, "iv": (b"\0" * 10 + b"\3\2").hex()}])
    refused("the final flag of 255", "decryption", 3 * n, [first, second, third, {**last, "iv": (b"\0" * 10 + b"\3\xff").hex()}])
    refused("a final flag in the middle", "decryption", n, [first, {**second, "iv": s1_iv(1, True).hex()}, third, last])
    refused("a final flag at the first segment", "decryption", 0, [{**first, "iv": s1_iv(0, True).hex()}, second, third, last])
    refused("only final flags", "decryption", 0, [{**one, "iv": s1_iv(at, True).hex()} for at, one in enumerate(whole)])
    full_last = [first, segment(1, True, n, 2 * n)]
    refused("an empty final segment behind full ones", "decryption", 2 * n, [first, second, segment(2, True, 2 * n, 2 * n)])
    refused("an empty final segment behind a final one", "decryption", n, [*full_last, segment(2, True, 2 * n, 2 * n)])
    refused("an empty segment that is not final alone", "decryption", 0, [segment(0, False, 0, 0)])
    # More than was sealed
    refused("a byte behind the end", "decryption", 3 * n, [*whole, {"hex": "00"}])
    refused("a line feed behind the end", "decryption", 3 * n, [*whole, {"hex": "0a"}])
    refused("16 bytes behind the end", "decryption", 3 * n, [*whole, {"hex": "00" * 16}])
    refused("a byte behind a full final segment", "decryption", n, [*full_last, {"hex": "00"}])
    refused("a tag behind a full final segment", "decryption", n, [*full_last, {"hex": "00" * 16}])
    refused("a byte behind an empty stream", "decryption", 0, [*segments(0), {"hex": "00"}], length=0)
    refused("an authentic segment behind a full final one", "decryption", n, [*full_last, third])
    refused("the final segment twice", "decryption", 3 * n, [*whole, last])
    refused("the whole stream twice", "decryption", 3 * n, [*whole, {"text": line.decode()}, *whole])
    refused("a zero byte in front", "format", 0, [{"hex": "00"}, {"text": line.decode()}, *whole], header=None)
    # Reordered
    refused("the first two segments exchanged", "decryption", 0, [second, first, third, last])
    refused("two segments in the middle exchanged", "decryption", n, [first, third, second, last])
    refused("the final segment in front", "decryption", 0, [last, first, second, third])
    refused("a segment twice", "decryption", n, [first, first, second, third, last])
    refused("a segment in the middle twice", "decryption", 2 * n, [first, second, second, third, last])
    refused("a segment of full length in place of another", "decryption", n, [first, first, third, last])
    refused("counters from 1", "decryption", 0, [{**one, "iv": s1_iv(at + 1, at == 3).hex()} for at, one in enumerate(whole)])
    refused("counters as little-endian", "decryption", n,
            [{**one, "iv": (at.to_bytes(11, "little") + bytes([at == 3])).hex()} for at, one in enumerate(whole)])
    refused("the flag in front of the counter", "decryption", n,
            [first, *({**one, "iv": (bytes([at == 3]) + at.to_bytes(11, "big")).hex()} for at, one in enumerate(whole) if at)])
    refused("the same iv again", "decryption", n, [{**one, "iv": s1_iv(0, at == 3).hex()} for at, one in enumerate(whole)])
    # Of other streams
    foreign = {"key": s1_keys(dek, other_salt)[0].hex()}
    refused("a segment of another stream", "decryption", n, [first, {**second, **foreign}, third, last])
    refused("the first segment of another stream", "decryption", 0, [{**first, **foreign}, second, third, last])
    refused("the final segment of another stream", "decryption", 3 * n, [first, second, third, {**last, **foreign}])
    refused("all segments of another stream", "decryption", 0, [{**one, **foreign} for one in whole])
    refused("the header of another stream", "decryption", 0, header=s1_line(s1_header(dek, other_salt)))
    refused("the salt of another stream", "decryption", 0, header=changed(salt=b64(other_salt)))
    refused("a segment under another context", "decryption", n, [first, {**second, "aad": s1_aad({**file, "file": "8"}).hex()}, third, last])
    refused("a segment sealed as an envelope of format v2", "decryption", n, [first, {**second, "aad": v2_aad(file).hex()}, third, last])
    # Altered
    for name, at, bit in (("first byte", 0, 0), ("middle", 30000, 3), ("last byte of the ciphertext", n - 1, 7), ("first byte of the tag", n, 0), ("last byte of the tag", n + 15, 7)):
        refused(f"a bit altered: {name} of a segment", "decryption", n, [first, {**second, "flip": [at, bit]}, third, last])
    refused("a bit altered in the first segment", "decryption", 0, [{**first, "flip": [0, 7]}, second, third, last])
    refused("a bit altered in the final tag", "decryption", 3 * n, [first, second, third, {**last, "flip": [1015, 0]}])
    refused("a byte inserted within a segment", "decryption", 0, [{**first, "slice": [0, 10]}, {"hex": "00"}, {**first, "slice": [10, n + 16]}, second, third, last])
    refused("a byte left out within a segment", "decryption", n, [first, {**second, "slice": [1, n + 16]}, third, last])
    # Segments of another size
    half = n // 2
    refused("segments of 32,768 bytes", "decryption", 0, [segment(0, False, 0, half), segment(1, True, half, n)], length=n)
    refused("a first segment that is too short", "decryption", 0, [segment(0, False, 0, n - 1), segment(1, True, n - 1, n)], length=n)
    refused("a first segment that is too long", "decryption", 0, [segment(0, False, 0, n + 1), segment(1, True, n + 1, n + 2)], length=n + 2)
    refused("a final segment that is too long", "decryption", 0, [segment(0, True, 0, n + 1)], length=n + 1)
    refused("the header tells segments of 32,768 bytes", "format", 0, header=changed(segment_bytes=half))
    refused("sealed as segments of 32,768 bytes, by the AAD", "decryption", 0, [{**one, "aad": s1_aad(file, segment_bytes=half).hex()} for one in whole])
    # The context
    for name, context in (("no pair", {}), ("another file", {**file, "file": "8"}), ("one pair more", {**file, "row": "1"}), ("one pair less", {"file": "7"}),
                          ("names and values exchanged", {value: name for name, value in file.items()}), ("in upper case", {**file, "table": "UPLOADS"}),
                          ("the border moved", {"file": "7", "tableu": "ploads"})):
        refused(f"context: {name}", "decryption", 0, context=context)
    # The key
    refused("another DEK", "decryption", 0, one=other)
    refused("the commitment of another DEK", "decryption", 0, header=changed(commitment=b64(s1_keys(other, salt)[1])))
    refused("the commitment of another DEK, opened with it", "decryption", 0, header=changed(commitment=b64(s1_keys(other, salt)[1])), one=other)
    refused("a commitment of zeros", "decryption", 0, header=changed(commitment=b64(bytes(32))))
    refused("K_enc as the commitment", "decryption", 0, header=changed(commitment=b64(key)))
    for at, bit in ((0, 7), (16, 3), (31, 0)):
        refused(f"bit {bit} of byte {at} of the commitment", "decryption", 0, header=changed(commitment=b64(flip(commitment, at, bit))))
        refused(f"bit {bit} of byte {at} of the salt", "decryption", 0, header=changed(salt=b64(flip(salt, at, bit))))
    refused("another key_id", "decryption", 0, header=changed(key_id=OTHER_KEY))
    refused("another key_id with its commitment", "decryption", 0, header=s1_line(s1_header(dek, salt, OTHER_KEY)))
    for name, keys in (("of envelopes", v2_keys(dek)), ("without the salt", s1_keys(dek, b"")), ("of another label", s1_keys(dek, salt, label=b"eaas/stream/v2")),
                       ("without the NUL", (lambda okm: (okm[:32], okm[32:]))(hkdf(dek, S1 + uuid_bytes(KEY), 64, salt))),
                       ("without key_id", (lambda okm: (okm[:32], okm[32:]))(hkdf(dek, S1 + b"\0", 64, salt))),
                       ("with salt and DEK exchanged", s1_keys(salt, dek)), ("in the other order", (commitment, key))):
        refused(f"keys {name}", "decryption", 0, [{**one, "key": keys[0].hex()} for one in whole], header=changed(commitment=b64(keys[1])))
        refused(f"segments under keys {name}", "decryption", 0, [{**one, "key": keys[0].hex()} for one in whole])
    refused("sealed under the DEK itself", "decryption", 0, [{**one, "key": dek.hex()} for one in whole])
    for name, data in (("no AAD", b""), ("the label of another version", s1_aad(file, label=b"eaas/stream/v2")),
                       ("an AAD without segment_bytes", prefixed(S1, uuid_bytes(KEY), *(part for pair in v2_context(file) for part in pair))),
                       ("an AAD without key_id", prefixed(S1, struct.pack(">I", n), *(part for pair in v2_context(file) for part in pair))),
                       ("an AAD in the other order", prefixed(S1, uuid_bytes(KEY), struct.pack(">I", n), *(part for pair in reversed(v2_context(file)) for part in pair))),
                       ("segment_bytes as little-endian", prefixed(S1, uuid_bytes(KEY), struct.pack("<I", n), *(part for pair in v2_context(file) for part in pair)))):
        refused(f"sealed with {name}", "decryption", 0, [{**one, "aad": data.hex()} for one in whole])
    # Under two DEKs: the commitment alone refuses it.
    iv = s1_iv(0, True)
    salamander = opens_under_both(key, s1_keys(other, salt)[0], iv, aad)
    refused("authentic under two DEKs, committed to one, opened with the other", "decryption", 0, [{"hex": salamander.hex()}], one=other, length=16)
    names = [one["name"] for one in refuse]
    assert len(set(names)) == len(names)
    return {
        "format": "stream v1",
        "about": "stream.md 8. `derive`: dek, salt and key_id give key (K_enc) and commitment (K_com). `aad`: key_id and context give aad. `iv`: counter and final give "
                 "iv. `header`: the members give line. `refuse_header`: no header. `open`: the stream of the pieces opens with dek and context to the plaintext. "
                 "`refuse`: must end with error after exactly prefix bytes of the plaintext, or fewer. Bytes are hexadecimal.",
        "made_by": MADE_BY,
        "derive": derive,
        "aad": aads,
        "iv": ivs,
        "header": headers,
        "refuse_header": refuse_header,
        "open": opened,
        "refuse": refuse,
    }
