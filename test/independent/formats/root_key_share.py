"""The vectors of root-key-share.md."""
import hmac
import re

from .common import MADE_BY, hmac_sha256, key_of, sha256, stream

FORMAT = "eaas-root-key-share-v1"
ABOUT = (
    "combine: the shares give the root key. refuse: no share, each for one fault. refuse_together: shares, or what looks like "
    "some, that must not be combined."
)
LINE = re.compile(FORMAT + r"\.([0-9a-f]{16})\.([1-9][0-9]{0,2})\.([1-9][0-9]{0,2})\.([0-9a-f]{98})\.([0-9a-f]{8})")


def field_multiply(a, b):
    """In GF(2^8) with x^8 + x^4 + x^3 + x + 1, the field of AES."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def field_inverse(a):
    return next(b for b in range(256) if field_multiply(a, b) == 1)


def weights_at_zero(xs):
    """What the value at each x counts for in the value at 0 of the polynomial through them (Lagrange)."""
    weights = []
    for x in xs:
        above, below = 1, 1
        for other in xs:
            if other != x:
                above, below = field_multiply(above, other), field_multiply(below, x ^ other)
        weights.append(field_multiply(above, field_inverse(below)))
    return weights


def proof_of(root_key, set_, threshold, label=b"eaas/root-key-share/v1"):
    return hmac_sha256(root_key, label + bytes.fromhex(set_) + bytes([threshold]))[:16]


def line_of(set_, threshold, number, point, format_=FORMAT, checksum=None):
    text = f"{format_}.{set_}.{threshold}.{number}.{point.hex()}"
    return f"{text}.{checksum or sha256(text.encode()).hex()[:8]}"


def points_of(name, secret, threshold, xs):
    """Shares of a secret: its bytes are the values at 0 of polynomials, whose other coefficients belong to the name."""
    degree = threshold - 1
    coefficients = stream(f"polynomials {name}", degree * len(secret))
    points = []
    for x in xs:
        ys = []
        for at, byte in enumerate(secret):
            y = 0
            for c in reversed(coefficients[at * degree:(at + 1) * degree]):
                y = field_multiply(y, x) ^ c
            ys.append(field_multiply(y, x) ^ byte)
        points.append(bytes(ys) + bytes([x]))
    return points


def set_of(name):
    return stream(f"set {name}", 8).hex()


def split(name, root_key, threshold, xs, proof=None):
    set_ = set_of(name)
    secret = root_key + (proof or proof_of(root_key, set_, threshold))
    return [line_of(set_, threshold, at + 1, point) for at, point in enumerate(points_of(name, secret, threshold, xs))]


def read(line):
    """Set, threshold, number and point. Raises ValueError."""
    match = LINE.fullmatch(line.strip())
    if not match or sha256(match[0].rsplit(".", 1)[0].encode()).hex()[:8] != match[5]:
        raise ValueError("line")
    share = match[1], int(match[2]), int(match[3]), bytes.fromhex(match[4])
    if not 2 <= share[1] <= 255 or share[2] > 255 or share[3][-1] == 0:
        raise ValueError("bounds")
    return share


def combine(lines):
    """The root key. Raises ValueError."""
    shares = [read(line) for line in lines]
    if not shares or len({share[:2] for share in shares}) != 1:
        raise ValueError("sets")
    set_, threshold = shares[0][:2]
    if len({number for _, _, number, _ in shares}) < len(shares) or len({point[-1] for *_, point in shares}) < len(shares):
        raise ValueError("twice")
    if len(shares) < threshold:
        raise ValueError("too few")
    points = [share[3] for share in shares]
    secret = bytearray(48)
    for weight, point in zip(weights_at_zero([point[-1] for point in points]), points):
        for at in range(48):
            secret[at] ^= field_multiply(weight, point[at])
    secret = bytes(secret)
    if not hmac.compare_digest(secret[32:], proof_of(secret[:32], set_, threshold)):
        raise ValueError("proof")
    return secret[:32]


def root_key_share_vectors():
    key, other_key = key_of("root key in shares"), key_of("another root key in shares")
    five = split("of five", key, 3, (17, 4, 255, 1, 96))
    again = split("of five again", key, 3, (17, 4, 255, 1, 96))
    two = split("of two", other_key, 2, (1, 2))
    many = split("of twelve", key, 12, range(244, 256))
    zeros = split("of zeros", bytes(32), 2, (200, 100, 50))
    combinations = [{"name": name, "shares": shares, "root_key": root_key.hex()} for name, shares, root_key in (
        ("three of five", five[:3], key),
        ("another three of five", [five[4], five[0], five[3]], key),
        ("four of five", five[1:], key),
        ("all five", five, key),
        ("the same root key, split again", again[2:], key),
        ("two of two", two, other_key),
        ("twelve of twelve", many, key),
        ("a root key of zeros", zeros[1:], bytes(32)),
        ("line ends of Windows and blanks around", [f" {line} \r\n" for line in five[:3]], key),
    )]

    set_, threshold, number, point = read(five[1])

    def altered(**changes):
        parts = {"set_": set_, "threshold": threshold, "number": number, "point": point, **changes}
        return line_of(**parts)

    def flipped(at, bit=0):
        return point[:at] + bytes([point[at] ^ 1 << bit]) + point[at + 1:]

    good = five[1]
    lines = {
        "nothing": "", "a blank": " ", "cut by one digit": good[:-1], "cut in the middle": good[:80],
        "one digit more": good + "0", "in upper case": good.upper(), "digits in upper case": good[:23] + good[23:].upper(),
        "without its checksum": good.rsplit(".", 1)[0], "another format": altered(format_="eaas-root-key-share-v2"),
        "a format of another thing": altered(format_="eaas-share-v1"), "a checksum of zeros": altered(checksum="00000000"),
        "a digit mistyped": good[:60] + ("0" if good[60] != "0" else "1") + good[61:],
        "its bytes reversed": good.replace(point.hex(), point[::-1].hex(), 1),
        "the number mistyped, not its checksum": good.replace(f".3.{number}.", ".3.4.", 1),
        "the threshold mistyped, not its checksum": good.replace(f".3.{number}.", f".2.{number}.", 1),
        "threshold 0": altered(threshold=0), "threshold 1": altered(threshold=1), "threshold 256": altered(threshold=256),
        "threshold 03": altered(threshold="03"), "threshold of four digits": altered(threshold=1000), "number 0": altered(number=0),
        "number 256": altered(number=256), "number +1": altered(number="+1"), "a negative number": altered(number=-1),
        "a point of 48 bytes": altered(point=point[1:]), "a point of 50 bytes": altered(point=b"\0" + point),
        "the point 0, which is the secret itself": altered(point=point[:-1] + b"\0"),
        "a set of 7 bytes": altered(set_=set_[2:]), "a set in upper case": altered(set_="ABCDEF0123456789"),
        "a blank within": good.replace(".", ". ", 1), "two lines": f"{good}\n{five[0]}", "a line end within": good[:60] + "\n" + good[60:],
        "a NUL behind": good + "\0", "quotes around": f'"{good}"', "digits beyond ASCII": good.replace(f".3.{number}.", f".\u0663.{number}.", 1),
        "the root key": key.hex(), "an encrypted file": "-----BEGIN AGE ENCRYPTED FILE-----\nYWdlLWVuY3J5cHRpb24ub3JnL3YxCg==\n-----END AGE ENCRYPTED FILE-----\n",
    }
    refuse = [{"name": name, "share": line} for name, line in lines.items()]

    def with_second(line):
        return [five[0], line, five[2]]

    chosen = key_of("a root key that an attacker chose")
    x_of_first = read(five[0])[3][-1]
    wrong = {
        "no share": [], "too few": five[:2], "one share": five[:1], "a share twice": [five[0], five[1], five[0]],
        "a share of another set": with_second(two[1]),
        "a share of another split of the same root key": with_second(again[1]),
        "a share of another split, its set renamed": with_second(line_of(set_, 3, 2, read(again[1])[3])),
        "first bit of a share altered": with_second(altered(point=flipped(0, 7))),
        "last bit of the shared root key altered": with_second(altered(point=flipped(31))),
        "a bit of the shared proof altered": with_second(altered(point=flipped(32))),
        "last bit of the shared proof altered": with_second(altered(point=flipped(47))),
        "the coordinate altered": with_second(altered(point=flipped(48, 6))),
        "the coordinate of another share": with_second(altered(point=point[:-1] + bytes([x_of_first]))),
        "a share twice, its number altered": with_second(line_of(set_, 3, 2, read(five[0])[3])),
        "two shares of one number": with_second(altered(number=1)),
        "a threshold that was lowered in all": [line_of(set_, 2, at + 1, read(line)[3]) for at, line in enumerate(five[:2])],
        "a threshold that was lowered in all, all given": [line_of(set_, 2, at + 1, read(line)[3]) for at, line in enumerate(five)],
        "a threshold that was raised in all": [line_of(set_, 4, at + 1, read(line)[3]) for at, line in enumerate(five[:4])],
        "a threshold that was lowered in one": with_second(altered(threshold=2)),
        "a set that was renamed in all": [line_of(set_of("else"), 3, at + 1, read(line)[3]) for at, line in enumerate(five[:3])],
        "one of four altered": [*five[:3], line_of(set_, 3, 4, stream("noise", 48) + read(five[3])[3][-1:])],
        "all bytes of a share exchanged": with_second(altered(point=stream("noise", 48) + point[-1:])),
        "a root key without a proof": split("no proof", key, 2, (1, 2), proof=bytes(16)),
        "the proof of another set": split("of else", key, 2, (1, 2), proof=proof_of(key, set_, 2)),
        "the proof of another threshold": split("of else", key, 2, (1, 2), proof=proof_of(key, set_of("of else"), 3)),
        "the proof of another root key": split("of else", key, 2, (1, 2), proof=proof_of(other_key, set_of("of else"), 2)),
        "a proof under another label": split("of else", key, 2, (1, 2), proof=proof_of(key, set_of("of else"), 2, b"eaas/root-key/v1")),
        "a chosen root key at the point 0": with_second(altered(point=chosen + proof_of(chosen, set_, 3) + b"\0")),
    }
    refuse_together = [{"name": name, "shares": lines} for name, lines in wrong.items()]
    check(combinations, refuse, refuse_together)
    return {"format": FORMAT, "about": ABOUT, "made_by": MADE_BY, "combine": combinations, "refuse": refuse, "refuse_together": refuse_together}


def check(combinations, refuse, refuse_together):
    """The vectors say of themselves what they are for."""
    for one in combinations:
        assert combine(one["shares"]).hex() == one["root_key"], one["name"]
    for one in refuse:
        assert is_refused(lambda: read(one["share"])), one["name"]
    for one in refuse_together:
        assert is_refused(lambda: combine(one["shares"])), one["name"]


def is_refused(run):
    try:
        run()
        return False
    except ValueError:
        return True
