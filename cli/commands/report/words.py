"""Texts about a launch shared by tables and details."""

from __future__ import annotations

from rich.text import Text

from ncubble.analysis.account.parts import part_label
from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.diagnosis.words import named_cause
from ncubble.cli.terminal import printable
from ncubble.text.values import UnitStep, fixed, scaled

_TIMES = (UnitStep(1e6, 1e6, ".3f", "ms"), UnitStep(0.0, 1e3, ".1f", "µs"))


def title(launch: LaunchVerdict, label: str) -> Text:
    """``label`` and, if different, the kernel's function."""
    label, kernel = printable(label), printable(launch.kernel)
    text = Text(label, style="bold")
    return text if label.partition(" ")[0] == kernel else text.append(f" {kernel}", style="not bold")


def verdict_words(launch: LaunchVerdict) -> Text:
    """The cause in words, with the disease and the measurement, if any."""
    text = Text(_words(launch.cause), style="bold")
    if launch.disease:
        text.append(f" ({disease_words(launch.disease)})", style="not bold")
    if launch.cause == "no_tensor_work" and launch.causes:
        text.append(f", {_words(launch.causes[0].cause)}", style="not bold")
    if (named := named_cause(launch)) and named.measured:
        text.append(", measured", style="not bold")
    return text


def busy(launch: LaunchVerdict) -> str:
    """How busy the bounding unit was, with its name unless it is the tensor pipe."""
    if not launch.account:
        return "–"
    unit = "" if launch.unit == "tensor" else f"{launch.unit} "
    return f"{unit}{launch.account['tensor_busy'] + launch.account['unit_busy']:.1f}"


def duration(ns: float | None) -> str:
    """In ms or µs."""
    return scaled(ns, _TIMES, "–")


def share(time_ns: float, total_ns: float) -> str:
    """Percent of the whole time."""
    return fixed(100.0 * time_ns / total_ns, 1) if total_ns else "–"


def _words(cause: str) -> str:
    return part_label(cause)
