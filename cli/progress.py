"""A progress bar on stderr while reports are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading() -> Iterator[Callable[[int, int], None]]:
    """Yields what ``open_reports`` calls with the number of reports that are read, and of all."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading reports", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
