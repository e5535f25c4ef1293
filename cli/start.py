"""The start of the ``ncubble`` command: what ends it while its modules are imported is told in one
sentence, too."""

from __future__ import annotations

import errno
import os
import signal
import sys

INTERRUPTED = 130
"""As in shells: 128 + SIGINT."""
_MEMORY = "not enough memory\n  remedy: free memory, or raise the limit (`ulimit -v`)"
_SMALL = ("can't start new thread", "cannot allocate memory", "failed to map segment", "cannot apply additional memory")
"""What Python and the loader of libraries say where memory is short."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def lacking(error: BaseException) -> str:
    """What the machine lacks, with the remedy, where that explains ``error``; else empty."""
    if isinstance(error, OSError) and error.errno in _FULL:
        place = error.filename or "the output"
        return f"{place}: cannot be written ({error.strerror})\n  remedy: free disk space, or write elsewhere"
    chain: BaseException | None = error
    while chain is not None:
        short = isinstance(chain, OSError) and chain.errno in (errno.ENOMEM, errno.EAGAIN)
        if short or isinstance(chain, MemoryError) or any(words in str(chain).lower() for words in _SMALL):
            return _MEMORY
        chain = chain.__cause__ or chain.__context__
    return ""


def main() -> None:
    """Entry point of the command."""

    def interrupted(*_: object) -> None:
        os.write(2, b"ncubble: interrupted\n")
        os._exit(INTERRUPTED)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        from ncubble.cli.main import main as command
    except Exception as error:
        if not (why := lacking(error)):
            raise
        sys.stderr.write(f"ncubble: {why}\n")
        sys.exit(3)
    signal.signal(signal.SIGINT, before)
    command()
