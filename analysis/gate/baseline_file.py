"""Baseline files: read with every field checked, written whole or not at all. Every error names the
file and the field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncubble.analysis.gate.accounts import Account
from ncubble.analysis.gate.baseline import FEWEST_REPEATS, SCHEMA, Baseline, BaselineMetric
from ncubble.analysis.gate.noise import mean_sd
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.profiling.runs import walk
from ncubble.records import WrongFieldError, typed
from ncubble.store import draft_of, lock

SMALLEST = 1e-6
"""Minimum mean of a gated metric: below it, a change in percent overflows."""
LOCKED_S = 60.0
"""Seconds to wait for another process that is recording, which takes less than one second."""
_REMEDY = "restore the file from version control, or record it again with `ncubble baseline --force`"
_NAME = re.compile(r"(?s:.*)\.json")
_RECORD = "record one with `ncubble baseline RUN…`, or name another with --baseline"


def load(path: Path) -> Baseline:
    """The baseline at ``path``. Raises UsageError (no such file) or ReportError naming the file and
    the wrong field."""
    try:
        if path.exists() and not path.is_file():
            raise ReportError(f"{path}: not a regular file, so not a baseline", _REMEDY)
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such baseline", _RECORD) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: unreadable baseline ({error})", _REMEDY) from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not valid JSON, perhaps half-written ({error})", _REMEDY) from error
    return parse(path, raw)


def load_store(path: Path) -> tuple[list[Baseline], list[NcubbleError]]:
    """All baselines below the directory ``path``, or the one in the file ``path``; a broken one
    hides no other.

    Of two files for one kernel and GPU model neither is taken: which of them holds is for a person
    to say.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such baseline file or directory", _RECORD)
    files: dict[tuple[str, str], list[Baseline]] = {}
    errors: list[NcubbleError] = []
    found = walk(path, _NAME, errors.append, lambda folder: errors.append(_unlisted(folder))) if path.is_dir() else ()
    for file in sorted(folder / name for folder, names in found for name in names) if path.is_dir() else [path]:
        try:
            item = load(file)
            files.setdefault((item.device.name, item.key.canonical), []).append(item)
        except NcubbleError as error:
            errors.append(error)
    for rivals in files.values():
        if len(rivals) > 1:
            names = " and ".join(item.path for item in rivals)
            errors.append(ReportError(f"{names}: duplicate baselines for one kernel and GPU", "keep only one of them"))
    return [rivals[0] for rivals in files.values() if len(rivals) == 1], errors


def _unlisted(folder: Path) -> ReportError:
    return ReportError(f"{folder}: this folder of baselines cannot be listed", "check its permissions")


def places(store: Path, baselines: list[Baseline]) -> list[Path]:
    """The file of each baseline in ``store``, a folder or one ``.json`` file, which can hold one
    alone: else raises UsageError."""
    if store.suffix != ".json":
        return [store / item.place for item in baselines]
    if len(baselines) != 1:
        names = "; ".join(item.key.label for item in baselines)
        raise UsageError(
            f"{store}: one file cannot hold {len(baselines)} baselines: {names}", "name a folder, or choose one kernel"
        )
    return [store]


def locked(place: Path) -> AbstractContextManager[None]:
    """While it is held, no other process of this user records or updates baselines in the folder of
    ``place``, a folder or one ``.json`` file."""
    folder = place.parent if place.suffix == ".json" else place
    return lock(f"baselines {folder.resolve()}", f"baselines in {folder}", LOCKED_S)


def save(pairs: Iterable[tuple[Path, Baseline]], *, force: bool = False) -> None:
    """Write each baseline to its path, whole or not at all; ``locked`` is held meanwhile. Raises
    UsageError, with nothing written, if one exists and ``force`` is not given."""
    planned = list(pairs)
    existing = [str(path) for path, _ in planned if path.exists()]
    if existing and not force:
        remedy = "--force replaces them, --out DIR writes elsewhere"
        raise UsageError(f"would overwrite {', '.join(existing)}", remedy)
    for path, baseline in planned:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with draft_of(path, shared=True) as draft:
                draft.write_text(f"{_text(baseline.to_json())}\n", encoding="utf-8")
        except OSError as error:
            raise MeasurementError(
                f"{path}: could not write the baseline ({error})", "check disk space and permissions"
            ) from error


