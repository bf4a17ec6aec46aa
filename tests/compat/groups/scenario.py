"""A group under test: the records that are written for it, its members, and what they say."""
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from process import Process

PARTITIONS = 6
SESSION_MS = 6000  # group.min.session.timeout.ms
STATIC_SESSION_MS = 45000  # so long that no busy machine makes it end
LIMIT_S = 90  # for each thing that is waited for
PAUSE_S = 0.1  # between two records of a partition


@dataclass
class Program:
    """How a client's member is started, {NAME} and so on filled in, and how its lines become those of member.py."""

    command: list
    environment: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)  # more of the command, by the assignor
    translate: Callable = lambda line: line
    is_mixed: bool = False  # what it says is on both of its pipes
    drops_when_stopped: bool = False  # a record that it has counted as read


class Feed:
    """Writes a numbered record to each partition of each topic, over and over."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self.groups, self.writing, self.over = [], threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        number = 0
        while not self.over.wait(PAUSE_S):
            with self.writing:
                for group in self.groups:
                    number += 1
                    group.write(self.producer, number)
            self.producer.poll(0)

    def begin(self, group):
        with self.writing:
            self.groups.append(group)

    def end(self, group):
        """Returns whether it was written to."""
        with self.writing:
            was_fed = group in self.groups
            if was_fed:
                self.groups.remove(group)
        return was_fed

    def close(self):
        self.over.set()
        self.thread.join()


class Member:
    """A process, and what it has said of itself. Its fields change as lines come, under the group's lock."""

    def __init__(self, group, name, program, assignor, instance):
        self.group, self.name, self.instance = group, name, instance
        self.own = {}  # partitions: the offset that comes next, None before the first
        self.assignments = 0
        self.left = self.ended = False
        environment = {
            "BOOTSTRAP": group.feed.bootstrap, "GROUP": group.name, "TOPIC": group.name, "NAME": name,
            "ASSIGNOR": assignor, "SESSION_MS": str(group.session_ms),
        }  # fmt: skip
        if instance:
            environment["INSTANCE"] = instance
        self.program = program
        command = [word.format(**environment) for word in [*program.command, *program.options.get(assignor, [])]]
        self.process = Process(group.out, name, command, program.environment | environment,
                               lambda line: group.hear(self, line), lambda: group.hear_end(self), program.is_mixed)  # fmt: skip

    def end(self, number):
        return self.process.end(number, LIMIT_S)


