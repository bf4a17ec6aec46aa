#!/usr/bin/env python3
"""The records that every client writes and reads, as files, so that no client trusts its own generator.

usage: records.py DIR     writes the files below to DIR, the same bytes on every run

records.tsv: timestamp, key, value, headers; a header is NAME=VALUE, several are joined by ';'. Everything but the
timestamp is in hexadecimal; '-' is null, which is not the same as empty. A timestamp of '*' fits any.
records-plain.tsv: the same without null header values, nor null key and null value at once, for clients that can't
send these.
records-kcat.tsv: what kcat can send, each group of equal headers in one call.
keys.tsv: key in hexadecimal, and its partition of PARTITIONS by murmur2 as Java clients compute it.
"""
import random
import sys
from pathlib import Path

BASE_MS = 1_700_000_000_000  # timestamps go up by STEP_MS a record, so an offset by time has one right answer
STEP_MS = 1000
PARTITIONS = 7
BIG = 1_000_000


def hexed(data):
    return "-" if data is None else data.hex()


def unhexed(text):
    return None if text == "-" else bytes.fromhex(text)


def line(timestamp, key, value, headers):
    joined = ";".join(f"{hexed(name)}={hexed(data)}" for name, data in headers)
    return f"{timestamp}\t{hexed(key)}\t{hexed(value)}\t{joined}\n"


def parse(text):
    timestamp, key, value, headers = text.rstrip("\n").split("\t")
    pairs = [tuple(map(unhexed, h.split("="))) for h in headers.split(";") if h]
    return None if timestamp == "*" else int(timestamp), unhexed(key), unhexed(value), pairs


def load(path):
    with open(path) as file:
        return [parse(text) for text in file]


def headers_of(number, rng):
    return [
        [],
        [(b"trace", rng.randbytes(16))],
        [(b"empty", b""), (b"null", None)],
        [(b"twice", b"first"), (b"twice", b"second"), ("größe".encode(), b"\x00\xff")],
    ][number % 4]


def value_of(number, rng):
    return [
        rng.randbytes(200),
        b'{"order": %d, "state": "paid", "note": "%s"}' % (number, b"again and " * 40),
        b"",
        b"\x00" * 3000,
        rng.randbytes(17) * 30,
    ][number % 5]


def make_records():
    """Null, empty and binary keys and values, headers of every shape, one of BIG bytes in the middle."""
    rng = random.Random(4)
    for number in range(200):
        key = [None, b"", b"key-%d" % (number % 23), rng.randbytes(9)][number % 4]
        value = None if number % 11 == 3 else value_of(number, rng)
        if number == 120:
            value = rng.randbytes(BIG)
        yield BASE_MS + number * STEP_MS, key, value, headers_of(number // 2, rng)


def plain(record):
    timestamp, key, value, headers = record
    if key is None and value is None:
        key = b"was null"
    return timestamp, key, value, [(name, data) for name, data in headers if data is not None]


def make_kcat_records():
    """kcat sets no timestamps, takes one set of headers a call, and sends empty keys and values as null."""
    rng = random.Random(6)
    headers = [(b"source", b"kcat"), (b"twice", b"first"), (b"twice", b"second")]
    for number in range(100):
        key = None if number % 4 == 0 else b"key-%d" % (number % 9)
        value = None if number % 11 == 3 else rng.randbytes(60).hex().encode() * (number % 5 + 1)
        yield "*", key, value, headers if number < 50 else []
    yield "*", None, rng.randbytes(BIG), []


def murmur2(data):
    """The 32-bit murmur2 hash with the seed that Kafka's Java producer uses."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def make_keys():
    rng = random.Random(5)
    for length in [1, 2, 3, 4, 5, 8, 13, 64, *range(20, 52)]:
        key = rng.randbytes(length)
        yield key, (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in [
        ("records", make_records()),
        ("records-plain", map(plain, make_records())),
        ("records-kcat", make_kcat_records()),
    ]:
        folder.joinpath(name + ".tsv").write_text("".join(line(*record) for record in made))
    folder.joinpath("keys.tsv").write_text("".join(f"{key.hex()}\t{number}\n" for key, number in make_keys()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
