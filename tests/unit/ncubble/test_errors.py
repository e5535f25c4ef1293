"""What a machine lacks is said by its name, and nothing else is taken for it."""

from __future__ import annotations

import errno

import pytest

from ncubble.errors import lacking


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory"),
        (ImportError("lib.so: failed to map segment from shared object"), "not enough memory"),
        (SystemError("error return without exception set"), "not enough memory"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "no further process or thread"),
        (RuntimeError("can't start new thread"), "no further process or thread"),
        (OSError(errno.ENOSPC, "No space left on device", "a.txt"), "a.txt: cannot be written"),
        (OSError(errno.EBADF, "Bad file descriptor"), "standard output: is closed"),
        (ImportError("lib.so: cannot allocate memory in static TLS block"), ""),
        (ValueError("error return without exception set"), ""),
        (OSError(errno.EIO, "Input/output error"), ""),
        (KeyError("a"), ""),
    ],
)
def test_an_error_is_explained_by_what_the_machine_lacks_or_not_at_all(error: BaseException, said: str) -> None:
    told = lacking(error)
    assert told.startswith(said) if said else told == ""
    assert not told or "\n  remedy: " in told


def test_the_cause_behind_an_error_explains_it() -> None:
    outer = ImportError("cannot import pandas")
    outer.__cause__ = MemoryError()
    assert lacking(outer).startswith("not enough memory")
