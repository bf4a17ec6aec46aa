#!/usr/bin/env python3
"""A member by confluent-kafka, which is librdkafka."""
from confluent_kafka import Consumer, KafkaException

from member import (
    ASSIGNOR, BOOTSTRAP, GROUP, HEARTBEAT_MS, INSTANCE, NAME, SESSION_MS, TOPIC, Stop, not_committed, say, say_records,
)  # fmt: skip

SETTINGS = {
    "bootstrap.servers": BOOTSTRAP, "client.id": NAME, "group.id": GROUP, "auto.offset.reset": "earliest",
    "enable.auto.commit": False, "fetch.wait.max.ms": 200,
}  # fmt: skip
CLASSIC = {
    "partition.assignment.strategy": "cooperative-sticky" if ASSIGNOR == "cooperative" else "range",
    "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS,
}  # fmt: skip
NEXT = {"group.protocol": "consumer"}  # KIP-848


def saying(word):
    return lambda _, partitions: say(word, *(at.partition for at in partitions))


def main():
    stop = Stop()
    static = {"group.instance.id": INSTANCE} if INSTANCE else {}
    consumer = Consumer(SETTINGS | (NEXT if ASSIGNOR == "consumer" else CLASSIC) | static)
    consumer.subscribe([TOPIC], on_assign=saying("assigned"), on_revoke=saying("revoked"), on_lost=saying("lost"))
    while not stop:
        messages = [message for message in consumer.consume(100, 0.2) if not message.error()]
        say_records((message.partition(), message.offset(), message.value()) for message in messages)
        if messages:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                not_committed(error)
    consumer.close()
    say("left")


main()
