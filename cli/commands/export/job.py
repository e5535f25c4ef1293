"""Runs an export: reads and selects reports, renders the file, and puts it in place atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncubble.analysis.program.opening import is_program
from ncubble.cli.terminal import reading
from ncubble.dashboard.data.readings import Entry, Failure
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.export import content
from ncubble.dashboard.export.choice import chosen, comparisons, entry_of
from ncubble.dashboard.export.images import Look, image
from ncubble.dashboard.export.static_html import StaticFigure
from ncubble.errors import MeasurementError, ReportError, UsageError
from ncubble.profiling.runs import without_report
from ncubble.text.remedies import known_names

POLL_S = 0.1


@dataclass(frozen=True)
class Job:
    """Request: reports, launch numbers (none: all), a pattern of kernel names, comparison or not,
    theme."""

    paths: tuple[Path, ...]
    launches: tuple[int, ...] = ()
    kernel: str = ""
    compare: bool = False
    theme: str = "system"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Written content, or available figures by name; and unreadable reports."""

    file: str | None = None
    bytes: int = 0
    launches: Sequence[str]
    left_out: int = 0
    figures: dict[str, str] = field(default_factory=dict)
    errors: Sequence[str]


def write_page(job: Job, out: Path) -> Exported:
    """Write the HTML file of a job."""
    store, rows, errors = _read(job)
    compared = comparisons(store, rows, job.paths) if job.compare else []
    with reading("making pages") as step:
        if job.compare:
            made = content.comparisons_file(store, compared, job.theme, errors, step)
        else:
            programs = [path for path in job.paths if path.is_dir() and is_program(path)]
            made = content.launches_file(store, rows, job.theme, errors, step, programs)
    written = made.text.encode("utf-8", "backslashreplace")
    put(out, written)
    return Exported(file=str(out), bytes=len(written), launches=made.launches, left_out=made.left_out, errors=errors)


def write_figure(job: Job, name: str, out: Path, look: Look) -> Exported:
    """Write one figure of one launch, or of one comparison, as a picture."""
    store, rows, errors = _read(job)
    title, drawn, ids = _figures(job, store, rows)
    chosen = next((figure for figure in drawn if figure.name == name), None)
    if chosen is None:
        names = [figure.name for figure in drawn]
        remedy = known_names(name, names, "figures") if names else "the data for its figures were not collected"
        raise UsageError(f"no figure {name!r}", remedy)
    made = image(chosen.figure, f"{title} · {name}", out.suffix.lower().lstrip("."), look)
    put(out, made)
    return Exported(file=str(out), bytes=len(made), launches=ids, errors=errors)


def list_figures(job: Job) -> Exported:
    """Names of the figures of one launch, or of one comparison, with descriptions."""
    store, rows, errors = _read(job)
    _, drawn, ids = _figures(job, store, rows)
    return Exported(launches=ids, figures={figure.name: figure.label for figure in drawn}, errors=errors)


def _read(job: Job) -> tuple[ReportStore, list[Mapping[str, Any]], list[str]]:
    """The store of all reports, the selected rows, worst first, and unreadable reports."""
    store = ReportStore(list(job.paths)).start()
    with reading() as progress:
        while not store.wait(POLL_S):
            state = store.progress()
            progress(state.done, state.total)
    failures = store.failures()
    if not store.rows() and failures:
        raise ReportError(_located(failures[0]), failures[0].remedy)
    if not store.rows():
        error = without_report(job.paths)
        raise MeasurementError(error.message, error.remedy)
    errors = [_located(failure) + (f"\n  remedy: {failure.remedy}" if failure.remedy else "") for failure in failures]
    return store, chosen(store.rows(), job.launches, job.kernel), errors


def _located(failure: Failure) -> str:
    """The error of a report, prefixed with its path unless the message contains it."""
    return failure.error if failure.error.startswith(failure.where) else f"{failure.where}: {failure.error}"


def _figures(
    job: Job, store: ReportStore, rows: list[Mapping[str, Any]]
) -> tuple[str, list[StaticFigure], Sequence[str]]:
    """Title and figures of the page to export as a picture, and its launches."""
    if job.compare:
        compared = comparisons(store, rows, job.paths)
        if len(compared) > 1:
            raise UsageError(
                f"{len(compared)} comparisons, and a picture shows one", "choose with --kernel or --launch"
            )
        title, asked = compared[0]
        return f"{title}, compared", content.comparison_figures(store, asked), asked.launches
    if len(rows) > 1:
        raise UsageError(f"{len(rows)} launches, and a picture shows one", "choose with --launch or --kernel")
    entry: Entry = entry_of(store, rows[0])
    return content.title_of(rows[0]), content.page_figures(store, entry), [rows[0]["id"]]


def put(out: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so readers see the old or the complete new
    file. Raises UsageError if the folder is not writable.
    """
    try:
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=".ncubble-", suffix=out.suffix)
    except OSError as error:
        raise UsageError(f"{out.parent}: {error.strerror}", "choose another -o") from error
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        made.chmod(0o666 & ~mask)
        made.replace(out)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise MeasurementError(f"{out}: {error.strerror}", "free disk space, or choose another -o") from error
    except BaseException:
        made.unlink(missing_ok=True)
        raise
