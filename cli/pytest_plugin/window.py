"""The window of ncu as the two programs open it that the pytest plugin has profiled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ncubble.profiling.driver import DriverError, measured


def window(wanted: bool, note: Callable[[str], object]) -> ExitStack:
    """An open window, which ends with the block; or nothing where none is ``wanted``.

    Where the driver cannot be told, ``note`` hears why: ncu then measures nothing, and says so.
    """
    stack = ExitStack()
    try:
        if wanted:
            stack.enter_context(measured())
    except DriverError as error:
        note(f"the start of the measurement could not be signalled to the driver: {error}")
    return stack
