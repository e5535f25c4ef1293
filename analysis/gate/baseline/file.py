"""Baseline files: read with every field checked, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ncubble.analysis.gate.baseline.baseline import Baseline
from ncubble.analysis.gate.baseline.reading import REMEDY, parse
from ncubble.errors import MeasurementError, NcubbleError, ReportError, UsageError
from ncubble.store import lock

LOCKED_S = 60.0
"""Seconds to wait for another process that is recording, which takes less than one second."""


def load(path: Path) -> Baseline:
    """The baseline at ``path``. Raises UsageError (no such file) or ReportError naming the file and
    the wrong field."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such baseline", "record one with `ncubble baseline record RUN…`") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: unreadable baseline ({error})", REMEDY) from error
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not valid JSON, perhaps half-written ({error})", REMEDY) from error
    return parse(path, raw)


def load_store(path: Path) -> tuple[list[Baseline], list[NcubbleError]]:
    """All baselines below the directory ``path``, or the one in the file ``path``; a broken one
    hides no other.

    Of two files for one kernel and GPU model neither is taken: which of them holds is for a person
    to say.
    """
    if not path.exists():
        raise UsageError(
            f"{path}: no such baseline file or directory", "record one with `ncubble baseline record RUN…`"
        )
    baselines: list[Baseline] = []
    errors: list[NcubbleError] = []
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        try:
            baselines.append(load(file))
        except NcubbleError as error:
            errors.append(error)
    return _unique(baselines, errors), errors


def _unique(baselines: list[Baseline], errors: list[NcubbleError]) -> list[Baseline]:
    files: dict[tuple[str, str], list[Baseline]] = {}
    for item in baselines:
        files.setdefault((item.device.name, item.key.canonical), []).append(item)
    for rivals in files.values():
        if len(rivals) > 1:
            names = " and ".join(str(item.path) for item in rivals)
            errors.append(ReportError(f"{names}: duplicate baselines for one kernel and GPU", "keep only one of them"))
    return [rivals[0] for rivals in files.values() if len(rivals) == 1]


def locked(place: Path) -> AbstractContextManager[None]:
    """While it is held, no other process of this user records or updates baselines in the folder of
    ``place``, a folder or one ``.json`` file."""
    folder = place.parent if place.suffix == ".json" else place
    return lock(f"baselines {folder.resolve()}", f"baselines in {folder}", LOCKED_S)


def save(pairs: Iterable[tuple[Path, Baseline]], *, force: bool = False) -> None:
    """Write each baseline to its path, whole or not at all. Raises UsageError if one exists and
    ``force`` is not given.

    Nothing is written if any of the paths exists at the start; a file that appears meanwhile is not
    overwritten either.
    """
    planned = list(pairs)
    existing = [str(path) for path, _ in planned if path.exists()]
    if existing and not force:
        raise _exists(", ".join(existing))
    for path, baseline in planned:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(
                path,
                f"{_text(baseline.to_json())}\n",
                force,
            )
        except FileExistsError as error:
            raise _exists(str(path)) from error
        except OSError as error:
            raise MeasurementError(
                f"{path}: could not write the baseline ({error})", "check disk space and permissions"
            ) from error


def _exists(what: str) -> UsageError:
    return UsageError(f"would overwrite {what}", "use --force, or choose another place with --out")


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


def _write(path: Path, text: str, force: bool) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        if force:
            temporary.replace(path)
        else:
            _claim(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _claim(temporary: Path, path: Path) -> None:
    """Give ``temporary`` the name ``path`` unless it is taken: of two recordings at once exactly
    one wins."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        path.touch(exist_ok=False)
        temporary.replace(path)
