"""From report files to tables in the cache: what is missing is read by workers, each content once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncubble.analysis import seen, store, workers
from ncubble.analysis.container import Frame
from ncubble.errors import NcubbleError


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
    sources: Sequence[Source], parts: tuple[str, ...], progress: Callable[[int, int], None] | None = None
) -> dict[int, NcubbleError]:
    """Read the ``parts`` (``store.PARTS``) that the cache lacks of any of ``sources``; the errors by their index.

    ``progress(done, total)`` counts contents, of which several files may have the same.
    """
    users: dict[str, list[int]] = {}
    for index, source in enumerate(sources):
        users.setdefault(source.frame.sha256, []).append(index)
    lacking = {sha: tuple(part for part in parts if not store.holds(sha, part)) for sha in users}
    missing = [sha for sha in users if lacking[sha]]
    finished = len(users) - len(missing)
    failed: dict[int, NcubbleError] = {}

    def done(number: int, error: NcubbleError | None) -> None:
        nonlocal finished
        sha = missing[number]
        if error := error or _stored(jobs[number], sources[users[sha][0]]):
            failed.update(dict.fromkeys(users[sha], error))
        finished += 1
        if progress:
            progress(finished, len(users))

    if missing:
        with store.staging() as folder:
            chosen = [(sha, sources[users[sha][0]]) for sha in missing]
            jobs = [workers.Job(one.path, lacking[sha], one.frame.launches, folder / sha) for sha, one in chosen]
            workers.extract_all(jobs, done)
    return failed


def _stored(job: workers.Job, source: Source) -> NcubbleError | None:
    """Commit what a worker wrote; the error where that cannot be, or where it read another file than was hashed."""
    try:
        seen.unchanged(source.path, source.signature)
        for part in job.parts:
            store.commit(job.out / part, source.frame.sha256, part)
    except NcubbleError as error:
        return error
    return None
