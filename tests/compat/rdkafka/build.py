#!/usr/bin/env python3
"""Builds librdkafka and its own tests, from the sources that the crate rdkafka-sys ships, once for this machine.

usage: tests/compat/rdkafka/build.py     prints the folder: test-runner and what it needs, and test.c, which lists the tests
"""
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

VERSION = "4.10.0+2.12.1"
SHA256 = "e234cf318915c1059d4921ef7f75616b5219b10b46e9f3a511a15eb4b56a3f77"  # as crates.io's index has it
URL = f"https://static.crates.io/crates/rdkafka-sys/rdkafka-sys-{VERSION}.crate"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill-tools"
KEPT = ["tests/test-runner", "tests/test.c", "src/statistics_schema.json", "src/librdkafka.so.1", "src-cpp/librdkafka++.so.1"]
# What the tests against a broker without TLS and SASL do not use is left out; gzip and zstd are in, by the system's libraries.
OPTIONS = ["--disable-ssl", "--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-optimization",
           "--disable-debug-symbols", "--CFLAGS=-O1", "--CXXFLAGS=-O1"]  # fmt: skip
COMMANDS = [["./configure", *OPTIONS], ["make", "-j{cores}", "libs"], ["make", "-j{cores}", "-C", "tests", "test-runner"]]
NEEDS = ["WITH_ZLIB 1", "WITH_ZSTD 1", "WITH_RAPIDJSON 1", "WITH_SOCKEM 1"]  # in config.h: without them tests are left out in silence


def folder():
    """Where it is: another version or other options are built anew, beside it."""
    content = hashlib.sha256(repr((VERSION, SHA256, COMMANDS, NEEDS)).encode()).hexdigest()
    return CACHE / f"librdkafka-{VERSION.partition('+')[2]}-{content[:12]}"


def sources(scratch):
    """The crate, checked and unpacked; returns librdkafka's folder in it."""
    with urllib.request.urlopen(URL, timeout=60) as answer:
        crate = answer.read()
    if hashlib.sha256(crate).hexdigest() != SHA256:
        sys.exit(f"{URL} has another checksum than it should")
    with tarfile.open(fileobj=io.BytesIO(crate)) as archive:
        archive.extractall(scratch, filter="data")
    return Path(scratch) / f"rdkafka-sys-{VERSION}" / "librdkafka"


def build():
    """Does it, unless it is done already."""
    built = folder()
    if all((built / Path(kept).name).exists() for kept in KEPT):
        return built
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="librdkafka.", dir=CACHE) as scratch:
        root = sources(scratch)
        cores = str(len(os.sched_getaffinity(0)))
        for command in COMMANDS:
            words = [word.replace("{cores}", cores) for word in command]
            done = subprocess.run(words, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
            if done.returncode:
                sys.exit(f"{' '.join(words)} failed:\n" + "\n".join(done.stdout.splitlines()[-30:]))
        config = (root / "config.h").read_text()
        if missing := [need for need in NEEDS if f"#define {need}\n" not in config]:
            sys.exit(f"librdkafka was configured without {', '.join(missing)}")
        ready = Path(scratch) / "ready"
        ready.mkdir()
        for kept in KEPT:
            shutil.copy(root / kept, ready)
        try:
            ready.rename(built)  # last: its presence says that it is complete
        except OSError:
            if not built.exists():  # else another clone was quicker
                raise
    return built


if __name__ == "__main__":
    print(build())
