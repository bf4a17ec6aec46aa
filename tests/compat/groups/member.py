"""What the members in Python share. A member reads a topic in a group, prints what happens to it, one line each
  assigned PARTITION...    these are its own from now on, besides those that it has
  revoked PARTITION...     or "lost": these no longer are
  record PARTITION OFFSET VALUE
  left                     it has left its group, because of a SIGTERM
and commits what it has printed. Its settings are in the environment."""
import os
import signal
import sys

BOOTSTRAP, GROUP, TOPIC, NAME, ASSIGNOR = (os.environ[name] for name in "BOOTSTRAP GROUP TOPIC NAME ASSIGNOR".split())
SESSION_MS = int(os.environ["SESSION_MS"])
INSTANCE = os.environ.get("INSTANCE")  # of a static member
HEARTBEAT_MS = 500


class Stop:
    """True once a SIGTERM has come."""

    def __init__(self):
        self.asked = False
        signal.signal(signal.SIGTERM, self.ask)

    def ask(self, *_):
        self.asked = True

    def __bool__(self):
        return self.asked


def say(*words):
    print(*words, flush=True)


def say_records(records):
    """Of (partition, offset, value)."""
    for partition, offset, value in records:
        print("record", partition, offset, value.decode())
    sys.stdout.flush()


def not_committed(error):
    """Who has lost the partitions meanwhile can't commit: another member reads the records again."""
    print(f"not committed: {error!r}", file=sys.stderr)
