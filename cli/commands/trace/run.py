"""Runs ``ncubble trace`` on a catalog kernel, a program, or a recorded folder."""

from __future__ import annotations

import math
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncubble.analysis.traces.drawing import lanes_drawing
from ncubble.analysis.traces.lanes import FILE, Lanes, read_lanes, read_warps
from ncubble.analysis.traces.probe import Dump, decode, parse_dumps, read_dumps
from ncubble.analysis.traces.summary import TraceFacts, cut_lanes, traced_lanes
from ncubble.cli.running import require_viewer_format
from ncubble.cli.terminal import emit_json
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.processes import require_program
from ncubble.profiling.provenance import utc_now
from ncubble.profiling.runs import holding
from ncubble.profiling.staging import default_out
from ncubble.records import WrongFieldError, typed
from ncubble.text.values import finite

DUMP = "NCUBBLE_TRACE"


@dataclass(frozen=True)
class TraceRequest:
    """The options of the command."""

    sms: int
    events: int
    cost: bool
    out: Path | None
    force: bool
    perfetto: Path | None
    json: bool
    window: tuple[float | None, float | None] = (None, None)
    """A section of a recorded trace, in µs."""
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if any(at is not None and math.isnan(at) for at in self.window):
            raise UsageError("--from and --to are µs, not nan", "give numbers")
        require_viewer_format(self.perfetto)
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"--timeout {self.timeout_s}: not a positive number of seconds", "give seconds, or none")


def list_probed(catalog: Path | None, as_json: bool) -> None:
    """Print the kernels that contain a probe."""
    from ncubble.kernels.catalog.registry import catalog as load
    from ncubble.kernels.run.probe import carries_probe
    from ncubble.kernels.spec.case import make_case

    names = [spec.name for spec in load(catalog).values() if carries_probe(make_case(spec))]
    if as_json:
        emit_json({"schema": 1, "kernels": names})
    else:
        sys.stdout.write("\n".join(names) + "\n")


def trace_kernel(
    name: str, parameters: list[str], shape: list[str], seed: int | None, catalog: Path | None, wanted: TraceRequest
) -> None:
    """Trace a catalog kernel, save and show the recording, and fail if the result was wrong."""
    from ncubble.kernels.run.probe import TraceOptions, trace
    from ncubble.kernels.run.session import KernelRequest

    request = KernelRequest.parse(name, parameters, shape, catalog, seed=seed)
    out = _out(wanted, request.case().spec.name)
    traced = trace(request, TraceOptions(wanted.sms, wanted.events, wanted.cost))
    facts = traced.to_json()
    _keep(parse_dumps(traced.dump, name), facts, wanted, out)
    if traced.verification is not None:
        traced.verification.require(traced.case.label, traced.seed)


def trace_program(program: Sequence[str], wanted: TraceRequest) -> None:
    """Run a program whose kernels include the probe, and save the recording."""
    require_program(program)
    out = _out(wanted, Path(program[0]).name)
    with tempfile.TemporaryDirectory(prefix="ncubble-") as folder:
        path = Path(folder) / "dump"
        settings = {DUMP: str(path), f"{DUMP}_SMS": str(wanted.sms), f"{DUMP}_MARKS": str(wanted.events)}
        _run(program, {**os.environ, **settings}, wanted.timeout_s)
        if not path.is_file():
            message = "the program succeeded, but recorded nothing"
            remedy = (
                "compile it with -DBUBBLE_PROBE, and keep a bubble::Trace alive around its launches (docs/trace.md)"
            )
            raise MeasurementError(message, remedy)
        _keep(read_dumps(path), {"argv": list(program)}, wanted, out)


def _run(program: Sequence[str], env: dict[str, str], timeout_s: float | None) -> None:
    from ncubble.cli.terminal import ended_by_signals, pass_on
    from ncubble.profiling import processes as process

    with ended_by_signals():
        try:
            status = process.stream(program, env, pass_on, timeout_s)
        except process.TimedOutError as error:
            message = f"the program exceeded --timeout {timeout_s:g} s and was stopped; nothing was kept"
            raise MeasurementError(message, "shorten the program's work, or raise --timeout") from error
    if status:
        how = f"was killed by {process.ending(status)}" if status < 0 else f"ended with {status}"
        raise MeasurementError(f"the program {how}", "run the program by itself first")


