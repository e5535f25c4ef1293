"""A checkout in a folder called ``ncubble`` does not shadow the package in its parent directory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_SHOW = "import ncubble, ncubble.errors, ncubble.kernels; from importlib.resources import files; " + (
    "print(ncubble.__file__, ncubble.kernels.__file__, files('ncubble'), ncubble.__version__)"
)


@pytest.fixture(scope="module")
def parent(
    tracked: list[Path], rooms: tuple[str, ...], repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The parent directory of a clone: its Python files as links to ours."""
    folder = tmp_path_factory.mktemp("parent")
    for path in tracked:
        place = path.relative_to(repository)
        if path.suffix == ".py" and (len(place.parts) == 1 or place.parts[0] in rooms):
            (folder / "ncubble" / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / "ncubble" / place).write_bytes(path.read_bytes())
    return folder


def shown(folder: Path, *options: str) -> list[str]:
    argv = [sys.executable, *options, "-c", _SHOW]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_installed_package_is_imported(parent: Path, repository: Path) -> None:
    package = str(repository / "ncubble")
    assert shown(parent)[:3] == [f"{package}/__init__.py", str(repository / "kernels" / "__init__.py"), package]


def test_without_one_the_checkout_itself_is(parent: Path) -> None:
    """``-S``: nothing that is installed is found."""
    inner = parent / "ncubble" / "ncubble"
    found = shown(parent, "-S")
    assert found[:3] == [str(inner / "__init__.py"), str(parent / "ncubble" / "kernels" / "__init__.py"), str(inner)]


def test_an_installed_wheel_is_imported(parent: Path, tmp_path: Path) -> None:
    package = tmp_path / "site" / "ncubble"
    for name in ("__init__.py", "errors.py", "kernels/__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("__version__ = 'of the wheel'\n")
    code = f"import sys; sys.path.append({str(package.parent)!r}); {_SHOW}"
    argv = [sys.executable, "-S", "-c", code]
    done = subprocess.run(argv, cwd=parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split()[0] == str(package / "__init__.py"), done.stderr
    assert done.stdout.strip().endswith("of the wheel")


def test_the_wheel_carries_no_stand_in(repository: Path) -> None:
    text = (repository / "pyproject.toml").read_text()
    assert '"ncubble" = "ncubble"' in text and "py-modules" not in text
