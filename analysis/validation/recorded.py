"""Reads what ``ncubble validate --measure`` wrote beside the runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ncubble.analysis.report.report import Report, open_reports
from ncubble.errors import ReportError
from ncubble.profiling.runs.run import Run
from ncubble.text.renamed import renamed_keys

Opener = Callable[[str], Report]


def load(file: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ReportError where it is missing or holds none."""
    if not file.is_file():
        raise ReportError(f"{file}: no such recording", "name a folder that --measure wrote, or measure one")
    try:
        content = json.loads(file.read_text(encoding="utf-8"), object_hook=renamed_keys)
    except ValueError as error:
        raise ReportError(f"{file}: not JSON ({error})", "restore it, or measure anew") from error
    if not isinstance(content, dict):
        raise ReportError(f"{file}: not a JSON object", "restore it, or measure anew")
    return content


def opener(folder: Path, runs: Iterable[str]) -> Opener:
    """Opens reports below ``folder`` by name, each once. Those of ``runs`` that are there are read
    now, together."""
    there = [path for path in dict.fromkeys(folder / run for run in runs) if path.exists()]
    opened = {report.path: report for report in open_reports(there)[0]}

    def reports(run: str) -> Report:
        path = folder / run
        if path not in opened:
            opened[path] = Report.open(path)
        return opened[path]

    return reports


def origin_of(content: Mapping[str, Any], folder: Path, runs: Iterable[str]) -> dict[str, Any]:
    """Where the ``runs`` below ``folder`` come from: device and ncu of ``content``, and by the
    manifests of the runs all commits, in the order of their measurements, and all days."""
    manifests = sorted((Run.load(folder / run).manifest for run in set(runs)), key=lambda one: one.started)
    told = {key: content.get(key) for key in ("device", "ncu_version")}
    commits = dict.fromkeys(one.git["sha"] for one in manifests if one.git.get("sha"))
    days = dict.fromkeys(one.started[:10] for one in manifests if one.started)
    return {**told, "commits": list(commits), "days": list(days)}
