"""The start of the ``ncubble`` command: what ends it while its modules are imported is told in one
sentence, too."""

from __future__ import annotations

import os
import signal
import sys

from ncubble.errors import INTERRUPTED, lacking


def main() -> None:
    """Entry point of the command."""

    def interrupted(*_: object) -> None:
        os.write(2, b"ncubble: interrupted\n")
        os._exit(INTERRUPTED)

    if sys.stdout is None:  # closed: what is printed fails as on a full disk, which hides no exit code
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
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
