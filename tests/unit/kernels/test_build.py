"""Building: what the compiler says, what the cache keys on, what goes wrong, and what the machine
code of every CUDA kernel holds."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels import build as building
from ncubble.kernels.build import (
    HEADERS,
    arch_for,
    broken_promises,
    build,
    case_for,
    check_arch,
    code_hash,
    disassemble,
    occurs,
    opcodes,
    parse_resources,
    smem_of,
    source_files,
)
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.run.session import parse_parameters
from ncubble.kernels.spec.case import make_case

OWN = Path(__file__).parents[2] / "data" / "catalog"
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
def own(tmp_path, monkeypatch, compiler):
    """A copy of the own catalog that a test may change, and an empty cache."""
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    return copied(tmp_path)


def copied(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("saxpy.cu", "saxpy.py"):
        shutil.copy(OWN / name, folder / name)
    return folder


def saxpy(folder: Path, arch: str = "sm_80", **parameters: int):
    return build(make_case(find_spec("saxpy", folder), parameters), arch)


def test_resources_of_one_function_among_several():
    first, second = parse_resources(PTXAS, "first"), parse_resources(PTXAS, "second")
    assert (first.registers, first.smem_static_B, first.spill_B) == (128, 18432, 208)
    assert (second.registers, second.smem_static_B, second.spill_B) == (24, 0, 0)
    with pytest.raises(MeasurementError, match=r"'third'.*it has: first, second"):
        parse_resources(PTXAS, "third")


@pytest.mark.parametrize(
    ("capability", "arch"), [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((10, 0), "sm_100a")]
)
def test_architecture_names(capability, arch):
    assert arch_for(*capability) == arch


@pytest.mark.parametrize(
    ("name", "parameters", "arch", "words"),
    [
        ("async_pipeline", {}, "sm_75", "needs sm_80"),
        ("async_copy_tma", {}, "sm_89", "needs sm_90"),
        ("attention_fwd", {"path": "tma"}, "sm_80", "path=tma"),
        ("attention_fwd", {"path": "tma"}, "sm_100a", "path=tma"),
        *[(name, {}, arch, name) for name in ("gemm_tma", "gemm_ws", "gemm_fp8") for arch in ("sm_89", "sm_100a")],
        ("attention_fp8", {}, "sm_100a", "attention_fp8"),
    ],
)
def test_another_architecture_is_refused_before_compiling(monkeypatch, name, parameters, arch, words):
    monkeypatch.setattr(building, "find_tool", lambda name: pytest.fail("compiled"))
    with pytest.raises(UsageError, match=words):
        build(make_case(find_spec(name), parameters), arch)


def test_a_second_build_comes_from_the_cache(own):
    first, second = saxpy(own), saxpy(own)
    assert (first.cached, second.cached) == (False, True)
    assert first.cubin == second.cubin and first.resources == second.resources
    assert first.resources.registers > 0


def test_source_header_parameter_and_architecture_each_change_the_key(own):
    saxpy(own)
    assert not saxpy(own, threads=128).cached
    assert not saxpy(own, "sm_90a").cached
    source = own / "saxpy.cu"
    source.write_text('#include "extra.cuh"\n' + source.read_text())
    (own / "extra.cuh").write_text("// one\n")
    assert [saxpy(own).cached, saxpy(own).cached] == [False, True]
    (own / "extra.cuh").write_text("// two\n")
    assert not saxpy(own).cached


def test_a_header_in_angle_brackets_and_nvccs_own_variables_change_the_key(own, monkeypatch):
    source = own / "saxpy.cu"
    source.write_text("#include <sgemm_tile.cuh>  // gr\xfc\xdfe\n" + source.read_text(), encoding="latin-1")
    assert "sgemm_tile.cuh" in [path.name for path in source_files(source)]
    assert "-lineinfo" in saxpy(own).flags
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-maxrregcount=32")
    other = saxpy(own)
    assert not other.cached and "NVCC_APPEND_FLAGS=-maxrregcount=32" in other.flags


def test_a_copy_of_a_source_is_built_for_its_own_place(own):
    here, there = saxpy(own), saxpy(copied(own / "copy"))
    assert not there.cached, "its line information would point to a file that may have changed since"
    assert str(own).encode() in here.cubin and str(own / "copy").encode() in there.cubin
    assert code_hash(here.cubin) == code_hash(there.cubin)


def test_a_damaged_cache_entry_is_built_again(own):
    right = saxpy(own).cubin
    (cubin,) = building.cache_folder().glob("*.cubin")
    cubin.write_bytes(right[:-1])
    again = saxpy(own)
    assert not again.cached and again.cubin == right


@pytest.mark.parametrize(
    ("scalars", "passed"),
    [('("n",)', "x 8, y 8, out 8, n 4"), ('(Scalar("a", "float64", 2.0), "n")', "x 8, y 8, out 8, a 8, n 4")],
)
def test_a_spec_with_other_arguments_than_its_kernel_is_refused(own, scalars, passed):
    spec = own / "saxpy.py"
    spec.write_text(spec.read_text().replace('(Scalar("a", "float32", 2.0), "n")', scalars))
    wanted = f"saxpy takes arguments of [8, 8, 8, 4, 4] bytes, its spec passes {passed}"
    with pytest.raises(UsageError, match=re.escape(wanted)):
        saxpy(own)


def test_the_compilers_words_are_in_the_error(own):
    (own / "saxpy.cu").write_text('extern "C" __global__ void saxpy() { undeclared_thing(); }\n')
    with pytest.raises(MeasurementError, match='identifier "undeclared_thing" is undefined'):
        saxpy(own)


def test_a_cache_that_cannot_be_written_names_the_variable(own, monkeypatch):
    monkeypatch.setenv("NCUBBLE_CACHE", str(own / "saxpy.cu"))
    with pytest.raises(MeasurementError) as refused:
        saxpy(own)
    assert "NCUBBLE_CACHE" in refused.value.remedy


def test_headers_are_followed_at_any_depth():
    names = [path.name for path in source_files(make_case(find_spec("async_pipeline")).spec.path)]
    assert names == ["async_pipeline.cu", "ablate.cuh", "bubble_probe.cuh", "cp_async.cuh", "sgemm_tile.cuh"]


def test_tools_are_looked_for_in_cuda_home_too_and_a_missing_one_says_how_to_get_it(tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "nvcc"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert building.find_tool("nvcc") == tool
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MeasurementError) as missing:
        building.find_tool("nvcc")
    assert "pip install" in missing.value.remedy and "[nvcc]'" in missing.value.remedy


# Machine code is told from its trimmings.


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
    moved = elf(__text__gemm=b"code", __nv__constant0=b"c", __debug_line=b"/elsewhere/gemm.cu", __note=b"x")
    assert code_hash(one) == code_hash(moved)
    for text, constants in ((b"cope", b"c"), (b"code", b"d"), (b"codec", b"")):
        assert code_hash(one) != code_hash(elf(__text__gemm=text, __nv__constant0=constants))


@pytest.mark.parametrize("data", [b"", b"\x7fELF\x02\x01", b"MZ" * 99, elf(__debug_line=b"x"), elf(__text=b"x")[:70]])
def test_what_is_no_cubin_is_refused(data):
    with pytest.raises(UsageError):
        code_hash(data)


def test_opcodes_are_read_with_predicates_and_modifiers():
    sass = """
        /*0010*/                   LDGSTS.E.BYPASS.128 [R5], [R2.64] ;
        /*0020*/              @!P0 BRA `(.L_x_1) ;
        /*0030*/             @UP0  UMOV UR4, 0x1 ;
        /*0040*/                   LDG.E.128 R4, [R2.64] ;
        /*0050*/              @!PT LDS RZ, [RZ] ;
    """
    found = opcodes(sass)
    assert found == Counter({"LDGSTS.E.BYPASS.128": 1, "BRA": 1, "UMOV": 1, "LDG.E.128": 1}), "LDS never runs"
    assert occurs("LDGSTS", found) and not occurs("LD", found), "a prefix ends at a dot"


# What specs promise of machine code.

BUILT = {
    "tiled_matmul": [""],
    "async_pipeline": ["stages=2", "", "stages=6", "stages=4 threads=128", "ablate=all"],
    "tensor_core_gemm": [
        *("stages=1", "stages=2", "", "stages=6", "stages=1 vec=4", "vec=4", "stages=1 copy=plain"),
        *("stages=6 copy=plain vec=4", "stages=1 ablate=copy_sync", "ablate=smem"),
    ],
    "softmax_online": [
        *("", "threads=1024 items=2 stages=1", "threads=128 items=4 stages=8", "path=registers"),
        "path=registers threads=128",
    ],
    "async_copy_manual": ["stages=1", ""],
    "async_copy_pipeline": [""],
    "async_copy_coop": ["stages=1", ""],
    "async_copy_tma": ["", "path=bulk stages=1"],
    "gemm_mma_swizzled": ["", "tile_n=128 tile_k=32", "layout=plain", "ablate=sync", "ablate=copy_smem"],
    "gemm_tma": ["", "stages=1", "ablate=wait_sync", "ablate=copy_sync_epilogue"],
    "gemm_ws": [
        *("", "stages=3 cluster=1 walk=snake", "stages=5 tile_n=128 schedule=pingpong", "ablate=copy_epilogue"),
        *("stages=5 tile_n=192 schedule=pingpong cluster=1", "tile_m=176 tile_n=192 form=turned"),
        "tile_m=152 form=turned cluster=1",
        "stages=5 tile_m=184 tile_n=128 form=turned schedule=pingpong cluster=1",
        "stages=8 tile_m=24 tile_n=64 form=turned schedule=pingpong cluster=1 split=4",
    ],
    "gemm_fp8": [
        *("", "stages=6 tile_n=128 schedule=pingpong cluster=1", "stages=6 tile_n=128 accumulate=promoted"),
        "stages=6 tile_n=128 accumulate=promoted scaling=block",
    ],
    "attention_scalar": ["", "copy=plain stages=1", "keys=128", "rows=1", "copy=pipeline", "copy=tma stages=1"],
    "attention_fwd": ["", "causal=1", "path=cp_async", "group=4 causal=1"],
    "attention_fp8": ["", "accumulate=fast causal=1"],
    "sdpa_fp8_stage_c_wmma": ["use_cp_async=0", "use_cp_async=1", "pv=scalar"],
    "warp_specialized": ["", "slots=4", "roles=fused", "roles=pipelines", "roles=pipelines slots=1"],
    "pipeline_levels": ["", "cluster=2", "cluster=4", "roles=fused slots=1"],
    "cluster_dsmem": ["", "share=none", "share=split cluster=8"],
    "persistent": ["", "mode=many threads=128"],
    "grid_sync": ["", "mode=many"],
    **{name: [""] for name in ("stream_pipeline", "kv_layers", "warp_pipeline")},
    **{name: [""] for name in ("peer_pipeline", "event_graph", "stream_priority")},
}
CASES = [(name, settings) for name, every in BUILT.items() for settings in every]


def case_of(name: str, settings: str):
    return make_case(find_spec(name), parse_parameters(settings.split()))


# For Ampere the defaults are enough: what differs there is how copies are compiled.
AMPERE = [(name, every[0], "sm_80") for name, every in BUILT.items() if case_of(name, every[0]).min_arch <= 80]
BOTH = [*((*item, "sm_90a") for item in CASES), *AMPERE]


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("name", "settings", "arch"), BOTH)
def test_machine_code_is_what_the_spec_promises(name, settings, arch):
    case = case_for(case_of(name, settings), arch)
    built = build(case, arch)
    assert broken_promises(case, arch, built) == []
    assert built.warnings == ()


EVERY_ARCH = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")


@pytest.mark.parametrize("arch", EVERY_ARCH)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_the_defaults_of_a_kernel_fit_every_chip_that_it_exists_for(spec, arch):
    case = case_for(make_case(spec), arch)
    if case.only_arch not in (None, int(arch[3:].rstrip("a"))) or case.min_arch > int(arch[3:].rstrip("a")):
        with pytest.raises(UsageError, match=r"exists only for sm_90a|needs sm_90 or later"):
            check_arch(case, arch)
        return
    check_arch(case, arch)
    assert case.smem <= smem_of(arch)


@pytest.mark.parametrize(
    ("name", "given", "arch", "chosen"),
    [
        ("gemm_mma_swizzled", "", "sm_80", {"stages": 3, "tile_k": 64}),
        ("gemm_mma_swizzled", "", "sm_89", {"stages": 4, "tile_k": 32}),
        ("gemm_mma_swizzled", "tile_k=64", "sm_89", {"stages": 2, "tile_k": 64}),
        ("async_copy_manual", "", "sm_120a", {"stages": 2, "threads": 512, "items": 4}),
    ],
)
def test_as_few_values_as_suffice_become_smaller_and_what_was_given_stays(name, given, arch, chosen):
    case = case_for(case_of(name, given), arch)
    assert {key: case.parameters[key] for key in chosen} == chosen


def test_what_was_given_and_does_not_fit_is_refused_without_a_gpu():
    case = case_for(case_of("gemm_mma_swizzled", "stages=4 tile_n=256 tile_k=64"), "sm_89")
    with pytest.raises(UsageError, match="196608 bytes of shared memory per CTA, sm_89 has 101376"):
        check_arch(case, "sm_89")


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("name", "settings"), [item for item in CASES if "ablate" in item[1]])
def test_an_ablation_keeps_the_products_and_leaves_out_barriers(name, settings):
    whole, left_out = settings.split("ablate=")
    before, after = (opcodes(disassemble(build(case_of(name, chosen), "sm_90a").cubin)) for chosen in (whole, settings))

    def count(found, *families):
        return sum(number for opcode, number in found.items() if opcode.split(".")[0] in families)

    # No loop is unrolled further, so that what stands in the code is what a tile takes.
    products = ("HMMA", "HGMMA", "FFMA")
    assert count(after, *products) == count(before, *products) > 0
    assert (count(after, "BAR") < count(before, "BAR")) == ("sync" in left_out or left_out == "all")


def test_every_cuda_kernel_is_covered_and_promises_something():
    cuda = {spec.name for spec in SPECS if spec.language != "numba"}
    assert set(BUILT) == cuda
    assert all(make_case(spec).sass("sm_90a") for spec in SPECS if spec.name in cuda)


@pytest.mark.usefixtures("compiler")
def test_code_that_breaks_a_promise_is_told():
    broken = broken_promises(
        case_of("tensor_core_gemm", ""), "sm_80", build(case_of("tensor_core_gemm", "copy=plain"), "sm_80")
    )
    assert any("LDGSTS is missing" in text for text in broken)
    assert any("STS must not occur" in text for text in broken)


SIZES = range(32, 129, 4)


def test_the_operand_lists_of_wgmma_name_each_register_once_and_in_order():
    if not (compiler := shutil.which("g++")):
        pytest.skip("needs g++")
    texts = [(HEADERS / name).read_text(encoding="utf-8") for name in ("wgmma_operands.cuh", "wgmma_sizes.cuh")]
    lists = re.findall(
        r"^#define NCUBBLE_(?:[DF]\d+|QUAD|SIXTEEN)\b(?:[^\n]*\\\n)*[^\n]*$", "\n".join(texts), re.MULTILINE
    )
    uses = [f"{size} D {{ NCUBBLE_D{size} }}\n{size} F {{ NCUBBLE_F{size}(d) }}" for size in SIZES]
    command, source = [compiler, "-E", "-P", "-xc++", "-"], "\n".join([*lists, *uses])
    done = subprocess.run(command, input=source, text=True, capture_output=True, check=True)
    rows = re.findall(r"(\d+) ([DF]) \{(.*?)\}", done.stdout, re.DOTALL)
    found = {(int(size), kind): text for size, kind, text in rows}
    for size in SIZES:
        names = "".join(re.findall(r'"([^"]*)"', found[size, "D"]))
        assert names == ", ".join(f"%{register}" for register in range(size))
        places = re.findall(r'"\+f"\(d\[([()\d+ ]+)\]\)', found[size, "F"])
        assert [sum(map(int, re.findall(r"\d+", place))) for place in places] == list(range(size))


def test_what_ptxas_says_of_wgmma_is_kept_with_the_build(own, monkeypatch):
    injected = "ptxas info    : (C7517) warpgroup.wait is injected in around line {} by compiler in function 'saxpy'"
    serialized = "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized"
    said = "\n".join([injected.format(3), injected.format(9), serialized, "ptxas info    : (C7600) something else"])
    warnings = building.wgmma_warnings(said)
    assert [text.partition(":")[0] for text in warnings] == ["ptxas C7511", "ptxas C7517"]
    assert "line 3 " in warnings[1], "the first of its number"
    monkeypatch.setattr(building, "wgmma_warnings", lambda text: warnings)
    assert saxpy(own).warnings == saxpy(own).warnings == warnings
