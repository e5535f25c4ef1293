"""Kernels of another checkout are built and launched by that checkout, and machine code is told from its trimmings."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.analysis.gate.baseline.same_code import code_hash as sass_hash
from ncubble.errors import UsageError
from ncubble.kernels.run import other_tree
from ncubble.profiling.runs import session
from ncubble.profiling.runs.session import ProfileRequest, ProgramPlace

FAKE = Path(__file__).parents[3] / "data" / "fake_ncu.py"


def elf(**contents):
    """An ELF file with these sections; ``__`` in a name stands for a dot."""
    names = [".shstrtab", *(name.replace("__", ".") for name in contents)]
    table = b"\0" + b"\0".join(name.encode() for name in names) + b"\0"
    parts, heads, place = [], [], 64
    for name, data in zip(names, [table, *contents.values()], strict=True):
        heads.append(struct.pack("<IIQQQQIIQQ", table.index(name.encode()), 1, 0, 0, place, len(data), 0, 0, 0, 0))
        parts.append(data)
        place += len(data)
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 0x28, place)
    struct.pack_into("<HHH", head, 0x3A, 64, len(heads), 0)
    return bytes(head) + b"".join(parts) + b"".join(heads)


def test_paths_and_lines_are_no_machine_code():
    one = elf(__text__gemm=b"code", __nv__constant0=b"c", __debug_line=b"/a/gemm.cu")
    assert other_tree.code_hash(one) == other_tree.code_hash(
        elf(__text__gemm=b"code", __nv__constant0=b"c", __debug_line=b"/elsewhere/gemm.cu", __note=b"x")
    )
    for other in (
        elf(__text__gemm=b"cope", __nv__constant0=b"c"),
        elf(__text__gemm=b"code", __nv__constant0=b"d"),
        elf(__text__gemm=b"codec", __nv__constant0=b""),
    ):
        assert other_tree.code_hash(one) != other_tree.code_hash(other)


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01", b"MZ" * 99, elf(__debug_line=b"x"), elf(__text=b"x")[:70]])
def test_what_is_no_cubin_is_refused(data):
    with pytest.raises(UsageError):
        other_tree.code_hash(data)


def test_the_place_where_code_was_loaded_is_no_difference():
    here = ["@!P0  BRA 0x7f09cb7a1220", "IADD R1, R1, 0x7fffffff", "BRA 0x7f09cb7a07a0"]
    there = ["@!P0  BRA 0x7e00000a1220", "IADD R1, R1, 0x7fffffff", "BRA 0x7e00000a07a0"]
    assert sass_hash(here) == sass_hash(there)
    assert sass_hash(here) != sass_hash([*there[:2], "BRA 0x7e00000a07b0"])
    assert sass_hash(here) != sass_hash(["@!P0  BRA 0x7e00000a1220", "IADD R1, R1, 0x7ffffffe", there[2]])


def test_a_kernel_is_described_without_a_gpu(capsys):
    assert other_tree.main(["--describe", "none", "tensor_core_gemm", "-p", "stages=3", "--shape", "m=256"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["label"].startswith("tensor_core_gemm stages=3")
    assert (told["function"], told["code"], told["launch"]["grid"]) == ("tensor_core_gemm", None, "(32, 2, 1)")
    assert other_tree.main(["--describe", "none", "nowhere"]) == 2
    assert "no kernel is called 'nowhere'" in capsys.readouterr().err


def test_the_kernels_of_another_checkout_are_its_own(tmp_path, repository):
    """Also what builds and launches them: a flag of nvcc that was lost is a regression, too."""
    for folder in ("ncubble", "kernels"):
        shutil.copytree(repository / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "cuda"))
    shutil.copytree(repository / "kernels" / "cuda", tmp_path / "kernels" / "cuda")
    spec = tmp_path / "kernels" / "catalog" / "wmma.py"
    spec.write_text(spec.read_text().replace('"tensor_core_gemm"', '"renamed_gemm"'))
    session_file = tmp_path / "kernels" / "run" / "session.py"
    session_file.write_text(session_file.read_text() + "\nimport sys\nprint(__file__, file=sys.stderr)\n")

    def run(*argv):
        command = [sys.executable, "-P", "-m", "ncubble.kernels.run.other_tree", "--tree", str(tmp_path), *argv]
        return subprocess.run(command, capture_output=True, text=True, cwd=repository, timeout=60)

    done = run("--describe", "none", "renamed_gemm")
    assert json.loads(done.stdout)["label"].startswith("renamed_gemm"), done.stderr
    assert done.stderr.strip() == str(tmp_path / "kernels" / "run" / "session.py")
    done = run("tensor_core_gemm", "--once")
    assert (done.returncode, "no kernel is called 'tensor_core_gemm'" in done.stderr) == (2, True)
    assert str(tmp_path / "kernels" / "run" / "session.py") in done.stderr


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no checkout of ncubble"):
        other_tree.adopt(tmp_path)


def test_a_program_is_profiled_in_the_folder_and_with_the_facts_of_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bin").mkdir()
    Path("bin/ncu").write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
    Path("bin/ncu").chmod(0o755)
    Path("there").mkdir()
    Path("there/program").write_text("#!/bin/sh\npwd > where\necho $MARK >> where\n")
    Path("there/program").chmod(0o755)
    monkeypatch.setenv("NCUBBLE_NCU", "bin/ncu")  # relative to here, not to there
    place = ProgramPlace(tmp_path / "there", {"MARK": "x"}, {"sha": "1", "dirty": False})
    run = session.profile(ProfileRequest(["./program"], Path("run"), place=place))
    assert Path("there/where").read_text().split() == [str(tmp_path / "there"), "x"]
    assert run.manifest.git == {"sha": "1", "dirty": False}
    assert "MARK" not in os.environ
