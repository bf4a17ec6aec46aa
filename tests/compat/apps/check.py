#!/usr/bin/env python3
"""Applications that keep their state in the broker, Kafka Streams and Connect, at once: they and the broker are killed.

usage: BOOTSTRAP=HOST:PORT tests/compat/apps/check.py [streams] [connect]    all, if none is given

The environment's BROKER_RESTART may be a command that kills the broker with -9 and starts it again.
"""
import os
import shutil
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "groups"))

import connect
import streams
from restart import Restart, at_once
from scenario import Feed

OUT = Path(__file__).resolve().parents[3] / "target/compat/apps"
RUN = os.environ.get("RUN") or f"compat-{int(time.time())}"
LONG_SESSION_MS = 45000  # so long that no busy machine makes it end
SHORT_SESSION_MS = 6000  # group.min.session.timeout.ms
LIVES = {  # of which kind, what it goes through, how it is made
    "broker killed": ("streams", streams.broker_killed, lambda *at: streams.Streams(*at, LONG_SESSION_MS)),
    "application killed": ("streams", streams.application_killed, lambda *at: streams.Streams(*at, SHORT_SESSION_MS)),
    "broker and workers killed": ("connect", connect.broker_and_workers_killed, connect.Connect),
}  # fmt: skip


def check(name, feed, restart, failed):
    started, reason = time.monotonic(), None
    kind, live, make = LIVES[name]
    file = f"{kind}-{name}".replace(" ", "-")
    app = make(f"{RUN}.{file}", feed, OUT / file)
    try:
        live(app, lambda: restart.meet(name))
    except Exception as error:  # of whatever library
        reason = f"{app.step}: {type(error).__name__}: {error}"
        failed.append(name)
    finally:
        restart.expect_no_more(name)
        app.close()
    word, seconds = "FAIL" if reason else "ok", time.monotonic() - started
    print(f"{word:4} {kind:16} {seconds:6.2f} s  {name}: {app.told()}", flush=True)
    if reason:
        print(f"     {reason}\n     what it wrote is in {OUT / file}.*", flush=True)


def main(kinds):
    if kinds and kinds[0] in ("-h", "--help"):
        sys.exit(__doc__)
    chosen = [name for name, (kind, *_) in LIVES.items() if not kinds or kind in kinds]
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    failed, feed = [], Feed(os.environ["BOOTSTRAP"])
    restart = Restart(chosen)
    at_once(lambda name: check(name, feed, restart, failed), chosen)
    feed.close()
    sys.exit(1 if failed or not chosen else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
