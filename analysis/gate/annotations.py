"""A check as annotations of GitHub Actions, lines that its runner turns into marks on files of a
merge request, and as SARIF.

Pure functions of a ``GateResult``. A line is ``::error title=…,file=…,line=…::message``:
regressions are errors, what could not be judged is a warning, gains are notices. GitHub shows ten
of a kind for a step, so the heaviest come first and the tenth stands for the rest. Whatever comes
from a report is escaped: in values ``%``, carriage return and line feed, in properties ``:`` and
``,`` as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from ncubble.analysis.gate.accounts import Move, plain
from ncubble.analysis.gate.output import explained, numbers
from ncubble.analysis.gate.verdicts import FAILED, RANKS, GateResult, KernelVerdict
from ncubble.profiling.provenance import git
from ncubble.text.markup import Finding, printable, sarif_text
from ncubble.text.values import cut

MOST = 10
LONGEST = 1000
"""Maximum length of a message."""
_LEVELS = (("error", "failure", "failures"), ("warning", "not judged", "not judged"), ("note", "gain", "gains"))
NEAR = 5
"""Maximum distance in lines between a text and the line in the report."""
MOST_FILES = 200_000
"""Files of a checkout that are looked through for a name."""
_LARGEST_SOURCE_B = 8_000_000
SARIF_RULES = {
    "regression": "A kernel is slower, or uses the hardware less, than its baseline.",
    "limit-broken": "A value of a kernel is beyond an absolute limit.",
    "suspicious": "A launch has contradictory values.",
    "not-judged": "A kernel could not be compared with its baseline.",
    "unreadable": "A report could not be read.",
    "gain": "A kernel is better than its baseline; record a new baseline.",
}
Locate = Callable[[Move], tuple[str, int]]


@dataclass(frozen=True)
class Annotation(Finding):
    """A finding that the runner shows as a mark. The largest ``weight`` is told first."""

    title: str = ""
    weight: float = 0.0

    @property
    def kind(self) -> str:
        """The runner's word for its level: error, warning or notice."""
        return "notice" if self.level == "note" else self.level


def stated(move: Move) -> tuple[str, int]:
    """File and line of a move as the report says them."""
    return move.file, move.line or 0


def marks(result: GateResult, locate: Locate = stated) -> list[str]:
    """The lines for a check. ``locate``: path in the repository and line of a move that names a
    file; an empty path if the repository does not hold it."""
    annotations = annotations_of(result, locate)
    lines: list[str] = []
    for level, singular, plural in _LEVELS:
        mine = sorted((item for item in annotations if item.level == level), key=lambda item: -item.weight)
        lines += [line_of(item) for item in _limited(mine, singular, plural)]
    return lines


def sarif(result: GateResult, locate: Locate = stated) -> str:
    """A check as SARIF: regressions are errors at the line that moved, what could not be judged is
    a warning, gains are notes. ``locate``: see ``marks``."""
    return sarif_text(annotations_of(result, locate), SARIF_RULES)


def annotations_of(result: GateResult, locate: Locate = stated) -> list[Annotation]:
    """All marks of a check, in the order of its kernels."""
    marked = [item for kernel in result.kernels for item in _of_kernel(kernel, locate)]
    marked += [
        Annotation("unreadable", "warning", f"{file}: {error}", file, title="could not read", weight=1.0)
        for file, error in result.errors
    ]
    if not marked and not result.kernels:
        nothing = "no kernel was checked, which does not count as a pass"
        marked.append(Annotation("not-judged", "warning", nothing, "ncubble", title="nothing measured"))
    return marked


def _limited(annotations: Sequence[Annotation], singular: str, plural: str) -> Sequence[Annotation]:
    """At most ``MOST``; the last of them then names what is left out."""
    if len(annotations) <= MOST:
        return annotations
    rest = annotations[MOST - 1 :]
    message = f"{len(rest)} more {plural}, the less severe ones: {'; '.join(item.subject for item in rest)}"
    whole = replace(rest[0], message=message, file="", line=0, title=f"{len(rest)} more {singular}")
    return [*annotations[: MOST - 1], whole]


def _of_kernel(kernel: KernelVerdict, locate: Locate) -> Iterable[Annotation]:
    name = f"{kernel.label} on {kernel.device}" if kernel.device else kernel.label
    if kernel.suspicions and kernel.verdict in (*FAILED, "improved", "pass"):
        message = f"{name}: {'; '.join(kernel.suspicions)}"
        yield Annotation("suspicious", "warning", message, kernel.label, title="suspicious")
    if kernel.verdict in FAILED:
        sentences = [numbers(metric) for metric in kernel.metrics if metric.verdict == "regressed"]
        sentences += [_moved_words(move) for move in kernel.moved]
        sentences += [kernel.reason] if kernel.reason else []
        places = (locate(move) for move in kernel.moved if move.file)
        place = next((place for place in places if place[0]), ("", 0))
        message = f"{name}: {'; '.join(sentences)}"
        rule = "regression" if kernel.verdict == "regressed" else "limit-broken"
        title, weight = rule.replace("-", " "), _weight(kernel)
        yield Annotation(rule, "error", message, kernel.label, *place, title=title, weight=weight)
    elif kernel.verdict == "improved":
        gains = "; ".join(numbers(metric) for metric in kernel.metrics if metric.verdict == "improved")
        yield Annotation("gain", "note", f"{name}: {gains}", kernel.label, title="gain", weight=_weight(kernel))
    elif kernel.verdict != "pass":
        words = kernel.verdict.replace("_", " ")
        reason = explained(kernel) or "; ".join(metric.reason for metric in kernel.metrics if metric.reason)
        message = f"{name}: {words}{f': {reason}' if reason else ''}"
        weight = -float(RANKS.index(kernel.verdict))
        yield Annotation("not-judged", "warning", message, kernel.label, title=words, weight=weight)


