"""Commands ``kernels``, ``verify`` and ``bench``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ncubble.cli import main as cli
from ncubble.cli.commands.kernels.listing import architectures, notes
from ncubble.errors import UsageError
from ncubble.kernels.catalog.catalog import SPECS
from ncubble.kernels.catalog.registry import find_spec

OWN = Path(__file__).parents[3] / "data" / "catalog"


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
        "cures": {"data_wait": "up", "occupancy_cliff": "down"},
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
    assert architectures(find_spec(name)) == expected


def test_an_architecture_without_a_name_and_values_that_need_the_same_are_shown():
    spec = replace(find_spec("async_copy_manual"), arch_of=lambda chosen: 100 if chosen["threads"] > 128 else 80)
    assert architectures(spec) == ["threads=256, 512: sm_100 or later"]


def test_a_rule_of_an_own_kernel_that_fails_is_named():
    with pytest.raises(UsageError, match="spec of 'tiled_matmul': arch_of: KeyError: 'path'"):
        architectures(replace(find_spec("tiled_matmul"), arch_of=lambda chosen: chosen["path"]))


def test_the_list_names_the_library_and_the_gates_of_every_kernel_that_has_them(capsys):
    _, said = run(capsys, "kernels")
    lines = said.out.splitlines()
    assert notes(find_spec("attention_fwd")) == ["path=tma: Hopper only", "bench --against: cuDNN"]
    assert "  path=tma: Hopper only · bench --against: cuDNN" in lines
    assert sum("bench --against" in line for line in lines) == sum(bool(spec.peer) for spec in SPECS)
    assert sum("verify --gates" in line for line in lines) == sum(spec.gates is not None for spec in SPECS) > 0


def test_the_list_shows_the_default_of_other_gpus(capsys):
    _, said = run(capsys, "kernels")
    assert "path=cp_async, tma (tma, elsewhere cp_async)" in said.out
    _, said = run(capsys, "kernels", "--json")
    (attention,) = (item for item in json.loads(said.out)["kernels"] if item["name"] == "attention_fwd")
    found = {item["name"]: item.get("elsewhere") for item in attention["parameters"]}
    assert found == {"path": "cp_async", "causal": None, "stages": 2}


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
