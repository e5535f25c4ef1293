"""Commands ``kernels``, ``verify`` and ``bench``."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ncubble.cli import main as cli
from ncubble.cli.kernels import architectures, notes
from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import SPECS, find_spec

OWN = Path(__file__).parents[2] / "data" / "catalog"


def run(capsys, *argv):
    with pytest.raises(SystemExit) as ended:
        cli.main(list(argv))
    return ended.value.code or 0, capsys.readouterr()


def test_the_catalog_as_json_names_every_kernel_and_its_choices(capsys):
    code, said = run(capsys, "kernels", "--json")
    kernels = {item["name"]: item for item in json.loads(said.out)["kernels"]}
    assert code == 0
    assert {"tiled_matmul", "async_pipeline", "tensor_core_gemm", "softmax_online"} < set(kernels)
    stages = kernels["async_pipeline"]["parameters"][0]
    assert stages == {
        "name": "stages",
        "default": 3,
        "choices": [2, 3, 4, 5, 6],
        "help": "buffers in the ring",
        "problem": False,
        "change": "",
    }


def test_the_table_shows_every_name_whole(capsys):
    code, said = run(capsys, "kernels")
    assert code == 0
    assert "numba_softmax_online" in said.out
    assert "stages=1..6" in said.out


@pytest.mark.parametrize("columns", [80, 120])
def test_the_list_fits_the_terminal_and_cuts_nothing(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    _, said = run(capsys, "kernels")
    assert max(map(len, said.out.splitlines())) <= columns
    assert "…" not in said.out
    assert "stream_kind=nonblocking, blocking, default (nonblocking)" in said.out  # an item is not torn


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tiled_matmul", []),
        ("gemm_ws", ["Hopper only"]),
        ("cluster_dsmem", ["Hopper or later"]),
        ("attention_fwd", ["path=tma: Hopper only"]),
    ],
)
def test_what_needs_hopper_is_said_of_the_kernel_or_of_the_value_that_needs_it(name, expected):
    assert [need.words for need in architectures(find_spec(name))] == expected


def test_the_json_says_what_needs_which_architecture(capsys):
    _, said = run(capsys, "kernels", "--json")
    needs = {item["name"]: item["needs"] for item in json.loads(said.out)["kernels"]}
    assert needs["tiled_matmul"] == []
    assert needs["gemm_ws"] == [{"parameter": None, "values": [], "arch": 90, "only": True}]
    assert needs["cluster_dsmem"] == [{"parameter": None, "values": [], "arch": 90, "only": False}]
    assert needs["attention_fwd"] == [{"parameter": "path", "values": ["tma"], "arch": 90, "only": True}]


def test_an_architecture_without_a_name_and_values_that_need_the_same_are_shown():
    spec = replace(find_spec("async_copy_manual"), arch_of=lambda chosen: 110 if chosen["threads"] > 128 else 80)
    assert [need.words for need in architectures(spec)] == ["threads=256, 512: sm_110 or later"]


def test_a_rule_of_an_own_kernel_that_fails_is_named():
    with pytest.raises(UsageError, match="spec of 'tiled_matmul': arch_of: KeyError: 'path'"):
        architectures(replace(find_spec("tiled_matmul"), arch_of=lambda chosen: chosen["path"]))


def test_the_list_names_the_library_and_the_gates_of_every_kernel_that_has_them(capsys):
    _, said = run(capsys, "kernels")
    lines = said.out.splitlines()
    assert notes(find_spec("attention_fwd")) == ["path=tma: Hopper only", "bench --library: cuDNN"]
    assert "  path=tma: Hopper only · bench --library: cuDNN" in lines
    assert sum("bench --library" in line for line in lines) == sum(bool(spec.peer) for spec in SPECS)
    assert sum("verify --gates" in line for line in lines) == sum(spec.gates is not None for spec in SPECS) > 0


def test_the_list_shows_the_default_of_other_gpus(capsys):
    _, said = run(capsys, "kernels")
    assert "path=cp_async, tma (tma, elsewhere cp_async)" in said.out
    _, said = run(capsys, "kernels", "--json")
    (attention,) = (item for item in json.loads(said.out)["kernels"] if item["name"] == "attention_fwd")
    found = {item["name"]: item.get("elsewhere") for item in attention["parameters"]}
    assert found == {"path": "cp_async", "causal": None, "stages": 2, "group": None}


def test_own_kernels_are_listed_too(capsys):
    _, said = run(capsys, "kernels", "--json", "--catalog", str(OWN))
    assert "saxpy" in {item["name"] for item in json.loads(said.out)["kernels"]}


def test_brackets_in_an_own_kernels_words_are_shown(capsys, tmp_path):
    (tmp_path / "saxpy.cu").write_text("")
    (tmp_path / "saxpy.py").write_text((OWN / "saxpy.py").read_text().replace("out = 2 x + y", "y[i] = x[/i]"))
    code, said = run(capsys, "kernels", "--catalog", str(tmp_path))
    assert code == 0, said.err
    assert "y[i] = x[/i]" in " ".join(said.out.split())


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_a_wrong_parameter_ends_with_2_and_names_the_range(capsys, command):
    code, said = run(capsys, command, "tensor_core_gemm", "-p", "vec=8")
    assert code == 2
    assert "vec=8" in said.err and "4, 16" in said.err
    assert said.out == ""


def test_bench_refuses_fewer_than_100_launches(capsys):
    code, said = run(capsys, "bench", "tiled_matmul", "--iterations", "10")
    assert code == 2
    assert "100" in said.err


def test_own_kernels_come_first(capsys):
    _, said = run(capsys, "kernels", "--catalog", str(OWN), "--json")
    names = [item["name"] for item in json.loads(said.out)["kernels"]]
    assert {"saxpy", "numba_scale"} <= set(names[: len(names) - len(SPECS)])


@pytest.fixture
def own(tmp_path):
    """A right kernel, one that does not compile, one without its source, a file that is no spec."""
    spec, source = (OWN / "saxpy.py").read_text(), (OWN / "saxpy.cu").read_text()
    for name, text in (("right", source), ("broken", source.replace("{", "{ nothing();", 1))):
        (tmp_path / f"{name}.py").write_text(spec.replace("saxpy", name))
        (tmp_path / f"{name}.cu").write_text(text.replace("saxpy", name))
    (tmp_path / "lost.py").write_text(spec.replace('"saxpy"', '"lost"').replace("saxpy.cu", "lost.cu"))
    (tmp_path / "wrong.py").write_text("from ncubble.kernels.spec.spec import KernelSpec\nSPEC = 1\n")
    return tmp_path


@pytest.mark.skipif(shutil.which("g++") is None, reason="nvcc needs g++, which is missing")
def test_compile_only_builds_without_a_gpu_and_names_all_that_is_wrong_at_once(capsys, own):
    code, said = run(capsys, "verify", "--compile-only", "--catalog", str(own), "--json")
    answer = json.loads(said.out)
    checks = {item["name"]: item for item in answer["kernels"]}
    assert (code, answer["missing"]) == (3, [])
    assert "3 of 4 kernels do not build as specified" in said.err
    assert checks["right"]["problems"] == [] and checks["right"]["resources"]["registers"] > 0
    assert "nothing" in checks["broken"]["problems"][0] and "broken.cu" in checks["broken"]["problems"][0]
    assert "'lost.cu' of 'lost' is missing" in checks["lost.py"]["problems"][0]
    assert "SPEC is not a KernelSpec" in checks["wrong.py"]["problems"][0]
    code, said = run(capsys, "verify", "numba_tiled_matmul", "--compile-only", "--arch", "sm_80")
    assert code == 0 and "numba is only compiled at launch" in said.out
    for given, why in (
        (["pipeline_levels", "-p", "cluster=4"], "needs sm_90 or later, this is sm_80"),
        (["numba_tensor_core_gemm", "-p", "stages=4,tile_n=256,tile_k=64"], "sm_80 has 166912"),
    ):
        code, said = run(capsys, "verify", *given, "--compile-only", "--arch", "sm_80")
        assert code == 3 and why in said.out + said.err, given


def test_an_architecture_that_does_not_exist_is_refused(capsys):
    code, said = run(capsys, "verify", "gemm_tma", "--compile-only", "--arch", "sm_9")
    assert code == 2 and "--arch sm_9: not an architecture\n  remedy: write sm_80" in said.err


def test_a_misspelt_parameter_names_the_nearest(capsys):
    code, said = run(capsys, "verify", "gemm_tma", "-p", "stags=2")
    assert code == 2 and "did you mean stages? It has: stages, ablate" in said.err


def test_compile_only_names_all_missing_tools_at_once(capsys, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *given, **more: None)
    code, said = run(capsys, "verify", "saxpy", "--compile-only", "--catalog", str(OWN))
    assert code == 3
    assert "missing: nvcc, nvdisasm, a C++ compiler" in said.err and said.err.count("remedy: install") == 3


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["verify"], "no kernel named"),
        (["verify", "saxpy", "--arch", "sm_80"], "--arch needs --compile-only"),
        (["verify", "--compile-only", "-p", "threads=64"], "needs one kernel"),
        (["verify", "saxpy", "--compile-only", "--gates"], "--compile-only launches nothing"),
        (["verify", "nowhere", "--compile-only"], "there is no kernel"),
        (["verify", "--compile-only", "--catalog", "none"], "no such folder"),
    ],
)
def test_wrong_requests_to_build_are_named(capsys, argv, says):
    code, said = run(capsys, *argv)
    assert (code, says in said.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("gem_tma",), "did you mean gemm_tma? Own kernels need --catalog DIR (check: --setting catalog=DIR)"),
        (("nothing",), "`ncubble kernels` lists them. Own kernels need --catalog DIR (check: --setting catalog=DIR)"),
        (("saxp", "--catalog", str(OWN)), "did you mean saxpy?"),
        (("saxpy", "--catalog", str(OWN / "saxpy.py")), f"name its folder: --catalog {OWN}"),
        (("saxpy", "--catalog", str(OWN / "nowhere")), "--catalog takes a folder of specs"),
    ],
)
def test_a_kernel_or_folder_that_is_not_there_has_a_fix(capsys, arguments, remedy):
    code, said = run(capsys, "verify", *arguments)
    assert code == 2 and said.err.endswith(f"  remedy: {remedy}\n")
