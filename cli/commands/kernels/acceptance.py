"""``ncubble verify NAME --gates``: the gates of a kernel's spec, printed, and written to a folder if asked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.errors import MeasurementError, UsageError

if TYPE_CHECKING:
    from ncubble.kernels.run.gates import AcceptanceOutcome


def verify_gates(
    name: str,
    catalog: Path | None,
    sizes: Mapping[str, int],
    seed: int | None,
    iterations: int | None,
    counters: bool,
    nvtx: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Evaluate the gates, write ``out``, print the results, and then raise the failure, if any.

    Below a profiler times are left out: ncu runs each launch many times, at other clocks.
    """
    import typer

    from ncubble.cli.commands.kernels.counting import counter_reader
    from ncubble.cli.terminal import emit_json
    from ncubble.kernels.run.gates import compare_markdown, gates_of, run_acceptance
    from ncubble.profiling import provenance
    from ncubble.profiling.processes import active_profiler

    gates = gates_of(name, catalog).asked(sizes, seed, iterations)
    started = provenance.utc_now()
    if out is not None:
        _claim(out)
    profiler = active_profiler(os.environ)
    untimed = f"a profiler is active ({profiler} is set)" if profiler else ""
    count = counter_reader(name, catalog) if counters else None
    outcome = run_acceptance(name, gates, catalog, count=count, nvtx=nvtx, untimed=untimed)
    meta = build_meta(outcome, started, provenance.git_state(Path.cwd()))
    table = compare_markdown(outcome)
    try:
        if out is not None:
            _write(out, files(outcome, meta, table))
    finally:  # a full disk must not cost what was measured
        if as_json:
            emit_json({"schema": 1, **outcome.to_json(), "build_meta": meta})
        else:
            typer.echo(table, nl=False)
    outcome.require()


def build_meta(outcome: AcceptanceOutcome, started: str, git: dict[str, Any]) -> dict[str, Any]:
    """Provenance of the figures, with the names used in a profile's ``run.json``; ``build`` per
    path."""
    facts = next(iter(outcome.facts.values()))
    return {
        "schema": 1,
        "started": started,
        "git": git,
        "kernel": facts["kernel"]["name"],
        "device": facts["device"],
        "build": {path: facts_of_path["build"] for path, facts_of_path in outcome.facts.items()},
        "clocks": {path: facts_of_path["clocks"] for path, facts_of_path in outcome.facts.items()},
    }


def files(outcome: AcceptanceOutcome, meta: dict[str, Any], table: str) -> dict[str, str]:
    """Contents of the files by name: verifications, times and counters of each path, provenance,
    and the comparison."""
    from ncubble.text.values import finite

    whole = outcome.to_json()
    times = whole["performance"]
    parts = {
        "correctness_summary.json": {"kernel": outcome.name, "passed": outcome.correct, "checks": whole["correctness"]},
        "build_meta.json": {**meta, "resources": whole["resources"]},
        "counters.json": {"kernel": outcome.name, "passed": outcome.counters.passed, **whole["counters"]},
        **{
            f"perf_{path}.json": {
                **{"shape": times["shape"], "sizes": dict(outcome.gates.shapes[outcome.gates.timed])},
                **{"parameters": dict(parameters), "iterations": outcome.gates.iterations},
                "timing": times.get(path),
            }
            for path, parameters in outcome.gates.paths.items()
        },
    }
    texts = {name: json.dumps(finite(part), indent=1, ensure_ascii=False) + "\n" for name, part in parts.items()}
    return {**texts, "COMPARE.md": table}


def _claim(folder: Path) -> None:
    """Create ``folder`` before anything is measured; raises UsageError if it is not empty or cannot
    be created."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entry = next(folder.iterdir(), None)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error}", "name a folder that can be written") from error
    if entry is not None:
        raise UsageError(f"--out {folder}: not empty, it holds {entry.name}", "name a new folder")


def _write(folder: Path, texts: dict[str, str]) -> None:
    try:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"--out {folder}: cannot be written: {error}", "name a folder with space") from error
