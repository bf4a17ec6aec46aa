"""The checks that every Python-driven client runs, over the adapter that each client's script defines.

An adapter has `name`, `codecs`, `lacks` (what the client can't do), `file` (the records it can send),
`murmur2` (whether it places keys as Java does) and
  create(topic, partitions=1, replication=1, config={}, validate_only=False), delete(topic), topics(),
  partitions_of(topic), produce(topic, records, partition=None, codec, acks, idempotent, linger_ms) -> [(partition,
  offset)], consume(topic, partition, start, count, seconds=20, wait_ms=500), bounds(topic) -> (first, end),
  offset_for_time(topic, ms) -> offset or None, and close().
`start` is an offset, "beginning" or "end". Whatever the broker refuses is raised as harness.Refused.
"""
import random
import subprocess
import threading
import time

import records
from harness import (
    RECORDS, RESTART, RUN, Record, eventually, expect, expect_records, expect_refused, from_file, leave_for_others,
    numbered,
)  # fmt: skip

UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, INVALID_TOPIC, TOPIC_ALREADY_EXISTS = 3, 10, 17, 36
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG, OFFSET_OUT_OF_RANGE = 37, 38, 40, 1

# The records of these checks are years old, so retention by time, at its default, deletes them when it comes by.
KEEP = {"retention.ms": "-1"}


def name_of(client, word):
    return f"{RUN}.{client.name}.{word}"


def new_topic(client, word, config={}, **options):
    topic = name_of(client, word)
    if "admin" not in client.lacks:
        client.create(topic, config=KEEP | config, **options)
    return topic  # otherwise the broker creates it when it is first written to


def some(client, count):
    sent = numbered(count)
    if "timestamps" in client.lacks:
        for record in sent:
            record.timestamp = None
    return sent


def round_trip(client, codec):
    topic = new_topic(client, codec)
    sent = from_file(RECORDS / client.file)
    client.produce(topic, sent, codec=codec)
    expect_records(client.consume(topic, 0, "beginning", len(sent)), sent)
    leave_for_others(topic, RECORDS / client.file)


def acks(client, level):
    topic, sent = new_topic(client, f"acks-{level}"), some(client, 100)
    client.produce(topic, sent, acks=level)
    got = client.consume(topic, 0, 0, len(sent))
    expect_records(got, sent)


def idempotent(client):
    topic, sent = new_topic(client, "idempotent"), some(client, 3000)
    placed = client.produce(topic, sent, idempotent=True)
    if placed:
        expect(placed, [(0, i) for i in range(len(sent))], "partition and offset acknowledged")
    expect_records(client.consume(topic, 0, 0, len(sent)), sent)


def partitions_by_key(client):
    topic = new_topic(client, "keyed", partitions=records.PARTITIONS)
    keys = list(records.make_keys())
    sent = [Record(key, b"%d" % i, [], records.BASE_MS) for i, (key, _) in enumerate(keys * 5)]
    placed = client.produce(topic, sent)
    if client.murmur2:
        expect([p for p, _ in placed], [number for _, number in keys * 5], "partitions of the keys")
    for number in range(records.PARTITIONS):
        wanted = [record for record, (partition, _) in zip(sent, placed) if partition == number]
        expect_records(client.consume(topic, number, 0, len(wanted)), wanted)


def seeks(client):
    """One compressed batch, so that every position but the first lies inside it."""
    topic, sent = new_topic(client, "seeks"), some(client, 100)
    client.produce(topic, sent, codec="lz4", linger_ms=200)
    expect(client.bounds(topic), (0, 100), "first and end offset")
    expect_records(client.consume(topic, 0, "beginning", 100), sent)
    for start in (1, 57, 99):
        expect_records(client.consume(topic, 0, start, 100 - start), sent[start:], start)
    expect(client.consume(topic, 0, "end", 1, seconds=1), [], "records at the end")


def out_of_range(client):
    topic = new_topic(client, "range")
    client.produce(topic, some(client, 10))
    expect_refused(OFFSET_OUT_OF_RANGE, "a fetch beyond the end", client.consume, topic, 0, 11, 1)


def times(client):
    """The answer is the first offset whose timestamp is at or after the one asked for, if there is any."""
    topic, sent = new_topic(client, "times"), some(client, 100)
    client.produce(topic, sent, codec="gzip", linger_ms=200)
    client.produce(topic, sent[:1])  # for clients that set timestamps: an early one, after later ones
    got = client.consume(topic, 0, 0, 101)
    expect_records(got, sent + sent[:1])
    stamps = [record.timestamp for record in got]
    for ms in [0, *(stamps[i] + more for i in (0, 42, 99) for more in (0, 1, 500)), max(stamps) + 3_600_000]:
        wanted = next((offset for offset, stamp in enumerate(stamps) if stamp >= ms), None)
        expect(client.offset_for_time(topic, ms), wanted, f"offset for time {ms - stamps[0]} ms after the first")


def parked_fetch(client):
    """The wait is far longer than the check allows, so only the arrival of the record can end it."""
    topic, sent, got = new_topic(client, "parked"), some(client, 2), []
    client.produce(topic, sent[:1])
    reader = threading.Thread(
        target=lambda: got.append((client.consume(topic, 0, 1, 1, seconds=25, wait_ms=20_000), time.monotonic()))
    )
    reader.start()
    time.sleep(1.0)  # lets the fetch park; were it not parked by then, the check would only be weaker
    client.produce(topic, sent[1:])
    produced = time.monotonic()
    reader.join()
    expect_records(got[0][0], sent[1:], 1)
    if got[0][1] - produced > 3:
        raise AssertionError(f"the parked reader got the record {got[0][1] - produced:.1f} s after it was produced")


