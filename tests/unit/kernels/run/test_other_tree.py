"""Kernels of another checkout are built and launched by that checkout."""

import json
import shutil
import subprocess
import sys

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.run import other_tree


def test_a_kernel_is_described_without_a_gpu(capsys):
    assert other_tree.main(["--describe", "tensor_core_gemm", "-p", "stages=3", "--shape", "m=256"]) == 0
    launch = json.loads(capsys.readouterr().out)
    assert launch["label"].startswith("tensor_core_gemm stages=3")
    assert launch["function"] == "tensor_core_gemm"
    assert other_tree.main(["--describe", "nowhere"]) == 2
    assert "there is no kernel 'nowhere'" in capsys.readouterr().err


def test_the_kernels_of_another_checkout_are_its_own(tmp_path, repository):
    """Also what builds and launches them: a flag of nvcc that was lost is a regression, too."""
    for folder in ("ncubble", "kernels"):
        shutil.copytree(repository / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "cuda"))
    shutil.copytree(repository / "kernels" / "cuda", tmp_path / "kernels" / "cuda")
    spec = tmp_path / "kernels" / "catalog" / "gemm.py"
    spec.write_text(spec.read_text().replace('"tensor_core_gemm"', '"renamed_gemm"'))
    request_file = tmp_path / "kernels" / "run" / "session.py"
    request_file.write_text(request_file.read_text() + "\nimport sys\nprint(__file__, file=sys.stderr)\n")

    def run(*argv):
        command = [sys.executable, "-P", "-m", "ncubble.kernels.run.other_tree", "--tree", str(tmp_path), *argv]
        return subprocess.run(command, capture_output=True, text=True, cwd=repository, timeout=60)

    done = run("--describe", "renamed_gemm")
    assert json.loads(done.stdout)["label"].startswith("renamed_gemm"), done.stderr
    assert done.stderr.strip() == str(tmp_path / "kernels" / "run" / "session.py")
    done = run("tensor_core_gemm", "--once")
    assert (done.returncode, "there is no kernel 'tensor_core_gemm'" in done.stderr) == (2, True)
    assert str(tmp_path / "kernels" / "run" / "session.py") in done.stderr


OLDER = """
class Case:
    label = "old n=1"
    class spec:
        entry = "old"

class NAME:
    def __init__(self, *given): self.given = given
    def case(self): return Case()

def parse_parameters(texts): return {}
def parse_shape(texts): return {}
"""


@pytest.mark.parametrize(
    ("module", "name"), [("session.py", "Request"), ("run/session.py", "Request"), ("run/request.py", "KernelRequest")]
)
def test_checkouts_of_older_versions_are_described_whatever_their_modules_are_called(tmp_path, module, name):
    for folder in ("ncubble", "kernels", "kernels/run"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "kernels" / module).write_text(OLDER.replace("NAME", name))
    argv = ["--tree", str(tmp_path), "--describe", "old"]
    command = [sys.executable, "-P", "-m", "ncubble.kernels.run.other_tree", *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"label": "old n=1", "function": "old"}


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not a checkout of ncubble"):
        other_tree.adopt(tmp_path)