def _out(wanted: TraceRequest, label: str) -> Path:
    """Folder of the run; raises UsageError before anything runs if it may not be written."""
    from ncubble.profiling.staging import check_target

    out = wanted.out or default_out(f"trace-{label}")
    check_target(out, wanted.force)
    return out


def _keep(dumps: list[Dump], more: dict[str, Any], wanted: TraceRequest, out: Path) -> None:
    recorded = decode(dumps)
    if not len(recorded.warps):
        message = f"no warp started on the first {wanted.sms} SMs"
        raise MeasurementError(message, "record more SMs with --sms, or launch more CTAs")
    lanes = traced_lanes(recorded, {"schema": 1, "started": utc_now(), **more})
    _write(out, lanes, wanted.force)
    _show(out, lanes, wanted)


def _write(out: Path, lanes: Lanes, force: bool) -> None:
    from ncubble.profiling.staging import staged
    from ncubble.store import sync

    with staged(out, force) as folder:
        lanes.save(folder)
        sync(folder / FILE)


def trace_shown(folder: Path, wanted: TraceRequest) -> None:
    """Show a recorded trace, or a section of it, which is saved to ``wanted.out`` if given."""
    lanes = _read(folder)
    if wanted.window == (None, None):
        if wanted.out is not None:
            raise UsageError(
                "with a recorded folder, --out writes a section of it",
                "choose the section with --from and --to, or copy the folder",
            )
        _show(folder, lanes, wanted)
        return
    low, high = (math.inf * sign if at is None else 1e3 * at for at, sign in zip(wanted.window, (-1, 1), strict=True))
    low, high = max(low, float(lanes.rows["start_ns"].min())), min(high, float(lanes.rows["end_ns"].max()))
    lanes = cut_lanes(lanes, low, high)
    if lanes.rows.empty:
        raise UsageError(
            "nothing lies between --from and --to", "both are times of the trace in µs; --from must be the earlier one"
        )
    if wanted.out is not None:
        _write(wanted.out, lanes, wanted.force)
    _show(wanted.out or folder, lanes, wanted)


def _read(folder: Path) -> Lanes:
    """The trace in ``folder``; raises UsageError or ReportError if there is none."""
    if not (folder / FILE).is_file():
        remedy = holding(folder) or f"name a folder with {FILE}, written by `ncubble trace`"
        raise UsageError(f"{folder}: holds no trace", remedy)
    kind = read_lanes(folder).kind
    if kind != "warps":
        shows = kind if (folder / "activity.parquet").is_file() else "dashboard"
        raise UsageError(f"{folder}: holds {kind} lanes, not a trace of warps", f"ncubble {shows} {folder}")
    lanes = read_warps(folder)
    try:
        typed(lanes.facts, TraceFacts)
    except WrongFieldError as error:
        message = f"{folder}: the description of the trace is missing or damaged"
        raise ReportError(message, "record it again; ncubble dashboard still draws its lanes") from error
    return lanes


def _show(out: Path, lanes: Lanes, wanted: TraceRequest) -> None:
    facts = lanes.facts
    if wanted.perfetto is not None:
        described = {"kernel": facts.get("kernel"), "clock": facts.get("clock")}
        lanes_drawing(lanes.rows).write(wanted.perfetto, finite(described))
    if wanted.json:
        emit_json({**facts, "run": str(out)})
        return
    from ncubble.cli.commands.trace.render import trace_lines
    from ncubble.cli.terminal import terminal_width, wrapped

    width = terminal_width()
    lines = [part for line in trace_lines(typed(facts, TraceFacts)) for part in wrapped(line, width)]
    sys.stdout.write("\n".join([*lines, f"run: {out}"]) + "\n")
