#!/usr/bin/env python3
"""A member by kafka-python."""
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError

from member import (
    ASSIGNOR, BOOTSTRAP, GROUP, HEARTBEAT_MS, INSTANCE, NAME, SESSION_MS, TOPIC, Stop, not_committed, say, say_records,
)  # fmt: skip

ASSIGNORS = {"cooperative": [CooperativeStickyAssignor], "range": [RangePartitionAssignor]}


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        say("assigned", *(at.partition for at in assigned))

    def on_partitions_revoked(self, revoked):
        say("revoked", *(at.partition for at in revoked))

    def on_partitions_lost(self, lost):
        say("lost", *(at.partition for at in lost))


def main():
    stop = Stop()
    consumer = KafkaConsumer(
        bootstrap_servers=BOOTSTRAP, client_id=NAME, group_id=GROUP, group_instance_id=INSTANCE,
        auto_offset_reset="earliest", enable_auto_commit=False, fetch_max_wait_ms=200,
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS,
        partition_assignment_strategy=ASSIGNORS[ASSIGNOR],
    )  # fmt: skip
    consumer.subscribe([TOPIC], listener=Listener())
    while not stop:
        try:
            found = consumer.poll(200)
        except KafkaConnectionError:  # the broker is down, and this client's search for it was within the call
            continue
        say_records((r.partition, r.offset, r.value) for records in found.values() for r in records)
        if found:
            try:
                consumer.commit()
            except KafkaError as error:
                not_committed(error)
    consumer.close()
    say("left")


main()
