"""Writes one batch for each codec with kafka-python's own builder.

How to run: pip install 'kafka-python>=3' python-snappy lz4 zstandard; python generate.py OUTPUT_DIRECTORY
"""

import pathlib
import sys

from kafka.record.default_records import DefaultRecordBatchBuilder as Builder

BASE = 1_700_000_000_000
CODECS = {
    "none": Builder.CODEC_NONE,
    "gzip": Builder.CODEC_GZIP,
    "snappy": Builder.CODEC_SNAPPY,
    "lz4": Builder.CODEC_LZ4,
    "zstd": Builder.CODEC_ZSTD,
}

for name, codec in CODECS.items():
    builder = Builder(2, codec, False, 1234, 3, 17, 1 << 20)
    large = bytes(i % 251 for i in range(300 if name == "none" else 100_000))
    builder.append(0, BASE, b"k1", b"v1", [])
    builder.append(1, BASE + 5, None, b"only a value", [("a", b"1"), ("a", None), ("ünï", b"")])
    builder.append(2, BASE - 3, b"tombstone", None, [])
    builder.append(3, BASE + 1000, b"", large, [])
    pathlib.Path(sys.argv[1], f"python-{name}.batch").write_bytes(bytes(builder.build()))
