"""What the applications under test share: how they live and end, and how things are waited for."""
import os
import signal
import threading
import time

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from process import Process

LIMIT_S = 120  # for each thing that is waited for
LOOK_S = 0.2  # between two looks
JAVA = [
    "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=" + ("info" if os.environ.get("COMPAT_DEBUG") else "warn"),
]  # fmt: skip


class Life:
    """An application under test. `wrong` has what must not be, in whatever thread it was seen."""

    def __init__(self, name, feed, out):
        self.name, self.feed, self.out, self.step = name, feed, out, ""
        self.lock = threading.Lock()
        self.running, self.wrong = [], []
        self.steps = open(f"{out}.steps", "w", buffering=1)

    def begin_step(self, what):
        self.step = what
        self.steps.write(f"{time.strftime('%H:%M:%S')} {what}\n")

    def start(self, name, command, environment, hear=lambda line: None):
        process = Process(self.out, name, command, environment, hear)
        self.running.append(process)
        return process

    def kill(self, process):
        self.begin_step(f"killing {process.name}")
        self.running.remove(process)
        process.end(signal.SIGKILL, LIMIT_S)

    def stop(self, process):
        """As SIGTERM has it stop, which Java ends with 143."""
        self.begin_step(f"stopping {process.name}")
        self.running.remove(process)
        self.expect(process.end(signal.SIGTERM, LIMIT_S), 128 + signal.SIGTERM, f"exit code of {process.name}")

    def close(self):
        while self.running:
            self.kill(self.running[-1])
        self.steps.close()

    def offsets(self, topic, partitions, spec):
        # A client of its own each time: it goes by the leader epochs that it has seen once, whatever has become of them.
        admin = AdminClient({"bootstrap.servers": self.feed.bootstrap, "log_level": 0})
        asked = {TopicPartition(topic, partition): spec for partition in range(partitions)}
        return [answer.result(LIMIT_S).offset for answer in admin.list_offsets(asked).values()]

    def wait(self, what, lacks):
        """Until `lacks` has nothing to say: it tells, in words, what is not yet as it should be."""
        self.begin_step(what)
        deadline = time.monotonic() + LIMIT_S
        while lack := lacks():
            if self.wrong:
                break
            if gone := [process.name for process in self.running if process.process.poll() is not None]:
                raise AssertionError(f"{', '.join(gone)} ended by itself")
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {LIMIT_S} s: {lack}")
            time.sleep(LOOK_S)
        if self.wrong:
            raise AssertionError("; ".join(self.wrong[:3]))

    def expect(self, got, wanted, what):
        if got != wanted:
            raise AssertionError(f"{what}: wanted {wanted}, got {got}")
