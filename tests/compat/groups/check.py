#!/usr/bin/env python3
"""Consumer groups with real clients: for each, members come, go and are killed, the broker too, while records flow.

usage: BOOTSTRAP=HOST:PORT tests/compat/groups/check.py [NAME...]    those whose names begin so; all, if none is given

The environment's BROKER_RESTART may be a command that kills the broker with -9 and starts it again.
"""
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import translate
from restart import Restart, at_once
from scenario import Feed, Group, Program

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
COMPAT = ROOT / "target/compat"
OUT = COMPAT / "groups"
RUN = os.environ.get("RUN") or f"compat-{int(time.time())}"

JAVA = [
    "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=" + ("info" if os.environ.get("COMPAT_DEBUG") else "error"),
]  # fmt: skip
PROGRAMS = {
    "java": Program([*JAVA, "-cp", f"{COMPAT}/java/classes:{COMPAT}/java/jars/*", "compat.Member"]),
    "confluent-kafka": Program([sys.executable, str(HERE / "confluent_member.py")]),
    "kafka-python": Program([sys.executable, str(HERE / "kafka_python_member.py")]),
    "aiokafka": Program([sys.executable, str(HERE / "aiokafka_member.py")]),
    "kafkajs": Program(["node", str(HERE / "kafkajs/member.js")], {"NODE_PATH": f"{COMPAT}/kafkajs/node_modules"}),
    "franz-go": Program([str(COMPAT / "franz-go"), "member"]),
    "sarama": Program([str(COMPAT / "sarama")]),
    "kcat": Program(translate.KCAT, translate=translate.kcat, is_mixed=True, drops_when_stopped=True),
    "VerifiableConsumer": Program([*JAVA, "-cp", f"{ROOT}/target/peers/kafka-jars/*", *translate.VERIFIABLE],
                                  options=translate.VERIFIABLE_OPTIONS, translate=translate.verifiable),
}  # fmt: skip


@dataclass
class Variant:
    name: str
    programs: list  # of the members, in turn; five are started
    assignors: list  # likewise; "consumer" is the coordinator's own, by the protocol of KIP-848
    static: bool = False


def of(program, assignor, **more):
    return Variant(f"{program} {'static' if more else assignor}", [program], [assignor], **more)


VARIANTS = [
    of("java", "range"),
    of("java", "range", static=True),
    of("java", "cooperative"),
    of("confluent-kafka", "range"),
    of("confluent-kafka", "range", static=True),
    of("confluent-kafka", "cooperative"),
    of("kafka-python", "range"),
    of("kafka-python", "cooperative"),
    of("aiokafka", "range"),
    of("kafkajs", "roundrobin"),
    of("franz-go", "range"),
    of("franz-go", "cooperative"),
    of("sarama", "range"),
    of("kcat", "range"),
    of("VerifiableConsumer", "range"),
    of("java", "consumer"),
    of("confluent-kafka", "consumer"),
    of("franz-go", "consumer"),
    of("VerifiableConsumer", "consumer"),
    Variant("mixed range", ["sarama", "java", "confluent-kafka", "franz-go", "aiokafka"], ["range"]),
    # Members with the old protocol are joined by one with the new one, are gone, and one comes again when the rest have gone.
    Variant("mixed upgrade", ["java", "confluent-kafka", "java", "franz-go", "kafka-python"],
            ["range", "range", "consumer", "consumer", "range"]),
]  # fmt: skip


def live(group, restart):
    """A life of a group, which is to process all records whatever happens to its members."""
    a, b = group.start(), group.start()
    group.settle("two members", a, b)
    c = group.start()
    group.settle("a third", a, b, c)
    if group.static:
        a = restart_of_an_instance(group, a, b, c)
    else:
        group.kill(a)
        group.settle("one killed", b, c)
        a = None
    group.stop(b)
    rest = [member for member in (a, c) if member]
    group.settle("one stopped", *rest)
    rest.append(group.start())
    group.settle("another", *rest)
    restart()
    group.settle("the broker killed", *rest)
    while rest:
        group.stop(rest.pop())
        if rest:
            group.settle("one after the other stopped", *rest)
    group.expect_committed("after a clean stop", group.next_unread())
    last = group.start(resumes=True)
    group.settle("resumed", last)
    group.end_feed()
    group.stop(last)
    group.expect_all_read()
    group.expect_committed("in the end", group.ends())


def restart_of_an_instance(group, a, *others):
    """It is killed and comes back under its name: it has what it had, and nobody else hears of it."""
    had, heard = set(a.own), [member.assignments for member in others]
    group.kill(a)
    again = group.start(instance=a.instance)
    group.settle("an instance killed and back", again, *others)
    group.expect(set(again.own), had, "partitions of the instance that came back")
    group.expect([member.assignments for member in others], heard, "assignments of the others meanwhile")
    return again


def check(variant, feed, restart, failed):
    started, reason = time.monotonic(), None
    name = variant.name.replace(" ", "-")
    programs = [PROGRAMS[program] for program in variant.programs]
    group = Group(f"{RUN}.groups.{name}", feed, programs, variant.assignors, variant.static, OUT / name)
    try:
        group.create_topic()
        live(group, lambda: restart.meet(variant.name))
    except Exception as error:  # of whatever library
        reason = f"{group.step}: {type(error).__name__}: {error}"
        failed.append(variant.name)
    finally:
        restart.expect_no_more(variant.name)
        group.close()
    word, seconds = "FAIL" if reason else "ok", time.monotonic() - started
    client, _, how = variant.name.rpartition(" ")
    print(f"{word:4} {client:18} {seconds:6.2f} s  a group, {how}: {group.told()}", flush=True)
    if reason:
        print(f"     {reason}\n     what its members wrote is in {OUT / name}.*", flush=True)


def main(names):
    if names and names[0] in ("-h", "--help"):
        sys.exit(__doc__)
    chosen = [variant for variant in VARIANTS if not names or variant.name.startswith(tuple(names))]
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    failed, feed, restart = [], Feed(os.environ["BOOTSTRAP"]), Restart(variant.name for variant in chosen)
    at_once(lambda variant: check(variant, feed, restart, failed), chosen)
    feed.close()
    sys.exit(1 if failed or not chosen else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
