"""Files and manifests of absurd size: refused within two seconds, and without the memory or disk
that they ask for."""

import os
import resource
import shutil
import struct
import time
from pathlib import Path

import pytest
import zstandard

from ncubble.analysis.report.report import open_reports
from ncubble.recordings import H100

RUN = H100 / "softmax_online" / "default"
PLAIN = zstandard.ZstdDecompressor().decompressobj().decompress((RUN / "report.ncu-repz").read_bytes())
WITHIN_S = 2.0


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(path):
    """The message of a report that cannot be opened."""
    reports, failures = open_reports([Path(path)], details=False)
    assert reports == [] and len(failures) == 1
    return failures[0].error.message


def varint(number):
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def announcing(entry):
    """The beginning of a report whose one result has ``entry`` bytes."""
    header = b"\x10\x01\x28" + varint(entry + 4)
    return b"".join((b"NVR\0\2\0\0\0\x08\x07", struct.pack("<I", len(header)), header, struct.pack("<I", entry)))


SPARSE = {
    "zeros": (b"", 3 << 30, "not an Nsight Compute report"),
    "a header of 4 GB": (b"NVR\0\xf0\xff\xff\xff", 3 << 30, "its header claims 4294967280 bytes"),
    "a block of 4 GB": (b"NVR\0\2\0\0\0\x08\x07\xf0\xff\xff\xff", 3 << 30, "header of block 0 claims 4294967280"),
    "a result of 3 GB": (announcing(3 << 30), len(announcing(3 << 30)) + (3 << 30), "an entry of 3221225472 bytes"),
    "zeros after a report": (PLAIN, 3 << 30, "claims 0 bytes"),
}


@pytest.mark.parametrize(("begin", "size", "message"), SPARSE.values(), ids=SPARSE)
def test_a_damaged_file_of_three_gigabytes_costs_neither_time_nor_memory(begin, size, message):
    large = Path("large.ncu-rep")
    large.write_bytes(begin)
    os.truncate(large, size)
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    assert message in refused(large)
    assert time.monotonic() - begun < WITHIN_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_a_compressed_file_that_unpacks_to_gigabytes_is_refused_before_anything_is_unpacked():
    """Honest about what it holds, so that only the ratio gives it away: 1.9 GB of zeros in 60
    kB."""
    entry = 1900 << 20
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    with Path("bomb.ncu-repz").open("wb") as file:
        file.write(packer.compress(announcing(entry)))
        for _ in range(entry >> 20):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    assert Path("bomb.ncu-repz").stat().st_size < 100 << 10
    begun = time.monotonic()
    assert "unpacks to more than" in refused("bomb.ncu-repz")
    assert time.monotonic() - begun < WITHIN_S


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"schema": 1, "notes": ' + "[" * 200_000, '{"schema": ' + "9" * 10_000 + "}", "\0", "{} {}"],
)
def test_a_manifest_that_no_parser_should_meet_is_refused(text):
    shutil.copytree(RUN, "run")
    Path("run/run.json").write_text(text)
    assert "run/run.json: not" in refused("run")


def test_an_absurdly_large_manifest_is_not_read():
    shutil.copytree(RUN, "run")
    os.truncate("run/run.json", 3 << 30)
    begun = time.monotonic()
    assert "run/run.json: unreadable (not a file of at most 64 MiB)" in refused("run")
    assert time.monotonic() - begun < WITHIN_S
