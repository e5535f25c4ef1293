"""What each warp does over time, by a probe in the kernel itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.analysis.traces.lanes import FILE, Lanes, lane_kind, read_warps
from ncubble.analysis.traces.probe import Dump, TraceFacts, cut_lanes, decode, parse_dumps, read_dumps, traced_lanes
from ncubble.api.reports import ReportPath, as_path
from ncubble.api.subjects import given_subject
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.profiling.provenance import utc_now
from ncubble.profiling.runs import holding
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.staging import check_target, default_out, staged
from ncubble.records import JsonObject, WrongFieldError, typed
from ncubble.store import sync
from ncubble.text.values import finite

if TYPE_CHECKING:
    import pandas as pd

    from ncubble.kernels.run.session import KernelRequest

DUMP = "NCUBBLE_TRACE"


@dataclass(frozen=True)
class TraceSettings:
    """``sms``: warps that start on the first so many SMs are recorded; ``events``: marks to keep of
    each; ``cost``: whether the probe's cost is measured, of a catalog kernel."""

    sms: int = 1
    events: int = 2048
    cost: bool = True


@dataclass(frozen=True)
class TraceResult:
    """A trace of warps, and where it lies. ``wrong``: the error of a catalog kernel whose result is
    not that of its reference."""

    path: Path
    lanes: Lanes
    wrong: NcubbleError | None = None

    @cached_property
    def facts(self) -> TraceFacts:
        """Its numbers."""
        return typed(self.lanes.facts, TraceFacts)

    @property
    def rows(self) -> pd.DataFrame:
        """One row per interval of a warp (docs/reference/traces.md)."""
        return self.lanes.rows

    def to_json(self) -> JsonObject:
        """The object of ``ncubble trace --json``."""
        return {**self.lanes.facts, "run": str(self.path)}

    def write_perfetto(self, path: Path) -> None:
        """Write a trace for ui.perfetto.dev; raises UsageError where that is not possible."""
        from ncubble.analysis.traces.drawing import lanes_drawing

        described = {name: self.lanes.facts.get(name) for name in ("kernel", "clock")}
        lanes_drawing(self.lanes.rows).write(path, finite(described))


def trace(
    program: Sequence[ReportPath] | str | Path,
    *,
    sms: int = 1,
    events: int = 2048,
    cost: bool = True,
    section_us: tuple[float, float] | None = None,
    out: ReportPath | None = None,
    force: bool = False,
    parameters: Mapping[str, Any] | None = None,
    shape: Mapping[str, int] | None = None,
    catalog: ReportPath | None = None,
    seed: int | None = None,
    timeout_s: float | None = None,
    on_output: Callable[[str], None] | None = None,
) -> TraceResult:
    """Record what each warp does over time, with clocks written by the kernel itself, or read it.

    ``program``: the name of a catalog kernel with a probe, with ``parameters``, ``shape``,
    ``catalog`` and ``seed`` (of its inputs); a list, a program whose kernels include
    ``bubble_probe.cuh``, and its arguments; or the path of a recorded trace, of which
    ``section_us`` is cut out, and kept in ``out``. ``sms``: record warps that start on the first so
    many SMs; ``events``: marks to keep of each; ``cost``: measure what the probe costs. ``out``:
    the run directory to write (default: a new one below ``runs``); ``force`` replaces it.
    ``timeout_s`` ends the program; ``on_output`` is called with each line that it prints.

    Raises UsageError for a wrong request, ReportError for a damaged trace, MeasurementError where
    nothing can be recorded, and, with the trace kept, for a wrong result of the kernel.
    """
    settings, place = TraceSettings(sms, events, cost), as_path(out)
    if isinstance(program, Path) or (isinstance(program, str) and Path(program).is_dir()):
        return open_trace(Path(program), section_us, place, force)
    if not isinstance(program, str):
        subject = given_subject(program, parameters, shape, catalog)
        folder, observer = place or default_out(f"trace-{subject.label}"), Observer.of_lines(on_output)
        return trace_program(Session(subject, folder, force, timeout_s, observer), settings)
    from ncubble.kernels.run.session import KernelRequest

    request = KernelRequest(program, parameters or {}, shape or {}, as_path(catalog), seed)
    result = trace_kernel(request, settings, place, force)
    if result.wrong:
        raise result.wrong
    return result


