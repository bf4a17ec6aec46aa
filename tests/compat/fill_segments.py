#!/usr/bin/env python3
"""Writes a topic of several small segments with every codec, most of it by idempotent producers; prints its name."""
from checks import KEEP
from confluent import Confluent
from harness import RECORDS, RUN, expect_records, from_file

client, topic = Confluent(), f"{RUN}.segments"
records = from_file(RECORDS / client.file)
client.create(topic, config=KEEP | {"segment.bytes": str(1 << 20)})  # Kafka's lower bound
for codec in client.codecs:
    client.produce(topic, records, codec=codec, idempotent=codec != "none")
wanted = records * len(client.codecs)
expect_records(client.consume(topic, 0, 0, len(wanted)), wanted)
print(topic)
