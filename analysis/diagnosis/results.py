"""Verdicts of whole reports as plain data (schema: docs/reference/verdicts.md), remembered beside
their tables.

A verdict follows from the report, its manifest and the rules, so it is found again under the hashes
of all three. What an ablation measured lies beside the report and is read each time. pandas is
imported only where there is something to judge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import zip_longest
from pathlib import Path
from traceback import extract_tb
from typing import Any, NamedTuple

from ncubble.analysis.ablation.result import Ablation, ablation_of
from ncubble.analysis.changes.tried import Tried
from ncubble.analysis.diagnosis.measured import as_tried
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.report import cache as store
from ncubble.analysis.report.report import Report, ReportFailure, open_reports
from ncubble.errors import NcubbleError, ReportError
from ncubble.profiling.runs import Manifest
from ncubble.store import recall, remember
from ncubble.text.values import number

SCHEMA = 3
CONTRADICTIONS = (NcubbleError, ValueError, TypeError, ArithmeticError, LookupError)
"""Exceptions that impossible values cause in an analysis. Any other exception is a bug."""
_ANALYSIS = Path(__file__).parents[1]
_RULES = ("ncubble.analysis", "ncubble.profiling", "ncubble.sass", "ncubble.text")
"""Packages, with their subpackages, that verdicts depend on."""
_CHIPS = ("chips.py", "chips.toml")
"""Files of ``ncubble`` itself that verdicts depend on."""


class Unread(NamedTuple):
    """A report, or a part of it, that could not be read or judged, and why."""

    report: str
    error: str


@dataclass
class ReportResult:
    """Verdicts of reports, and what could not be judged. ``ablations`` (None: not ablated) are
    those of ``verdicts``, in their order."""

    verdicts: list[LaunchVerdict] = field(default_factory=list)
    errors: list[Unread] = field(default_factory=list)
    ablations: list[Ablation | None] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The whole object of ``ncubble report --json``."""
        launches = [verdict.to_json() for verdict in self.verdicts]
        for launch, ablation in zip_longest(launches, self.ablations):
            launch["measured"] = _measured_json(ablation) if ablation else None
        return {"schema": SCHEMA, "launches": launches, "errors": [error._asdict() for error in self.errors]}


def report_json(paths: Iterable[Path]) -> dict[str, Any]:
    """The whole object of ``ncubble report --json``."""
    return judge_all(*open_reports(paths)).to_json()


def judge_all(reports: Iterable[Report], failures: Iterable[ReportFailure]) -> ReportResult:
    """Verdicts of opened reports, and errors of those that failed. A report or launch that cannot
    be judged becomes an error, and hides no other."""
    result = ReportResult(errors=[Unread(str(failure.path), str(failure.error)) for failure in failures])
    for report in reports:
        verdicts, cannot = judge(report)
        failed = list(cannot)
        result.verdicts += verdicts
        result.ablations += [readable_ablation(report.path, verdict.launch, failed) for verdict in verdicts]
        result.errors += [Unread(str(report.path), str(error)) for error in failed]
    return result


def _measured_json(ablation: Ablation) -> list[dict[str, Any]]:
    return [
        {"part": part.part, "measured": part.measured, "se": number(part.se), "alone": part.alone}
        for part in ablation.parts
    ]


def readable_ablation(path: Path, launch: int, failed: list[NcubbleError]) -> Ablation | None:
    """What was measured of a launch (``ablation_of``); None, and an error in ``failed``, where the
    file is damaged."""
    try:
        return ablation_of(path, launch)
    except ReportError as error:
        failed.append(error)
        return None


@lru_cache(maxsize=1)
def judge(report: Report) -> tuple[list[LaunchVerdict], list[NcubbleError]]:
    """The verdict of every launch that can be judged, and why others cannot be."""
    if (known := _remembered(report)) is not None:
        return [_named(members, report) for members in known.values()], []
    verdicts, failed = _judge(report)
    if not failed:
        place = verdicts_file(report.frame.sha256, report.run.manifest)
        remember(place, {"rules": rules_hash(), "verdicts": [verdict.to_json() for verdict in verdicts]})
    return [as_tried(verdict, _tried(report)) for verdict in verdicts], failed


