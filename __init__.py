"""Stands in for the package ``ncubble`` where this checkout, in a folder of that name, lies on the
import path: in its parent directory, ``import ncubble`` would else find the bare folder.

It is replaced by the ``ncubble`` that is installed. Where none is, by the one of this checkout.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_ROOT = Path(__file__).resolve().parent


def _installed(name: str) -> ModuleSpec | None:
    """The package of that name elsewhere on the import path, or by a finder of an editable
    installation."""
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() != _ROOT.parent]
    for finder in sys.meta_path:
        path = elsewhere if finder is PathFinder else None
        found = finder.find_spec(name, path)
        if found is not None and found.loader is not None and found.origin != __file__:
            return found
    return None


def _of_checkout(name: str) -> ModuleSpec | None:
    """The package as it is laid out here: its rooms lie beside it."""
    inner = _ROOT / "ncubble"
    return spec_from_file_location(name, inner / "__init__.py", submodule_search_locations=[str(inner), str(_ROOT)])


if __name__ == "ncubble":  # the name of the folder: any other importer wants what is here
    spec = _installed(__name__) or _of_checkout(__name__)
    if spec is None or spec.loader is None:
        raise ImportError(f"no package ncubble in {_ROOT}")
    module = sys.modules[__name__] = module_from_spec(spec)
    spec.loader.exec_module(module)
