"""``python -m ncubble.kernels.run.other_tree``: the kernels of another checkout of ncubble, and
what they are called.

With ``--tree DIR`` the kernels, and all that builds and launches them, are those of the checkout at
DIR. What follows is as for ``python -m ncubble.kernels``. With ``--describe`` nothing is built
or launched: a JSON object says label and function of what would be.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import runpy
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ncubble.errors import UsageError

PACKAGES = {"ncubble": "ncubble", "ncubble.kernels": "kernels"}
"""Packages taken from a checkout, with their folders in it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    parser = argparse.ArgumentParser(prog="ncubble.kernels.run.other_tree", add_help=False, allow_abbrev=False)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--describe", action="store_true")
    given, rest = parser.parse_known_args(argv)
    try:
        if given.tree is not None:
            adopt(given.tree)
        if not given.describe:
            sys.argv = ["ncubble.kernels", *rest]
            runpy.run_module("ncubble.kernels", run_name="__main__", alter_sys=True)
            return 0
        launch = describe(rest)
    except Exception as error:  # of the other checkout: its classes are not ours
        if not hasattr(error, "exit_code"):
            raise
        sys.stderr.write(f"ncubble.kernels: {error}\n")
        return int(error.exit_code)
    sys.stdout.write(json.dumps(launch) + "\n")
    return 0


def adopt(tree: Path) -> None:
    """From now on ``ncubble`` and ``ncubble.kernels`` are those of the checkout at ``tree``; raises
    UsageError."""
    folders = {name: tree / folder for name, folder in PACKAGES.items()}
    for folder in folders.values():
        if not (folder / "__init__.py").is_file():
            raise UsageError(f"{tree}: not a checkout of ncubble: it has no {folder.name}/", "use another revision")
    for name in [name for name in sys.modules if name == "ncubble" or name.startswith("ncubble.")]:
        del sys.modules[name]
    for name, folder in folders.items():
        _load(name, folder)


def _load(name: str, folder: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder.resolve())]
    )
    assert spec is not None and spec.loader is not None  # noqa: S101 (a file with this suffix)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    spec.loader.exec_module(module)


def describe(arguments: Sequence[str]) -> dict[str, str]:
    """What ``arguments`` would launch, as the module's text says. Raises as ``kernels.session``
    does."""
    session = _of_tree("run.request", "run.session", "session")
    request = getattr(session, "KernelRequest", None) or session.Request
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("name")
    parser.add_argument("-p", dest="parameters", action="append", default=[])
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--catalog", type=Path)
    given = parser.parse_args(arguments)
    parameters, shape = session.parse_parameters(given.parameters), session.parse_shape(given.shape)
    case = request(given.name, parameters, shape, given.catalog).case()
    return {"label": case.label, "function": case.spec.entry}


def _of_tree(*names: str) -> Any:
    """The first module of ``names`` that the adopted checkout has: in older ones it has other
    names."""
    for name in names[:-1]:
        with suppress(ModuleNotFoundError):
            return importlib.import_module(f"ncubble.kernels.{name}")
    return importlib.import_module(f"ncubble.kernels.{names[-1]}")


if __name__ == "__main__":
    sys.exit(main())
