"""The vectors of codecs.md."""
import json
import math
import struct

from .blind_index import AWKWARD
from .common import MADE_BY


def number_text(value):
    """ECMA-262 6.1.6.1.20, radix 10. The shortest digits are those of Python's repr."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if value < 0:
        return "-" + number_text(-value)
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    k = len(digits)
    if k <= point <= 21:
        return digits + "0" * (point - k)
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    sign = "-" if point - 1 < 0 else "+"
    return digits[0] + ("." + digits[1:] if k > 1 else "") + "e" + sign + str(abs(point - 1))


def date_text(ms):
    days, rest = divmod(ms, 86_400_000)
    # Days to a date of the proleptic Gregorian calendar, in eras of 400 years that begin in March.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day, month = day_of_year - (153 * shifted + 2) // 5 + 1, shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    years = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):06d}"
    seconds, thousandths = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{years}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{thousandths:03d}Z"


def codec_vectors():
    encode = [{"kind": "text", "name": name, "value": value, "bytes": value.encode().hex()} for name, value in AWKWARD.items()
              if len(value) < 1_000]
    for name, data in (("none", b""), ("no UTF-8", b"\xff\x00\xc0"), ("every value", bytes(range(256)))):
        encode.append({"kind": "bytes", "name": name, "value": data.hex(), "bytes": data.hex()})
    for name, value in (
        ("zero", 0.0), ("negative zero", -0.0), ("one", 1.0), ("a fraction", -0.1), ("a sum", 0.1 + 0.2), ("a third", 1 / 3),
        ("the largest safe integer", 2.0**53 - 1), ("2^53", 2.0**53), ("10^20", 1e20), ("below 10^21", 999999999999999900000.0),
        ("10^21", 1e21), ("with digits and an exponent", -1.2345e25), ("10^-6", 1e-6), ("10^-7", 1e-7), ("1.5e-7", 1.5e-7),
        ("the least", 5e-324), ("the least normal", 2.2250738585072014e-308), ("the largest", 1.7976931348623157e308),
        ("money", 1234.56), ("pi", math.pi), ("a whole number of 17 digits", 12345678901234567.0), ("0.00001", 0.00001),
        ("100", 100.0), ("123e-20", 123e-20),
    ):
        encode.append({"kind": "number", "name": name, "value": struct.pack(">d", value).hex(), "bytes": number_text(value).encode().hex()})
    for value in ("true", "false"):
        encode.append({"kind": "boolean", "name": value, "value": value == "true", "bytes": value.encode().hex()})
    for name, ms in (
        ("the beginning of 1970", 0), ("a millisecond before", -1), ("now", 1_786_440_600_000), ("a leap day", 1_709_164_800_000),
        ("the end of a century without a leap day", 4_107_542_399_999), ("the year 9999", 253_402_300_799_999),
        ("the year 10000", 253_402_300_800_000), ("the year 0", -62_167_219_200_000), ("the year -1", -62_167_219_200_001),
        ("the year 99", -59_011_459_200_000), ("the latest", 8_640_000_000_000_000), ("the earliest", -8_640_000_000_000_000),
    ):
        encode.append({"kind": "date", "name": name, "value": ms, "bytes": date_text(ms).encode().hex()})
    for name, value in (
        ("null", "null"), ("text", '"a"'), ("a number", "-1.5"), ("an empty object", "{}"), ("an empty list", "[]"),
        ("members in their order", '{"b":1,"a":[true,null,"x"]}'), ("escapes", '"\\"\\\\\\n\\u0001"'), ("no ASCII", '{"é":"\U0001f510"}'),
    ):
        encode.append({"kind": "json", "name": name, "value": value, "bytes": value.encode().hex()})

    padded_to = lambda data, n: (data + b"\xff").ljust((len(data) // n + 1) * n, b"\x00")
    for kind, value, data, pad in (
        ("text", "", b"", 32), ("text", "yes", b"yes", 32), ("text", "a" * 31, b"a" * 31, 32), ("text", "a" * 32, b"a" * 32, 32),
        ("text", "\x00\x00", b"\x00\x00", 4), ("text", "\xff", "\xff".encode(), 2), ("text", "a", b"a", 65_536 // 256),
        ("json", '["a"]', b'["a"]', 16), ("number", struct.pack(">d", 1234.0).hex(), b"1234", 16),
        ("boolean", True, b"true", 8), ("boolean", False, b"false", 8),
    ):
        encode.append({"kind": kind, "name": f"{data.decode()[:8]!r} padded to {pad}", "value": value, "pad": pad, "bytes": padded_to(data, pad).hex()})

    read = [{"kind": "json", "name": name, "value": value, "bytes": text.encode().hex()} for name, text, value in (
        ("white space", ' {\r\n\t"a" : 1 } ', '{"a":1}'), ("escapes that are not needed", '"\\u0041\\/"', '"A/"'),
        ("another spelling of a number", "1.50e+1", "15"), ("a surrogate pair in escapes", '"\\ud83d\\udd10"', '"\U0001f510"'),
    )]
    read += [{"kind": kind, "name": f"padding: {name}", "value": value, "bytes": data.hex()} for kind, name, value, data in (
        ("text", "the mark alone", "", b"\xff"), ("text", "one zero", "a", b"a\xff\x00"), ("text", "more than any multiple", "a", b"a\xff" + bytes(1000)),
        ("text", "zeros without the mark are text", "a\x00", b"a\x00"), ("date", "of a kind that writers do not pad", 0, date_text(0).encode() + b"\xff\x00"),
        ("bytes", "of bytes is kept", "61ff00", b"a\xff\x00"),
    )]
    no_utf8 = {"a byte that is none": b"a\xffb", "a continuation alone": b"\x80", "cut": b"a\xc3", "too long a form": b"\xc0\x80",
               "a surrogate": b"\xed\xa0\x80", "beyond the highest": b"\xf4\x90\x80\x80"}
    refuse = [{"kind": kind, "name": f"no UTF-8: {name}", "bytes": data.hex()}
              for kind in ("text", "json", "number", "boolean", "date") for name, data in no_utf8.items()]
    refuse += [{"kind": kind, "name": f"padding: {name}", "bytes": data.hex()} for kind, value in
               (("text", b"yes"), ("json", b"1"), ("number", b"1"), ("boolean", b"true"), ("date", date_text(0).encode())) for name, data in (
                   ("the mark twice", value + b"\xff\xff\x00"), ("the mark in front", b"\xff" + value), ("a byte behind it", value + b"\xff\x00\x01"),
                   ("a mark behind the zeros", value + b"\xff\x00\xff"), ("another mark", value + b"\xfe\x00"), ("the mark of bits", value + b"\x80\x00"))]
    refuse += [{"kind": kind, "name": f"padding: {name}", "bytes": data.hex()} for kind, name, data in (
        ("number", "without the mark", b"1\x00"), ("boolean", "without the mark", b"true\x00"), ("json", "without the mark", b"1\x00\x00"),
        ("date", "without the mark", date_text(0).encode() + b"\x00"),
        ("number", "of nothing", b"\xff\x00"), ("boolean", "of nothing", b"\xff"), ("json", "of nothing", b"\xff\x00"), ("date", "of nothing", b"\xff"),
        ("number", "between digits", b"1\xff2"), ("boolean", "of a value with a zero", b"true\x00\xff"))]
    texts = {
        "json": ["", " ", "{", "{\"a\":1,}", "[1,]", "{'a':1}", "{a:1}", "undefined", "NaN", "Infinity", "+1", "01", ".5", "0x10", "\"a", "\"\n\"",
                 "1 2", "nul", "True", "\ufeff1", "// a\n1", "\"\\x41\"", "1\x00"],
        "number": ["", " ", "1.0", "+1", "01", "1e3", "1E21", "1e21", "0x10", "0b1", " 1", "1 ", "1\n", "1,5", ".5", "5.", "0.10", "-00", "--1",
                   "NaN", "Infinity", "-Infinity", "1e400", "9007199254740993", "0.1e1", "1_000", "\u0661", "\ufeff1", "null", "true", "1n",
                   "0.30000000000000001", "1e-6", "0.0000001", "1000000000000000000000"],
        "boolean": ["", "True", "TRUE", "FALSE", "1", "0", "true ", " true", "true\n", "yes", "null", "\"true\"", "tru", "truefalse", "\ufefftrue"],
        "date": ["", "2026", "2026-08-11", "2026-08-11T09:30:00Z", "2026-08-11T09:30:00.0Z", "2026-08-11T09:30:00.000", "2026-08-11T09:30:00.000+00:00",
                 "2026-08-11T11:30:00.000+02:00", "2026-08-11T09:30:00.000000Z", "2026-08-11 09:30:00.000Z", "2026-08-11t09:30:00.000z",
                 "2026-02-30T00:00:00.000Z", "2026-13-01T00:00:00.000Z", "2026-00-01T00:00:00.000Z", "2026-08-11T24:00:00.000Z",
                 "2026-08-11T09:30:60.000Z", "+002026-08-11T09:30:00.000Z", "-000000-01-01T00:00:00.000Z", "+275760-09-13T00:00:00.001Z",
                 "11 Aug 2026 09:30:00 GMT", "1786440600000", "Invalid Date", "null", " 2026-08-11T09:30:00.000Z", "2026-08-11T09:30:00.000Z\n",
                 "\ufeff2026-08-11T09:30:00.000Z", "\"2026-08-11T09:30:00.000Z\""],
    }
    refuse += [{"kind": kind, "name": json.dumps(text), "bytes": text.encode().hex()} for kind, some in texts.items() for text in some]
    return {
        "format": "values of fields 1",
        "about": "codecs.md 3. Bytes are lower-case hexadecimal. A value is text, for bytes their hexadecimal, for a number the 8 bytes of its "
                 "double, for a date its milliseconds since 1970, for json its text. `encode` holds in both directions, `read` when "
                 "reading only; each of `refuse` is no value of its kind.",
        "made_by": MADE_BY,
        "encode": encode,
        "read": read,
        "refuse": refuse,
    }
