"""Does `ncubble streams` name what was planted? Each rule of streams broken on purpose, recorded,
and accounted for.

    python -m benchmarks.streams.rules                   # a Markdown table, each row as soon as it is measured
    python -m benchmarks.streams.rules --out DIR         # keep the run directories and all figures there
    python -m benchmarks.streams.rules --again DIR       # account for them once more, by the rules of today
    python -m benchmarks.streams.rules --one NAME        # the program that is recorded: one setting, thrice

A setting is `stream_pipeline` (chunks go up, through a kernel, and down again) with one thing
changed. Its wall time is taken without a recorder, and once more with it: the difference is what
recording costs. ``planted`` was written down before the first recording: the cause that most of the
idle time of the SMs must have. The pipeline as it should be is bound by the copies, so its SMs wait
for them: `dependency`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness.command import NCUBBLE, module
from ncubble.analysis.streams.account import accounts, as_json
from ncubble.analysis.streams.recording import read
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.device import Gpu, call_driver
from ncubble.kernels.run.launch import Prepared, prepare
from ncubble.kernels.run.verify import draw_inputs
from ncubble.kernels.spec.case import make_case
from ncubble.kernels.spec.spec import Value

NAME = "stream_pipeline"
SIZE = {"n": 2**25}  # floats: 128 MiB up, and as many down
RUNS, WARMUP = 3, 2
SLEEP_S = 300e-6
LIMIT_S = 120.0


@dataclass(frozen=True)
class Rule:
    """A setting. ``each``: what the host does after every chunk besides queueing it."""

    name: str
    about: str
    planted: str
    parameters: dict[str, Value]
    each: str = ""


RULES = (
    Rule("good", "as it should be", "dependency", {}),
    Rule("pageable", "memory", "pageable_copy", {"memory": "pageable"}),
    Rule("staged", "memory", "launch_gap", {"memory": "staged", "slots": 1}),
    Rule("malloc", "allocation", "allocation", {"alloc": "sync"}),
    Rule("malloc_async_0", "allocation", "allocation", {"alloc": "async", "threshold": "zero"}),
    Rule("malloc_async_max", "allocation", "dependency", {"alloc": "async", "threshold": "max"}),
    Rule("default_stream", "kind of stream", "default_stream", {"stream_kind": "default"}),
    Rule("blocking_stray", "kind of stream", "default_stream", {"stream_kind": "blocking", "stray": 1}),
    Rule("nonblocking_stray", "kind of stream", "dependency", {"stray": 1}),
    Rule("streams_1", "streams", "dependency", {"streams": 1}),
    Rule("streams_2", "streams", "dependency", {"streams": 2}),
    Rule("streams_4", "streams", "dependency", {"streams": 4}),
    Rule("chunk_1", "chunk", "dependency", {"chunk": 1}),
    Rule("chunk_64", "chunk", "dependency", {"chunk": 64}),
    Rule("sync_each", "host", "host_sync", {}, each="sync"),
    Rule("sleep_each", "host", "launch_gap", {}, each="sleep"),
)

APART = (
    Rule("apart_chunk_2", "chunk", "dependency", {"chunk": 2, "streams": 3}),
    Rule("apart_chunk_16", "chunk", "dependency", {"chunk": 16, "streams": 2, "work": 512}),
    Rule("apart_staged_2", "memory", "launch_gap", {"memory": "staged", "slots": 2}),
    Rule("apart_device_sync", "host", "host_sync", {}, each="device"),
    Rule("apart_blocking", "kind of stream", "dependency", {"stream_kind": "blocking", "streams": 3}),
    Rule("apart_malloc", "allocation", "allocation", {"alloc": "sync", "chunk": 16}),
)
"""Settings of ``streams/apart.py``, written down before any of them was recorded."""


def run_rule(rule: Rule, profiled: bool) -> list[float]:
    """Wall times of the runs of a setting in ms, each with a synchronization behind it."""
    gpu = Gpu.open()
    try:
        case = make_case(find_spec(NAME), rule.parameters, SIZE)
        prepared = prepare(case, gpu)
        prepared.upload(draw_inputs(case, 0))
        run = _with_host(rule, prepared, gpu)
        for _ in range(WARMUP):
            run()
            gpu.sync()
        if profiled:
            call_driver("cuProfilerStart")
        spans = [_timed(run, gpu.sync) for _ in range(RUNS)]
        if profiled:
            call_driver("cuProfilerStop")
        return spans
    finally:
        gpu.close()


def _timed(run: Callable[[], None], sync: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    sync()
    return 1e3 * (time.perf_counter() - start)


def _with_host(rule: Rule, prepared: Prepared, gpu: Gpu) -> Callable[[], None]:
    """The run, with what the host does after every chunk."""
    program: Any = prepared.program
    if rule.each:
        queue = program._queue
        # gpu.sync waits for the main stream alone, on which nothing runs between chunks: "device"
        # waits for all.
        does = {
            "sync": gpu.sync,
            "sleep": lambda: time.sleep(SLEEP_S),
            "device": lambda: call_driver("cuCtxSynchronize"),
        }[rule.each]

        def queue_and(*given: Any) -> None:
            queue(*given)
            does()

        program._queue = queue_and
    return prepared.run


def measured(rule: Rule, folder: Path) -> dict[str, Any]:
    """The figures of one setting: without a recorder, and with it."""
    plain = json.loads(_python([*module("streams.rules"), "--one", rule.name]))
    times = folder / f"{rule.name}.json"
    recorder = [*NCUBBLE, "streams", "--json", "--out", str(folder / rule.name), "--longest", "3"]
    program = [*module("streams.rules"), "--one", rule.name, "--profiled", "--times", str(times)]
    start = time.perf_counter()
    told = json.loads(_python([*recorder, "--", *program]))
    recorded = json.loads(times.read_text(encoding="utf-8"))
    return {
        "rule": rule.name,
        "planted": rule.planted,
        "ms": statistics.median(plain),
        "recorded_ms": statistics.median(recorded),
        "command_s": time.perf_counter() - start,
        **told["devices"][0],
        "notes": told["notes"],
    }


def _python(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def rows(folder: Path, rules: tuple[Rule, ...], until: float) -> Iterator[dict[str, Any]]:
    """All settings that begin before ``until``, each as soon as it is measured; what fails says
    why."""
    for rule in rules:
        if time.perf_counter() > until:
            yield {"rule": rule.name, "planted": rule.planted, "failed": "left out"}
            continue
        try:
            yield measured(rule, folder)
        except (RuntimeError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            yield {"rule": rule.name, "planted": rule.planted, "failed": str(error)}


def line(row: dict[str, Any], base: float | None) -> str:
    """A row of the table."""
    if "failed" in row:
        return f"| {row['rule']} | {row['planted']} | failed: {row['failed'].strip()[-600:]} |"
    causes = row["causes"]
    named = causes[0]["cause"] if causes else "-"
    shares = ", ".join(f"{one['cause']} {one['pct_of_idle']:.0f}" for one in causes[:3])
    ratio = f"{row['ms'] / base:.2f}" if base else "1"
    busy = {one["engine"]: one["busy_pct"] for one in row["engines"]}
    overlap = {"+".join(one["engines"]): one["pct_of_least"] for one in row["overlap"]}
    three = next((value for key, value in overlap.items() if key.count("+") == 2), 0.0)
    cost = 100 * (row["recorded_ms"] / row["ms"] - 1)
    cells = (
        *(row["rule"], f"{row['ms']:.2f}", ratio, f"{cost:+.1f}"),
        *(f"{busy.get(name, 0.0):.0f}" for name in ("H2D", "SMs", "D2H")),
        *(f"{three:.0f}", row["planted"], f"{'**' if named != row['planted'] else ''}{named}", shares),
    )
    return "| " + " | ".join(cells) + " |"


def table(folder: Path, rules: tuple[Rule, ...], seconds: float) -> list[dict[str, Any]]:
    """Measures and prints all."""
    print(
        "| setting | ms | x good | recording % | H2D busy % | SMs | D2H | all three % | planted | named | % of idle |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |", flush=True)
    found, base = [], None
    for row in rows(folder, rules, time.perf_counter() + seconds):
        base = base or row.get("ms")
        print(line(row, base), flush=True)
        found.append(row)
    right = sum(next((one["cause"] for one in row.get("causes", [])), "") == row["planted"] for row in found)
    print(f"\n{right} of {len(found)} named as planted")
    return found


def again(folder: Path) -> None:
    """What recordings of the settings are called now, beside what they were called when they were
    recorded."""
    before = {row["rule"]: row for row in json.loads((folder / "rules.json").read_text(encoding="utf-8"))}
    print("| setting | planted | named when recorded | named now | % of idle |\n| --- | --- | --- | --- | --- |")
    right = 0
    for rule in RULES:
        (account,) = accounts(read(folder / rule.name))
        causes = as_json(account)["causes"]
        right += causes[0]["cause"] == rule.planted
        shares = ", ".join(f"{one['cause']} {one['pct_of_idle']:.0f}" for one in causes[:3])
        was = before[rule.name]["causes"][0]["cause"]
        print(f"| {rule.name} | {rule.planted} | {was} | {causes[0]['cause']} | {shares} |")
    print(f"\n{right} of {len(RULES)} named as planted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the run directories and rules.json there")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these settings only")
    parser.add_argument(
        "--seconds", type=float, default=150.0, help="begin no further setting after them (default 150)"
    )
    parser.add_argument(
        "--one", metavar="NAME", choices=[rule.name for rule in (*RULES, *APART)], help=argparse.SUPPRESS
    )
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--times", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--again", type=Path, metavar="DIR", help="account again for what --out DIR kept")
    given = parser.parse_args()
    if given.again:
        again(given.again)
        return
    if given.one:
        spans = run_rule(next(rule for rule in (*RULES, *APART) if rule.name == given.one), given.profiled)
        if given.times:
            given.times.write_text(json.dumps(spans), encoding="utf-8")
        else:
            print(json.dumps(spans))
        return
    rules = tuple(rule for rule in RULES if not given.only or rule.name in given.only)
    with TemporaryDirectory() as temporary:
        folder = given.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = table(folder, rules, given.seconds)
        (folder / "rules.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
