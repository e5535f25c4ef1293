"""The probe: its header's tables, that it vanishes where it is off, how it is configured, and which
warp writes where."""

from __future__ import annotations

import re
import struct
import subprocess

import numpy as np
import pytest

from ncubble.analysis.traces.probe import WARP, parse_dumps
from ncubble.errors import UsageError
from ncubble.kernels.build import find_tool, run_tool, source_files
from ncubble.kernels.catalog.registry import SPECS, find_spec
from ncubble.kernels.run.probe import HEADER, MARK_B, ProbeRecorder, carries_probe, require_probe, table
from ncubble.kernels.spec.case import make_case
from tests.helpers.fake_gpu import FakeGpu
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


def preprocessed(text: str, folder) -> str:
    """The tokens behind BEGIN of a source whose own headers are left out, but for the probe's."""
    source = folder / "one.cpp"
    source.write_text(text)
    done = subprocess.run(["g++", "-E", "-P", "-x", "c++", source], check=True, capture_output=True, text=True)
    return "".join(done.stdout.split("BEGIN")[1].split())


def test_macros_vanish_where_the_probe_is_off(tmp_path):
    left = preprocessed(
        f'#include "{HEADER}"\nBEGIN BUBBLE_WARP(probe, warp)BUBBLE_THREAD(p, loader)BUBBLE(probe, load, 1, f(a, b));'
        "{ BUBBLE_SCOPE(probe, compute, 2)BUBBLE(probe, store, 3, g<1, 2>()); }"
        "BUBBLE_POLL(probe, wait_slot, 4, await(1)); h(1 BUBBLE_PASS(probe));",
        tmp_path,
    )
    assert left == "f(a,b);{g<1,2>();}await(1);h(1);"


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
    flags = ("-std=c++17", "-DBUBBLE_PROBE", f"-I{HEADER.parent}", "-ptx")
    done = run_tool([find_tool("nvcc"), *flags, "-o", tmp_path / "ptx", source])
    assert done.returncode == 0, done.stderr


def test_kernels_that_carry_the_probe_say_so():
    carrying = {spec.name for spec in SPECS if carries_probe(make_case(spec))}
    assert carrying == {
        *("async_pipeline", "attention_fp8", "attention_fwd", "gemm_fp8", "gemm_tma", "gemm_ws", "tensor_core_gemm"),
        *("pipeline_levels", "warp_pipeline", "warp_specialized"),
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


PACKED = struct.Struct("<QQQIIII8Q")
"""``bubble::Config``: three pointers; slots, capacity, numbered, spare; a bit for each SM."""


class ProbedGpu(FakeGpu):
    """Holds the probe's configuration, and writes what warps would that start in the order of
    ``numbers``."""

    def symbol(self, kernel: object, name: str) -> tuple[int, int]:
        self.config = self.allocate(PACKED.size)
        return self.config, PACKED.size

    def start(self, numbers: list[int]) -> None:
        _, warps, started, slots, _, numbered, *_ = PACKED.unpack(self.memory[self.config].tobytes())
        for turn, number in enumerate(numbers):
            slot = number if numbered else turn
            self.memory[started].view(np.uint32)[0] += 1
            if slot < slots:
                self.memory[warps].view(WARP)[slot]["begin_ns"] = 1000 + number


def recorder(slots: int = 6, launches: int = 1, marks: int = 3) -> tuple[ProbedGpu, ProbeRecorder]:
    gpu = ProbedGpu()
    return gpu, ProbeRecorder(gpu, None, slots, marks, launches=launches)


def kept(found: ProbeRecorder) -> list[int]:
    """The numbers of the warps in a dump, by slot."""
    (dump,) = parse_dumps(found.dump(), "here")
    return [int(each) - 1000 for each in dump.warps["begin_ns"]]


def test_where_every_sm_is_recorded_a_warp_has_the_slot_of_its_number():
    gpu, found = recorder()
    found.aim(range(132))
    gpu.start([4, 0, 3])
    assert found.apart()
    assert kept(found) == [0, 3, 4]


@pytest.mark.parametrize(
    ("slots", "launches", "sms"),
    [(6, 1, 131), (6, 2, 132), ((1 << 30) // (3 * MARK_B) + 1, 1, 132)],
    ids=["some SMs", "two launches", "no room"],
)
def test_elsewhere_warps_take_turns(slots, launches, sms, monkeypatch):
    monkeypatch.setattr(ProbedGpu, "allocate", lambda self, size: FakeGpu.allocate(self, min(size, 4096)))
    gpu, found = recorder(slots, launches)
    found.aim(range(sms))
    gpu.start([4, 0, 3])
    assert not found.numbered
    assert gpu.memory[found._pointers[1]].view(WARP)["begin_ns"][:3].tolist() == [1004, 1000, 1003]


def test_two_probes_of_one_warp_are_seen_and_can_be_told_to_take_turns():
    gpu, found = recorder()
    found.aim(range(132))
    gpu.start([0, 1, 1])
    assert not found.apart()
    found.clear()
    found.aim(range(132), numbered=False)
    gpu.start([0, 1, 1])
    assert found.apart()
    assert kept(found) == [0, 1, 1]
