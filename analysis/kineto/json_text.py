"""JSON text that is copied as it is read, value by value: what is not understood stays as it was
written, to the digit.

Only the value that is being read is held in memory, so a trace may be larger than that.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ncubble.errors import ReportError

CHUNK = 1 << 20
"""Characters read at once."""
LARGEST_VALUE = 64 << 20
"""Maximum characters of a value: an event, or another member of the trace."""
LARGEST_TEXT = 32 << 30
"""Maximum characters of an unpacked trace."""
GZIP = b"\x1f\x8b"
REMEDY = "export it again: the file is truncated, or from another program"
_BLANK, _NUMBER = " \t\r\n", "+-.0123456789eE"
_SCAN = json.JSONDecoder(strict=False).raw_decode


@contextmanager
def reading(path: Path) -> Iterator[TextIO]:
    """The text of a trace, unpacked where it is packed by gzip; bytes that are no text survive.
    Raises OSError."""
    with path.open("rb") as head:
        packed = head.read(2) == GZIP
    with gzip.open(path) if packed else path.open("rb") as file:
        yield io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")


@contextmanager
def writing(path: Path, packed: bool) -> Iterator[TextIO]:
    """A file for what ``reading`` read; raises OSError."""
    with gzip.open(path, "wb", compresslevel=4) if packed else path.open("wb") as file:
        text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")
        yield text
        text.flush()
        text.detach()


class JsonCopy:
    """Reads JSON from ``source`` and passes every character on to ``copy``, but for the values that
    ``value`` returns: their text is for the caller to write.

    All raise ReportError naming ``origin`` where the text is no JSON.
    """

    def __init__(self, source: TextIO, copy: Callable[[str], object], origin: str) -> None:
        self._source, self.copy, self.origin = source, copy, origin
        self._text, self._at, self._before, self._ended = "", 0, 0, False

    def peek(self) -> str:
        """The next character that is not blank; empty at the end of the text."""
        while True:
            start, end = self._at, len(self._text)
            while self._at < end and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at > start:
                self.copy(self._text[start : self._at])
            if self._at < end:
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, expected: str) -> None:
        """The next character, which must be ``expected``."""
        char = self.peek()
        if char != expected:
            raise self._error(f"expected {expected}" if char else "it is truncated")
        self._at += 1
        self.copy(char)

    def value(self) -> tuple[Any, str]:
        """The next value, and its text, which is not copied."""
        self.peek()
        while True:
            try:
                value, end = _SCAN(self._text, self._at)
            except (ValueError, RecursionError) as error:
                # A value cut at the end of the current chunk is not an error.
                deep = isinstance(error, RecursionError)
                if deep or not self._more():
                    why = "it is nested too deeply" if deep else getattr(error, "msg", str(error))
                    raise self._error(why) from error
                continue
            # A number may continue in the next chunk: "1." of "1.5" reads as 1.
            if (end < len(self._text) and self._text[end] not in _NUMBER) or not self._more():
                break
        text = self._text[self._at : end]
        self._at = end
        return value, text

    def members(self) -> Iterator[str]:
        """The names of the members of the object that begins here, each before its value: the
        caller reads that. The closing brace is left to ``take``."""
        for _ in self.elements("{", "}"):
            name, text = self.value()
            if not isinstance(name, str):
                raise self._error("expected a member name")
            self.copy(text)
            self.take(":")
            yield name

    def elements(self, opening: str = "[", closing: str = "]") -> Iterator[None]:
        """Stops before each element of the array that begins here; its closing bracket is left to
        ``take``."""
        self.take(opening)
        if self.peek() == closing:
            return
        yield
        while self.peek() != closing:
            self.take(",")
            yield

    def _more(self) -> bool:
        """Reads on; whether there was more. Raises ReportError for what is too large."""
        if self._ended:
            return False
        if len(self._text) - self._at > LARGEST_VALUE:
            raise self._error(f"a value is longer than {LARGEST_VALUE >> 20} MB, or is not JSON")
        # Double the buffer, so that a long value is not rescanned for every chunk.
        try:
            chunk = self._source.read(max(CHUNK, len(self._text) - self._at))
        except (OSError, EOFError, zlib.error) as error:
            raise ReportError(f"{self.origin}: cannot be read ({error})", REMEDY) from error
        self._before += self._at
        if self._before > LARGEST_TEXT:
            raise self._error(f"it is longer than {LARGEST_TEXT >> 30} GB")
        self._text, self._at, self._ended = self._text[self._at :] + chunk, 0, not chunk
        return bool(chunk)

    def _error(self, why: str) -> ReportError:
        return ReportError(f"{self.origin}: invalid JSON at character {self._before + self._at:,}: {why}", REMEDY)


def with_member(text: str, name: str, member: str, value: str) -> str:
    """``text`` of an object with ``member`` added to its object ``name``, which is made where there
    is none; all other characters stay. ``value`` is JSON."""
    pieces: list[str] = []
    copy, added, names = JsonCopy(io.StringIO(text), pieces.append, ""), f"{json.dumps(member)}: {value}", set[str]()
    for key in copy.members():
        names.add(key)
        held, inner = copy.value()
        if key == name and isinstance(held, dict):
            inner = f"{inner[:-1]}{', ' if held else ''}{added}}}"
        pieces.append(f"{{{added}}}" if key == name and not isinstance(held, dict) else inner)
    if name not in names:
        pieces.append(f"{', ' if names else ''}{json.dumps(name)}: {{{added}}}")
    copy.take("}")
    return "".join(pieces)
