"""What goes on at once, and one restart of the broker for all that are to live through it."""
import os
import subprocess
import threading

COMMAND = os.environ.get("BROKER_RESTART")  # kills the broker with -9 and starts it again


class Restart:
    """The broker is killed and started again once, when everyone has come that far or has failed."""

    def __init__(self, names):
        self.changed = threading.Condition()
        self.awaited, self.is_waited_for, self.done = set(names), False, COMMAND is None

    def meet(self, name):
        with self.changed:
            self.is_waited_for = True
        self.expect_no_more(name)
        with self.changed:
            self.changed.wait_for(lambda: self.done)

    def expect_no_more(self, name):
        with self.changed:
            self.awaited.discard(name)
            if self.awaited or self.done or not self.is_waited_for:
                return
            try:
                subprocess.run(COMMAND, shell=True, check=True, stdout=subprocess.DEVNULL)
            finally:
                self.done = True
                self.changed.notify_all()


def at_once(check, chosen):
    """Calls `check` with each, in a thread for each, and waits for all."""
    threads = [threading.Thread(target=check, args=(one,)) for one in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
