#!/usr/bin/env python3
"""A member by aiokafka."""
import asyncio

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from member import (
    BOOTSTRAP, GROUP, HEARTBEAT_MS, INSTANCE, NAME, SESSION_MS, TOPIC, Stop, not_committed, say, say_records,
)  # fmt: skip


class Listener(ConsumerRebalanceListener):
    """Rebalances go on beside the reading: one waits until what was read is printed and committed."""

    def __init__(self, reading):
        self.reading = reading

    async def on_partitions_assigned(self, assigned):
        say("assigned", *(at.partition for at in assigned))

    async def on_partitions_revoked(self, revoked):
        async with self.reading:
            say("revoked", *(at.partition for at in revoked))


async def main():
    stop, reading = Stop(), asyncio.Lock()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=BOOTSTRAP, client_id=NAME, group_id=GROUP, group_instance_id=INSTANCE,
        auto_offset_reset="earliest", enable_auto_commit=False, fetch_max_wait_ms=200,
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=[RangePartitionAssignor],
    )  # fmt: skip
    consumer.subscribe([TOPIC], listener=Listener(reading))
    await consumer.start()
    while not stop:
        # Not with the lock: while the partitions are being shared out, this waits for the end of that.
        found = await consumer.getmany(timeout_ms=200)
        if not found:
            continue
        async with reading:
            say_records((r.partition, r.offset, r.value) for records in found.values() for r in records)
            try:
                await consumer.commit()
            except KafkaError as error:
                not_committed(error)
    await consumer.stop()
    say("left")


asyncio.run(main())
