"""Parts of remedies: names that may have been meant, and commands that install packages into the
environment that runs ncubble."""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
"""The clone, where ncubble runs from one; else ``site-packages``."""


def known_names(name: str, known: Iterable[str], lead: str = "it has") -> str:
    """The remedy for ``name``, which is none of ``known``: the nearest one, if any is near, and
    after ``lead`` all."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    listed = f"{lead}: {', '.join(names)}" if names else f"{lead} none"
    return f"did you mean {near[0]}? {listed[:1].upper()}{listed[1:]}" if near else listed


def nearest(name: str, known: Iterable[str], most: int = 3, cutoff: float = 0.5) -> str:
    """The same behind a message: ``; nearest: a, b``, or nothing if none is near."""
    near = difflib.get_close_matches(name, list(known), most, cutoff)
    return f"; nearest: {', '.join(near)}" if near else ""


def extras_command(*extras: str) -> str:
    """The command that installs these extras of ncubble, or without any what ncubble needs: from
    the clone if it runs from one, else from where it was installed from."""
    names = f"[{','.join(extras)}]" if extras else ""
    if (CHECKOUT / "pyproject.toml").is_file():
        return pip_command("-e", f"{_relative(CHECKOUT)}{names}")
    address = _address()
    return pip_command(f"ncubble{names} @ {address}" if address else f"ncubble{names}")


def _address() -> str:
    """The wheel, folder or repository that ncubble was installed from (PEP 610); empty where it
    came from a package index."""
    with suppress(PackageNotFoundError, ValueError):
        told = json.loads(distribution("ncubble").read_text("direct_url.json") or "{}")
        if source := told.get("vcs_info"):
            return f"{source['vcs']}+{told['url']}@{source['commit_id']}"
        return str(told.get("url", ""))
    return ""


def pip_command(*arguments: str) -> str:
    """``pip install`` of these arguments, quoted, for the environment of this interpreter: ``pip``
    of a shell may belong to another one, and environments made by uv have none."""
    return f"{_pip()} {' '.join(map(_quoted, arguments))}"


def _pip() -> str:
    python = Path(sys.executable)
    if (found := shutil.which("pip")) and Path(found).parent == python.parent:
        return "pip install"
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {_quoted(_relative(python))}"
    return f"{_quoted(_relative(python))} -m pip install"


def _relative(path: Path) -> str:
    """From the working directory if it lies below; not resolved, as an environment's interpreter is
    a link."""
    here = Path.cwd()
    return os.path.relpath(path, here) if path == here or here in path.parents else str(path)


def _quoted(argument: str) -> str:
    return f"'{argument}'" if "[" in argument and "'" not in argument else shlex.quote(argument)