class Group:
    def __init__(self, name, feed, programs, assignors, static, out):
        self.name, self.feed, self.programs = name, feed, programs
        self.assignors, self.static, self.out = assignors, static, out
        self.session_ms = STATIC_SESSION_MS if static else SESSION_MS
        self.changed = threading.Condition()
        self.members, self.wrong = [], []
        self.sent = [[] for _ in range(PARTITIONS)]  # values by offset
        self.read = [{} for _ in range(PARTITIONS)]  # offset to value
        self.again = 0  # records that were read more than once
        self.in_flight = 0  # records that are written and not acknowledged
        self.step = "starting"
        self.admin = AdminClient({"bootstrap.servers": feed.bootstrap, "log_level": 0})

    def create_topic(self):
        [created] = self.admin.create_topics([NewTopic(self.name, PARTITIONS, 1)]).values()
        created.result()
        self.feed.begin(self)

    def told(self):
        return f"{sum(map(len, self.read))} records, {self.again} of them again"

    # What the producer and the members say.

    def write(self, producer, number):
        with self.changed:
            self.in_flight += PARTITIONS
        for partition in range(PARTITIONS):
            producer.produce(self.name, b"%d.%d" % (number, partition), partition=partition, on_delivery=self.delivered)

    def delivered(self, error, message):
        with self.changed:
            values = self.sent[message.partition()]
            if error or message.offset() != len(values):
                self.wrong.append(f"record {message.value()} is not written as offset {len(values)}: {error}")
            values.append(message.value().decode())
            self.in_flight -= 1
            self.changed.notify_all()

    def hear(self, member, line):
        with self.changed:
            try:
                word, *rest = (member.program.translate(line) or "nothing").split()
                self.hear_words(member, word, rest)
            except (LookupError, ValueError) as error:
                self.wrong.append(f"{member.name} said {line!r}: {error!r}")
            self.changed.notify_all()

    def hear_words(self, member, word, rest):
        match word:
            case "record":
                self.hear_record(member, int(rest[0]), int(rest[1]), rest[2])
            case "assigned":
                member.assignments += 1
                member.own |= {int(partition): None for partition in rest}
            case "revoked" | "lost":
                for partition in rest:
                    member.own.pop(int(partition), None)
            case "left":
                member.left = True

    def hear_end(self, member):
        with self.changed:
            member.ended, member.own = True, {}
            self.changed.notify_all()

    def hear_record(self, member, partition, offset, value):
        wanted = member.own.get(partition, -1)
        if wanted not in (None, offset):
            what = "which is not its own" if wanted == -1 else f"wanted offset {wanted}"
            self.wrong.append(f"{member.name} read offset {offset} of partition {partition}, {what}")
        resumes_at = member.resumes_at and member.resumes_at[partition]
        if wanted is None and resumes_at not in (None, offset):
            self.wrong.append(f"{member.name} resumed partition {partition} at {offset}, not at {resumes_at}")
        member.own[partition] = offset + 1
        self.again += offset in self.read[partition]
        self.read[partition][offset] = value

    # What is done with members.

    def start(self, instance=None, resumes=False):
        number = len(self.members)
        program, assignor = self.programs[number % len(self.programs)], self.assignors[number % len(self.assignors)]
        if self.static and instance is None:
            instance = f"instance-{number}"
        with self.changed:
            member = Member(self, f"member-{number}", program, assignor, instance)
            member.resumes_at = self.next_unread() if resumes else None
            self.members.append(member)
        return member

    def kill(self, member):
        self.step = f"killing {member.name}"
        member.end(signal.SIGKILL)

    def stop(self, member):
        self.step = f"stopping {member.name}"
        is_to_go_on = member.program.drops_when_stopped and self.end_feed()
        code = member.end(signal.SIGTERM)
        if is_to_go_on:
            self.feed.begin(self)
        if not (member.left or member.program.is_mixed and code == 0):
            raise AssertionError(f"{member.name} ended with code {code} without leaving")
        if member.instance:  # which does not leave by itself: it may come back
            self.remove_instance(member)

    def remove_instance(self, member):
        admin = KafkaAdminClient(bootstrap_servers=self.feed.bootstrap)
        try:
            admin.remove_group_members(self.name, [MemberToRemove(group_instance_id=member.instance)])
        finally:
            admin.close()

    def close(self):
        self.feed.end(self)
        for member in self.members:
            if not member.ended:
                member.end(signal.SIGKILL)

    # What is waited for, and compared.

    def wait(self, what, test, members=()):
        """Until the test is true, while these members run."""
        self.step = what
        deadline = time.monotonic() + LIMIT_S
        with self.changed:
            while not (self.wrong or test()):
                if gone := [member.name for member in members if member.ended]:
                    raise AssertionError(f"{', '.join(gone)} ended by itself")
                if not self.changed.wait(deadline - time.monotonic()):
                    own = {member.name: sorted(member.own) for member in self.members if not member.ended}
                    raise AssertionError(f"not within {LIMIT_S} s; the members have {own}")
            if self.wrong:
                raise AssertionError("; ".join(self.wrong[:3]))

    def settle(self, what, *members):
        """Until these members alone have the partitions, equally many each, and have read what was written since."""
        counts = sorted(len(range(i, PARTITIONS, len(members))) for i in range(len(members)))
        with self.changed:
            marks = [len(values) for values in self.sent]

        def settled():
            owners = [(partition, at) for member in members for partition, at in member.own.items()]
            return (
                sorted(len(member.own) for member in members) == counts
                and sorted(partition for partition, _ in owners) == list(range(PARTITIONS))
                and all(at is not None and at > marks[partition] for partition, at in owners)
            )

        self.wait(what, settled, members)

    def next_unread(self):
        return [max(offsets, default=-1) + 1 for offsets in self.read]

    def ends(self):
        return [len(values) for values in self.sent]

    def expect(self, got, wanted, what):
        if got != wanted:
            raise AssertionError(f"{what}: wanted {wanted}, got {got}")

    def expect_committed(self, when, wanted):
        partitions = [TopicPartition(self.name, partition) for partition in range(PARTITIONS)]
        asked = [ConsumerGroupTopicPartitions(self.name, partitions)]
        [answer] = self.admin.list_consumer_group_offsets(asked).values()
        got = {at.partition: at.offset for at in answer.result(LIMIT_S).topic_partitions}
        self.expect([got.get(partition) for partition in range(PARTITIONS)], wanted, f"committed offsets {when}")

    def end_feed(self):
        """Until all that is written is read. Returns whether there was a feed."""
        was_fed = self.feed.end(self)
        self.wait("the last records", lambda: not self.in_flight and self.next_unread() == self.ends())
        return was_fed

    def expect_all_read(self):
        for partition, values in enumerate(self.sent):
            missing = sorted(set(range(len(values))) - set(self.read[partition]))
            self.expect(missing[:10], [], f"offsets of partition {partition} that nobody read")
            got = [self.read[partition][offset] for offset in range(len(values))]
            self.expect(got, values, f"values of partition {partition}")
