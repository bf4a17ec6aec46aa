#!/usr/bin/env python3
"""confluent-kafka, which is librdkafka."""
import time

from confluent_kafka import (
    OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, KafkaException, Producer,
    TopicPartition,
)  # fmt: skip
from confluent_kafka.admin import AdminClient, NewTopic

from checks import checks
from harness import BOOTSTRAP, Record, Refused, main

BASE = {"bootstrap.servers": BOOTSTRAP, "log_level": 0}


def refused(error):
    """Of a KafkaException or a KafkaError."""
    error = error.args[0] if isinstance(error, KafkaException) else error
    return Refused(error.code(), error.str())


class Confluent:
    name = "confluent-kafka"
    file = "records.tsv"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    lacks = set()
    murmur2 = True  # not librdkafka's default: the producer below asks for it

    def __init__(self):
        self.admin = AdminClient(BASE)

    def close(self):
        pass

    def wait(self, futures):
        for future in futures.values():
            try:
                future.result()
            except KafkaException as error:
                raise refused(error) from error

    def create(self, topic, partitions=1, replication=1, config={}, validate_only=False):
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication, config=config)
        self.wait(self.admin.create_topics([new], validate_only=validate_only))

    def delete(self, topic):
        self.wait(self.admin.delete_topics([topic]))

    def topics(self):
        return set(self.admin.list_topics(timeout=10).topics)

    def partitions_of(self, topic):
        # Asked as a consumer: librdkafka's producers and admin clients ask in a way that creates the topic.
        consumer = self.consumer()
        try:
            found = consumer.list_topics(topic, timeout=10).topics[topic]
        finally:
            consumer.close()
        if found.error:
            raise refused(found.error)
        return len(found.partitions)

    def produce(self, topic, records, partition=None, codec="none", acks="all", idempotent=False, linger_ms=5,
                at_half=None):  # fmt: skip
        producer = Producer(BASE | {
            "compression.type": codec, "acks": acks, "enable.idempotence": idempotent, "linger.ms": linger_ms,
            "message.max.bytes": 2_000_000, "partitioner": "murmur2_random",
        })  # fmt: skip
        placed, failures = [None] * len(records), []

        def report(number):
            def delivered(error, message):
                placed[number] = (message.partition(), message.offset())
                if error:
                    failures.append(error)
            return delivered

        for number, r in enumerate(records):
            if at_half and number == len(records) // 2:
                producer.flush(30)  # so that the restart meets requests in flight, not the whole load in the queue
                at_half()
            if at_half:
                time.sleep(0.0005)
            options = {} if partition is None else {"partition": partition}
            if r.timestamp is not None:
                options["timestamp"] = r.timestamp
            headers = [(name.decode(), value) for name, value in r.headers]
            producer.produce(topic, r.value, r.key, headers=headers, on_delivery=report(number), **options)
            producer.poll(0)
        left = producer.flush(50)
        if failures:
            raise refused(failures[0])
        if left:
            raise AssertionError(f"{left} records are not acknowledged after 50 s")
        return placed

    def consumer(self, wait_ms=500):
        return Consumer(BASE | {
            "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error",
            "fetch.wait.max.ms": wait_ms, "allow.auto.create.topics": False,
        })  # fmt: skip

    def consume(self, topic, partition, start, count, seconds=20, wait_ms=500):
        start = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}.get(start, start)
        consumer, got, deadline = self.consumer(wait_ms), [], time.monotonic() + seconds
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            while len(got) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if message.error():
                    error = message.error()
                    # With auto.offset.reset=error the broker's own code comes as the text of this local one.
                    if error.code() == KafkaError._AUTO_OFFSET_RESET and "out of range" in error.str().lower():
                        raise Refused(KafkaError.OFFSET_OUT_OF_RANGE)
                    raise refused(error)
                kind, timestamp = message.timestamp()
                headers = [(name.encode(), value) for name, value in message.headers() or []]
                got.append(Record(message.key(), message.value(), headers, timestamp, message.offset(),
                                  kind == TIMESTAMP_LOG_APPEND_TIME))  # fmt: skip
        finally:
            consumer.close()
        return got

    def bounds(self, topic):
        consumer = self.consumer()
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        finally:
            consumer.close()

    def offset_for_time(self, topic, ms):
        consumer = self.consumer()
        try:
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, ms)], timeout=10)
        finally:
            consumer.close()
        return None if found.offset == OFFSET_END else found.offset


if __name__ == "__main__":
    main(Confluent(), checks)
