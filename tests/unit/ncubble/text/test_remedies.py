"""Remedies: the name that was meant, and commands that install packages, with the pip of the
environment that runs ncubble."""

import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ncubble.text import remedies
from ncubble.text.remedies import extras_command, known_names, pip_command

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ``bin`` folder of an environment whose interpreter runs this, without pip on PATH."""
    folder = tmp_path / "env" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return folder


def test_a_clone_installs_from_its_folder_and_a_wheel_from_where_it_came(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert extras_command("gpu", "nvcc").endswith(" -m pip install -e '.[gpu,nvcc]'")
    monkeypatch.chdir(tmp_path)
    assert shlex.split(extras_command("mcp"))[-2:] == ["-e", f"{ROOT}[mcp]"]
    monkeypatch.setattr(remedies, "CHECKOUT", tmp_path / "site-packages")
    told: list[str | None] = [None]
    monkeypatch.setattr(remedies, "distribution", lambda name: SimpleNamespace(read_text=lambda file: told[0]))
    assert extras_command("mcp") == "env/bin/python -m pip install 'ncubble[mcp]'", "from an index"
    told[0] = '{"url": "file:///x/ncubble-0.2.0-py3-none-any.whl", "archive_info": {}}'
    wheel = "'ncubble[mcp] @ file:///x/ncubble-0.2.0-py3-none-any.whl'"
    assert extras_command("mcp") == f"env/bin/python -m pip install {wheel}"
    told[0] = '{"url": "https://host/ncubble", "vcs_info": {"vcs": "git", "commit_id": "abc"}}'
    assert shlex.split(extras_command("gpu"))[-1] == "ncubble[gpu] @ git+https://host/ncubble@abc"
    told[0] = "damaged"
    assert extras_command() == "env/bin/python -m pip install ncubble"


def test_pip_is_that_of_the_interpreter(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip").touch(0o755)
    assert pip_command("torch") == f"{environment}/python -m pip install torch"
    (environment / "pip").touch(0o755)
    monkeypatch.setenv("PATH", str(environment))
    assert pip_command("numpy<2.5") == "pip install 'numpy<2.5'"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(remedies.importlib.util, "find_spec", lambda name: None)
    assert pip_command("torch") == f"uv pip install --python {environment}/python torch"


def test_all_hints_come_from_here(sources: list[Path]) -> None:
    others = [path for path in sources if path.name != "remedies.py"]
    assert others
    assert [path for path in others if re.search(r"""["'][^"'\n]*pip install""", path.read_text())] == []


@pytest.mark.parametrize(
    ("name", "known", "remedy"),
    [
        ("stags", ["stages", "ablate"], "did you mean stages? It has: stages, ablate"),
        ("q", ["m", "n", "k"], "it has: m, n, k"),
        ("x", [], "it has none"),
    ],
)
def test_the_nearest_name_comes_first(name: str, known: list[str], remedy: str) -> None:
    assert known_names(name, known) == remedy
    assert known_names("tiem", ["time"], "orders") == "did you mean time? Orders: time"
