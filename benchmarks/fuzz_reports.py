"""Damage reports at random and see what becomes of each: detected, unharmed, or silently different.

    python benchmarks/fuzz_reports.py [--count 2000] [--seed 1] [--sources DIR] [--json]

Mutations: truncation, 1 to 1000 flipped bytes, a zeroed stretch, a splice of two reports, a wrong magic; on the plain
and on the compressed form. Each mutant goes through what ``ncubble report`` does. ``harmless`` mutants show the same
values as their original, ``silent`` ones show others without any error or warning. Ends with 1 if anything crashed, or
if a truncation passed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from ncubble.analysis.report import open_reports
from ncubble.analysis.verdict import launch_verdict
from ncubble.profiling.run import Run, find_runs
from ncubble.recordings import ROOT

BATCH = 50
SHOWN = ("kernel", "device", "duration_ns", "tensor_active_pct", "dram_pct", "unit", "account", "cause", "async_copy")


@dataclass(frozen=True)
class Source:
    """One intact report: plain bytes and what is shown of it."""

    name: str
    data: bytes
    shown: list[dict[str, Any]]


def truncate(data: bytes, rng: random.Random, _: list[Source]) -> bytes:
    return data[: rng.randrange(len(data))]


def flip(data: bytes, rng: random.Random, _: list[Source]) -> bytes:
    changed = bytearray(data)
    for _unused in range(rng.choice((1, 3, 10, 30, 100, 300, 1000))):
        changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
    return bytes(changed)


def zero(data: bytes, rng: random.Random, _: list[Source]) -> bytes:
    start = rng.randrange(len(data))
    size = rng.choice((16, 256, 4096, 65536))
    return data[:start] + bytes(min(size, len(data) - start)) + data[start + size :]


def splice(data: bytes, rng: random.Random, sources: list[Source]) -> bytes:
    other = rng.choice(sources).data
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def magic(data: bytes, rng: random.Random, _: list[Source]) -> bytes:
    return bytes(rng.randrange(256) for _unused in range(4)) + data[4:]


MUTATIONS: dict[str, Callable[[bytes, random.Random, list[Source]], bytes]] = {
    "truncate": truncate,
    "flip": flip,
    "zero": zero,
    "splice": splice,
    "magic": magic,
}
WEIGHTS = (3, 10, 3, 2, 1)


def plain_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".ncu-repz":
        return data
    return zstandard.ZstdDecompressor().stream_reader(data).read()


def shown(report: Any) -> list[dict[str, Any]]:
    """What a person would see of a report, launch by launch."""
    verdicts = [launch_verdict(report, int(launch)) for launch in report.launches["launch"]]
    return [{key: _as_printed(verdict[key]) for key in SHOWN} for verdict in verdicts]


def _as_printed(value: Any) -> Any:
    """Shares of an account with the one decimal that tables and pages show."""
    return {part: round(pct, 1) for part, pct in value.items()} if isinstance(value, dict) else value


def load_sources(folder: Path) -> list[Source]:
    paths = list(find_runs([folder]))
    reports, _ = open_reports(paths)
    return [Source(one.path.name, plain_bytes(Run.load(one.path).report), shown(one)) for one in reports]


def mutants(sources: list[Source], count: int, rng: random.Random, folder: Path) -> Iterator[tuple[Path, str, Source]]:
    for number in range(count):
        kind = rng.choices(list(MUTATIONS), WEIGHTS)[0]
        source = rng.choice(sources)
        packed = rng.random() < 0.1
        data = zstandard.compress(source.data) if packed else source.data
        changed = MUTATIONS[kind](data, rng, sources)
        path = folder / f"{number:06d}.ncu-rep{'z' if packed else ''}"
        path.write_bytes(changed)
        yield path, kind if changed != data else "unchanged", source


def outcome_of(report: Any, source: Source) -> str:
    try:
        if json.dumps(shown(report)) == json.dumps(source.shown):
            return "harmless"
        verdicts = [launch_verdict(report, int(launch)) for launch in report.launches["launch"]]
        return "labelled" if any("suspicious:" in text for one in verdicts for text in one["warnings"]) else "silent"
    except Exception:
        traceback.print_exc()
        return "crashed"


def run(sources: list[Source], count: int, seed: int) -> Counter[tuple[str, str]]:
    rng, tally = random.Random(seed), Counter[tuple[str, str]]()  # noqa: S311
    while (done := sum(tally.values())) < count:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["NCUBBLE_CACHE"] = f"{folder}/cache"
            batch = list(mutants(sources, min(BATCH, count - done), rng, Path(folder)))
            reports, failures = open_reports([path for path, _, _ in batch])
            opened = {one.path: one for one in reports}
            for path, kind, source in batch:
                tally[kind, outcome_of(opened[path], source) if path in opened else "detected"] += 1
            assert len(reports) + len(failures) == len(batch)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description="Damage reports at random and see what becomes of each")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sources", type=Path, default=ROOT)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sources = load_sources(given.sources)
    begun = time.monotonic()
    tally = run(sources, given.count, given.seed)
    result = {kind: {name: n for (k, name), n in tally.items() if k == kind} for kind in sorted({k for k, _ in tally})}
    result_s = time.monotonic() - begun
    print(json.dumps(result, indent=1) if given.json else "\n".join(f"{k:10s} {v}" for k, v in result.items()))
    print(f"{given.count} mutants of {len(sources)} reports in {result_s:.0f} s", file=sys.stderr)
    passed = result.get("truncate", {})
    return 1 if any("crashed" in one for one in result.values()) or set(passed) - {"detected"} else 0


if __name__ == "__main__":
    sys.exit(main())
