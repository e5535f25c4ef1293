"""Regular expressions from untrusted input.

``TextPattern`` searches in time linear in the text, by RE2: Python's own may take time exponential
in it (``(a+)+$``), and cannot be stopped. RE2 has neither lookarounds nor references back to a
group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ncubble.errors import UsageError

LONGEST = 1000


def expression(text: str, what: str) -> re.Pattern[str]:
    """``text`` as an expression of Python. ``what`` names it in the error (``--kernel 'a('``).
    Raises UsageError."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"{what}: not a regular expression ({error})", "escape special characters") from error


@dataclass(frozen=True)
class TextPattern:
    """A regular expression in RE2's syntax. Raises ValueError if it is invalid, or longer than
    ``LONGEST``."""

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
