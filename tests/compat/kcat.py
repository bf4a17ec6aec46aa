#!/usr/bin/env python3
"""kcat, driven as a person would: it has no administration, so every topic here is created by its first use."""
import re
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import groupby

from checks import checks
from harness import BOOTSTRAP, Record, Refused, main

# Keys and values are cut by their sizes; what %h prints has none, so it runs up to a mark.
MARK = "\n--end of record 5b1e0c7a--\n"
FORMAT = f"%o %T %K %S\n%k%s%h{MARK}"
HEAD = re.compile(rb"(\d+) (-?\d+) (-?\d+) (-?\d+)\n")


@dataclass
class Headers:
    """As kcat prints them: NAME=VALUE,... with nothing escaped and each value cut at its first zero byte. So they are
    compared as text."""

    text: bytes

    def __eq__(self, pairs):
        printed = (name + b"=" + (b"NULL" if v is None else v.partition(b"\0")[0]) for name, v in pairs)
        return self.text == b",".join(printed)


def kcat(*arguments, stdin=b"", seconds=30):
    done = subprocess.run(["kcat", "-b", BOOTSTRAP, *arguments], input=stdin, capture_output=True, timeout=seconds)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        raise Refused(1 if "Offset out of range" in text else -1, text)
    return done.stdout


class Kcat:
    name = "kcat"
    file = "records-kcat.tsv"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    lacks = {"admin", "out of range", "restart", "timestamps", "unknown topic", "validate only"}
    murmur2 = False

    def close(self):
        pass

    def produce(self, topic, records, partition=None, codec="none", acks="all", idempotent=False, linger_ms=5):
        """A call for each run of equal headers; a value with a line feed or of many bytes goes as a file of its own.
        Timestamps can't be given: kcat's records carry the time of their sending."""
        options = ["-P", "-t", topic, "-z", codec, "-X", f"acks={acks}", "-X", f"linger.ms={linger_ms}",
                   "-X", f"enable.idempotence={str(idempotent).lower()}", "-X", "message.max.bytes=2000000"]  # fmt: skip
        for (headers, large), run in groupby(records, lambda r: (r.headers, len(r.value or b"") > 100_000)):
            given = [f"-H{name.decode()}={value.decode()}" for name, value in headers]
            if large:
                for record in run:
                    with tempfile.NamedTemporaryFile() as file:
                        file.write(record.value)
                        file.flush()
                        kcat(*options, *given, file.name)
            else:
                lines = [(r.key or b"") + b"\t" + (r.value or b"") + b"\n" for r in run]
                kcat(*options, *given, "-Z", "-K", "\\t", stdin=b"".join(lines))

    def consume(self, topic, partition, start, count, seconds=20, wait_ms=500):
        """Stops at the count, or at the end of the partition when no record is expected there."""
        # With -e it ends by itself, however long that takes.
        until, seconds = (["-e"], 30) if start == "end" else (["-c", str(count)], seconds)
        out = kcat("-C", "-q", "-t", topic, "-p", str(partition), "-o", str(start), "-f", FORMAT,
                   "-X", f"fetch.wait.max.ms={wait_ms}", "-X", "check.crcs=true", "-X", "auto.offset.reset=error",
                   *until, seconds=seconds)  # fmt: skip
        got, at = [], 0
        while at < len(out):
            head = HEAD.match(out, at)
            offset, timestamp, *sizes = map(int, head.groups())
            at, cut = head.end(), []
            for size in sizes:
                cut.append(None if size < 0 else out[at : at + size])
                at += max(size, 0)
            end = out.index(MARK.encode(), at)
            got.append(Record(*cut, Headers(out[at:end]), timestamp, offset))
            at = end + len(MARK)
        return got

    def query(self, topic, ms):
        return int(kcat("-Q", "-t", f"{topic}:0:{ms}").rsplit(b"offset ", 1)[1])

    def bounds(self, topic):
        return self.query(topic, -2), self.query(topic, -1)

    def offset_for_time(self, topic, ms):
        found = self.query(topic, ms)
        return None if found == -1 else found


if __name__ == "__main__":
    main(Kcat(), checks)
