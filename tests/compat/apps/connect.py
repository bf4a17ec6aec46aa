"""Two workers of a Connect cluster: a connector reads lines from a file into a topic, another writes them to a file."""
import contextlib
import json
import random
import socket
import urllib.error
import urllib.request
from pathlib import Path

from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType
from kafka import KafkaAdminClient
from life import JAVA, LIMIT_S, Life

COMPAT = Path(__file__).resolve().parents[3] / "target/compat"
COMMAND = [*JAVA, "-cp", f"{COMPAT}/connect/jars/*", "org.apache.kafka.connect.cli.ConnectDistributed"]
LINES_EACH = 5  # how many are written at a time
SOURCE, SINK = "source", "sink"
TOPICS = {"config": 1, "offset": 3, "status": 2}  # of the cluster itself, with their partitions
WORKER = """\
bootstrap.servers={bootstrap}
group.id={name}
listeners=http://127.0.0.1:{port}
plugin.path={plugins}
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic={name}.config
offset.storage.topic={name}.offset
status.storage.topic={name}.status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=3
status.storage.partitions=2
offset.flush.interval.ms=300
offset.flush.timeout.ms=1000
session.timeout.ms=6000
heartbeat.interval.ms=500
scheduled.rebalance.max.delay.ms=0
consumer.session.timeout.ms=6000
consumer.heartbeat.interval.ms=500
"""


