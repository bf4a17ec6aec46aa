"""A Kafka Streams application (java/): records with numbers go in, what it has seen of each key comes out."""
import shutil
import threading
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, OffsetSpec, ResourceType
from life import JAVA, LIMIT_S, Life

COMPAT = Path(__file__).resolve().parents[3] / "target/compat"
COMMAND = [*JAVA, "-cp", f"{COMPAT}/streams/classes:{COMPAT}/streams/jars/*", "compat.Counting"]
PARTITIONS = 4  # of the input, and so of the topics that the application makes for itself
KEYS = 50
RECORDS_EACH = 20  # how many are written at a time
SETTINGS = {  # of the application's own topics, as it asks for them
    "by-key-repartition": {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "retention.ms": "-1",
                           "segment.bytes": "52428800"},
    "seen-changelog": {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime",
                       "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500"},
}  # fmt: skip


class Streams(Life):
    def __init__(self, name, feed, out, session_ms):
        super().__init__(name, feed, out)
        self.session_ms = session_ms
        self.input, self.output = f"{name}.in", f"{name}.out"
        self.admin = AdminClient({"bootstrap.servers": feed.bootstrap, "log_level": 0})
        self.written = [0] * KEYS  # how many numbers of each key, from 0 on
        self.records = 0
        self.seen = [(0, 0)] * KEYS  # of each key: how often it was counted, a bit for each number; as last told
        self.states, self.restored, self.restored_of = [], 0, 0
        self.over = threading.Event()
        self.reader = threading.Thread(target=self.read)

    def begin(self):
        for created in self.admin.create_topics([NewTopic(t, PARTITIONS, 1) for t in (self.input, self.output)]).values():
            created.result()
        self.feed.begin(self)
        self.reader.start()

    def close(self):
        self.feed.end(self)
        self.over.set()
        if self.reader.ident:
            self.reader.join()
        super().close()

    # What is written, read and said.

    def write(self, producer, _number):
        with self.lock:
            for _ in range(RECORDS_EACH):
                key, partition = self.records % KEYS, self.records % PARTITIONS
                value = b"key-%d %d" % (key, self.written[key])
                producer.produce(self.input, value, partition=partition, on_delivery=self.delivered)
                self.written[key] += 1
                self.records += 1

    def delivered(self, error, message):
        if error:
            self.wrong.append(f"record {message.value()} is not written: {error}")

    def read(self):
        consumer = Consumer({"bootstrap.servers": self.feed.bootstrap, "group.id": f"{self.name}.reader", "log_level": 0})
        consumer.assign([TopicPartition(self.output, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
        while not self.over.is_set():
            if (message := consumer.poll(0.1)) and not message.error():
                count, numbers = message.value().decode().split(" ")
                key = int(message.key().removeprefix(b"key-"))
                with self.lock:
                    self.seen[key] = int(count), int.from_bytes(bytes.fromhex(numbers), "little")
        consumer.close()

    def hear(self, line):
        word, *rest = line.split()
        with self.lock:
            match word:
                case "state":
                    self.states.append(rest[0])
                case "restored":
                    self.restored += int(rest[1])
                    self.restored_of += int(rest[2])
                case "failed":
                    self.wrong.append(line)

    # What is done with the application.

    def launch(self, name, keeps_state=True):
        state = Path(f"{self.out}.state")
        if not keeps_state:
            shutil.rmtree(state)
        environment = {
            "BOOTSTRAP": self.feed.bootstrap, "APPLICATION": self.name, "INPUT": self.input, "OUTPUT": self.output,
            "STATE": str(state), "SESSION_MS": str(self.session_ms),
        }  # fmt: skip
        return self.start(name, COMMAND, environment, self.hear)

    # What is waited for, and compared.

    def told(self):
        again = sum(count - seen.bit_count() for count, seen in self.seen)
        restored = f", {self.restored} of {self.restored_of} of its changelog restored" if self.restored_of else ""
        return f"{self.records} records, {again} of them counted again{restored}"

    def settle(self, what):
        """Until all that was written before this began is seen, and there is some of each key."""
        self.wait(f"{what}, written", lambda: not all(self.written) and "nothing is written")
        with self.lock:
            marks = list(self.written)

        def lacks():
            with self.lock:
                missing = [f"{mark - (seen & (1 << mark) - 1).bit_count()} of {mark} of key-{key}"
                           for key, (mark, (_, seen)) in enumerate(zip(marks, self.seen))
                           if seen & (1 << mark) - 1 != (1 << mark) - 1]  # fmt: skip
            return missing and f"{len(missing)} keys lack numbers: {', '.join(missing[:5])}"

        self.wait(what, lacks)

    def expect_nothing_else(self, at_least_once):
        """All numbers of each key and no other, counted once each; more often only where that is allowed."""
        for key, (wanted, (count, seen)) in enumerate(zip(self.written, self.seen)):
            self.expect(f"{seen:b}", "1" * wanted, f"numbers of key-{key}")
            if count < wanted or count > wanted and not at_least_once:
                raise AssertionError(f"key-{key} is counted {count} times, wanted {wanted}")

    def expect_topics(self):
        for name, wanted in SETTINGS.items():
            topic = f"{self.name}-{name}"
            found = self.admin.list_topics(topic, LIMIT_S).topics[topic].partitions
            self.expect(sorted(found), list(range(PARTITIONS)), f"partitions of {topic}")
            [answer] = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
            own = {entry.name: entry.value for entry in answer.result(LIMIT_S).values()
                   if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}  # fmt: skip
            self.expect(own, wanted, f"settings of {topic}")

    def await_purge(self):
        """Until the application has deleted all records that it wrote for itself to partition them anew."""
        topic = f"{self.name}-by-key-repartition"

        def lacks():
            first, ends = (self.offsets(topic, PARTITIONS, at) for at in (OffsetSpec.earliest(), OffsetSpec.latest()))
            return (first != ends or not any(ends)) and f"records from {first} to {ends} are left"

        self.wait("purging", lacks)

    def expect_committed(self):
        """After a clean stop: all that it reads is committed."""
        for topic in (self.input, f"{self.name}-by-key-repartition"):
            partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            asked = [ConsumerGroupTopicPartitions(self.name, partitions)]
            [answer] = self.admin.list_consumer_group_offsets(asked).values()
            got = [at.offset for at in answer.result(LIMIT_S).topic_partitions]
            self.expect(got, self.offsets(topic, PARTITIONS, OffsetSpec.latest()), f"committed offsets of {topic}")


def end(app, process, at_least_once):
    """All that was written is seen, and the application stops cleanly."""
    app.feed.end(app)
    app.settle("the last records")
    app.expect_nothing_else(at_least_once)
    app.await_purge()
    app.stop(process)
    app.expect_committed()


def broker_killed(app, restart):
    """An application that lives on while the broker is killed: nothing is counted twice."""
    app.begin()
    process = app.launch("app")
    app.settle("started")
    app.expect_topics()
    heard = len(app.states)
    restart()
    app.settle("the broker killed")
    app.expect(app.states[heard:], [], "states since the broker was killed")
    end(app, process, at_least_once=False)


def application_killed(app, restart):
    """An application that is killed and starts again without its disk, from its changelog; then the broker is killed."""
    app.begin()
    process = app.launch("app")
    app.settle("started")
    app.settle("at work")  # so that the round before is committed
    app.kill(process)
    process = app.launch("again", keeps_state=False)
    restart()
    app.settle("back again")
    if app.restored < KEYS:
        raise AssertionError(f"{app.restored} records were restored, but there were {KEYS} keys")
    end(app, process, at_least_once=True)
