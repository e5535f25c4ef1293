"""What a project sets for its gate: the table ``[tool.ncubble.gate]`` of ``pyproject.toml``, or
``[gate]`` of ``ncubble.toml`` where there is no Python project. Keys are described in
``docs/gate.md``; ``--setting KEY=VALUE`` sets one for a single call.

The nearest table counts, from the working directory upward to the top of the repository (a folder
with ``.git``), or of the file system where there is none. Tables are not merged.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from ncubble.analysis.gate.rules import GateRule, GateRules, Override, parse
from ncubble.errors import ReportError, UsageError
from ncubble.records import WrongFieldError, typed
from ncubble.text.remedies import nearest
from ncubble.text.values import cut

PLACES = {"pyproject.toml": ("tool", "ncubble", "gate"), "ncubble.toml": ("gate",)}
"""Location of the table in each file."""
STORE = Path("baselines")
"""The folder of baselines unless another is named."""
LONGEST = 80
"""Characters of a value in an error."""
_IGNORE = "or ignore the file with --no-config (pytest: --ncubble-no-config)"
_EXAMPLE = 'rules = ["tensor_elapsed_pct 1%", "cycles <= 2.1e6"]'
_KERNEL_KEYS = ("match", "rules")
Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True)
class GateSettings:
    """Settings of the gate; the defaults where no file holds any. ``path`` is the file.

    ``baselines``, ``history`` and ``catalog`` (kernels of your own) are absolute, None where they
    are not named; ``keep_history`` is False where the file says ``history = false``. What is
    judged: ``allow_suspicious`` takes launches whose values contradict each other, ``same_gpu``
    takes reports that do not name their GPU as from the baseline's, ``by_nvtx`` tells launches in
    different NVTX ranges apart. What a baseline needs: ``min_repeats`` launches of each kernel. How
    ``check`` measures: ``rounds`` processes (of each side) with ``repeats`` launches of a kernel of
    the catalog, the metric sets ``sets``, at most ``timeout`` seconds each; of a program the
    launches in the NVTX range ``nvtx``, ``count`` of them after ``skip``; for ``--against`` the
    command ``build``.
    """

    path: Path | None = None
    rules: GateRules = field(default_factory=GateRules)
    baselines: Path | None = None
    history: Path | None = None
    catalog: Path | None = None
    keep_history: bool = True
    allow_suspicious: bool = False
    same_gpu: bool = False
    by_nvtx: bool = True
    min_repeats: Annotated[int, Meta(ge=2)] = 5
    repeats: Count = 5
    rounds: Count | None = None
    sets: tuple[str, ...] = ()
    timeout: Annotated[float, Meta(gt=0)] | None = None
    nvtx: str = ""
    skip: Annotated[int, Meta(ge=0)] = 0
    count: Count | None = None
    build: str = ""

    def with_rules(self, texts: Iterable[str]) -> GateSettings:
        """These settings with further rules as the last word; raises UsageError for a wrong one."""
        return replace(self, rules=self.rules.plus(map(parse, texts)))


_PLACES = ("baselines", "history", "catalog")
_NOT_KEYS = ("path", "keep_history")
KEYS = (*(item.name for item in fields(GateSettings) if item.name not in _NOT_KEYS), "kernels")


def load(start: Path) -> GateSettings:
    """The settings for ``start``, a folder.

    Raises ReportError for a file that cannot be read or is not TOML, UsageError for one that says
    something wrong: an unknown key, a wrong type, a wrong rule, a path out of the repository, or
    two tables in one folder.
    """
    home = start.resolve()
    for folder in (home, *home.parents):
        top = os.path.lexists(folder / ".git")
        tables = [table for name in PLACES if (table := _table(folder / name)) is not None]
        if len(tables) > 1:
            both = " and ".join(f"{table.origin.name} {table.name}" for table in tables)
            raise UsageError(f"{folder}: both {both} exist", "keep only one of them")
        if tables:
            above = (above for above in folder.parents if os.path.lexists(above / ".git"))
            return tables[0].settings(GateSettings(tables[0].origin), folder if top else next(above, folder))
        if top:
            break
    return GateSettings()


def chosen(start: Path, given: Sequence[str] = (), config: bool = True) -> GateSettings:
    """The settings for ``start`` (without ``config``, the defaults) with those of ``--setting``
    over them: each ``KEY=VALUE``, VALUE as in TOML, or plain text. Raises as ``load`` does."""
    known = load(start) if config else GateSettings()
    raw: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--setting {text}: not KEY=VALUE", f"keys: {', '.join(KEYS)}")
        if key in ("rules", "kernels"):
            raise UsageError(f"--setting {text}: rules have an option of their own", "write --rule RULE")
        raw[key] = _value(value)
    return _Table(start / "--setting", "", raw).settings(known, Path("/")) if raw else known


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


@dataclass(frozen=True)
class _Table:
    """A table of a TOML file, or the values of ``--setting``; errors name file, table and key."""

    origin: Path
    name: str
    raw: dict[str, Any]

    def error(self, what: str, remedy: str) -> UsageError:
        where = f"{self.origin}: {self.name}" if self.name else self.origin.name
        return UsageError(f"{where}: {what}", f"{remedy}, {_IGNORE}" if self.name else remedy)

    def settings(self, known: GateSettings, top: Path) -> GateSettings:
        """``known`` with what the table says; relative paths stay below ``top``."""
        self.refuse_unknown(KEYS)
        raw = {key: value for key, value in self.raw.items() if key not in ("rules", "kernels")}
        if isinstance(raw.get("sets"), str):
            raw["sets"] = [name.strip() for name in raw["sets"].split(",")]
        places: dict[str, Any] = {key: self.place(key, top) for key in _PLACES if key in raw}
        if raw.get("history") is False:
            places["keep_history"] = False
        elif "history" in raw:
            places["keep_history"] = True
        try:
            plain = typed({key: value for key, value in raw.items() if key not in places}, GateSettings)
        except WrongFieldError as error:
            raise self.error(str(error), "correct its value (docs/gate.md)") from error
        given = {key: getattr(plain, key) for key in raw if key not in places}
        rules = GateRules(self.rules(), self.overrides()) if self.name else known.rules
        return replace(known, rules=rules, **given, **places)

    def refuse_unknown(self, keys: Sequence[str]) -> None:
        for key in self.raw:
            if key not in keys:
                hint = nearest(key, keys, 1, 0.6)
                raise self.error(f"unknown key {cut(repr(key), LONGEST)}{hint}", f"keys: {', '.join(keys)}")

    def text(self, key: str, example: str) -> str:
        """A text that is not empty and on one line."""
        value = self.raw.get(key)
        if value is None:
            raise self.error(f"{key} is missing", f"write {example}")
        if type(value) is not str or not value.strip() or not value.isprintable():
            raise self.error(f"{key} = {cut(repr(value), LONGEST)} is not plain text, or empty", f"write {example}")
        return value

    def place(self, key: str, top: Path) -> Path | None:
        """A path, from the file's folder; None for false. A relative one stays below ``top``: to
        leave it must be seen in a review."""
        if key == "history" and self.raw[key] is False:
            return None
        if self.raw[key] is True:
            raise self.error(
                f"{key} = true does not name a folder", f'write {key} = "perf/{key}"; history may be false'
            )
        text = self.text(key, f'{key} = "perf/{key}"')
        if text.startswith("~"):
            raise self.error(f"{key} = {cut(repr(text), LONGEST)}: ~ is not expanded here", "write the full path")
        place = Path(os.path.normpath(self.origin.parent / text))
        if not Path(text).is_absolute() and not place.is_relative_to(top):
            raise self.error(f"{key} = {cut(repr(text), LONGEST)} leads outside of {top}", "write an absolute path")
        return place

    def rules(self) -> tuple[GateRule, ...]:
        """The rules of key ``rules``; none where it is missing."""
        texts = self.raw.get("rules", [])
        if type(texts) is not list or not all(type(text) is str for text in texts):
            raise self.error(
                f"rules = {cut(repr(texts), LONGEST)} is not an array of rules in quotes", f"write {_EXAMPLE}"
            )
        try:
            return tuple(map(parse, texts))
        except UsageError as error:
            raise self.error(error.message, error.remedy) from error

    def overrides(self) -> tuple[Override, ...]:
        """The entries of ``kernels``."""
        entries, name = self.raw.get("kernels", []), f"[{self.name.removesuffix(']')}.kernels]]"
        if type(entries) is not list or not all(type(entry) is dict for entry in entries):
            raise self.error(
                f"kernels = {cut(repr(entries), LONGEST)} is not an array of tables",
                f"write each kernel as a table {name}",
            )
        made = []
        for number, raw in enumerate(entries, 1):
            entry = _Table(self.origin, f"{name} number {number}", raw)
            entry.refuse_unknown(_KERNEL_KEYS)
            match, rules = entry.text("match", "match = 'gemm.* m=4096'"), entry.rules()
            if not rules:
                raise entry.error("no rules", f"write {_EXAMPLE}")
            try:
                made.append(Override(match, rules))
            except UsageError as error:
                raise entry.error(error.message, error.remedy) from error
        return tuple(made)


def _table(path: Path) -> _Table | None:
    """The gate's table of a file; None where there is no file or no such table in it."""
    if not os.path.lexists(path):
        return None
    raw, names = _toml(path), PLACES[path.name]
    for depth, name in enumerate(names, 1):
        if depth == len(names):  # neighbouring tables are ours, too: a misspelt one must not be ignored
            above = f"[{'.'.join(names[: depth - 1])}]" if depth > 1 else "top level"
            _Table(path, above, raw).refuse_unknown((name,))
        if name not in raw:
            return None
        raw = raw[name]
        if type(raw) is not dict:
            wrong = f"{'.'.join(names[:depth])} = {cut(repr(raw), LONGEST)} is not a table"
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
