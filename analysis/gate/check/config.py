"""What a project keeps for its gate: the table ``[tool.ncubble.gate]`` of ``pyproject.toml``, or
``[gate]`` of ``ncubble.toml`` where there is no Python project. Keys are described in
``docs/gate.md``.

The nearest table counts, from the working directory upward to the top of the repository (a folder
with ``.git``), or of the file system where there is none. Tables are not merged.
"""

from __future__ import annotations

import difflib
import logging
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ncubble.analysis.gate.check.rules import GateRule, GateRules, Override, parse
from ncubble.errors import ReportError, UsageError

PLACES = {"pyproject.toml": ("tool", "ncubble", "gate"), "ncubble.toml": ("gate",)}
"""Location of the table in each file."""
KEYS = ("baselines", "history", "kernels", "rules")
KERNEL_KEYS = ("match", "rules")
OLD = "limits"
"""Name of the key ``rules`` in 0.1; the next version drops it."""
log = logging.getLogger(__name__)
_IGNORE = "or ignore the file with --no-config (pytest: --ncubble-no-config)"
_EXAMPLE = 'rules = ["tensor_elapsed_pct 1%", "cycles <= 2.1e6"]'


@dataclass(frozen=True)
class GateConfig:
    """Settings of the gate; the empty one where no file holds any. ``path`` is the file.
    ``baselines`` and ``history`` are absolute, None where it does not name them. ``keep_history``
    is False where it says ``history = false``."""

    path: Path | None = None
    rules: GateRules = field(default_factory=GateRules)
    baselines: Path | None = None
    history: Path | None = None
    keep_history: bool = True


def load(start: Path) -> GateConfig:
    """The settings for ``start``, a folder.

    Raises ReportError for a file that cannot be read or is not TOML, UsageError for one that says
    something wrong: an unknown key, a wrong type, a wrong limit, a path out of the repository, or
    two tables in one folder.
    """
    home = start.resolve()
    for folder in (home, *home.parents):
        top = _exists(folder / ".git")
        tables = [table for name in PLACES if (table := _table(folder / name)) is not None]
        if len(tables) > 1:
            both = " and ".join(f"{table.path.name} {table.name}" for table in tables)
            raise UsageError(f"{folder}: both {both} exist", "keep only one of them")
        if tables:
            return _config(tables[0], folder if top else _top(folder))
        if top:
            break
    return GateConfig()


class _Table:
    """A table of a TOML file; errors name file, table and key."""

    def __init__(self, path: Path, name: str, raw: dict[str, Any]) -> None:
        self.path, self.name, self.raw = path, name, raw

    def error(self, what: str, remedy: str) -> UsageError:
        return UsageError(f"{self.path}: {self.name}: {what}", f"{remedy}, {_IGNORE}")

    def refuse_unknown(self, keys: Iterable[str]) -> None:
        known = (*keys, *([OLD] if "rules" in keys else []))
        for key in self.raw:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; nearest: {near[0].replace(OLD, 'rules')}" if near else ""
                raise self.error(f"unknown key {_short(key)}{hint}", f"keys: {', '.join(keys)}")

    def text(self, key: str, example: str) -> str:
        """A text that is not empty and on one line."""
        value = self.raw.get(key)
        if value is None:
            raise self.error(f"{key} is missing", f"write {example}")
        if type(value) is not str:
            raise self.error(f"{key} = {_short(value)} is not text", f"write {example}")
        if not value.strip() or not value.isprintable():
            raise self.error(f"{key} = {_short(value)} is empty or not plain text", f"write {example}")
        return value

    def rules(self) -> tuple[GateRule, ...]:
        """The rules of key ``rules``, or of its old name; none where it is missing."""
        key = OLD if OLD in self.raw else "rules"
        if key == OLD and "rules" in self.raw:
            raise self.error(f"both rules and its old name {OLD} are given", f"put both under rules: {_EXAMPLE}")
        if key == OLD:
            log.warning(
                "note: %s: %s: %s is now called rules; the next version drops the old name", self.path, self.name, OLD
            )
        texts = self.raw.get(key, [])
        if type(texts) is not list:
            raise self.error(f"{key} = {_short(texts)} is not an array of rules", f"write {_EXAMPLE}")
        for text in texts:
            if type(text) is not str:
                raise self.error(f"{key}: {_short(text)} is not a rule in quotes", f"write {_EXAMPLE}")
        return tuple(self._rule(text) for text in texts)

    def _rule(self, text: str) -> GateRule:
        try:
            return parse(text)
        except UsageError as error:
            raise self.error(error.message, error.remedy) from error

    def place(self, key: str, top: Path) -> Path | None:
        """A path, from the file's folder. A relative one stays below ``top``: to leave it must be
        seen in a review."""
        if key not in self.raw:
            return None
        text = self.text(key, f'{key} = "perf/{key}"')
        if text.startswith("~"):
            raise self.error(f"{key} = {_short(text)}: ~ is not expanded here", "write the full path")
        place = Path(os.path.normpath(self.path.parent / text))
        if not Path(text).is_absolute() and not place.is_relative_to(top):
            raise self.error(f"{key} = {_short(text)} leads outside of {top}", "write an absolute path")
        return place


