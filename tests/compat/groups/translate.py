"""Members that are programs of others: how they are started, and their words in those of member.py."""
import json
import re

HEARTBEAT_MS = 500
KCAT = ["kcat", "-b", "{BOOTSTRAP}", "-E", "-u", "-f", "record %p %o %s\n"]
for setting in ("client.id={NAME}", "auto.offset.reset=earliest", "auto.commit.interval.ms=200",
                "fetch.wait.max.ms=200", "session.timeout.ms={SESSION_MS}", f"heartbeat.interval.ms={HEARTBEAT_MS}",
                "partition.assignment.strategy={ASSIGNOR}"):  # fmt: skip
    KCAT += ["-X", setting]
KCAT += ["-G", "{GROUP}", "{TOPIC}"]

VERIFIABLE = [
    "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", "{BOOTSTRAP}", "--topic", "{TOPIC}",
    "--group-id", "{GROUP}", "--reset-policy", "earliest", "--verbose",
]  # fmt: skip
VERIFIABLE_OPTIONS = {"range": ["--session-timeout", "{SESSION_MS}"], "consumer": ["--group-protocol", "consumer"]}


def kcat(line):
    """Tells of its partitions on standard error, which is read with its output, and says nothing when it goes."""
    if line.startswith("record "):
        return line
    found = re.search(r"rebalanced.*: (assigned|revoked): (.*)", line)
    return found and " ".join([found[1], *re.findall(r"\[(\d+)\]", found[2])])


def verifiable(line):
    """Kafka's VerifiableConsumer: JSON, and errors of its client."""
    said = json.loads(line) if line.startswith("{") else {"name": None}
    match said["name"]:
        case "partitions_assigned" | "partitions_revoked" as name:
            return " ".join([name.removeprefix("partitions_"), *(str(at["partition"]) for at in said["partitions"])])
        case "record_data":
            return f"record {said['partition']} {said['offset']} {said['value']}"
        case "shutdown_complete":
            return "left"
