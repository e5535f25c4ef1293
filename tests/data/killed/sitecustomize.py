"""On PYTHONPATH: every process that ingests reports dies when it opens one that is called
"lethal7"."""

import os
import signal
import sys


def _die(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and "lethal7" in str(arguments[0]):
        os.kill(os.getpid(), signal.SIGKILL)


if "ncubble.analysis.datasets.worker" in sys.orig_argv:
    sys.addaudithook(_die)
