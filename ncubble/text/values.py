"""Numbers and names as text, and the patterns that names match. Values missing from a report read
``not collected``, never 0 or blank."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from ncubble.errors import UsageError

NOT_COLLECTED = "not collected"
SI_TIME = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_RULE_LINK = re.compile(r"@url:([^:@]*):[^@]*@|@(?:section|metric|source):[^:@]*:([^@]*)@")
_LEFT_OUT = re.compile(r"NVIDIA|GeForce|Graphics|Device|\d+GB|HBM\w*")
LONGEST = 1000


def number(value: object) -> float | None:
    """``value`` as a finite float, or None for everything that is not one (None, NaN, infinity,
    text, bool, a whole number beyond all floats)."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        result = float(value)  # type: ignore[arg-type]  # what it cannot take, it refuses
    except (TypeError, ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def string(value: object) -> str:
    """``value`` if it is text, else the empty string: cells of frames are NaN if a report lacks the
    value."""
    return value if isinstance(value, str) else ""


def fixed(value: object, digits: int = 1, missing: str = NOT_COLLECTED) -> str:
    """``value`` with ``digits`` decimals, without a negative zero; ``missing`` if it is not a
    number."""
    result = number(value)
    return missing if result is None else f"{round(result, digits) + 0.0:.{digits}f}"


def significant(value: object, missing: str = NOT_COLLECTED, thousands: str = "") -> str:
    """``value`` with four significant digits, or all of a count from 1000 on, in groups by
    ``thousands``."""
    result = number(value)
    if result is None:
        return missing
    return f"{result:{thousands}.0f}" if abs(result) >= 1000 else f"{result:.4g}"


def bar_of(cells: float) -> str:
    """A bar of so many cells, to the eighth of one; empty below 0."""
    eighths = max(round(8 * cells), 0)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def finite(value: Any) -> Any:
    """``value`` with every non-finite float replaced by None, at any depth, for JSON: tuples become
    lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


class UnitStep(NamedTuple):
    """A unit for values of at least ``least``: the divisor, the format of the quotient, and the
    name."""

    least: float
    size: float
    form: str
    name: str


def scaled(value: object, steps: Sequence[UnitStep], missing: str = NOT_COLLECTED, sign: str = "") -> str:
    """``value`` in the first unit whose ``least`` it reaches, else in the last; ``sign="+"`` writes
    pluses, too."""
    result = number(value)
    if result is None:
        return missing
    step = next((step for step in steps if abs(result) >= step.least), steps[-1])
    return f"{result / step.size + 0.0:{sign}{step.form}} {step.name}".rstrip()


def percent(value: object, digits: int = 1) -> str:
    """``42.6 %``, or ``not collected``."""
    result = number(value)
    return NOT_COLLECTED if result is None else f"{result:.{digits}f} %"


def duration(nanoseconds: object) -> str:
    """A duration given in ns with three to four significant digits and its SI unit, or ``not
    collected``."""
    value = number(nanoseconds)
    if value is None:
        return NOT_COLLECTED
    scale, unit = next(((s, u) for s, u in SI_TIME if abs(value) >= s), SI_TIME[-1])
    scaled = value / scale
    digits = 0 if scale == 1.0 else max(0, 3 - len(str(int(abs(scaled)))))
    return f"{scaled:.{digits}f} {unit}"


def file_size(size: float) -> str:
    """A size in bytes as ``12.5 MB``, ``4 GB``, ``3.2 kB`` or ``12 B``."""
    steps = [UnitStep(unit, unit, ".1f", name) for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))]
    return scaled(size, [*steps, UnitStep(0.0, 1.0, ".0f", "B")]).replace(".0 ", " ")


def frequency(hertz: object) -> str:
    """A clock given in Hz as GHz, or ``not collected``."""
    value = number(hertz)
    return NOT_COLLECTED if value is None else f"{value / 1e9:.3f} GHz"


def text(value: object) -> str:
    """``value`` as text; ``not collected`` for None, NaN and the empty string."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return NOT_COLLECTED
    return str(value)


def short_name(kernel: str, limit: int = 72) -> str:
    """A kernel name shortened in the middle, keeping its base name and last template arguments."""
    if len(kernel) <= limit:
        return kernel
    head = limit * 2 // 3
    return f"{kernel[:head]}…{kernel[-(limit - head - 1) :]}"


def some(values: Iterable[object], most: int = 3) -> str:
    """The first few, each once, and how many more there are."""
    texts = list(dict.fromkeys(map(str, values)))
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def cut(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters, an ellipsis for what is left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def file_name(label: str, most: int | None = None) -> str:
    """``label`` with a dash for whatever could trouble a file system, cut to ``most`` characters;
    empty where nothing is left."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-.")[:most]


def plain(message: str) -> str:
    """A message of Nsight's rules without its links (``@section:Name:shown text@``, ``@url:shown
    text:address@``)."""
    return _RULE_LINK.sub(lambda match: match.group(1) or match.group(2) or "", message).strip()


def location(file: object, line: object) -> str:
    """``file.cu:123`` without the folder; empty if the report has no line."""
    known = number(line)
    if not file or known is None or known <= 0:
        return ""
    return f"{PurePath(str(file)).name}:{known:.0f}"


def short_gpu(device: object) -> str | None:
    """``H200`` of ``NVIDIA H200``; a long name loses the memory size and the form factor,
    ``device`` keeps them."""
    words = [word for word in str(device or "").split() if not _LEFT_OUT.fullmatch(word)]
    return " ".join(words).split("-")[0] or None


def device_of(row: Mapping[str, object]) -> str:
    """The full name of a row's GPU, by which launches are grouped; the short one if there is no
    other."""
    return str(row.get("device") or row.get("gpu") or "")


def gpu_names(devices: Iterable[str]) -> dict[str, str]:
    """Display name of each GPU in ``devices``: its short name, or the full one if two share the
    short one."""
    short = {device: short_gpu(device) or device for device in devices}
    shared = Counter(short.values())
    return {device: name if shared[name] == 1 else device for device, name in short.items()}


def expression(text: str, what: str) -> re.Pattern[str]:
    """``text`` as an expression of Python. ``what`` names it in the error (``--kernel 'a('``).
    Raises UsageError."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"{what}: not a regular expression ({error})", "escape special characters") from error


@dataclass(frozen=True)
class TextPattern:
    """A regular expression of untrusted input, in RE2's syntax: its search takes time linear in the
    text, where Python's own may take time exponential in it (``(a+)+$``) and cannot be stopped. RE2
    has neither lookarounds nor references back to a group. Raises ValueError if it is invalid, or
    longer than ``LONGEST``."""

    text: str

    def __post_init__(self) -> None:
        if len(self.text) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST} characters")
        self.search([""])

    def search(self, texts: list[str]) -> list[bool]:
        """Whether it is found in each of ``texts``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            encoded = pa.array([text.encode(errors="replace") for text in texts], pa.binary()).cast(pa.string())
            return [bool(found) for found in pc.match_substring_regex(encoded, self.text).to_pylist()]
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            raise ValueError(str(error).removeprefix("Invalid regular expression: ")) from error