def _text(value: Any, indent: str = "") -> str:
    """JSON with a line for each member, but lists of plain values, and objects within lists, on one
    line each."""
    inner = f"{indent} "
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(key)}: {_text(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return "[\n" + ",\n".join(f"{inner}{_line(item)}" for item in value) + f"\n{indent}]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def parse(origin: Path, raw: Any) -> Baseline:
    """The baseline that the object ``raw`` describes. Raises ReportError naming ``origin`` and the
    wrong field."""
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if type(schema) is int and schema != SCHEMA:
        raise ReportError(
            f"{origin}: a baseline of schema {schema}, not {SCHEMA}", "upgrade ncubble, or record it again"
        )
    try:
        baseline = replace(typed(_with_places(raw), Baseline), path=str(origin))
        _check(baseline)
    except WrongFieldError as error:
        raise ReportError(f"{origin}: not a usable baseline: {error}", _REMEDY) from error
    return baseline


def _with_places(raw: Any) -> Any:
    """``raw`` with the places of its account as ``CodePlace`` has them: what stands there, and
    whether it is SASS."""
    account = raw.get("account") if isinstance(raw, dict) else None
    if not isinstance(account, dict) or not isinstance(account.get("places"), list):
        return raw
    return {**raw, "account": {**account, "places": list(map(_place, account["places"]))}}


def _place(place: Any) -> Any:
    if not isinstance(place, dict):
        return place
    return {"file": "", "line": None, **place, **({"text": place["sass"], "sass": True} if "sass" in place else {})}


def _check(baseline: Baseline) -> None:
    """What types do not say. Raises WrongFieldError."""
    free = {name: getattr(baseline, name) for name in ("build", "geometry", "git")}
    free |= {f"key.{name}": getattr(baseline.key, name) for name in ("parameters", "shape")}
    for name, value in free.items():  # they may hold whatever is JSON, which NaN is not
        try:
            json.dumps(value, allow_nan=False)
        except ValueError as error:
            raise WrongFieldError(name, "contains NaN or infinity") from error
    for name, metric in baseline.metrics.items():
        _check_metric(metric, f"metrics.{name}", baseline.repeats)
    for index, report in enumerate(baseline.reports):
        typed(report, dict[str, str], f"reports[{index}]")
    launches, reports = baseline.launches, len(baseline.reports)
    if len(launches.run) != baseline.repeats or not all(0 <= index < reports for index in launches.run):
        raise WrongFieldError("launches.run", f"is not {baseline.repeats} numbers of reports below {reports}")
    if (clocks := len(launches.sm_clock_hz)) != len(launches.run):
        raise WrongFieldError("launches.sm_clock_hz", f"has {clocks} clocks for {len(launches.run)} launches")
    if baseline.account is not None:
        _check_account(baseline.account)


def _check_metric(metric: BaselineMetric, name: str, repeats: int) -> None:
    known = metric.measured
    if metric.gated and metric.better == "neutral":
        raise WrongFieldError(f"{name}.better", "is neutral, so the metric cannot be gated")
    if not 1 <= len(known) <= repeats or (metric.gated and len(known) < FEWEST_REPEATS):
        raise WrongFieldError(f"{name}.values", f"has {len(known)} values for {repeats} repeats")
    if len(metric.values) != repeats:
        raise WrongFieldError(f"{name}.values", f"has {len(metric.values)} values for {repeats} repeats")
    mean, sd = mean_sd(known)
    if metric.gated and mean < SMALLEST:
        raise WrongFieldError(f"{name}.values", f"have a mean of {mean:g}: a relative loss is undefined")
    for member, stated, actual in (("mean", metric.mean, mean), ("sd", metric.sd, sd)):
        alike = stated is not None and math.isclose(stated, actual, rel_tol=1e-6, abs_tol=1e-9 * abs(mean))
        if math.isfinite(actual) and not alike:
            raise WrongFieldError(f"{name}.{member}", f"is {stated!r}, but the values give {actual!r}")


def _check_account(account: Account) -> None:
    if not account.parts or len({len(values) for values in account.parts.values()}) > 1:
        raise WrongFieldError("account.parts", "has no parts, or parts with different numbers of values")
    for index, launch in enumerate(zip(*account.parts.values(), strict=True)):
        known = [value for value in launch if value is not None]
        if known and (len(known) < len(launch) or abs(math.fsum(known) - 100.0) > 0.05):
            raise WrongFieldError("account.parts", f"of launch {index} do not sum to 100")
