"""A progress bar on stderr while reports are read or processed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def reading(what: str = "reading reports") -> Iterator[Callable[[int, int], None]]:
    """Yields what is called with the number of those that are done, and of all; ``what`` stands before the bar.
    Nothing is drawn, not even an empty line, where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
