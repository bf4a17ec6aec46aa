#!/usr/bin/env python3
"""Runs librdkafka's own tests, those of passes.txt, against a broker: one line for each.

usage: tests/compat/rdkafka/check.py --tidemill BINARY [--all] [NAME...]    the quick ones; --all: the slow ones, too
       tests/compat/rdkafka/check.py --kafka [--all] [NAME...]              the same on real Apache Kafka
       tests/compat/rdkafka/check.py --lists                                only whether the lists are sound

NAME: those whose names begin so, slow ones among them.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import build

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PEERS = ROOT / "scripts/peers"
OUT = ROOT / "target/compat/rdkafka"
PROTOCOLS = ("classic", "consumer")
SLOTS = 8  # test-runners at once: they wait for most of their time
LIMIT_QUICK_S, LIMIT_ALL_S = 240, 1800  # for all of it
PASSES_MIN = 213  # lines of passes.txt: it grows, and this with it
# What no release has delivered: a finding may await nothing else. What is delivered is taken off, and its findings must go.
AWAITED = {"transactions", "sasl", "tls", "acls", "replication", "broker-settings"}
# Or it is no matter of this broker: run without one; fails or skips itself on Kafka 4.4 as well; asks for the way Kafka does it, not for what;
# goes wrong in the client, as the broker's answers happen to come.
CAUSES = {"no-broker", "as-on-kafka", "in-steps", "client"}


@dataclass(frozen=True)
class Entry:
    """A line of passes.txt: a test, or some of its parts, under one protocol of groups, or any where it has none."""

    test: str
    parts: str  # its sub-tests whose titles have this in them
    protocol: str
    is_slow: bool
    seconds: int  # it took, when it was recorded

    @property
    def name(self):
        return f"{self.test}/{self.parts}" if self.parts else self.test


def suite(source):
    """The scenario of every test that test.c lists, by name: what the broker is to be set to."""
    table = source[source.index("struct test tests[] = {") :]
    found = {}
    for row in table[: table.index("{NULL}}")].split("_TEST(")[1:]:
        scenario = re.search(r'scenario = "(\w+)', row)
        found[re.match(r"\w+", row)[0]] = scenario[1] if scenario else "default"
    return found


def passes():
    entries = []
    for line in (HERE / "passes.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, protocol, tier, seconds = re.split(r"\s{2,}|\t", line.strip())
            test, _, parts = name.partition("/")
            entries.append(Entry(test, parts, protocol, tier == "slow", int(seconds)))
    return entries


def findings():
    return tomllib.loads((HERE / "findings.toml").read_text())["finding"]


def faults(entries, found, tests):
    """What is wrong with the lists."""
    if len(entries) < PASSES_MIN:
        yield f"passes.txt has {len(entries)} lines, where it had {PASSES_MIN}: it never shrinks"
    for name, count in {entry: entries.count(entry) for entry in entries}.items():
        if count > 1:
            yield f"twice in passes.txt: {name}"
    for finding in found:
        awaits, cause = finding.get("awaits"), finding.get("cause")
        if (awaits is None) == (cause is None) or awaits not in {None, *AWAITED} or cause not in {None, *CAUSES}:
            yield f"a finding awaits one of {sorted(AWAITED)}, or has one of the causes {sorted(CAUSES)}: {finding}"
        if len(finding.get("reason", "")) < 20:
            yield f"a finding without a reason: {finding}"
    passing, failing = set(), set()
    for entry in entries:
        protocols = PROTOCOLS if entry.protocol == "any" else (entry.protocol,)
        passing |= {(entry.test, entry.parts, protocol) for protocol in protocols}
    for finding in found:
        for name in finding["tests"]:
            test, _, parts = name.partition("/")
            failing |= {(test, parts, protocol) for protocol in finding.get("protocols", PROTOCOLS)}
    for test, parts, protocol in sorted(passing & failing):
        yield f"both in passes.txt and findings.toml: {test} {parts} {protocol}"
    listed = {(test, protocol) for test, _, protocol in passing | failing}
    wanted = {(test, protocol) for test in tests for protocol in PROTOCOLS}
    for test, protocol in sorted(wanted ^ listed):
        state = "neither in passes.txt nor in findings.toml" if test in tests else "no test of the suite"
        yield f"{state}: {test} {protocol}"


def start(peer, creates_topics):
    """A broker that starts empty; returns its address, its folder and what drives it."""
    word = "true" if creates_topics else "false"
    if peer[0] == "--kafka":
        settings = ["num.partitions=4", f"auto.create.topics.enable={word}", "group.initial.rebalance.delay.ms=500"]
        command = [PEERS / "kafka", "start", *(part for setting in settings for part in ("--set", setting))]
    else:
        config = OUT / f"tidemill-{word}.toml"
        settings = ["num-partitions = 4", f"auto-create-topics = {word}", "group-initial-rebalance-delay-ms = 500"]
        # Kafka's interval: a batch without timestamps is of 1970 by the largest one that librdkafka gives it, and retention takes it when it next looks.
        settings.append("retention-check-interval-ms = 300000")
        config.write_text("\n".join(settings) + "\n")
        command = [PEERS / "tidemill", "start", peer[1], "--shards", "2", "--config", config]
    started = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if started.returncode:
        sys.exit("a broker did not start")
    ready = dict(re.findall(r"(\w+)=(\S+)", started.stdout))
    return ready["kafka"], ready["dir"], command[0]


class Brokers:
    """One for each protocol, as a test subscribes to the topics that it has itself under another; and one that creates no topics."""

    def __init__(self, peer):
        self.peer, self.started, self.lock = peer, {}, threading.Lock()

    def address(self, scenario, protocol):
        key = scenario if scenario == "noautocreate" else protocol
        with self.lock:
            if key not in self.started:
                self.started[key] = start(self.peer, scenario != "noautocreate")
            return self.started[key][0]

    def remove(self):
        for _, folder, driver in self.started.values():
            subprocess.run([driver, "remove", folder], check=True)


class Runner:
    """Runs test-runner, each time in a folder of its own."""

    def __init__(self, brokers, skips):
        self.brokers, self.skips, self.built = brokers, skips, build.folder()
        self.running, self.over, self.lock = set(), False, threading.Lock()
        # What they look for beside their folder, and what some create topics with: Kafka's own tool.
        tool = OUT / "kafka/bin/kafka-topics.sh"
        tool.parent.mkdir(parents=True)
        (OUT / "src").mkdir()
        shutil.copy(self.built / "statistics_schema.json", OUT / "src")
        tool.write_text(f'#!/bin/sh\nexec {PEERS}/kafka tool TopicCommand "$@"\n')
        tool.chmod(0o755)

    def run(self, number, parts, scenario, protocol, seconds):
        """Its report by test, how many sub-tests passed, the code and the log."""
        words = [number, scenario, protocol, re.sub(r"\W+", "-", parts)]
        folder = OUT / "-".join(filter(None, words))
        folder.mkdir()
        address = self.brokers.address(scenario, protocol)
        settings = [f"bootstrap.servers={address}", "broker.address.family=v4", "test.timeout.multiplier=3"]
        (folder / "test.conf").write_text("\n".join(settings) + "\n")
        environment = os.environ | {
            "TESTS": number, "TEST_SCENARIO": scenario, "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
            "TEST_KAFKA_VERSION": "4.4.0", "TEST_REPORT": "report.json", "LD_LIBRARY_PATH": str(self.built),
            "KAFKA_PATH": str(OUT / "kafka"), "BROKERS": address,
        } | ({"SUBTESTS": parts} if parts else {})  # fmt: skip
        log = folder / "log"
        with open(log, "w") as out:
            with self.lock:
                if self.over:
                    return {}, 0, "it was not begun in time", log
                process = subprocess.Popen([self.built / "test-runner", "-p1", "-L", "-K"], cwd=folder, env=environment,
                                           stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)  # fmt: skip
                self.running.add(process)
            try:
                code = process.wait(max(90, 4 * seconds))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = f"{process.wait()}, killed after {max(90, 4 * seconds)} s"
        self.running.discard(process)
        text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
        log.write_text(text)
        report = folder / "report.json"
        tests = json.loads(report.read_text())["tests"] if report.exists() else {}
        unknown = [skip for skip in re.findall(r"\[ (.*: SKIP: .*) \]", text) if not any(known in skip for known in self.skips)]
        return tests, len(re.findall(r"\[ .*: PASS \(", text)), f"skips a part of itself: {unknown}" if unknown else code, log

    def stop(self):
        with self.lock:
            self.over = True
            for process in self.running:
                os.killpg(process.pid, signal.SIGKILL)


class Tally:
    def __init__(self):
        self.failed, self.lock = 0, threading.Lock()

    def line(self, ok, entry, seconds, told):
        protocol = "" if entry.protocol == "any" else f" ({entry.protocol})"
        with self.lock:
            self.failed += not ok
            print(f"{'ok' if ok else 'FAIL':4} {'librdkafka':16} {seconds:6.2f} s  {entry.name}{protocol}{told}", flush=True)


def run_group(runner, tally, scenario, group):
    """Entries that one test-runner answers for: tests of one number, or parts of one."""
    first, started = group[0], time.monotonic()
    protocol = "classic" if first.protocol == "any" else first.protocol
    seconds = sum(entry.seconds for entry in group)
    tests, parts, code, log = runner.run(first.test[:4], first.parts, scenario, protocol, seconds)
    states = {name: report["state"] for name, report in tests.items()}
    # A test that is not ours to answer for may have failed beside it.
    listed = {entry.test for entry in group}
    is_sound = code == 0 or any(state == "FAILED" for name, state in states.items() if name not in {*listed, "<MAIN>"})
    for entry in group:
        state = states.get(entry.test, "not over")
        ok = is_sound and state == "PASSED" and (parts > 0 or not entry.parts)
        told = f": {parts} parts" if ok and parts else "" if ok else f": {state}, code {code}; see {log}"
        tally.line(ok, entry, time.monotonic() - started, told)


def groups(entries, tests):
    """The longest first."""
    found = {}
    for entry in entries:
        found.setdefault((tests[entry.test], entry.test[:4], entry.parts, entry.protocol), []).append(entry)
    return sorted(found.items(), key=lambda item: -sum(entry.seconds for entry in item[1]))


def work(queue, lock, runner, tally):
    while True:
        with lock:
            if not queue:
                return
            (scenario, *_), group = queue.pop(0)
        try:
            run_group(runner, tally, scenario, group)
        except Exception as error:  # a slot that ends in silence would be a test that passes
            for entry in group:
                tally.line(False, entry, 0, f": {type(error).__name__}: {error}")


def main(arguments):
    is_all, arguments = "--all" in arguments, [word for word in arguments if word != "--all"]
    if not arguments or arguments[0] not in ("--tidemill", "--kafka", "--lists"):
        sys.exit(__doc__)
    tests = suite((build.build() / "test.c").read_text())
    entries, found = passes(), findings()
    if wrong := list(faults(entries, found, tests)):
        print("FAIL librdkafka: the lists are not sound", *wrong, sep="\n     ")
        sys.exit(1)
    peer = arguments[: 2 if arguments[0] == "--tidemill" else 1]
    if arguments[0] == "--lists":
        return
    names = tuple(arguments[len(peer) :])
    chosen = [entry for entry in entries if entry.name.startswith(names or "") and (is_all or names or not entry.is_slow)]
    if not chosen:
        sys.exit("no such test in passes.txt")
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    brokers, tally, lock = Brokers(peer), Tally(), threading.Lock()
    runner = Runner(brokers, [skip for finding in found for skip in finding.get("skips", [])])
    timer = threading.Timer(LIMIT_ALL_S if is_all or names else LIMIT_QUICK_S, runner.stop)
    timer.start()
    try:
        queue = groups(chosen, tests)
        threads = [threading.Thread(target=work, args=(queue, lock, runner, tally)) for _ in range(SLOTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        timer.cancel()
        runner.stop()
        brokers.remove()
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
