#!/usr/bin/env bash
# usage: dump_log.sh SEGMENT...    (files named by their base offset, as %020d.log)
# Has Kafka's own DumpLogSegments read sealed segments down to each record. Its exit code says little: it is 0 for a
# file with a torn end, for instance. So its output is checked as well: every batch valid, every record listed,
# offsets contiguous from the one in the name, and the batches' sizes adding up to the size of the file.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
[[ $# -gt 0 ]] || { sed -n '2p' "$0" >&2; exit 2; }
dump=$(mktemp)
trap 'rm -f "$dump"' EXIT

for segment in "$@"; do
  if ! "$here/../../scripts/peers/kafka" tool DumpLogSegments --deep-iteration --files "$segment" >"$dump" 2>&1; then
    echo "$segment: DumpLogSegments failed:" >&2
    tail -3 "$dump" >&2
    exit 1
  fi
  base=$((10#$(basename "$segment" .log)))
  awk -v segment="$segment" -v bytes="$(stat -c %s "$segment")" -v base="$base" '
    BEGIN { next_offset = base }
    function fail(why) { print segment ": " why > "/dev/stderr"; failed = 1; exit 1 }
    function field(name,   at) {
      for (at = 1; at < NF; at++) if ($at == name ":") return $(at + 1)
      fail("a batch without " name ": " $0)
    }
    /^Dumping |^Log starting offset: |^Non-consecutive offsets in / { next }
    # Said of every segment but the first of a partition: the tool counts from -1. Any other pair is an error.
    $0 == "  -1 is followed by " base { next }
    /^baseOffset: / {
      if (field("isvalid") != "true") fail("an invalid batch: " $0)
      if (missing) fail(missing " records missing before: " $0)
      if (field("baseOffset") != next_offset) fail("offset " next_offset " was to come: " $0)
      if (field("position") != size) fail("position " size " was to come: " $0)
      batches++; size += field("size"); missing = field("count"); records += missing
      next
    }
    /^\| offset: / {
      if ($3 != next_offset++) fail("offset " next_offset - 1 " was to come: " $0)
      if (missing-- == 0) fail("one record too many: " $0)
      next
    }
    { fail($0) }
    END {
      if (failed) exit 1
      if (!batches) fail("no batch")
      if (missing) fail(missing " records missing at the end")
      if (size != bytes) fail("batches of " size " bytes in a file of " bytes)
      printf "%s: %d batches, %d records, %d bytes, all valid\n", segment, batches, records, size
    }' "$dump"
done