def free_ports(count):
    """Below those that connections and servers with port 0 are given, so that they stay free until they are used."""
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = set()
    while len(ports) < count:
        port = random.randrange(below // 2, below)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return sorted(ports)


class Connect(Life):
    def __init__(self, name, feed, out):
        super().__init__(name, feed, out)
        self.ports = dict(zip("abc", free_ports(3)))  # of the workers, by their names
        self.workers = {}  # those that run
        self.owners = {}  # of each connector and each task, the worker that runs it, as last seen
        self.source, self.sink = Path(f"{out}.source"), Path(f"{out}.sink")
        self.topic = f"{name}.lines"
        self.admin = AdminClient({"bootstrap.servers": feed.bootstrap, "log_level": 0})
        self.written = 0
        self.committed = []  # so many lines were committed when so many had arrived

    def begin(self):
        self.source.write_text("")
        self.feed.begin(self)

    def close(self):
        self.feed.end(self)
        super().close()

    # What is written and read.

    def write(self, _producer, _number):
        with self.lock, open(self.source, "a") as file:
            file.write("".join(f"line {self.written + i}\n" for i in range(LINES_EACH)))
            self.written += LINES_EACH

    def arrived(self):
        return self.sink.read_text().splitlines() if self.sink.exists() else []

    # What is done with the workers and connectors.

    def launch(self, worker):
        settings = Path(f"{self.out}.{worker}.properties")
        settings.write_text(WORKER.format(bootstrap=self.feed.bootstrap, name=self.name, port=self.ports[worker],
                                          plugins=COMPAT / "connect/plugins"))  # fmt: skip
        self.workers[worker] = self.start(worker, [*COMMAND, str(settings)], {})

    def kill_worker(self, worker):
        self.kill(self.workers.pop(worker))

    def stop_worker(self, worker):
        self.stop(self.workers.pop(worker))

    def ask(self, worker, method, path, body=None):
        """What the worker answers; nothing while it can't."""
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.ports[worker]}{path}"
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            # 409 while the workers share out anew, 500 and 503 while one can't reach what it needs, 404 before there is any.
            if error.code not in (404, 409, 500, 503):
                self.wrong.append(f"{method} {path} is answered {error.code} {error.read().decode()}")
        except OSError:
            pass
        return None

    def create(self, worker, name, settings):
        self.wait(f"creating the {name}",
                  lambda: not self.ask(worker, "PUT", f"/connectors/{name}/config", settings) and "no answer")  # fmt: skip

    def create_connectors(self):
        """Over one worker and the other: only one of them leads, the other passes it on."""
        connector = "org.apache.kafka.connect.file.FileStream"
        source = {"connector.class": f"{connector}SourceConnector", "file": str(self.source), "topic": self.topic}
        source |= {f"topic.creation.default.{what}": 1 for what in ("partitions", "replication.factor")}
        sink = {"connector.class": f"{connector}SinkConnector", "file": str(self.sink), "topics": self.topic}
        self.create("a", SOURCE, source)
        self.create("b", SINK, sink)

    # What is waited for, and compared.

    def told(self):
        arrived = self.arrived()
        return f"{self.written} lines, {len(arrived) - len(set(arrived))} of them again"

    def find_owners(self):
        """Of each connector and each task, the worker that runs it, as the workers tell; None for what does not run."""
        owners, names = {}, {f"127.0.0.1:{port}": worker for worker, port in self.ports.items()}
        told = self.ask(min(self.workers), "GET", "/connectors?expand=status") or {}
        for name, status in ((name, connector["status"]) for name, connector in told.items()):
            for what, at in [(name, status["connector"]), *((f"{name}-{task['id']}", task) for task in status["tasks"])]:
                owners[what] = names[at["worker_id"]] if at["state"] == "RUNNING" else None
        return owners

    def settle(self, what):
        """Until these workers alone run all, each its share, and what was written since has arrived and is committed."""

        def shares():
            self.owners = self.find_owners()
            is_all = sorted(self.owners) == sorted([SOURCE, f"{SOURCE}-0", SINK, f"{SINK}-0"])
            return not (is_all and set(self.owners.values()) == set(self.workers)) and f"the workers run {self.owners}"

        self.wait(f"{what}, shares", shares)
        with self.lock:
            mark, size = self.written, self.source.stat().st_size
        self.expect(mark > 0, True, "whether there are lines")
        wanted = {f"line {number}" for number in range(mark)}

        def lines():
            missing = wanted - set(self.arrived())
            return missing and f"{len(missing)} lines have not arrived, {min(missing)} among them"

        self.wait(f"{what}, lines", lines)
        self.await_committed(SOURCE, "position", size)
        self.await_committed(SINK, "kafka_offset", self.offsets(self.topic, 1, OffsetSpec.latest())[0])
        self.committed.append((mark, len(self.arrived())))
        self.begin_step(self.told())

    def await_committed(self, name, unit, wanted):
        def lacks():
            told = self.ask(min(self.workers), "GET", f"/connectors/{name}/offsets") or {"offsets": []}
            got = [at["offset"][unit] for at in told["offsets"] if at["offset"]]
            return max(got, default=-1) < wanted and f"the {name} has committed {got}, wanted {wanted}"

        self.wait(f"commits of the {name}", lacks)

    def expect_order(self):
        """The lines, each when it first arrived, are those that were written; what was committed has not come again."""
        arrived = self.arrived()
        first = list(dict.fromkeys(arrived))
        for number, line in enumerate(first):
            self.expect(line, f"line {number}", f"line {number} that arrived")
        self.expect(len(first), self.written, "lines that arrived")
        for mark, at in self.committed:
            again = [line for line in arrived[at:] if int(line.removeprefix("line ")) < mark]
            self.expect(again[:3], [], f"lines that came again, though {mark} were committed")

    def expect_topics(self):
        for name, partitions in TOPICS.items():
            topic = f"{self.name}.{name}"
            found = self.admin.list_topics(topic, LIMIT_S).topics[topic].partitions
            self.expect(len(found), partitions, f"partitions of {topic}")
            [answer] = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
            self.expect(answer.result(LIMIT_S)["cleanup.policy"].value, "compact", f"cleanup.policy of {topic}")

    def await_group(self):
        """Until the workers are a group, of a kind and with words of its members that only they understand."""
        admin = KafkaAdminClient(bootstrap_servers=self.feed.bootstrap)
        urls = {f"http://127.0.0.1:{self.ports[worker]}/".encode() for worker in self.workers}
        wanted = ("Stable", "connect", "sessioned", len(urls), urls)

        def lacks():
            # Its own `describe_groups` takes all members for consumers.
            [group] = admin._manager.run(admin._manager.send, admin._describe_groups_request([self.name])).groups
            told = {url for url in urls for member in group.members if url in member.member_metadata}
            got = (group.group_state, group.protocol_type, group.protocol_data, len(group.members), told)
            return got != wanted and f"wanted {wanted}, got {got}"

        self.wait("the group of workers", lacks)
        admin.close()


def broker_and_workers_killed(app, restart):
    """The broker is killed, then a worker, and another starts; last a worker whose share is for the other to take over."""
    app.begin()
    app.launch("a")
    app.launch("b")
    app.create_connectors()
    app.settle("two workers")
    app.expect_topics()
    app.await_group()
    restart()
    app.settle("the broker killed")
    app.kill_worker(app.owners[f"{SOURCE}-0"])
    app.launch("c")
    app.settle("the source's worker killed, and started again")
    app.kill_worker(app.owners[f"{SINK}-0"])
    app.settle("the sink's worker killed")
    app.feed.end(app)
    app.settle("the last lines")
    app.expect_order()
    for worker in list(app.workers):
        app.stop_worker(worker)