def topic_life(client):
    topic = name_of(client, "life")
    client.create(topic, partitions=3, config={"retention.ms": "3600000"})
    eventually("the topic is listed", lambda: topic in client.topics())
    expect(client.partitions_of(topic), 3, "number of partitions")
    expect_refused(TOPIC_ALREADY_EXISTS, "creating it again", client.create, topic)
    client.produce(topic, some(client, 5), partition=2)
    client.delete(topic)
    eventually("the topic is no longer listed", lambda: topic not in client.topics())
    expect_refused(UNKNOWN_TOPIC_OR_PARTITION, "deleting it again", client.delete, topic)
    client.create(topic, partitions=3)
    expect(client.consume(topic, 2, "beginning", 1, seconds=1), [], "records of a topic created anew")


def topic_refusals(client):
    topic = name_of(client, "refused")
    for code, what, options in [
        (INVALID_PARTITIONS, "no partitions", {"partitions": 0}),
        (INVALID_REPLICATION_FACTOR, "more replicas than brokers", {"replication": 3}),
        (INVALID_CONFIG, "an unknown setting", {"config": {"no.such.setting": "1"}}),
        (INVALID_CONFIG, "a setting out of its bounds", {"config": {"segment.bytes": "-5"}}),
    ]:
        expect_refused(code, what, client.create, topic, **options)
    expect_refused(INVALID_TOPIC, "a name with a slash", client.create, "a/b")
    if topic in client.topics():
        raise AssertionError("a refused topic exists")


def validate_only(client):
    topic = name_of(client, "validated")
    client.create(topic, partitions=2, validate_only=True)
    expect_refused(INVALID_PARTITIONS, "no partitions", client.create, topic, partitions=0, validate_only=True)
    if topic in client.topics():
        raise AssertionError("a topic that was only validated exists")


def unknown_topic(client):
    topic = name_of(client, "unknown")
    for _ in range(3):  # with a pause between, since a creation by mistake would take a moment
        expect_refused(UNKNOWN_TOPIC_OR_PARTITION, "describing an unknown topic", client.partitions_of, topic)
        time.sleep(0.2)


def created_by_use(client):
    topic = name_of(client, "by-use")
    sent = [Record(b"key", b"value", [])]  # of now, since the topic has the broker's retention
    client.produce(topic, sent)
    expect_records(client.consume(topic, 0, 0, 1), sent)


def too_large(client):
    topic = new_topic(client, "small", config={"max.message.bytes": "10000"})
    large = Record(b"k", random.Random(1).randbytes(20_000), [])
    expect_refused(MESSAGE_TOO_LARGE, "a record over max.message.bytes", client.produce, topic, [large])
    client.produce(topic, some(client, 1))
    expect_records(client.consume(topic, 0, 0, 1), some(client, 1))


def append_time(client):
    topic = new_topic(client, "append-time", config={"message.timestamp.type": "LogAppendTime"})
    before = time.time() * 1000 - 1
    client.produce(topic, some(client, 10), codec="gzip")
    got = client.consume(topic, 0, 0, 10)
    expect([r.value for r in got], [r.value for r in some(client, 10)], "values")
    for record in got:
        if not (record.append_time and before <= record.timestamp <= time.time() * 1000 + 1):
            raise AssertionError(f"timestamp {record.timestamp}, append time {record.append_time}, sent after {before}")
    expect(client.offset_for_time(topic, int(before) - 1000), 0, "offset for a time before all")
    expect(client.offset_for_time(topic, int(time.time() * 1000) + 60_000), None, "offset for a time after all")


def broker_restart(client):
    """Everything acknowledged across a kill -9 is there once and in order."""
    topic, sent = new_topic(client, "restart"), some(client, 4000)
    restart = threading.Thread(target=lambda: subprocess.run(RESTART, shell=True, check=True, stdout=subprocess.DEVNULL))
    client.produce(topic, sent, idempotent=True, at_half=restart.start)
    restart.join()
    expect_records(client.consume(topic, 0, 0, len(sent)), sent)


CHECKS = [  # title, what the client must be able to do, check
    ("acks 0", "", lambda c: acks(c, "0")),
    ("acks 1", "", lambda c: acks(c, "1")),
    ("idempotent producer", "", idempotent),
    ("key to partition", "admin", partitions_by_key),
    ("seek to beginning, end, into a batch", "", seeks),
    ("fetch out of range", "out of range", out_of_range),
    ("offsets for times", "", times),
    ("parked fetch wakes on new data", "", parked_fetch),
    ("topic created, listed, deleted", "admin", topic_life),
    ("topics that must be refused", "admin", topic_refusals),
    ("validate only", "validate only", validate_only),
    ("unknown topic", "unknown topic", unknown_topic),
    ("topic created by use", "", created_by_use),
    ("max.message.bytes", "admin", too_large),
    ("LogAppendTime", "admin", append_time),
    ("kill -9 and restart under an idempotent producer", "restart", broker_restart),
]


def checks(client):
    for codec in client.codecs:
        yield f"round trip, {codec}", lambda codec=codec: round_trip(client, codec)
    for title, need, call in CHECKS:
        if need in client.lacks or need == "restart" and not RESTART:
            continue
        yield title, lambda call=call: call(client)
