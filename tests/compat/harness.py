"""What the Python-driven clients share: the settings of a run, records as values, and the runner of checks."""
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import records

BOOTSTRAP = os.environ.get("BOOTSTRAP", "127.0.0.1:9092")
RUN = os.environ.get("RUN") or f"compat-{int(time.time())}"  # first part of every topic's name
RECORDS = Path(os.environ.get("RECORDS") or Path(__file__).parents[2] / "target/compat/records")
CROSS = os.environ.get("CROSS")  # a file that gets a line TOPIC=FILE for each round trip, for others to read
RESTART = os.environ.get("BROKER_RESTART")  # a command that kills the broker with -9 and starts it again
LIMIT_S = 60  # for one check

if not os.environ.get("COMPAT_DEBUG"):
    logging.disable()  # clients log every error that they retry


@dataclass
class Record:
    key: bytes | None
    value: bytes | None
    headers: list
    timestamp: int | None = None  # None when sending: now; when comparing: any
    offset: int | None = None  # as read
    append_time: bool = False  # as read: the broker set the timestamp


class Refused(Exception):
    """The broker's (or the client library's own, negative) error code."""

    def __init__(self, code, text=""):
        super().__init__(f"error code {code} {text}")
        self.code = code


def from_file(path):
    if not Path(path).exists():
        records.main(RECORDS)
    return [Record(key, value, headers, timestamp) for timestamp, key, value, headers in records.load(path)]


def numbered(count):
    """Small records in one text pattern, a second apart."""
    return [
        Record(b"k%d" % (i % 7), b"record %d " % i * 5, [], records.BASE_MS + i * records.STEP_MS)
        for i in range(count)
    ]


def brief(data):
    return repr(data) if data is None or len(data) <= 40 else f"{data[:40]!r}... ({len(data)} bytes)"


def expect(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: wanted {wanted!r}, got {got!r}")


def expect_records(got, wanted, first_offset=0):
    """Byte for byte, in order, at contiguous offsets."""
    expect(len(got), len(wanted), "number of records")
    for number, (g, w) in enumerate(zip(got, wanted)):
        expect(g.offset, first_offset + number, "offset")
        for part in ("key", "value"):
            a, b = getattr(g, part), getattr(w, part)
            if a != b:
                raise AssertionError(f"offset {g.offset}: {part} wanted {brief(b)}, got {brief(a)}")
        expect(g.headers, w.headers, f"offset {g.offset}: headers")
        if w.timestamp is not None:
            expect(g.timestamp, w.timestamp, f"offset {g.offset}: timestamp")


def expect_refused(code, what, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Refused as refused:
        expect(refused.code, code, f"error code of {what}")
    else:
        raise AssertionError(f"{what} was accepted, wanted error code {code}")


def eventually(what, test, seconds=15):
    """For what a broker does some time after it answered, such as forgetting a deleted topic."""
    deadline = time.monotonic() + seconds
    while not test():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def leave_for_others(topic, path):
    if CROSS:
        with open(CROSS, "a") as file:
            file.write(f"{topic}={path}\n")


class TooLong(Exception):
    pass


def run_checks(client, checks):
    """Runs (title, call) in turn, prints a line for each, returns how many failed."""

    def on_alarm(_signal, _frame):
        raise TooLong(f"not done within {LIMIT_S} s")

    signal.signal(signal.SIGALRM, on_alarm)
    failed = 0
    for title, call in checks:
        start, reason = time.monotonic(), None
        signal.alarm(LIMIT_S)
        try:
            call()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        failed += reason is not None
        print(f"{'FAIL' if reason else 'ok':4} {client:16} {time.monotonic() - start:6.2f} s  {title}", flush=True)
        if reason:
            print(f"     {reason}", flush=True)
    return failed


def cross_checks(client):
    """Reads what other clients wrote: a line of the file CROSS is TOPIC=FILE of the records the topic must hold."""
    for line in Path(CROSS).read_text().splitlines():
        topic, path = line.split("=")
        if topic.startswith(f"{RUN}.{client.name}."):
            continue
        wanted = from_file(path)

        def read(topic=topic, wanted=wanted):
            expect_records(client.consume(topic, 0, 0, len(wanted)), wanted)

        yield "reads " + topic.removeprefix(RUN + "."), read


def main(client, checks):
    """check: this client's own checks. cross: reads what other clients wrote."""
    verb = sys.argv[1] if sys.argv[1:] else "check"
    todo = {"check": checks, "cross": cross_checks}[verb](client)
    failed = run_checks(client.name, todo)
    client.close()
    sys.exit(1 if failed else 0)