def remembered_verdict(report: Report, launch: int) -> LaunchVerdict | None:
    """The verdict of one launch where those of its report are remembered, without making the
    others."""
    members = (_remembered(report) or {}).get(launch)
    return None if members is None else _named(members, report)


@lru_cache(maxsize=1)
def _remembered(report: Report) -> dict[int, Any] | None:
    """The members of every verdict by launch; None where they are not remembered, or follow other
    rules."""
    known = recall(verdicts_file(report.frame.sha256, report.run.manifest))
    if not known or known["rules"] != rules_hash():
        return None
    return {members["launch"]: members for members in known["verdicts"]}


def _named(members: dict[str, Any], report: Report) -> LaunchVerdict:
    verdict = LaunchVerdict.from_json(members)
    verdict = replace(verdict, report=str(report.path), label=report.run.label_of(verdict.launch))
    return as_tried(verdict, _tried(report))


def _tried(report: Report) -> Tried | None:
    """Changes of a run's launch that were made; None for a bare report, or a damaged file."""
    with suppress(ReportError):
        return Tried.load(report.path) if report.path.is_dir() else None
    return None


def verdicts_file(sha256: str, manifest: Manifest) -> Path:
    """Where the verdicts of a report with this content and this manifest are kept."""
    return store.folder_of(sha256, "scalars").parent / f"verdicts-{facts_hash(manifest)}.json"


def facts_hash(manifest: Manifest) -> str:
    """A hash over all that a manifest says."""
    members = {item.name: getattr(manifest, item.name) for item in fields(manifest)}
    return hashlib.sha256(json.dumps(members).encode()).hexdigest()[:32]


def _judge(report: Report) -> tuple[list[LaunchVerdict], list[NcubbleError]]:
    from ncubble.analysis.diagnosis.diagnose import launch_verdict

    verdicts: list[LaunchVerdict] = []
    failed: dict[str, NcubbleError] = {}
    try:
        launches = list(report)
        report.read_together()
    except CONTRADICTIONS as error:
        return verdicts, [contradiction(report.path, "", error)]
    for launch in launches:
        try:
            verdicts.append(launch_verdict(launch))
        except CONTRADICTIONS as error:
            unjudged = contradiction(report.path, f"launch {launch.number} ", error)
            failed[str(unjudged)] = unjudged  # a cause shared by all launches is named once
    return verdicts, list(failed.values())


def contradiction(path: Path, which: str, error: Exception) -> NcubbleError:
    """``error``, or an error that says what of the report (``which``) contradicts itself, and which
    rule found it so: what NumPy or Python say of its values helps nobody."""
    if isinstance(error, NcubbleError):
        return error
    inside = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(_ANALYSIS)]
    rule = f" ({Path(inside[-1].filename).name}:{inside[-1].lineno})" if inside else ""
    made = ReportError(
        f"{path}: {which}contradicts itself: its values allow no account{rule}",
        "the file is probably damaged: copy it again, or profile again",
    )
    made.__cause__ = error
    return made


@cache
def rules_hash() -> str:
    """A hash over everything that turns tables into verdicts."""
    chips = b"".join((files("ncubble") / name).read_bytes() for name in _CHIPS)
    return hashlib.sha256(sources_hash(*_RULES).encode() + chips).hexdigest()


def sources_hash(*packages: str) -> str:
    """A hash over the Python and TOML files of ``packages`` and of all packages below them, by name
    and content."""
    digest = hashlib.sha256()
    for package in packages:
        for name, content in sorted(_sources(files(package), package)):
            digest.update(f"{name}\0".encode() + content)
    return digest.hexdigest()


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _sources(item, f"{name}/{item.name}")
        elif item.name.endswith((".py", ".toml")):
            yield f"{name}/{item.name}", item.read_bytes()
