"""``python -m ncubble.cli.pytest_plugin.call ORDER``: calls a function in this process, inside ncu's window.

The program that ncu wraps where the fixture ``ncubble`` was given a callable. ORDER is a JSON file, written by
``fixture``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from ncubble.cli.pytest_plugin.window import window


def main(path: str) -> None:
    """Import, set up, warm up, call; what goes wrong is raised."""
    order = json.loads(Path(path).read_text(encoding="utf-8"))
    sys.path[:] = order["path"]
    target = _find(*order["target"])
    setup = _find(*order["setup"]) if order["setup"] else tuple
    made: Any = setup()
    passed = pickle.loads(bytes.fromhex(order["arguments"]))  # noqa: S301 (written by the test that called)
    arguments = [*(made if isinstance(made, tuple) else (made,)), *passed]
    for _ in range(order["warmup"]):
        target(*arguments)
    with window(order["window"], lambda note: sys.stderr.write(f"ncubble: {note}\n")):
        for _ in range(order["repeats"]):
            target(*arguments)


def _find(module: str, name: str, file: str) -> Callable[..., Any]:
    """The function ``name`` of a module. What pytest imported by its path alone is imported by its path again."""
    function: Callable[..., Any] = reduce(getattr, name.split("."), _module(module, file))
    return function


def _module(name: str, file: str) -> Any:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        module = None
    if module is not None and (not file or getattr(module, "__file__", None) == file):
        return module
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name}: cannot be imported from {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(sys.argv[1])
