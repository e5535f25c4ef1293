"""Records a program's streams into a run directory, and reads one again."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ncubble.analysis.streams import records as stream_records
from ncubble.analysis.streams.account import DeviceAccount, accounts, as_json, drawn_lanes
from ncubble.analysis.streams.engines import work_of
from ncubble.analysis.streams.records import Recording
from ncubble.analysis.traces.lanes import MOST_ROWS, WARPS
from ncubble.analysis.traces.run import save_lanes
from ncubble.cli.commands.profile import catalog_program
from ncubble.cli.running import write_drawing_to
from ncubble.cli.terminal import ended_by_signals, pass_on
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.devices.driver import DriverError, describe
from ncubble.profiling.ncu.doctor import require_gpu
from ncubble.profiling.processes import process
from ncubble.profiling.runs import provenance, staging
from ncubble.profiling.runs.run import MANIFEST, Manifest
from ncubble.profiling.runs.staging import default_out
from ncubble.profiling.streams.session import RecordingRequest, check_recorder, record

RAW = "raw"


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

    def argv(self) -> tuple[list[str], str]:
        """The program and a label for its run directory; raises UsageError."""
        if (self.name is None) == (self.program is None):
            raise UsageError("name a catalog kernel, or a program after --", "see `ncubble streams --help`")
        if self.program is None:
            if self.warps and self.repeat != 1:
                raise UsageError("--warps traces one run only", "omit --repeat")
            argv, label, _ = catalog_program(self.name or "", self.parameters, self.shape, self.catalog, self.repeat)
            return (self._tracing() if self.warps else argv), f"streams-{label}"
        if self.warps:
            raise UsageError("--warps works with catalog kernels only", "run `ncubble streams --warps NAME`")
        if self.parameters or self.shape or self.catalog or self.repeat != 1:
            raise UsageError(
                "-p, --shape, --catalog and --repeat are for catalog kernels",
                "pass options after --",
            )
        process.require_program(self.program)
        return self.program, f"streams-{Path(self.program[0]).name}"

    def _tracing(self) -> list[str]:
        """`ncubble trace` of the kernel, which runs it once with the probe; raises UsageError where it
        carries none."""
        from ncubble.kernels.probe.probe import require_probe
        from ncubble.kernels.run.request import KernelRequest

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
    argv, label = job.argv()
    check_recorder(job.recorder, job.most)
    out = job.out or default_out(label)
    staging.check_target(out, job.force)
    require_gpu()
    with staging.staged(out, job.force) as folder:
        raw = folder.parent / RAW
        raw.mkdir()
        program = [*argv, "--out", str(folder.absolute() / WARPS)] if job.warps else argv
        request = RecordingRequest(program, job.most, job.recorder, job.timeout)
        started = provenance.utc_now()
        failed = run_recorded(request, raw)
        recording = stream_records.read_raw(raw)
        devices = accounts(recording, job.whole)
        if not devices:
            raise nothing_recorded(recording, job.whole, failed)
        stream_records.write(recording, folder)
        notes = tuple(note for note in (*recording.notes, write_lanes(devices, folder)) if note)
        recorded_manifest(argv, started, notes, failed).save(folder)
    return StreamsOutput(out, devices, notes, recording, job.whole, failed)


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
    write_drawing_to(path, drawing, {"run": shown.folder.name, "notes": list(shown.notes)})


def run_recorded(request: RecordingRequest, raw: Path) -> str:
    """Runs the program; how it failed, or nothing."""
    with ended_by_signals():
        try:
            status = record(request, raw, pass_on)
        except process.TimedOutError:
            return f"the program exceeded --timeout {request.timeout_s:g} s and was stopped"
    if status < 0:
        return f"the program was killed by {process.ending(status)}"
    return f"the program failed with exit status {status}" if status else ""


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


def _lanes(devices: list[DeviceAccount]) -> pd.DataFrame:
    return pd.concat([drawn_lanes(device) for device in devices], ignore_index=True)


def write_lanes(devices: list[DeviceAccount], folder: Path) -> str:
    """Keeps what the timelines draw; a note where that is not all."""
    lanes = _lanes(devices)
    facts = {"devices": [{"name": device.name, **as_json(device, longest=0)} for device in devices]}
    save_lanes(folder, lanes.sort_values("start_ns", kind="stable").iloc[:MOST_ROWS].sort_index(), "streams", facts)
    return f"the timeline holds the first {MOST_ROWS:,} of {len(lanes):,} intervals" if len(lanes) > MOST_ROWS else ""


def recorded_manifest(argv: list[str], started: str, notes: tuple[str, ...], failed: str) -> Manifest:
    """The manifest of a recorded run that ends now."""
    return Manifest(
        outcome="failed" if failed else "ok",
        started=started,
        ended=provenance.utc_now(),
        argv=["python" if text == sys.executable else text for text in argv],
        git=provenance.git_state(Path.cwd()),
        device=_device(),
        notes=[*([failed] if failed else []), *notes],
    )


def _device() -> dict[str, Any]:
    try:
        return describe().as_facts()
    except DriverError:
        return {}
