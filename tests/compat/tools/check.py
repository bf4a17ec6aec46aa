#!/usr/bin/env python3
"""Runs Kafka's own command line tools on a fresh broker, and compares what they print with what they print on Kafka.

usage: tests/compat/tools/check.py [LIST] --tidemill BINARY [SHOW]   compares with recorded.txt, but for differences.toml
       tests/compat/tools/check.py [LIST] --kafka [SHOW]             the same with real Apache Kafka: nothing may differ
       tests/compat/tools/check.py [LIST] --record                   runs real Apache Kafka and writes recorded.txt anew

LIST: groups, for the commands of that folder; otherwise those of this one.
SHOW, a regular expression: also prints the transcript of the commands that it matches.
"""
import difflib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PEERS = ROOT / "scripts/peers"
JAVA = [
    "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
    # The tools log to standard error what went wrong in them; their clients, what they try again.
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.tools=error",
    "-Dorg.slf4j.simpleLogger.showThreadName=false", "-Dorg.slf4j.simpleLogger.showShortLogName=true",
    "-cp", f"{ROOT}/target/compat/java/classes:{ROOT}/target/peers/kafka-jars/*", "compat.Tools",
]  # fmt: skip
CLASSES = {
    "kafka-topics": "TopicCommand",
    "kafka-configs": "ConfigCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-log-dirs": "LogDirsCommand",
    "kafka-features": "FeatureCommand",
    "kafka-consumer-groups": "consumer.group.ConsumerGroupCommand",
    "kafka-groups": "GroupsCommand",
    "kafka-console-consumer": "consumer.ConsoleConsumer",
    "client-compatibility": "ClientCompatibilityTest",
}
# Kafka answers a change before its own broker knows of it, so the next command waits. Tidemill is given no such time.
CHANGES = re.compile(r"--(create|alter|delete|offset-json-file|execute)\b|^(produce|join|leave) ")
SETTLE_S = 0.5
LIMIT_S = 240  # for all of it: within what tests/compat/run gives it, so that nothing stays behind


class Host:
    """The one JVM in which all tools run (compat.Tools), in a folder of its own."""

    def __init__(self, bootstrap, folder):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(JAVA, **pipes, cwd=folder, env=os.environ | {"BOOTSTRAP": bootstrap})

    def run(self, *words):
        """Exit code, standard output, standard error."""
        self.process.stdin.write("\t".join(words).encode() + b"\n")
        self.process.stdin.flush()
        head = self.process.stdout.readline()
        if not head:
            sys.exit(f"the JVM of the tools ended while it ran {shlex.join(words)}")
        code, *sizes = map(int, head.split())
        return code, *(self.process.stdout.read(size).decode() for size in sizes)

    def close(self):
        self.process.kill()
        self.process.wait()


class Peer:
    """A broker that starts empty."""

    def __init__(self, arguments):
        self.is_kafka = arguments[0] != "--tidemill"
        self.driver = PEERS / ("kafka" if self.is_kafka else "tidemill")
        options = ["start"] if self.is_kafka else ["start", arguments[1], "--shards", "2"]
        started = subprocess.run([self.driver, *options], stdout=subprocess.PIPE, text=True)
        if started.returncode:
            sys.exit("the broker did not start")
        ready = dict(re.findall(r"(\w+)=(\S+)", started.stdout))
        self.bootstrap, self.folder = ready["kafka"], Path(ready["dir"])

    def remove(self):
        subprocess.run([self.driver, "remove", self.folder], check=True)


def by_line(text):
    """kafka-log-dirs prints one line of JSON, in no order: a line for each replica, in order, its size in it."""
    start = text.find('{"')
    if start < 0:
        return text
    head, brokers = text[:start], json.loads(text[start:])["brokers"]
    lines = []
    for broker in sorted(brokers, key=lambda broker: broker["broker"]):
        for log_dir in broker.pop("logDirs"):
            replicas = sorted(log_dir.pop("partitions"), key=lambda replica: replica["partition"])
            lines += [f"{broker} {log_dir}", *map(str, replicas)]
    return head + "\n".join(lines)