def _moved_words(move: Move) -> str:
    where = f" at {move.file}:{move.line}" if move.file and move.line else ""
    return f"{move.part.replace('_', ' ')} {move.points:+.1f} points{where}"


def text_of(move: Move) -> str:
    """The source line of a move as its report holds it, blanks run together; empty where it holds
    none."""
    return "" if move.place is None or move.place.sass else " ".join(move.place.text.split())


def line_near(lines: Sequence[str], line: int, text: str) -> int:
    """The line of ``lines`` (from 1) nearest to ``line`` that begins with ``text``, within
    ``NEAR``; ``line`` itself where there is no text. 0 where there is none."""
    if not 1 <= line <= len(lines) + (NEAR if text else 0):
        return 0
    if not text:
        return line
    around = range(max(line - NEAR, 1), min(line + NEAR, len(lines)) + 1)
    same = [number for number in around if plain(lines[number - 1]).startswith(text)]
    return min(same, key=lambda number: abs(number - line), default=0)


def _weight(kernel: KernelVerdict) -> float:
    """By how many times its limit the worst metric moved, either way."""
    moved_by = [
        abs(metric.comparison.loss_pct) / metric.limit_pct
        for metric in kernel.metrics
        if metric.comparison is not None and metric.limit_pct > 0 and metric.verdict in ("regressed", "improved")
    ]
    return max(moved_by, default=0.0)


def line_of(item: Annotation) -> str:
    """The line that the runner reads."""
    named = {
        "title": f"ncubble: {item.title}",
        "file": item.file,
        "line": str(item.line) if item.file and item.line else "",
    }
    properties = ",".join(f"{name}={_property(value)}" for name, value in named.items() if value)
    return f"::{item.kind} {properties}::{_data(cut(printable(item.message), LONGEST))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


def located(file: str, exists: Callable[[str], bool]) -> str:
    """The path in a repository of a source file, which the compiler named from the root of another
    machine.

    The longest end of ``file`` that ``exists`` there; of an absolute path it has a folder at least,
    so that one of many files of a name is not taken for it. Empty where there is none, or where
    ``file`` leads out of the repository.
    """
    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts:
        return ""
    least = 1 if not file.startswith("/") and len(parts) == 1 else 2
    ends = ("/".join(parts[start:]) for start in range(len(parts) - least + 1))
    return next((end for end in ends if exists(end)), "")


class CheckoutFiles:
    """The files of a repository, in which the sources of reports are looked for."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def here(cls) -> CheckoutFiles:
        """Those of the checkout around the working directory, else of the workspace of the job:
        GitHub's paths begin there."""
        here = Path.cwd()
        checkout = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
        return cls(checkout or Path(os.environ.get("GITHUB_WORKSPACE") or here))

    def locate(self, move: Move) -> tuple[str, int]:
        """Path in the repository and line of a move; an empty path if it is not sure."""
        return self.find(*stated(move), text_of(move))

    def find(self, file: str, line: int, text: str = "") -> tuple[str, int]:
        """Path in the repository and line of what a report names; an empty path if it is not sure.

        Reports mostly name the bare file. That is the file of the repository of which exactly one
        has the name, and which has the line's ``text`` where the report holds it.
        """
        if "/" in file or "\\" in file:
            end = located(file, lambda end: (self.root / end).is_file())
            real, root = (self.root / end).resolve(), self.root.resolve()
            # The longest end may lead over a link: a reader wants the file that git tracks.
            return real.relative_to(root).as_posix() if end and real.is_relative_to(root) else end, line
        same = [path for path in self._files if path.rpartition("/")[2] == file]
        if len(same) != 1:
            return "", 0
        nearest = line_near(self._lines(same[0]), line, text)
        return (same[0], nearest) if nearest else ("", 0)

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """Paths of all files: those that git tracks, else those that lie there, hidden folders left
        out."""
        listed = git(self.root, "ls-files", "-z")
        files = listed.strip("\0").split("\0") if listed else islice(_walked(self.root), MOST_FILES)
        return tuple(dict.fromkeys(files))

    def _lines(self, path: str) -> list[str]:
        place = self.root / path
        try:
            if place.stat().st_size > _LARGEST_SOURCE_B:
                return []
            return place.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            return []


def _walked(root: Path) -> Iterable[str]:
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield from (Path(folder, name).relative_to(root).as_posix() for name in files)
