"""A process under test."""
import os
import subprocess
import threading
import time


class Process:
    """Its lines are kept, and heard one by one by `hear`; what it logs is kept beside them, or among them where both are on one pipe."""

    def __init__(self, out, name, command, environment, hear, hear_end=lambda: None, is_mixed=False):
        self.name, self.hear, self.hear_end = name, hear, hear_end
        self.said = open(f"{out}.{name}.out", "w")
        with open(f"{out}.{name}.err", "w") as errors:
            self.process = subprocess.Popen(
                command, env=os.environ | environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if is_mixed else errors,
            )  # fmt: skip
        self.reader = threading.Thread(target=self.listen)
        self.reader.start()

    def listen(self):
        for line in self.process.stdout:
            self.said.write(f"{time.strftime('%H:%M:%S')} {line}")
            self.said.flush()
            # One that was killed may have ended within a line.
            if line.endswith("\n"):
                self.hear(line.rstrip())
        self.hear_end()
        self.said.close()

    def end(self, number, limit_s):
        """Sends the signal, and returns the exit code once all that it said is heard."""
        self.process.send_signal(number)
        self.reader.join(limit_s)
        return self.process.wait(limit_s)
