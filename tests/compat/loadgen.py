#!/usr/bin/env python3
"""The load generator against real Apache Kafka and against the broker under test: the same binary, the same workloads, and
what it verifies holds on both.

usage: tests/compat/loadgen.py PEER...   BOOTSTRAP in the environment is the broker under test; unless PEER is --kafka, real Apache
                                         Kafka is started beside it
"""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "scripts/peers"
LOADGEN = os.environ.get("LOADGEN") or str(ROOT / "target/release/tidemill-loadgen")
RUN = os.environ.get("RUN", f"c{os.getpid()}")
LIMIT_S = 60  # for one run
SHORT = ["--rate", "2000", "--warm-up", "500ms", "--duration", "1s", "--record-bytes", "200"]
# What each is for, and its options.
WORKLOADS = {
    "idempotent, in batches": ["--partitions", "6"],
    "lz4, acks=1, two consumers": ["--partitions", "6", "--compression", "lz4", "--acks", "1", "--consumers", "2"],
    "zstd, compressible, sizes by weight": ["--compression", "zstd", "--payload", "ratio:4", "--record-bytes", "100:9,10KiB:1"],
    "gzip": ["--compression", "gzip", "--partitions", "2"],
    "snappy": ["--compression", "snappy", "--partitions", "2"],
    "zipf keys, unbatched, two threads": ["--keys", "zipf", "--batch-bytes", "1", "--partitions", "20", "--producers", "4",
                                          "--threads", "2", "--consumers", "2"],
    "three topics, no idempotence": ["--topics", "3", "--partitions", "4", "--idempotence", "false"],
    "acks=0": ["--acks", "0", "--idempotence", "false"],
    "a reader from the start, a deletion": ["--prefill", "8MB", "--catch-up-readers", "1", "--delete-at", "500ms",
                                            "--partitions", "2"],
    "a stepped rate": ["--rate", "1k@700ms,3k"],
    "two groups, members that leave": ["--groups", "2", "--members", "3", "--partitions", "6", "--churn", "leave",
                                       "--churn-interval", "400ms", "--churn-away", "100ms", "--heartbeat-interval", "200ms",
                                       "--commit-interval", "100ms"],
    "a group, members that are killed and leave": ["--groups", "1", "--members", "3", "--partitions", "6", "--churn", "kill,leave",
                                                   "--churn-interval", "400ms", "--churn-away", "100ms", "--session-timeout", "6s",
                                                   "--heartbeat-interval", "200ms", "--commit-interval", "100ms", "--duration", "2s"],
    "a group of static members, restarted": ["--groups", "1", "--members", "3", "--partitions", "6", "--static-members", "true",
                                             "--churn", "restart", "--churn-interval", "300ms", "--churn-away", "100ms",
                                             "--heartbeat-interval", "200ms", "--commit-interval", "100ms"],
    "a group of the protocol consumer": ["--groups", "1", "--members", "2", "--partitions", "6", "--group-protocol", "consumer",
                                         "--churn", "leave", "--churn-interval", "500ms", "--commit-interval", "100ms"],
}  # fmt: skip
MEASURED = ("produce", "consume", "end_to_end")
KINDS = ("lost", "duplicated", "reordered", "corrupted", "unexpected", "regressed")


def measure(bootstrap, topic, options):
    """A run's exit code and report."""
    command = [LOADGEN, "run", "--bootstrap", bootstrap, "--topic", topic, "--output", "json", *SHORT, *options]
    done = subprocess.run(drop_repeated(command), capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return json.loads(done.stdout)


def drop_repeated(command):
    """An option that is given twice counts as it was given last."""
    head, options = command[:2], command[2:]
    pairs = dict(zip(options[::2], options[1::2]))
    return head + [word for pair in pairs.items() for word in pair]


def judge(report, options):
    verified, rate = report["verified"], report["rate"]
    readers = int(options[options.index("--groups") + 1]) if "--groups" in options else 1
    wrong = {kind: verified[kind] for kind in KINDS if verified[kind]}
    assert verified["enabled"] and not wrong, f"{wrong} {verified['findings'][:3]}"
    assert not report["errors"]["failed_records"], report["errors"]
    assert verified["delivered"] >= rate["acknowledged"] > 0, (verified, rate)
    if "--acks" not in options or options[options.index("--acks") + 1] != "0":
        assert verified["acknowledged"] + verified["redelivered"] == verified["delivered"], verified
        counts = {name: report[name]["count"] for name in MEASURED}
        expected = {"produce": rate["acknowledged"], "consume": readers * rate["acknowledged"], "end_to_end": readers * rate["acknowledged"]}
        assert counts == expected, (counts, rate)
    for name in MEASURED:
        latency = report[name]
        assert 0 <= latency["min_us"] <= latency["p50_us"] <= latency["p99_us"] <= latency["max_us"], latency
    if "--groups" in options:
        judge_groups(report["groups"], options)
    for reader in report["catch_up"]:
        assert reader["bytes"] > 0, reader


def judge_groups(groups, options):
    """Members went as they were to, and others have what they had; a static one that is restarted keeps it."""
    churn = options[options.index("--churn") + 1].split(",")
    gone = {way: groups[field] for way, field in (("leave", "left"), ("kill", "killed"), ("restart", "restarted"))}
    assert {way for way, times in gone.items() if times} == set(churn), (churn, groups)
    assert groups["join"]["count"] > groups["groups"] * groups["members"] and groups["commits"] > 0, groups
    # Under the other protocol the broker says how often members are heard of: every five seconds on Kafka, of which the run has one. Who stays need not
    # have learnt by then that somebody left, and what he had is there when he comes back.
    if groups["protocol"] == "classic":
        assert (groups["partitions_moved"] == 0) == (churn == ["restart"]), groups


def start_kafka():
    done = subprocess.run([PEERS / "kafka", "start"], stdout=subprocess.PIPE, text=True, check=True)
    ready = dict(re.findall(r"(\w+)=(\S+)", done.stdout))
    return ready["kafka"], ready["dir"]


def main(peer):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    brokers, folder, failed = {peer[0].lstrip("-"): os.environ["BOOTSTRAP"]}, None, False
    try:
        if peer[0] == "--tidemill":
            brokers["kafka"], folder = start_kafka()
        for number, (title, options) in enumerate(WORKLOADS.items()):
            for broker, bootstrap in brokers.items():
                start, error = time.monotonic(), None
                try:
                    judge(measure(bootstrap, f"{RUN}-loadgen-{number}", options), options)
                except (AssertionError, subprocess.TimeoutExpired) as caught:
                    error, failed = caught, True
                word = "FAIL" if error else "ok"
                said = f": {error}" if error else ""
                print(f"{word:4} {'tidemill-loadgen':16} {time.monotonic() - start:6.2f} s  {title}, on {broker}{said}", flush=True)
    finally:
        if folder:
            subprocess.run([PEERS / "kafka", "remove", folder], check=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["broker"]))
