"""Finds specs by name: the shipped catalog and, when a folder is named, the user's own."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ncubble.errors import NcubbleError, UsageError
from ncubble.kernels.catalog import attention, copies, gemm, hopper_gemm, host, sdpa, softmax, structure
from ncubble.kernels.spec.spec import KernelSpec

FAMILIES = (copies, gemm, hopper_gemm, softmax, attention, sdpa, structure, host)
SPECS: tuple[KernelSpec, ...] = tuple(spec for family in FAMILIES for spec in family.SPECS)
"""The kernels that ship with ncubble, in the order of the ladder."""


def catalog(folder: Path | None = None) -> dict[str, KernelSpec]:
    """All specs by name: the shipped ones, then those of ``folder``. Python files of ``folder`` are
    executed.

    Raises:
        UsageError: the folder or a source is missing, a file fails to load, a name occurs twice,
            or there is no spec.
    """
    specs = {spec.name: spec for spec in SPECS}
    return specs | {spec.name: spec for spec in user_specs(folder)} if folder is not None else specs


def find_spec(name: str, folder: Path | None = None) -> KernelSpec:
    """The spec called ``name``; raises UsageError with the nearest names."""
    known = catalog(folder)
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3)
    listing = "ncubble kernels" if folder is None else f"ncubble kernels --catalog {folder}"
    remedy = f"did you mean {' or '.join(near)}?" if near else f"`{listing}` lists them."
    own = "" if folder else " Own kernels need --catalog DIR (check: --setting catalog=DIR)"
    raise UsageError(f"there is no kernel {name!r}", f"{remedy}{own}")


def user_specs(folder: Path) -> list[KernelSpec]:
    """The ``SPEC`` or ``SPECS`` of every Python file in ``folder`` that mentions KernelSpec, bound
    to the folder."""
    specs, failures = readable_specs(folder)
    for _, error in failures:
        raise error
    return specs


def readable_specs(folder: Path) -> tuple[list[KernelSpec], list[tuple[Path, UsageError]]]:
    """The specs of every file of ``folder`` that loads and has new names, and what the others fail
    with; raises UsageError where there is no such folder or no spec in it."""
    taken = dict.fromkeys((spec.name for spec in SPECS), "the shipped catalog")
    specs: list[KernelSpec] = []
    failures: list[tuple[Path, UsageError]] = []
    for path in _spec_files(folder):
        try:
            for spec in _specs_in(path):
                if other := taken.get(spec.name):
                    raise UsageError(f"{path}: {other} has a kernel named {spec.name!r}, too", "choose another name")
                taken[spec.name] = path.name
                specs.append(spec)
        except UsageError as error:
            failures.append((path, error))
    if not specs and not failures:
        raise UsageError(f"{folder}: no spec found", "put SPEC = KernelSpec(…) into a .py file in this folder")
    return specs, failures


def _spec_files(folder: Path) -> list[Path]:
    """The Python files of ``folder`` that mention KernelSpec."""
    if not folder.is_dir():
        remedy = (
            f"name its folder: --catalog {folder.parent}" if folder.is_file() else "--catalog takes a folder of specs"
        )
        raise UsageError(f"{folder}: no such folder", remedy)
    # Hidden files are leftovers of editors and other systems: locks, resource forks.
    files = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith(".") and path.is_file()]
    return [path for path in files if _mentions_spec(path)]


def _mentions_spec(path: Path) -> bool:
    try:
        return b"KernelSpec" in path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error}", "fix its permissions, or move it elsewhere") from error


def _specs_in(path: Path) -> list[KernelSpec]:
    module = load_module(path)
    declared = getattr(module, "SPECS", None) or [getattr(module, "SPEC", None)]
    specs = [spec for spec in declared if isinstance(spec, KernelSpec)] if isinstance(declared, list | tuple) else []
    if not specs or len(specs) != len(declared):
        raise UsageError(f"{path}: SPEC is not a KernelSpec", "assign a KernelSpec to SPEC, or a list of them to SPECS")
    bound = [replace(spec, folder=path.parent.resolve()) for spec in specs]
    for spec in bound:
        if not spec.path.is_file():
            raise UsageError(f"{path}: source {spec.source!r} of {spec.name!r} is missing", "put it next to the spec")
    return bound


def load_module(path: Path) -> ModuleType:
    """Executes the Python file ``path`` and returns its module; raises UsageError with the reason
    if it fails."""
    name = f"ncubble_source_{path.stem}"  # the same in every run: Numba puts it into the kernel's mangled name
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path}: not a Python file", "name it *.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except NcubbleError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit(0) in a spec must not end a verification with success
        raise UsageError(f"{path}: failed to load: {type(error).__name__}: {error}", "fix the file") from error
    return module
