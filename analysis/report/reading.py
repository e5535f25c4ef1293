"""From report files to tables in the cache: what is missing is read by workers, each content
once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from threading import Lock

from ncubble.analysis.report import cache as store
from ncubble.analysis.report import walked as seen
from ncubble.analysis.report import workers
from ncubble.analysis.report.container import Frame
from ncubble.errors import NcubbleError
from ncubble.profiling.scratch import intact

REQUEST_B = 64 << 20
"""Uncompressed bytes of a report that one request reads. The native reader frees no parsed data,
some eleven times as much, until its process ends."""
NEXT = ("pandas", "pyarrow.parquet")
"""Options with which all tables are stored and loaded."""
WORTH_A_REQUEST_B = 8 << 20
"""Smaller reports are read in less time than a worker takes to start."""


@dataclass(frozen=True)
class Source:
    """A report file that passed the frame check, and what its file looked like then."""

    path: Path
    frame: Frame
    signature: seen.Signature

    @classmethod
    def of(cls, path: Path) -> Source:
        """The file at ``path``; raises ReportError where its frame is damaged."""
        return cls(path, *seen.frame_of(path))


def ingest(
    sources: Sequence[Source],
    parts: tuple[str, ...],
    progress: Callable[[int, int], None] | None = None,
    then: Sequence[str] = (),
    attempts: int = 3,
) -> dict[int, NcubbleError]:
    """Read the ``parts`` (``store.PARTS``) that the cache lacks of any of ``sources``; the errors
    by their index.

    ``progress(done, total)`` counts contents, of which several files may have the same. Modules
    ``then``, which are needed next, are imported while workers read. Where someone deletes the
    cache meanwhile, what is missing then is read once more, up to ``attempts`` times in all.
    """
    users: dict[str, list[int]] = {}
    for index, source in enumerate(sources):
        users.setdefault(source.frame.sha256, []).append(index)
    lacking = {sha: tuple(part for part in parts if not store.holds(sha, part)) for sha in users}
    missing = [sha for sha in users if lacking[sha]]
    failed: dict[int, NcubbleError] = {}
    if not missing:
        return failed
    with store.staging({sha: sources[users[sha][0]].path for sha in missing}) as folder:
        tasks = [_Task(sources[users[sha][0]], lacking[sha], folder / sha, len(missing)) for sha in missing]
        owners = [task for task in tasks for _ in task.jobs]
        finished, lock = len(users) - len(missing), Lock()

        def done(number: int, error: NcubbleError | None) -> None:
            nonlocal finished
            task = owners[number]
            with lock:
                last = task.take(error)
            if not last:
                return
            if error := task.error or task.store():
                failed.update(dict.fromkeys(users[task.source.frame.sha256], error))
            with lock:
                finished += 1
                if progress:
                    progress(finished, len(users))

        def prepare() -> None:
            for module in (*NEXT, *then):
                import_module(module)

        workers.extract_all([job for task in tasks for job in task.jobs], done, meanwhile=prepare)
        deleted = not intact(folder)
    return ingest(sources, parts, progress, then, attempts - 1) if deleted and attempts > 1 else failed


class _Task:
    """One content to be read: the jobs that it takes, how many are still out, and what went
    wrong."""

    def __init__(self, source: Source, parts: tuple[str, ...], folder: Path, beside: int) -> None:
        self.source, self.parts, self.folder = source, parts, folder
        self.error: NcubbleError | None = None
        count = source.frame.launches
        self.jobs = [
            workers.Extraction(source.path, parts, count, first, last, folder / f"{first:08d}")
            for first, last in split(source.frame, -(-workers.worker_count() // beside))
        ]
        self.out = len(self.jobs)

    def take(self, error: NcubbleError | None) -> bool:
        """Note that one job has ended; whether it was the last."""
        self.error = self.error or error
        self.out -= 1
        return not self.out

    def store(self) -> NcubbleError | None:
        """Commit what the workers wrote; the error where that cannot be, or where they read another
        file."""
        try:
            seen.unchanged(self.source.path, self.source.signature)
            for part in self.parts:
                folder = store.build([job.out / part for job in self.jobs], self.folder / part)
                store.commit(folder, self.source.frame.sha256, part)
        except NcubbleError as error:
            return error
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)  # a folder of many reports needs the space of one
        return None


def split(frame: Frame, workers_free: int) -> list[tuple[int, int]]:
    """First and last launch (exclusive) of each request for a report that ``workers_free`` workers
    may read."""
    launches, total = max(frame.launches, 1), max(frame.plain_size, 1)
    most, least = REQUEST_B * launches // total, -(-WORTH_A_REQUEST_B * launches // total)
    size = max(1, min(most, max(-(-launches // workers_free), least)))
    return [(first, min(first + size, frame.launches)) for first in range(0, max(frame.launches, 1), size)]
