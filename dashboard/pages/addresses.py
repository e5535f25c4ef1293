"""Addresses of all pages: each declares the parameters of its query once, and reads and writes it
with them.

A page's address is a frozen dataclass below ``Address`` whose members are made by ``text``,
``matching``, ``choice``, ``flag``, ``number``, ``listed``, ``commas`` or ``parameter``. What a
browser sends is checked here: a value that its parameter does not take is left out, and everything
is limited in length. Names and values that come out of reports are only ever compared with others,
and shown as text; no address names a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import parse_qs, urlencode

from ncubble.analysis.gate.history import NAME
from ncubble.analysis.program.output import VIEWS

LAUNCH_ID = r"[0-9a-f]{8,64}/\d{1,9}"
"""Pattern of the id of a launch: KEY/NUMBER."""
LONGEST_SEARCH = 200
"""Maximum length of what is searched for."""


class QueryParameter(NamedTuple):
    """One parameter of a query.

    ``read`` takes its texts, at least one, and returns the value with the number of texts that were
    left out; the value None stands for the default. ``write`` takes the value and returns texts;
    empty ones are not written.
    """

    name: str
    read: Callable[[Sequence[str]], tuple[Any, int]]
    write: Callable[[Any], Iterable[str]]


@dataclass(frozen=True)
class Address:
    """What an address asks a page for. A subclass with a member ``dropped`` gets the names of
    parameters there, once for each part of a list that was left out."""

    PATH: ClassVar[str]
    """The path of the page; of a page of single launches, what stands before their ids."""
    LONGEST: ClassVar[int] = 4096
    """Maximum length of a query string."""

    @classmethod
    def parse(cls, search: str | None) -> Self:
        """The address with this query, with or without its question mark. Raises nothing."""
        query = parse_qs((search or "").removeprefix("?")[: cls.LONGEST])
        values: dict[str, Any] = {}
        dropped: list[str] = []
        for member, known in cls._parameters():
            if known.name in query:
                value, left_out = known.read(query[known.name])
                dropped += [known.name] * left_out
                if value is not None:
                    values[member] = value
        if dropped and "dropped" in cls.__dataclass_fields__:
            values["dropped"] = tuple(dropped)
        return cls(**values)

    def query(self) -> str:
        """The query of this address with its question mark; empty where every member has its
        default."""
        pairs: list[tuple[str, str]] = []
        for member, known in self._parameters():
            value = getattr(self, member)
            if value != getattr(type(self), member, None):
                pairs += [(known.name, text) for text in known.write(value) if text]
        return f"?{urlencode(pairs, safe='/,:')}" if pairs else ""

    def href(self, **changes: Any) -> str:
        """The whole address, with some members changed."""
        return f"{self.PATH}{replace(self, **changes).query()}"

    @classmethod
    def match(cls, path: str) -> re.Match[str] | None:
        """A match where ``path`` is the path of this page."""
        return re.fullmatch(cls.PATH, path)

    @classmethod
    def _parameters(cls) -> Iterator[tuple[str, QueryParameter]]:
        return ((each.name, each.metadata["parameter"]) for each in fields(cls) if "parameter" in each.metadata)


@dataclass(frozen=True)
class LaunchAddress(Address):
    """The address of a page of single launches, whose ids end its path."""

    @classmethod
    def match(cls, path: str) -> re.Match[str] | None:
        """A match with the groups ``key`` and ``launch`` where ``path`` is one of a launch."""
        return re.fullmatch(rf"{cls.PATH}/(?P<key>[0-9a-f]{{8,64}})/(?P<launch>\d{{1,9}})", path)

    def of_launch(self, launch: str) -> str:
        """The whole address; ``launch`` is an id as in ``LAUNCH_ID``."""
        return f"{self.PATH}/{launch}{self.query()}"


def member(
    name: str,
    default: Any,
    read: Callable[[Sequence[str]], tuple[Any, int]],
    write: Callable[[Any], Iterable[str]],
) -> Any:
    """A member that is read and written as ``QueryParameter`` says."""
    metadata = {"parameter": QueryParameter(name, read, write)}
    return (
        field(default_factory=dict, metadata=metadata) if default == {} else field(default=default, metadata=metadata)
    )


def parameter(name: str, default: Any, read: Callable[[str], Any], write: Callable[[Any], str] = str) -> Any:
    """A member of which a query holds one text, the last of several; ``read`` returns None for what
    is not taken."""
    return member(name, default, lambda texts: (read(texts[-1]), 0), lambda value: [write(value)])


def text(name: str, longest: int, *, cut: bool = True) -> Any:
    """A text. One that is too long is cut, or left out where ``cut`` is false."""
    return parameter(name, "", lambda given: given[:longest] if cut or len(given) <= longest else None)


def matching(name: str, pattern: str, default: str = "") -> Any:
    """A text that matches a whole pattern."""
    return parameter(name, default, lambda given: given if re.fullmatch(pattern, given) else None)


def choice(name: str, values: Sequence[str]) -> Any:
    """One of several texts; the first is the default."""
    return parameter(name, values[0], lambda given: given if given in values else None)


def flag(name: str, value: str = "1") -> Any:
    """True where the parameter has this value."""
    return parameter(name, False, lambda given: given == value, lambda _: value)


def number(name: str, digits: int) -> Any:
    """A whole number from 0 of at most so many digits, or None."""
    return parameter(name, None, lambda given: int(given) if re.fullmatch(f"[0-9]{{1,{digits}}}", given) else None)


def listed(name: str, read: Callable[[str], Any], most: int, write: Callable[[Any], str] = str) -> Any:
    """A tuple of at most ``most`` different values, each a parameter of the same name; ``read``
    returns None for what is not taken. What repeats is not counted as left out."""

    def read_all(texts: Sequence[str]) -> tuple[tuple[Any, ...], int]:
        values = [read(given) for given in texts]
        known = list(dict.fromkeys(value for value in values if value is not None))
        return tuple(known[:most]), values.count(None) + max(0, len(known) - most)

    return member(name, (), read_all, lambda values: map(write, values))


def commas(name: str, pattern: re.Pattern[str], most: int) -> Any:
    """A tuple of the last ``most`` different texts that match a pattern, with commas between them
    in one parameter."""

    def read(given: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each for each in given.split(",") if pattern.fullmatch(each)))[-most:]

    return parameter(name, (), read, ",".join)


# --- Launches ---

MOST_SORTS, MOST_FILTERS, MOST_COLUMNS, MOST_CONDITIONS, MOST_OPEN = 6, 20, 80, 4, 60
FIGURES = ("utilization", "roofline")
GROUPINGS = ("kernel", "problem", "rank", "none")
"""What shares a row: launches of a kernel, those of a kernel at one problem in one report, as
``ncubble report`` groups them, the same launch of all ranks of a program, or none."""
TIMES = ("auto", "ns", "us", "ms")
TEXT_TYPES = ("contains", "notContains", "equals", "notEqual", "startsWith", "endsWith", "blank", "notBlank")
_COMPARISONS = ("equals", "notEqual", "greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual")
NUMBER_TYPES = (*_COMPARISONS, "inRange", "blank", "notBlank")
_FIELD = re.compile(r"[A-Za-z_]\w{0,39}(\.[A-Za-z_]\w{0,39})?")
_GROUP = re.compile(r"[0-9a-f]{12}|small")
_DROPPED = {"filters": "filter", "sort": "sort order"}
Filter = dict[str, Any]
Sort = tuple[tuple[str, bool], ...]


def ignored_note(dropped: Sequence[str]) -> tuple[str, ...]:
    """One sentence for what was left out of a request; nothing where nothing was."""
    if not dropped:
        return ()
    words = [f"{dropped.count(what)} {what}{'s' if dropped.count(what) > 1 else ''}" for what in dict.fromkeys(dropped)]
    return (
        f"{' and '.join(words)} of this address cannot be read and {'is' if len(dropped) == 1 else 'are'} ignored.",
    )


def _sort(texts: Sequence[str]) -> tuple[Sort, int]:
    parts = [part for part in texts[-1].split(",") if part]
    known = [part for part in parts if _FIELD.fullmatch(part.removeprefix("-"))]
    sort = {part.removeprefix("-"): part.startswith("-") for part in known}
    return tuple(sort.items())[:MOST_SORTS], len(parts) - len(known)


def _filters(texts: Sequence[str]) -> tuple[dict[str, Filter], int]:
    """The sound parts of a filter model, and how many are not."""
    given: Any = None
    with suppress(ValueError, RecursionError):
        given = json.loads(texts[-1])
    if not isinstance(given, dict):
        return {}, 1
    sound = {name: model for name, part in given.items() if _FIELD.fullmatch(name) and (model := _model(part))}
    kept = dict(list(sound.items())[:MOST_FILTERS])
    return kept, len(given) - len(kept)


def _model(given: Any) -> Filter | None:
    """The filter of one column: a condition, or several that are joined; None where it is not
    sound."""
    conditions = given.get("conditions") if isinstance(given, dict) else None
    if conditions is None:
        return _condition(given)
    if not isinstance(conditions, list) or given.get("operator") not in ("AND", "OR"):
        return None
    sound = [condition for part in conditions[: MOST_CONDITIONS + 1] if (condition := _condition(part))]
    if not len(sound) == len(conditions) <= MOST_CONDITIONS or not sound:
        return None
    return {"filterType": sound[0]["filterType"], "operator": given["operator"], "conditions": sound}


def _condition(given: Any) -> Filter | None:
    kind, how, wanted = (
        given.get(name) if isinstance(given, dict) else None for name in ("filterType", "type", "filter")
    )
    if kind not in ("text", "number") or how not in (TEXT_TYPES if kind == "text" else NUMBER_TYPES):
        return None
    condition = {"filterType": kind, "type": how}
    if how in ("blank", "notBlank"):
        return condition
    if kind == "text":
        return condition | {"filter": wanted[:LONGEST_SEARCH]} if isinstance(wanted, str) and wanted else None
    numbers = {"filter": wanted} | ({"filterTo": given.get("filterTo")} if how == "inRange" else {})
    return condition | numbers if all(map(_is_number, numbers.values())) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 < value < 1e300


_SORT = member("sort", (), _sort, lambda sort: [",".join(("-" if down else "") + name for name, down in sort)])
_FILTERS = member("filters", {}, _filters, lambda model: [json.dumps(model, separators=(",", ":")) if model else ""])


@dataclass(frozen=True)
class OverviewAddress(Address):
    """``sort`` holds (field, largest first) in order of weight. ``filters`` is a filter model of AG
    Grid with parts that are known to be sound; ``columns`` is empty for the usual ones; ``open``
    names groups whose launches are listed, ``small`` the row of small ones.

    A field that no launch has is dropped later, by what knows the launches.
    """

    PATH: ClassVar[str] = "/"
    LONGEST: ClassVar[int] = 16_384
    search: str = text("q", LONGEST_SEARCH)
    sort: Sort = _SORT
    filters: Mapping[str, Filter] = _FILTERS
    columns: tuple[str, ...] = commas("columns", _FIELD, MOST_COLUMNS)
    figure: str = choice("figure", FIGURES)
    pin: str = matching("pin", LAUNCH_ID)
    time: str = choice("time", TIMES)
    group: str = choice("group", GROUPINGS)
    open: tuple[str, ...] = commas("open", _GROUP, MOST_OPEN)
    dropped: tuple[str, ...] = ()

    def notes(self) -> tuple[str, ...]:
        """A sentence about what was left out of the address, if anything was."""
        return ignored_note([_DROPPED[name] for name in sorted(self.dropped)])

    def selecting(self) -> str:
        """What decides which launches are listed and in which order: a key for remembered
        results."""
        return OverviewAddress(self.search, self.sort, self.filters).query()

    def grouping(self) -> str:
        """What decides which rows are listed: ``selecting``, and how launches share rows."""
        return OverviewAddress(self.search, self.sort, self.filters, group=self.group, open=self.open).query()


# --- Kernel, Source, Open ---

_RANGE = re.compile(r"(-?\d{1,12}(?:\.\d{1,6})?),(-?\d{1,12}(?:\.\d{1,6})?)")
_COLUMN = "[a-z0-9_.]{1,64}"


def _range(given: str) -> tuple[float, float] | None:
    match = _RANGE.fullmatch(given)
    if match is None:
        return None
    start, end = float(match[1]), float(match[2])
    return (start, end) if end > start else None


@dataclass(frozen=True)
class KernelAddress(LaunchAddress):
    """``range_us`` is the stretch of the timeline that is shown, in µs from its start (None: all);
    ``find`` is what is searched in the table of metrics, which ``show`` opens; ``against`` is the
    pinned launch whose metrics stand beside."""

    PATH: ClassVar[str] = "/kernel"
    LONGEST: ClassVar[int] = 2048
    range_us: tuple[float, float] | None = parameter(
        "range", None, _range, lambda ends: ",".join(f"{end:.6f}" for end in ends)
    )
    show: bool = flag("show", "metrics")
    find: str = text("metric", LONGEST_SEARCH)
    against: str = matching("against", LAUNCH_ID)

    @property
    def metrics(self) -> bool:
        """Whether the table of metrics is open."""
        return self.show or bool(self.find)


WHOLE = KernelAddress()
"""The page with the whole timeline."""


@dataclass(frozen=True)
class SourceAddress(LaunchAddress):
    """A place in the code and a cause. ``file`` is a name that the report lists; it is compared
    with those names in the browser, and never opened. ``pc`` counts bytes as in the source frame,
    ``line`` from 1; None where nothing is chosen.

    ``by`` names what the heat counts: ``samples``, a stall reason, or a part of the account; ``op``
    keeps the instructions of one class (``opcodes.role``); ``only`` hides rows without such
    samples; ``follow`` scrolls to what the pointer rests on; ``find`` is what is searched for.
    """

    PATH: ClassVar[str] = "/source"
    LONGEST: ClassVar[int] = 8192
    file: str = text("file", 2048, cut=False)
    line: int | None = number("line", digits=12)
    pc: int | None = number("pc", digits=12)
    by: str = matching("by", _COLUMN, "samples")
    op: str = matching("op", _COLUMN)
    only: bool = flag("only")
    follow: bool = flag("follow")
    find: str = text("find", LONGEST_SEARCH)


@dataclass(frozen=True)
class OpenAddress(Address):
    """``/open``, without parameters."""

    PATH: ClassVar[str] = "/open"


# --- Compare, Checks ---

MOST_SIDES = 8
"""Maximum sides in a figure."""


@dataclass(frozen=True)
class CompareAddress(Address):
    """Ids of launches, without repetition, first A, the reference of all others; whether timelines
    are drawn on a common length.

    ``dropped`` has one entry for each text that is no id and each id beyond ``MOST_SIDES``.
    """

    PATH: ClassVar[str] = "/compare"
    launches: tuple[str, ...] = listed(
        "launch", lambda given: given if re.fullmatch(LAUNCH_ID, given) else None, MOST_SIDES
    )
    relative: bool = flag("axis", "relative")
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChecksAddress(Address):
    """``kernel`` and ``gpu`` are names as in ``analysis.gate.history``. ``even`` draws checks in
    order at even distances instead of by time."""

    PATH: ClassVar[str] = "/checks"
    LONGEST: ClassVar[int] = 2048
    kernel: str = matching("kernel", NAME)
    gpu: str = matching("gpu", NAME)
    metric: str = matching("metric", r"[a-z][a-z0-9_]{0,63}")
    even: bool = flag("axis", "order")
    search: str = parameter("q", "", lambda given: given[:LONGEST_SEARCH].strip())


# --- Timelines, Program ---


@dataclass(frozen=True)
class TimelinesAddress(Address):
    """A run by its id, the ends of a window in ns after its first interval, and the launch whose
    warps are drawn below its streams."""

    PATH: ClassVar[str] = "/timelines"
    LONGEST: ClassVar[int] = 1024
    run: str = text("run", 64)
    start: int | None = number("from", digits=15)
    end: int | None = number("to", digits=15)
    launch: int | None = number("launch", digits=9)

    @property
    def window(self) -> tuple[float, float] | None:
        """The window, or None for the whole run, where an end lacks or they are in the wrong
        order."""
        if self.start is None or self.end is None or self.start >= self.end:
            return None
        return float(self.start), float(self.end)


@dataclass(frozen=True)
class ProgramAddress(Address):
    """A recorded program by the id of its run, one of its devices by its place, and what the figure
    shows first."""

    PATH: ClassVar[str] = "/program"
    LONGEST: ClassVar[int] = 1024
    run: str = text("run", 64)
    device: int | None = number("device", digits=4)
    by: str = choice("by", VIEWS)


# --- Sweep ---

LONGEST_NAME = 512
MOST_FIXED = 16
YS = ("time", "cycles")
"""Quantities that can be drawn beside utilization."""
Pairs = tuple[tuple[str, str], ...]


def _pairs(texts: Sequence[str]) -> tuple[Pairs, int]:
    """``name=value`` each; a name once."""
    split = (given.partition("=") for given in texts if len(given) <= LONGEST_NAME)
    values = {name: value for name, sign, value in split if name and sign}
    return tuple(values.items())[:MOST_FIXED], len(texts) - len(values)


_FIXED = member("fix", (), _pairs, lambda pairs: [f"{name}={value}" for name, value in pairs])


@dataclass(frozen=True)
class SweepAddress(Address):
    """An empty ``kernel`` or ``parameter`` stands for none, an empty ``gpu`` for any.

    ``fixed`` are coordinates that drawn series must have, ``start`` is the launch that depths are
    predicted from.
    """

    PATH: ClassVar[str] = "/sweep"
    kernel: str = text("kernel", LONGEST_NAME, cut=False)
    parameter: str = text("x", LONGEST_NAME, cut=False)
    gpu: str = text("gpu", LONGEST_NAME, cut=False)
    fixed: Pairs = _FIXED
    y: str = choice("y", YS)
    start: str = matching("from", LAUNCH_ID)

    def fixing(self, name: str, value: str | None) -> str:
        """The address with one coordinate fixed at ``value``, or free where that is None."""
        others = tuple(pair for pair in self.fixed if pair[0] != name)
        return self.href(fixed=others if value is None else (*others, (name, value)))
