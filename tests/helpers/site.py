"""The documentation site, built once for all tests of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.store import lock

ROOT = Path(__file__).resolve().parents[2]


def built_site(factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built strictly. Fails with what mkdocs printed where there is a
    warning."""
    base = factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "site"
    with lock(f"site {folder}"):
        if not folder.exists():
            command = [sys.executable, "-P", "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
            environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
            assert done.returncode == 0, done.stderr[-4000:]
    return folder
