"""Building: what the compiler says, what the cache keys on, and what goes wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels import build as building
from ncubble.kernels.build import CompiledResources, arch_for, build, parse_resources, source_files
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case

OWN = Path(__file__).parents[3] / "data" / "catalog"
PTXAS = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    104 bytes stack frame, 100 bytes spill stores, 108 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 104 bytes cumulative stack size, 18432 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 388 bytes cmem[0]
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A copy of the own catalog that a test may change, and an empty cache."""
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    for name in ("saxpy.cu", "saxpy.py"):
        shutil.copy(OWN / name, tmp_path / name)
    return tmp_path


def saxpy(folder: Path, **parameters: int):
    return make_case(find_spec("saxpy", folder), parameters)


def test_resources_of_one_function_among_several():
    assert parse_resources(PTXAS, "first") == CompiledResources(128, 18432, 208)
    assert parse_resources(PTXAS, "second") == CompiledResources(24, 0, 0)


def test_a_missing_entry_point_lists_those_there_are():
    with pytest.raises(MeasurementError, match=r"'third'.*it has: first, second"):
        parse_resources(PTXAS, "third")


@pytest.mark.parametrize(
    ("capability", "arch"), [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a")]
)
def test_architecture_names(capability, arch):
    assert arch_for(*capability) == arch


def test_an_old_architecture_is_refused_before_compiling():
    with pytest.raises(UsageError, match="needs sm_80"):
        build(make_case(find_spec("async_pipeline")), "sm_75")


def test_a_second_build_comes_from_the_cache(own, compiler):
    first, second = build(saxpy(own), "sm_80"), build(saxpy(own), "sm_80")
    assert (first.cached, second.cached) == (False, True)
    assert first.cubin == second.cubin
    assert first.resources == second.resources
    assert first.resources.registers > 0


def test_source_header_parameter_and_architecture_each_change_the_key(own, compiler):
    build(saxpy(own), "sm_80")
    assert not build(saxpy(own, threads=128), "sm_80").cached
    assert not build(saxpy(own), "sm_90a").cached
    source = own / "saxpy.cu"
    source.write_text('#include "extra.cuh"\n' + source.read_text())
    (own / "extra.cuh").write_text("// one\n")
    assert not build(saxpy(own), "sm_80").cached
    assert build(saxpy(own), "sm_80").cached
    (own / "extra.cuh").write_text("// two\n")
    assert not build(saxpy(own), "sm_80").cached


def test_a_header_in_angle_brackets_and_nvccs_own_variables_change_the_key(own, compiler, monkeypatch):
    source = own / "saxpy.cu"
    source.write_text("#include <sgemm_tile.cuh>  // gr\xfc\xdfe\n" + source.read_text(), encoding="latin-1")
    assert "sgemm_tile.cuh" in [path.name for path in source_files(source)]
    assert "-lineinfo" in build(saxpy(own), "sm_80").flags
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-maxrregcount=32")
    other = build(saxpy(own), "sm_80")
    assert not other.cached
    assert "NVCC_APPEND_FLAGS=-maxrregcount=32" in other.flags


def test_a_copy_of_a_source_is_built_for_its_own_place(own, compiler):
    here = build(saxpy(own), "sm_80")
    copy = own / "copy"
    copy.mkdir()
    for name in ("saxpy.cu", "saxpy.py"):
        shutil.copy(OWN / name, copy / name)
    there = build(saxpy(copy), "sm_80")
    assert not there.cached  # its line information would point to a file that may have changed since
    assert str(own).encode() in here.cubin
    assert str(copy).encode() in there.cubin


def test_a_damaged_cache_entry_is_built_again(own, compiler):
    right = build(saxpy(own), "sm_80").cubin
    (cubin,) = building.cache_folder().glob("*.cubin")
    cubin.write_bytes(right[:-1])
    again = build(saxpy(own), "sm_80")
    assert not again.cached
    assert again.cubin == right


def test_the_compilers_words_are_in_the_error(own, compiler):
    (own / "saxpy.cu").write_text('extern "C" __global__ void saxpy() { undeclared_thing(); }\n')
    with pytest.raises(MeasurementError, match='identifier "undeclared_thing" is undefined'):
        build(saxpy(own), "sm_80")


def test_a_cache_that_cannot_be_written_names_the_variable(own, compiler, monkeypatch):
    blocker = own / "file"
    blocker.write_text("")
    monkeypatch.setenv("NCUBBLE_CACHE", str(blocker))
    with pytest.raises(MeasurementError) as refused:
        build(saxpy(own), "sm_80")
    assert "NCUBBLE_CACHE" in refused.value.remedy


def test_headers_are_followed_at_any_depth():
    names = [path.name for path in source_files(make_case(find_spec("async_pipeline")).spec.path)]
    assert names == ["async_pipeline.cu", "ablate.cuh", "bubble_probe.cuh", "cp_async.cuh", "sgemm_tile.cuh"]


def test_tools_are_looked_for_in_cuda_home_too(tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "nvcc"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert building.find_tool("nvcc") == tool


def test_a_missing_tool_says_how_to_get_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MeasurementError) as missing:
        building.find_tool("nvcc")
    assert "pip install" in missing.value.remedy
    assert "[nvcc]'" in missing.value.remedy