def in_order(text):
    """Topics come in the order of a hash table, settings in that of the answer: both in the order of their names."""
    topic, lines = "", []
    for line in text.splitlines(keepends=True):
        head = re.match(r"\t?Topic: (\S+)|Dynamic configs for topic (\S+) are:", line)
        topic = head[1] or head[2] if head else topic
        lines.append((topic, line))
    text = "".join(line for _, line in sorted(lines, key=lambda keyed: keyed[0]))
    text = re.sub(r"(?<=\tConfigs: )\S+", lambda found: ",".join(sorted(split_settings(found[0]))), text)
    return re.sub(r"(?m)(^  [\w.$-]+=.*\n)+", lambda found: "".join(sorted(found[0].splitlines(True))), text)


def rows_in_order(text):
    """Rows of tables come in the order of hash tables: in that of their text, but for each table's head."""
    tables = [table.split("\n") for table in text.split("\n\n")]
    for table in tables:
        start = next((i + 1 for i, line in enumerate(table) if re.match("(GROUP|TOPIC) ", line)), 0)
        table[start:] = sorted(table[start:], key=lambda row: (row == "", row))
    return "\n\n".join("\n".join(table) for table in tables)


def by_record(text):
    """Records as JSON, with nothing between them: one on a line. What is deleted at once is in no order."""
    text = text.replace('}{"key":', '}\n{"key":')
    return re.sub(r"(?m)(^.*\"value\":null}\n?)+", lambda found: "\n".join(sorted(found[0].splitlines())), text)


ORDERS = {"kafka-console-consumer": by_record, "kafka-log-dirs": by_line, "kafka-consumer-groups": rows_in_order, "kafka-groups": rows_in_order}


def split_settings(text):
    """At the commas before a name, not at those within a value."""
    return re.split(r",(?=[\w.]+=)", text)


def rules(peer):
    """What can't be the same on two brokers, and what stands for it in the transcript."""
    return [
        (re.escape(peer.bootstrap), "HOST:PORT"),
        (r"(?<=CONTROLLER://127.0.0.1:)\d+|(?<=controller.quorum.voters=1@127.0.0.1:)\d+", "PORT"),
        (re.escape(str(peer.folder)), "FOLDER"),
        (r"(?<=TopicId: )\S{22}", "ID"),
        (r"\b[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\b", "UUID"),  # of a member
        (r'(?<=[tT]imestamp":)[1-9]\d*', "N"),  # in a record of a group
        (r'(?<="topicId":")[^"]+', "ID"),
        (r"(?<= Epoch: )\d+", "N"),  # of features: a place in the metadata log
        (r"(?m)^\s+at .*\n|^\s+\.\.\. \d+ more\n", ""),  # a stack trace: where in the tool, not what
        # Where the client's last try was when it gave up: two wordings of one error.
        (r"Timed out waiting for a node assignment\. .*|Call\(.* timed out at \d+ after \d+ attempt\(s\)", "TIMED OUT"),
        (r"(?m)[ \t]+$", ""),
    ]


def transcript(tool, code, out, err, peer):
    """What a command did, as lines of text."""
    out = ORDERS.get(tool, in_order)(out)
    for pattern, stands in rules(peer):
        out, err = re.sub(pattern, stands, out), re.sub(pattern, stands, err)
    lines = out.splitlines() + [f"2> {line}" for line in err.splitlines() if line]
    return lines + ([f"[{code}]"] if code else [])


def commands(folder):
    lines = (folder / "commands.txt").read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def recorded(folder):
    """The commands with their lines, in order."""
    found = []
    for line in (folder / "recorded.txt").read_text().splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif not line.startswith("#"):
            found[-1][1].append(line)
    return found


class Session:
    """Runs commands on a peer."""

    def __init__(self, peer, host, folder):
        self.peer, self.host, self.folder, self.topic_ids = peer, host, folder, {}

    def run(self, command):
        """The lines of its transcript."""
        tool, *words = command.split(" ")
        if tool == "file":
            name, content = words[0], " ".join(words[1:])
            (self.folder / name).write_text(content.replace("\\n", "\n") + "\n")
            return []
        words = [self.filled(word) for word in words]
        if tool in ("produce", "join", "leave"):
            answer = self.host.run(tool, *words)
        else:
            bootstrap = ["--bootstrap-server", self.peer.bootstrap]
            words = bootstrap + words if tool == "kafka-features" else words + bootstrap
            answer = self.host.run(f"org.apache.kafka.tools.{CLASSES[tool]}", *words)
        self.topic_ids |= re.findall(r"Topic: (\S+)\tTopicId: (\S+)", answer[1])
        if self.peer.is_kafka and CHANGES.search(command):
            time.sleep(SETTLE_S)
        return transcript(tool, *answer, self.peer)

    def filled(self, word):
        acls = "true" if self.peer.is_kafka else "false"  # DescribeAcls is not served yet
        word = word.replace("{acls}", acls)
        return re.sub(r"\{id:(.+)\}", lambda found: self.topic_ids[found[1]], word)


