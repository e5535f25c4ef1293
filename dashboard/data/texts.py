"""Texts of launches: each value once, and a code per launch; and the search through them.

Searches run in RE2, whose time grows with the text and not with the pattern, so that no pattern can
hold the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ncubble.analysis.launches.losses import Codes
from ncubble.analysis.launches.table import LaunchRows

Mask = NDArray[np.bool_]
SEARCHED = (
    *("name", "label", "gpu", "cause", "change", "bubble", "unit", "shape"),
    *("report", "demangled", "device", "path"),
)
"""Fields that the search looks through."""


@dataclass
class Texts:
    """Texts of ``rows``, made when they are first asked for; two threads that do so at once make
    the same."""

    rows: LaunchRows
    _texts: dict[str, tuple[Codes, list[str]]] = field(default_factory=dict)
    _searched: dict[str, Any] = field(default_factory=dict)

    def coded(self, name: str) -> tuple[Codes, list[Any]]:
        """A code for each row, and the values by their codes, of a field or of a member of it
        (``field.member``)."""
        group, _, member = name.partition(".")
        codes, values = self.rows.coded(group)
        return codes, [(value or {}).get(member) for value in values] if member else values

    def of(self, name: str) -> tuple[Codes, list[str]]:
        """``coded`` as texts, empty where not collected."""
        if name not in self._texts:
            codes, values = self.coded(name)
            self._texts[name] = codes, ["" if value is None else str(value) for value in values]
        return self._texts[name]

    def matching(self, search: str) -> tuple[Mask, tuple[str, ...]]:
        """Launches that match every word of ``search``, each a regular expression in which case
        does not count.

        ``^`` and ``$`` stand for begin and end of one value. A word that is not a regular
        expression is searched as text.
        """
        keep: Mask = np.ones(len(self.rows), bool)
        plain: list[str] = []
        for word in search.split():
            try:
                keep &= self._found(pc.match_substring_regex, word)
            except pa.ArrowInvalid:
                plain.append(word)
                keep &= self._found(pc.match_substring, word)
        return keep, tuple(f"“{word}” is not a regular expression: searched as plain text." for word in plain)

    def _found(self, match: Callable[..., Any], word: str) -> Mask:
        """Launches with a field of ``SEARCHED`` in which ``match`` finds a word. Each value is
        looked at once."""
        found: Mask = np.zeros(len(self.rows), bool)
        for name in SEARCHED:
            matches = match(self.searched(name), word, ignore_case=True).fill_null(False)
            found |= matches.to_numpy(zero_copy_only=False)[self.of(name)[0]]
        return found

    def searched(self, name: str) -> Any:
        """The texts of a field as a pyarrow array, each on one line, null where not collected."""
        if name not in self._searched:
            texts = [text.replace("\n", " ") or None for text in self.of(name)[1]]
            self._searched[name] = pa.array(texts, pa.large_string())
        return self._searched[name]

    def prepare(self) -> None:
        """Make what searches look through, before the first one."""
        for name in SEARCHED:
            self.searched(name)
