"""The catalog in lines for people: every kernel with its shape, its idea and its parameters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ncubble.cli.render import printable

if TYPE_CHECKING:
    from rich.text import Text

    from ncubble.kernels.spec import KernelSpec

INDENT = "  "
WIDEST = 120  # columns; longer lines are hard to read
TIED = "\N{NO-BREAK SPACE}"  # textwrap does not break here


def kernel_lines(specs: Iterable[KernelSpec], width: int) -> Iterator[Text]:
    """A block of lines for each of ``specs``, none wider than ``width`` columns unless a single item is."""
    from rich.text import Text

    for spec in specs:
        sizes = " ".join(f"{dim.name}={dim.default}" for dim in spec.dims)
        yield Text.assemble((printable(spec.name), "bold cyan"), f"  {printable(sizes)}")
        yield from map(Text, _wrapped(printable(spec.idea), width))
        items = (f"{item.name}={item.allowed} ({item.default})" for item in spec.parameters)
        tied = "  ".join(_tied(printable(item), width) for item in items)
        yield from (Text(line, style="dim") for line in _wrapped(tied, width))


def _tied(item: str, width: int) -> str:
    """``item`` so that it stays in one line, if it fits one."""
    return item.replace(" ", TIED) if len(INDENT) + len(item) <= min(width, WIDEST) else item


def _wrapped(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(
        text,
        min(width, WIDEST),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(TIED, " ") for line in lines]
