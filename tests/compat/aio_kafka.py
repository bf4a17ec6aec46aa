#!/usr/bin/env python3
"""aiokafka, on asyncio."""
import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, for_code

from checks import checks
from harness import BOOTSTRAP, Record, Refused, main

LOG_APPEND_TIME = 1


def run(work):
    """Each call has an event loop of its own, so that a check may also call from a thread."""

    async def translated():
        try:
            return await work
        except KafkaError as error:
            raise Refused(getattr(error, "errno", -1), str(error)) from error

    return asyncio.run(translated())


class AioKafka:
    name = "aiokafka"
    file = "records-plain.tsv"
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    lacks = {"restart", "unknown topic"}  # it creates the topics that it describes
    murmur2 = True

    def close(self):
        pass

    def administer(self, call):
        async def work():
            admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
            await admin.start()
            try:
                return await call(admin)
            finally:
                await admin.close()

        return run(work())

    def create(self, topic, partitions=1, replication=1, config={}, validate_only=False):
        new = NewTopic(topic, num_partitions=partitions, replication_factor=replication, topic_configs=config)
        answer = self.administer(lambda admin: admin.create_topics([new], validate_only=validate_only))
        for _, code, text in answer.topic_errors:
            if code:
                raise Refused(code, text)

    def delete(self, topic):
        answer = self.administer(lambda admin: admin.delete_topics([topic]))
        for _, code in answer.topic_error_codes:
            if code:
                raise Refused(code)

    def topics(self):
        return set(self.administer(lambda admin: admin.list_topics()))

    def partitions_of(self, topic):
        [found] = self.administer(lambda admin: admin.describe_topics([topic]))
        if found["error_code"]:
            raise Refused(found["error_code"], for_code(found["error_code"]).__name__)
        return len(found["partitions"])

    def produce(self, topic, records, partition=None, codec="none", acks="all", idempotent=False, linger_ms=5):
        async def work():
            producer = AIOKafkaProducer(
                bootstrap_servers=BOOTSTRAP, compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks), enable_idempotence=idempotent, linger_ms=linger_ms,
                max_batch_size=65536,
            )  # fmt: skip
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic, r.value, r.key, partition, r.timestamp, [(name.decode(), v) for name, v in r.headers]
                    )
                    for r in records
                ]
                placed = await asyncio.gather(*sent)
            finally:
                await producer.stop()
            return [(p.partition, p.offset) for p in placed if p]

        return run(work())

    def with_consumer(self, call, wait_ms=500):
        async def work():
            consumer = AIOKafkaConsumer(
                bootstrap_servers=BOOTSTRAP, enable_auto_commit=False, auto_offset_reset="none",
                fetch_max_wait_ms=wait_ms, check_crcs=True,
            )  # fmt: skip
            await consumer.start()
            try:
                return await call(consumer)
            finally:
                await consumer.stop()

        return run(work())

    def consume(self, topic, partition, start, count, seconds=20, wait_ms=500):
        at = TopicPartition(topic, partition)

        async def work(consumer):
            got, deadline = [], time.monotonic() + seconds
            consumer.assign([at])
            if start == "beginning":
                await consumer.seek_to_beginning(at)
            elif start == "end":
                await consumer.seek_to_end(at)
            else:
                consumer.seek(at, start)
            while len(got) < count and time.monotonic() < deadline:
                found = await consumer.getmany(at, timeout_ms=200, max_records=count - len(got))
                for r in found.get(at, []):
                    headers = [(name.encode(), value) for name, value in r.headers]
                    got.append(Record(r.key, r.value, headers, r.timestamp, r.offset,
                                      r.timestamp_type == LOG_APPEND_TIME))  # fmt: skip
            return got

        return self.with_consumer(work, wait_ms)

    def bounds(self, topic):
        at = TopicPartition(topic, 0)

        async def work(consumer):
            return (await consumer.beginning_offsets([at]))[at], (await consumer.end_offsets([at]))[at]

        return self.with_consumer(work)

    def offset_for_time(self, topic, ms):
        at = TopicPartition(topic, 0)

        async def work(consumer):
            found = (await consumer.offsets_for_times({at: ms}))[at]
            return found and found.offset

        return self.with_consumer(work)


if __name__ == "__main__":
    main(AioKafka(), checks)
