"""Records a program's streams into a run directory, and reads one again."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ncubble.analysis.streams import recording as stream_records
from ncubble.analysis.streams.account import DeviceAccount, accounts, stream_lanes
from ncubble.analysis.streams.recording import Recording
from ncubble.analysis.streams.work import work_of
from ncubble.analysis.traces.lanes import WARPS
from ncubble.api.subjects import chosen_subject
from ncubble.cli.terminal import ended_by_signals, pass_on, say
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.recorders.streams import StreamSettings, record
from ncubble.profiling.runs import MANIFEST, Manifest
from ncubble.profiling.session import Observer, Session, run_folder
from ncubble.profiling.subject import Subject
from ncubble.text.values import finite


@dataclass(frozen=True)
class StreamsJob:
    """Request of the command line."""

    program: list[str] | None
    name: str | None
    parameters: list[str]
    shape: str | None
    catalog: Path | None
    repeat: int
    out: Path | None
    force: bool
    most: int
    recorder: str
    timeout: float | None
    whole: bool = False
    warps: bool = False
    """Trace the warps of the kernel in the same run."""

    def subject(self) -> Subject:
        """The program; raises UsageError."""
        chosen = chosen_subject(self.program, self.name, self.parameters, self.shape, self.catalog, self.repeat)
        if not self.warps:
            return chosen
        if self.program is not None:
            raise UsageError("--warps works with catalog kernels only", "run `ncubble streams --warps NAME`")
        if self.repeat != 1:
            raise UsageError("--warps traces one run only", "omit --repeat")
        return replace(chosen, argv=self._tracing())

    def _tracing(self) -> list[str]:
        """`ncubble trace` of the kernel, which runs it once with the probe; raises UsageError where it
        carries none."""
        from ncubble.kernels.run.probe import require_probe
        from ncubble.kernels.run.session import KernelRequest

        require_probe(KernelRequest.parse(str(self.name), self.parameters, self.shape, self.catalog).case())
        argv = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()", "trace", str(self.name)]
        for item in self.parameters:
            argv += ["-p", item]
        for option, value in (("--shape", self.shape), ("--catalog", self.catalog)):
            argv += [option, str(value)] if value else []
        return [*argv, "--no-cost"]


@dataclass(frozen=True)
class StreamsOutput:
    """A recorded run. ``failed`` says how its program failed, if it did."""

    folder: Path
    accounts: list[DeviceAccount]
    notes: tuple[str, ...]
    recording: Recording
    whole: bool
    failed: str = ""


def record_job(job: StreamsJob) -> StreamsOutput:
    """Runs the program, keeps its run directory; raises UsageError and MeasurementError, and keeps nothing then.
    Without a GPU the program does not run."""
    subject, settings = job.subject(), StreamSettings(job.most, job.recorder)
    if subject.note:
        say(f"note: {subject.note}")
    out = run_folder(job.out, f"streams-{subject.label}")
    session = Session(subject, out, job.force, job.timeout, Observer(output=pass_on, say=say))
    session.require_gpu()
    with ended_by_signals(), session.open():
        more = ["--out", str(session.folder / WARPS)] if job.warps else []
        raw, end = record(session, settings, more)
        recording = stream_records.read_raw(raw)
        devices = accounts(recording, job.whole)
        if not devices:
            raise nothing_recorded(recording, job.whole, end.failure)
        recording.write(session.folder)
        session.note(*filter(None, (*recording.notes, write_lanes(devices, session.folder))))
        notes = tuple(session.manifest.notes)
        if end.failure:
            session.fail(end.failure)
    return StreamsOutput(out, devices, notes, recording, job.whole, end.failure)


def show_job(folder: Path, whole: bool = False) -> StreamsOutput:
    """A run directory that ``record_job`` wrote; raises ReportError, and MeasurementError where the GPU did nothing."""
    recording = stream_records.read(folder)
    devices = accounts(recording, whole)
    if not devices:
        raise nothing_recorded(recording, whole)
    notes = tuple(filter(None, (_failure(folder), *recording.notes)))
    return StreamsOutput(folder, devices, notes, recording, whole)


def _failure(folder: Path) -> str:
    """How the program of a run failed; nothing where it did not, or its manifest is not there."""
    path = folder / MANIFEST
    try:
        manifest = Manifest.from_json(path.read_text(encoding="utf-8"), path)
    except (OSError, ValueError, ReportError):
        return ""
    return str(manifest.notes[0]) if manifest.outcome == "failed" and manifest.notes else ""


def write_trace(shown: StreamsOutput, path: Path) -> None:
    """Writes the tracks for a viewer; raises UsageError where the file cannot be written."""
    from ncubble.analysis.streams.drawing import streams_drawing

    drawing = streams_drawing(shown.accounts, shown.recording, shown.whole)
    drawing.write(path, finite({"run": shown.folder.name, "notes": list(shown.notes)}))


def nothing_recorded(recording: Recording, whole: bool, failed: str = "") -> MeasurementError:
    """The error for a recording that holds no work. A program that failed has to be fixed first:
    what cannot be recorded does not matter then."""
    reasons = [failed] if failed else []
    if not whole and len(work_of(recording.rows)):
        reasons.append("the GPU was idle between cudaProfilerStart and cudaProfilerStop")
        return MeasurementError("; ".join(reasons), "count everything: --whole")
    if failed:
        message = "; ".join([f"{failed}, and had not used the GPU until then", *recording.notes])
        return MeasurementError(message, "its own output says why: make it run without ncubble first")
    remedy = "check that it launches work on the GPU; docs/streams.md, Limits, lists what cannot be recorded"
    if not recording.facts.get("processes"):
        return MeasurementError("no recordable process of the program used CUDA", remedy)
    return MeasurementError("; ".join(["no GPU activity of the program was recorded", *recording.notes]), remedy)


def write_lanes(devices: list[DeviceAccount], folder: Path) -> str:
    """Keeps what the timelines draw; a note where that is not all."""
    lanes, note = stream_lanes(devices)
    lanes.save(folder)
    return note