def trace_kernel(
    request: KernelRequest, settings: TraceSettings, out: Path | None = None, force: bool = False
) -> TraceResult:
    """Trace a catalog kernel, and keep the recording; ``wrong`` of the result says whether what it
    computed is."""
    from ncubble.kernels.run.probe import TraceOptions
    from ncubble.kernels.run.probe import trace as trace_probed

    out = out or default_out(f"trace-{request.case().spec.name}")
    check_target(out, force)
    traced = trace_probed(request, TraceOptions(settings.sms, settings.events, settings.cost))
    lanes = _decoded(parse_dumps(traced.dump, request.name), traced.to_json(), settings)
    _save(lanes, out, force)
    wrong = None
    try:
        if traced.verification is not None:
            traced.verification.require(traced.case.label, traced.seed)
    except NcubbleError as error:
        wrong = error
    return TraceResult(out, lanes, wrong)


def trace_program(session: Session, settings: TraceSettings) -> TraceResult:
    """Run the program of a session, whose kernels include the probe, and keep the recording; raises
    as ``trace`` does."""
    with session.open():
        path = session.work / "dump"
        env = {DUMP: str(path), f"{DUMP}_SMS": str(settings.sms), f"{DUMP}_MARKS": str(settings.events)}
        end = session.run(session.subject.argv, env)
        if end.failure:
            remedy = "run the program by itself first" if end.status is not None else "raise --timeout"
            raise MeasurementError(f"{end.failure}; nothing was kept", remedy)
        if not path.is_file():
            message = "the program succeeded, but recorded nothing"
            remedy = (
                "compile it with -DBUBBLE_PROBE, and keep a bubble::Trace alive around its launches (docs/trace.md)"
            )
            raise MeasurementError(message, remedy)
        lanes = _decoded(read_dumps(path), {"argv": list(session.subject.argv)}, settings)
        lanes.save(session.folder)
    return TraceResult(session.out, lanes)


def _decoded(dumps: list[Dump], more: Mapping[str, Any], settings: TraceSettings) -> Lanes:
    recorded = decode(dumps)
    if not len(recorded.warps):
        message = f"no warp started on the first {settings.sms} SMs"
        raise MeasurementError(message, "record more SMs with --sms, or launch more CTAs")
    return traced_lanes(recorded, {"schema": 1, "started": utc_now(), **more})


def _save(lanes: Lanes, out: Path, force: bool) -> None:
    with staged(out, force) as folder:
        lanes.save(folder)
        sync(folder / FILE)


def open_trace(
    folder: Path, section_us: tuple[float, float] | None = None, out: Path | None = None, force: bool = False
) -> TraceResult:
    """A recorded trace, or a section of it, which ``out`` keeps; raises UsageError or
    ReportError."""
    if not (folder / FILE).is_file():
        remedy = holding(folder) or f"name a folder with {FILE}, written by `ncubble trace`"
        raise UsageError(f"{folder}: holds no trace", remedy)
    if lane_kind(folder) == "streams":
        shows = "streams" if (folder / "activity.parquet").is_file() else "dashboard"
        raise UsageError(f"{folder}: holds streams lanes, not a trace of warps", f"ncubble {shows} {folder}")
    shown = TraceResult(folder, read_warps(folder))
    try:
        shown.facts  # noqa: B018 - read now, to be refused now
    except WrongFieldError as error:
        message = f"{folder}: the description of the trace is missing or damaged"
        raise ReportError(message, "record it again; ncubble dashboard still draws its lanes") from error
    if section_us is None:
        return shown
    low, high = (1e3 * at for at in section_us)
    if math.isnan(low) or math.isnan(high):
        raise UsageError(f"section {section_us}: not times in µs", "give two numbers")
    rows = shown.rows
    lanes = cut_lanes(shown.lanes, max(low, float(rows["start_ns"].min())), min(high, float(rows["end_ns"].max())))
    if lanes.rows.empty:
        raise UsageError(f"nothing lies between {section_us[0]:g} and {section_us[1]:g} µs", "the earlier one is first")
    if out is not None:
        check_target(out, force)
        _save(lanes, out, force)
    return TraceResult(out or folder, lanes)
