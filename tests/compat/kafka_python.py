#!/usr/bin/env python3
"""kafka-python, pure Python."""
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from checks import checks
from harness import BOOTSTRAP, Record, Refused, main

LOG_APPEND_TIME = 1


class KafkaPython:
    name = "kafka-python"
    file = "records-plain.tsv"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    lacks = {"restart"}
    murmur2 = True

    def __init__(self):
        self.admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP)

    def close(self):
        self.admin.close()

    def call(self, function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except KafkaError as error:
            raise Refused(error.errno, str(error)) from error

    def create(self, topic, partitions=1, replication=1, config={}, validate_only=False):
        options = {"num_partitions": partitions, "replication_factor": replication, "configs": config}
        self.call(self.admin.create_topics, {topic: options}, validate_only=validate_only)

    def delete(self, topic):
        self.call(self.admin.delete_topics, [topic])

    def topics(self):
        return set(self.admin.list_topics())

    def partitions_of(self, topic):
        [found] = self.call(self.admin.describe_topics, [topic])
        if found["error_code"]:
            raise Refused(found["error_code"])
        return len(found["partitions"])

    def produce(self, topic, records, partition=None, codec="none", acks="all", idempotent=False, linger_ms=5):
        producer = KafkaProducer(
            bootstrap_servers=BOOTSTRAP, compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks), enable_idempotence=idempotent, linger_ms=linger_ms,
            batch_size=65536, max_in_flight_requests_per_connection=5 if idempotent else 1,
        )  # fmt: skip
        try:
            futures = [
                producer.send(topic, r.value, r.key, [(name.decode(), value) for name, value in r.headers],
                              partition, r.timestamp)
                for r in records
            ]  # fmt: skip
            producer.flush(50)
            placed = [self.call(future.get, 10) for future in futures]
        finally:
            producer.close()
        return [(p.partition, p.offset) for p in placed]

    def consumer(self, wait_ms=500):
        return KafkaConsumer(
            bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, auto_offset_reset="none", check_crcs=True,
            fetch_max_wait_ms=wait_ms, allow_auto_create_topics=False,
        )  # fmt: skip

    def consume(self, topic, partition, start, count, seconds=20, wait_ms=500):
        consumer, got, deadline = self.consumer(wait_ms), [], time.monotonic() + seconds
        at = TopicPartition(topic, partition)
        try:
            consumer.assign([at])
            if start == "beginning":
                consumer.seek_to_beginning(at)
            elif start == "end":
                consumer.seek_to_end(at)
            else:
                consumer.seek(at, start)
            while len(got) < count and time.monotonic() < deadline:
                try:
                    found = consumer.poll(200, max_records=count - len(got))
                except OffsetOutOfRangeError as error:
                    raise Refused(OffsetOutOfRangeError.errno) from error
                for r in found.get(at, []):
                    headers = [(name.encode(), value) for name, value in r.headers]
                    got.append(Record(r.key, r.value, headers, r.timestamp, r.offset,
                                      r.timestamp_type == LOG_APPEND_TIME))  # fmt: skip
        finally:
            consumer.close()
        return got

    def bounds(self, topic):
        consumer, at = self.consumer(), TopicPartition(topic, 0)
        try:
            return consumer.beginning_offsets([at])[at], consumer.end_offsets([at])[at]
        finally:
            consumer.close()

    def offset_for_time(self, topic, ms):
        consumer, at = self.consumer(), TopicPartition(topic, 0)
        try:
            found = consumer.offsets_for_times({at: ms})[at]
        finally:
            consumer.close()
        return found and found.offset


if __name__ == "__main__":
    main(KafkaPython(), checks)