def _config(table: _Table, top: Path) -> GateConfig:
    table.refuse_unknown(KEYS)
    history = table.raw.get("history")
    if history is True:
        raise table.error(
            "history = true does not name a folder", 'write history = "perf/checks", or false for no history'
        )
    return GateConfig(
        table.path,
        GateRules(table.rules(), _overrides(table)),
        table.place("baselines", top),
        None if history is False else table.place("history", top),
        keep_history=history is not False,
    )


def _overrides(table: _Table) -> tuple[Override, ...]:
    entries = table.raw.get("kernels", [])
    name = f"[{table.name.removesuffix(']')}.kernels]]"
    if type(entries) is not list or not all(type(entry) is dict for entry in entries):
        raise table.error(
            f"kernels = {_short(entries)} is not an array of tables", f"write each kernel as a table {name}"
        )
    named = [_Table(table.path, f"{name} number {number}", entry) for number, entry in enumerate(entries, 1)]
    return tuple(_override(entry) for entry in named)


def _override(entry: _Table) -> Override:
    entry.refuse_unknown(KERNEL_KEYS)
    match, rules = entry.text("match", "match = 'gemm.* m=4096'"), entry.rules()
    if not rules:
        raise entry.error("no rules", f"write {_EXAMPLE}")
    try:
        return Override(match, rules)
    except UsageError as error:
        raise entry.error(error.message, error.remedy) from error


def _table(path: Path) -> _Table | None:
    """The gate's table of a file; None where there is no file or no such table in it."""
    if not _exists(path):
        return None
    raw, names = _toml(path), PLACES[path.name]
    for depth, name in enumerate(names, 1):
        above = f"[{'.'.join(names[: depth - 1])}]" if depth > 1 else "top level"
        if depth == len(names):  # neighbouring tables are ours, too: a misspelt one must not be ignored
            _Table(path, above, raw).refuse_unknown((name,))
        if name not in raw:
            return None
        raw = raw[name]
        if type(raw) is not dict:
            wrong = f"{'.'.join(names[:depth])} = {_short(raw)} is not a table"
            raise UsageError(f"{path}: {wrong}", f"write [{'.'.join(names)}], {_IGNORE}")
    return _Table(path, f"[{'.'.join(names)}]", raw)


def _toml(path: Path) -> dict[str, Any]:
    if path.exists() and not path.is_file():
        raise ReportError(f"{path}: not a file", f"remove it, {_IGNORE}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path}: unreadable ({error.strerror})", f"make it readable, {_IGNORE}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not valid TOML, perhaps half-written ({error})", f"fix it, {_IGNORE}") from error


def _exists(path: Path) -> bool:
    """Whether something is there, be it a link to nothing. What may not be looked at is not."""
    return os.path.lexists(path)


def _top(folder: Path) -> Path:
    """The top of the repository that ``folder`` is in, else the folder itself."""
    return next((above for above in folder.parents if _exists(above / ".git")), folder)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
