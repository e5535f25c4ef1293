"""The probe's header: its tables, that it vanishes where it is off, and how it is configured."""

from __future__ import annotations

import re
import subprocess

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.build import find_tool, run_tool, source_files
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.run.probe import HEADER, carries_probe, require_probe, table
from ncubble.kernels.spec.case import make_case
from tests.helpers.probe_dumps import ROLES, TAGS


def test_python_reads_the_tags_and_roles_of_the_header():
    assert table("TAGS") == TAGS
    assert table("ROLES") == ROLES
    assert [tag for tag in TAGS if "wait" in tag] == [tag for tag in TAGS if tag.startswith("wait")]


def test_numbers_of_the_header_are_places_in_the_tables(tmp_path):
    source = tmp_path / "numbers.cpp"
    # Only what the tables expand to: the rest of the header is for the device.
    source.write_text(
        f'#define BUBBLE_OWN_TAGS(X) X(own)\n#include "{HEADER}"\n#define ONE(name) name,\n'
        "enum Tag { none, BUBBLE_TAGS(ONE) BUBBLE_OWN_TAGS(ONE) };\n"
        + "".join(f'static_assert({name} == {place}, "{name}");\n' for place, name in enumerate(TAGS) if name)
        + f'static_assert(own == {len(TAGS)}, "own");\n'
    )
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", "-x", "c++", source], check=True)


def test_macros_vanish_where_the_probe_is_off(tmp_path):
    source = tmp_path / "off.cpp"
    body = "f(a, b);{ g<1, 2>(); }await(1);h(1 );"
    source.write_text(
        f'#include "{HEADER}"\nBEGIN BUBBLE_WARP(probe, warp)BUBBLE_THREAD(p, loader)BUBBLE(probe, load, 1, f(a, b));'
        "{ BUBBLE_SCOPE(probe, compute, 2)BUBBLE(probe, store, 3, g<1, 2>()); }"
        "BUBBLE_POLL(probe, wait_slot, 4, await(1)); h(1 BUBBLE_PASS(probe)); END"
    )
    done = subprocess.run(["g++", "-E", "-P", "-x", "c++", source], check=True, capture_output=True, text=True)
    left = done.stdout.split("BEGIN")[1].split("END")[0]
    assert "".join(left.split()) == "".join(body.split())


def without_probe(text: str) -> str:
    """A source without its lines of the probe: each call of a macro leaves the statement that it
    was given."""
    found, rest = "", text
    while match := re.search(r"\bBUBBLE_?(WARP|THREAD|STEP|POLL|SCOPE|TAKE|PASS)?\(", rest):
        end, depth, commas = match.end(), 1, []
        while depth:
            depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(rest[end], 0)
            commas += [end] if rest[end] == "," and depth == 1 else []
            end += 1
        statement = rest[commas[2] + 1 : end - 1] if match[1] in (None, "STEP", "POLL") and len(commas) > 2 else ""
        found, rest = found + rest[: match.start()] + statement, rest[end:]
    return found + rest


def preprocessed(text: str, folder) -> str:
    """The tokens of a source whose own headers are left out, but for the probe's."""
    source = folder / "one.cpp"
    source.write_text(text)
    done = subprocess.run(["g++", "-E", "-P", "-x", "c++", source], check=True, capture_output=True, text=True)
    return "".join(done.stdout.split("BEGIN")[1].split())


PROBED = {
    path.name
    for spec in SPECS
    if carries_probe(make_case(spec))
    for path in source_files(spec.path)
    if "BUBBLE_STEP" in path.read_text() and path.resolve() != HEADER.resolve()
}


@pytest.mark.parametrize("name", sorted(PROBED))
def test_a_kernel_whose_probe_is_off_is_compiled_as_if_it_had_none(name, tmp_path):
    text = re.sub(r"#include.*", "", (HEADER.parent / name).read_text())
    assert text.count("BUBBLE") > 3
    off = preprocessed(f'#include "{HEADER}"\nBEGIN\n{text}', tmp_path)
    assert off == preprocessed(f"BEGIN\n{without_probe(text)}", tmp_path)
    assert "BUBBLE" not in off and "bubble" not in off and "probe" not in off


@pytest.mark.parametrize("flags", [[], [b"-DBUBBLE_PROBE"]], ids=["off", "on"])
def test_nvrtc_compiles_the_header_alone(flags):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    use = "BUBBLE_WARP(probe, warp); BUBBLE(probe, compute, 3, d[threadIdx.x] += 1.f); BUBBLE_SCOPE(probe, store, 1);"
    source = f'{HEADER.read_text()}\nextern "C" __global__ void k(float* d) {{ {use} __syncthreads(); }}'
    try:
        status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    except RuntimeError:
        pytest.skip("NVRTC is not installed")
    (status,) = nvrtc.nvrtcCompileProgram(program, 1 + len(flags), [b"--gpu-architecture=compute_75", *flags])
    # NVRTC writes into it. Twice the size: a single byte is an object that the process shares.
    log = b"  " * nvrtc.nvrtcGetProgramLogSize(program)[1]
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()


CONFIG = """
#include "bubble_probe.cuh"
#include <cstddef>
static_assert(sizeof(bubble::Config) == 104, "all");
static_assert(offsetof(bubble::Config, slots) == 24 && offsetof(bubble::Config, capacity) == 28, "slots");
static_assert(offsetof(bubble::Config, numbered) == 32 && offsetof(bubble::Config, sms) == 40, "numbered");
"""


def test_the_configuration_lies_as_python_packs_it(tmp_path):
    source = tmp_path / "config.cu"
    source.write_text(CONFIG)
    done = run_tool(
        [
            find_tool("nvcc"),
            "-std=c++17",
            "-DBUBBLE_PROBE",
            f"-I{HEADER.parent}",
            "-ptx",
            "-o",
            tmp_path / "ptx",
            source,
        ]
    )
    assert done.returncode == 0, done.stderr


def test_kernels_that_carry_the_probe_say_so():
    carrying = {spec.name for spec in SPECS if carries_probe(make_case(spec))}
    assert carrying == {
        "async_pipeline",
        "attention_fp8",
        "attention_fwd",
        "gemm_fp8",
        "gemm_tma",
        "gemm_ws",
        "tensor_core_gemm",
        "warp_pipeline",
        "warp_specialized",
    }
    with pytest.raises(UsageError, match="has no probe"):
        require_probe(make_case(find_spec("softmax_online")))


def test_own_tags_of_a_kernel_of_the_catalog_come_behind_the_headers(tmp_path):
    source = tmp_path / "mine.cu"
    source.write_text(
        "#define BUBBLE_OWN_TAGS(X) X(dequantize) \\\n    X(wait_token)\n"
        "#define BUBBLE_OWN_ROLES(X) X(scaler)\n"
        '#include "bubble_probe.cuh"\n'
    )
    files = source_files(source)
    assert HEADER in files
    assert table("TAGS", files) == (*TAGS, "dequantize", "wait_token")
    assert table("ROLES", files) == (*ROLES, "scaler")