def pattern(text):
    """Of a text in which * stands for anything."""
    return re.compile(".*".join(map(re.escape, text.split("*"))))


class Difference:
    """One that stands, and how much of it was met: all of it has to be."""

    def __init__(self, why, commands, lines=(), words=()):
        self.why = why
        self.commands = {text: pattern(text) for text in commands}
        self.lines = {text: pattern(text) for text in lines}
        self.words = [tuple(pair) for pair in words]  # in turn: a later one sees what an earlier one left
        self.unmet = {*commands, *lines, *self.words}

    def is_of(self, command):
        return any(pattern.fullmatch(command) for pattern in self.commands.values())

    def met(self, what, command):
        self.unmet -= {what, *(text for text, pattern in self.commands.items() if pattern.fullmatch(command))}

    def reworded(self, line, command):
        """A line of Kafka's, as it is here."""
        for theirs, ours in self.words:
            if theirs in line:
                line = line.replace(theirs, ours)
                self.met((theirs, ours), command)
        return line

    def lists(self, line, command):
        found = [text for text, pattern in self.lines.items() if pattern.fullmatch(line)]
        for text in found:
            self.met(text, command)
        return bool(found)


def unlisted(differences, command, wanted, got):
    """The lines that differ for no reason that is known."""
    known = [difference for difference in differences if difference.is_of(command)]
    for difference in known:
        wanted = [difference.reworded(line, command) for line in wanted]
    found = [f"{line[0]}{line[2:]}" for line in difflib.ndiff(wanted, got) if line[0] in "-+"]
    # Each entry is asked, so that each learns what of it was met.
    return [line for line in found if not any([difference.lists(line, command) for difference in known])]


def report(ok, started, tool, title, lines=()):
    """Prints a line as the other clients do, and what is wrong below it; returns whether anything is."""
    word, seconds = "ok" if ok else "FAIL", time.monotonic() - started
    print(f"{word:4} {tool:20} {seconds:6.2f} s  {title}", *lines, sep="\n     ", flush=True)
    return not ok


def compare(session, folder, show):
    """Prints a line for each command; returns how many failed."""
    wanted, failed = recorded(folder), 0
    if [command for command, _ in wanted] != commands(folder):
        sys.exit("recorded.txt is not of these commands: record it anew")
    entries = tomllib.loads((folder / "differences.toml").read_text())["difference"]
    differences = [] if session.peer.is_kafka else [Difference(**entry) for entry in entries]
    for command, lines in wanted:
        started = time.monotonic()
        got = session.run(command)
        if show and re.search(show, command):
            print(f"$ {command}", *got, sep="\n")
        rest = unlisted(differences, command, lines, got)
        tool, _, title = command.partition(" ")
        if rest or tool in CLASSES:
            failed += report(not rest, started, tool, title, rest)
    for difference in differences:
        if difference.unmet:
            title = f"differences.toml: no longer so: {difference.why}"
            failed += report(False, time.monotonic(), "kafka-tools", title, map(str, difference.unmet))
    return failed


def record(session, folder):
    text = ["# What Kafka's tools print on Apache Kafka 4.4. Written by check.py --record; do not edit."]
    for command in commands(folder):
        text += [f"$ {command}", *session.run(command)]
    (folder / "recorded.txt").write_text("\n".join(text) + "\n")
    return 0


def main(arguments):
    folder = HERE / "groups" if arguments[:1] == ["groups"] else HERE
    arguments = arguments[folder != HERE :]
    if not arguments or arguments[0] not in ("--tidemill", "--kafka", "--record"):
        sys.exit(__doc__)
    show = arguments[2:] if arguments[0] == "--tidemill" else arguments[1:]
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"the tools did not end within {LIMIT_S} s"))
    signal.alarm(LIMIT_S)
    peer = Peer(arguments)
    with tempfile.TemporaryDirectory(prefix="tidemill-tools.") as scratch:
        host = Host(peer.bootstrap, scratch)
        try:
            session = Session(peer, host, Path(scratch))
            failed = record(session, folder) if arguments[0] == "--record" else compare(session, folder, "".join(show))
        finally:
            host.close()
            peer.remove()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
