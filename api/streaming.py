"""What a program does on the GPU over time, and why its SMs are idle."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.analysis.streams import recording as stream_records
from ncubble.analysis.streams.account import DeviceAccount, account_json, accounts, stream_lanes
from ncubble.analysis.streams.recording import Recording
from ncubble.analysis.streams.work import work_of
from ncubble.analysis.traces.lanes import WARPS
from ncubble.api.reports import ReportPath, as_path
from ncubble.api.subjects import catalog_subject, given_subject
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.recorders import streams as recorder
from ncubble.profiling.recorders.streams import MOST, StreamSettings
from ncubble.profiling.runs import MANIFEST, Manifest, holding, read_manifest
from ncubble.profiling.session import Observer, ProgramEnd, Session, run_folder
from ncubble.records import JsonObject
from ncubble.text.values import finite

if TYPE_CHECKING:
    from ncubble.profiling.subject import Subject

SCHEMA = 1


@dataclass(frozen=True)
class StreamsResult:
    """A recorded run: the account of each device, and ``notes`` on what is missing. ``failed`` says
    how its program failed, if it did; ``whole``: whether all of it counts."""

    path: Path
    accounts: list[DeviceAccount]
    notes: tuple[str, ...]
    recording: Recording
    whole: bool = False
    failed: str = ""

    def to_json(self, longest: int = 5) -> JsonObject:
        """The object of ``ncubble streams --json``, with the ``longest`` gaps."""
        devices = [account_json(account, longest) for account in self.accounts]
        return {"schema": SCHEMA, "run": str(self.path), "notes": list(self.notes), "devices": devices}

    def write_perfetto(self, path: Path) -> None:
        """Write a trace for ui.perfetto.dev; raises UsageError where that is not possible."""
        from ncubble.analysis.streams.account import streams_drawing

        drawing = streams_drawing(self.accounts, self.recording, self.whole)
        drawing.write(path, finite({"run": self.path.name, "notes": list(self.notes)}))


def streams(
    program: Sequence[ReportPath] | str | Path,
    *,
    whole: bool = False,
    out: ReportPath | None = None,
    force: bool = False,
    parameters: Mapping[str, Any] | None = None,
    shape: Mapping[str, int] | None = None,
    catalog: ReportPath | None = None,
    repeat: int = 1,
    recorder: str = "auto",
    most: int = MOST,
    timeout_s: float | None = None,
    on_output: Callable[[str], None] | None = None,
) -> StreamsResult:
    """Record kernels, copies and calls of a program with CUPTI, or read a recording.

    ``program``: a list, the program and its arguments; the name of a catalog kernel, with
    ``parameters``, ``shape``, ``catalog`` and ``repeat`` (launches); or the path of a recorded run.
    ``whole`` counts what lies outside of cudaProfilerStart and cudaProfilerStop, too. ``out``: the
    run directory to write (default: a new one below ``runs``); ``force`` replaces it. ``recorder``:
    ``python`` (within the interpreter), ``library`` (any program) or ``auto``. ``most``: records to
    keep. ``timeout_s`` ends the program. ``on_output`` is called with each line that it prints.

    A program that fails is kept, and ``failed`` of the result says why. Raises UsageError for a
    wrong request, and MeasurementError where nothing can be recorded; nothing is kept then.
    """
    if isinstance(program, Path) or (isinstance(program, str) and stream_folder(Path(program))):
        return open_streams(Path(program), whole)
    subject = given_subject(program, parameters, shape, catalog, repeat)
    place, observer = run_folder(as_path(out), f"streams-{subject.label}"), Observer.of_lines(on_output)
    return record_streams(Session(subject, place, force, timeout_s, observer), StreamSettings(most, recorder), whole)


def stream_folder(folder: Path) -> bool:
    """Whether a directory holds a recording of streams."""
    return (folder / stream_records.FILE).is_file()


def record_streams(
    session: Session, settings: StreamSettings, whole: bool = False, warps: bool = False
) -> StreamsResult:
    """Record the subject of a session; ``warps``: it is one of ``traced_subject``. Raises as
    ``streams`` does. Without a GPU the program does not run."""
    if session.subject.note:
        session.observer.say(f"note: {session.subject.note}")
    session.require_gpu()
    with session.open():
        more = ["--out", str(session.folder / WARPS)] if warps else []
        recording, devices, end = recorded(session, settings, whole, more)
        notes = tuple(session.manifest.notes)
        if end.failure:
            session.fail(end.failure)
    return StreamsResult(session.out, devices, notes, recording, whole, end.failure)


def recorded(
    session: Session, settings: StreamSettings, whole: bool, more: Sequence[str] = ()
) -> tuple[Recording, list[DeviceAccount], ProgramEnd]:
    """The recording of an open session's program, kept in its folder with what timelines draw; the
    accounts, and how the program ended. Raises MeasurementError where the GPU did nothing."""
    raw, end = recorder.record(session, settings, more)
    recording = stream_records.read_raw(raw)
    devices = accounts(recording, whole)
    if not devices:
        raise nothing_recorded(recording, whole, end.failure)
    recording.write(session.folder)
    lanes, note = stream_lanes(devices)
    lanes.save(session.folder)
    session.note(*filter(None, (*recording.notes, note)))
    return recording, devices, end


def traced_subject(name: str, settings: Sequence[str] = (), catalog: Path | None = None) -> Subject:
    """A catalog kernel that `ncubble trace` runs once, with the probe; raises UsageError where it
    carries none."""
    from ncubble.kernels.run.probe import require_probe
    from ncubble.kernels.run.session import KernelRequest

    require_probe(KernelRequest.parse(name, settings, catalog).case())
    argv = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()", "trace", name]
    for option, value in (*(("-p", item) for item in settings), ("--catalog", catalog)):
        argv += [option, str(value)] if value else []
    return replace(catalog_subject(name, settings, catalog), argv=[*argv, "--no-cost"])


def open_streams(folder: Path, whole: bool = False) -> StreamsResult:
    """A recorded run; raises UsageError and ReportError, and MeasurementError where the GPU did
    nothing."""
    if not stream_folder(folder):
        remedy = holding(folder) or "name a run directory of `ncubble streams` or `program`, or a kernel"
        raise UsageError(f"{folder}: no recording of streams lies there", remedy)
    recording = stream_records.read(folder)
    devices = accounts(recording, whole)
    if not devices:
        raise nothing_recorded(recording, whole)
    try:
        manifest = read_manifest(folder / MANIFEST)
    except ReportError:  # the recording stands for itself
        manifest = Manifest()
    failed = str(manifest.notes[0]) if manifest.outcome == "failed" and manifest.notes else ""
    return StreamsResult(folder, devices, tuple(filter(None, (failed, *recording.notes))), recording, whole)


def nothing_recorded(recording: Recording, whole: bool, failed: str = "") -> MeasurementError:
    """The error for a recording that holds no work. A program that failed has to be fixed first:
    what cannot be recorded does not matter then."""
    if not whole and len(work_of(recording.rows)):
        idle = "the GPU was idle between cudaProfilerStart and cudaProfilerStop"
        return MeasurementError("; ".join(filter(None, (failed, idle))), "count everything: --whole")
    if failed:
        message = "; ".join([f"{failed}, and had not used the GPU until then", *recording.notes])
        return MeasurementError(message, "its own output says why: make it run without ncubble first")
    remedy = "check that it launches work on the GPU; docs/streams.md, Limits, lists what cannot be recorded"
    if not recording.facts.get("processes"):
        return MeasurementError("no recordable process of the program used CUDA", remedy)
    return MeasurementError("; ".join(["no GPU activity of the program was recorded", *recording.notes]), remedy)
