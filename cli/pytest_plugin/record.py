"""``--ncubble-record``: what tests measured becomes their baselines. Nothing that this session wrote is replaced."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ncubble.analysis.gate import baseline, baseline_file
from ncubble.analysis.gate.baseline import Baseline, replaced
from ncubble.analysis.gate.baseline_file import locked
from ncubble.cli.pytest_plugin.measured import Measured
from ncubble.cli.pytest_plugin.settings import started
from ncubble.errors import MeasurementError, NcubbleError, UsageError


def record(result: Measured, place: Path, config: pytest.Config) -> list[str]:
    """Write a baseline for every kernel of ``result`` to ``place``, a folder or one ``.json`` file; the texts name the
    files, relative to pytest's root.

    Raises UsageError where a file exists and ``--ncubble-force`` was not given, or where another test of this session
    wrote it: of two tests with one baseline, neither may win unseen. Raises MeasurementError for too few launches.
    """
    if result.errors:
        raise MeasurementError("; ".join(f"{path}: {why}" for path, why in result.errors), "remove broken reports")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    baselines = baseline.record(result.groups, now, allow_suspicious=result.allows_suspicious)
    if place.suffix == ".json" and len(baselines) != 1:
        names = "; ".join(item.key.label for item in baselines)
        raise UsageError(
            f"{place}: one file cannot hold {len(baselines)} baselines: {names}", "use a folder, or kernel="
        )
    paths = [place] if place.suffix == ".json" else [place / item.place for item in baselines]
    force = bool(config.getoption("--ncubble-force"))
    with locked(place):
        _refuse(paths, force, started(config))
        kept = [_with_history(path, item) for path, item in zip(paths, baselines, strict=True)]
        baseline_file.save(zip(paths, kept, strict=True), force=force)
    weak = [f" (warning: {text})" for item in baselines for text in baseline.weaknesses(item)]
    return [f"{_from_root(path, config.rootpath)}{''.join(weak) if len(baselines) == 1 else ''}" for path in paths]


def _with_history(path: Path, item: Baseline) -> Baseline:
    """``item`` with what it replaces; a file that cannot be read leaves nothing to keep."""
    try:
        return replaced(baseline_file.load(path), item, "recorded again by pytest --ncubble-force")
    except NcubbleError:
        return item


def _refuse(paths: list[Path], force: bool, since: float) -> None:
    for path in paths:
        if not path.exists():
            continue
        if path.stat().st_mtime >= since:
            raise UsageError(
                f"{path}: another test of this session recorded the same baseline",
                "give each test its own folder, or choose its kernel with kernel=",
            )
        if not force:
            raise UsageError(f"would overwrite {path}", "add --ncubble-force to --ncubble-record to replace it")


def _from_root(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
