"""The recorder compiles without a warning, and what it leaves of a program is read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.capsules import session
from ncubble.profiling.capsules.session import SOURCE, Captured, CaptureRequest, capture
from ncubble.profiling.devices.driver import DriverError
from ncubble.profiling.ncu.failures import NoGpuError
from ncubble.profiling.ncu.ncu import Filters
from ncubble.profiling.streams.build import find_cupti

STUB = """
extern "C" {
int cuptiSubscribe() { return 39; }
int cuptiEnableCallback() { return 0; }
int cuptiGetResultString(int, const char** text) { return *text = "PLAYED", 0; }
}
"""
NAMES = """
#include "{source}"

int main(int, char** words) {{
  state().folder = words[1];
  for (const char* name : {{"_ZN2ns4gemmIfEEvPT_", "gemm", "f", "_ZN12_GLOBAL__N_14copyEv"}})
    printf("%s|%s\\n", demangled(name).c_str(), base_name(demangled(name)).c_str());
  regcomp(&state().wanted, "^gemm$", REG_EXTENDED | REG_NOSUB);
  printf("%d%d%d\\n", matches("_ZN2ns4gemmIfEEvPT_"), matches("_Z5gemm2v"), matches("gemm"));
  refuse("_Z4gemmv", "a \\"reason\\"\\n");
  std::vector<char> junk(4096, '\\xff');
  memcpy(junk.data(), ELFMAG, SELFMAG);
  for (size_t size : {{size_t(0), size_t(10), sizeof(Elf64_Ehdr), junk.size()}})
    printf("%d", holds_function(std::vector<char>(junk.begin(), junk.begin() + size), "gemm"));
}}
"""
PROGRAM = """
import os, sys, time
from pathlib import Path
folder = Path(os.environ["NCUBBLE_CAPSULES"])
assert os.environ["CUDA_INJECTION64_PATH"].endswith("capture.so")
names = ["FACTS", "CAPSULES_KERNEL", "CAPSULES_SKIP", "CAPSULES_COUNT", "CAPSULES_BYTES"]
print(*(os.environ[f"NCUBBLE_{name}"] for name in names[1:]))
for number, complete in ((9, True), (10, True), (11, False)):
    if "nothing" in sys.argv[1:]:
        break
    place = folder / f"capsule-7-{number}"
    place.mkdir()
    (place / "launch.json").write_text('{"kernel": "k%d"}' % number)
    if complete:
        time.sleep(0.02)
        (place / "complete").touch()
for why in ("it is recorded into a CUDA graph",) * 2 if "refused" in sys.argv[1:] else ():
    with (folder / "refused-7.jsonl").open("a") as file:
        file.write('{"kernel": "gemm", "why": "%s"}\\n' % why)
sys.exit(3)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorder as a library, beside a CUPTI that subscribes nothing."""
    compiler = shutil.which("g++")
    try:
        found = find_cupti()
    except MeasurementError as error:
        pytest.skip(str(error))
    if compiler is None:
        pytest.skip("no g++")
    path = tmp_path_factory.mktemp("capture") / "capture.so"
    headers = [f"-I{found.headers}", f"-I{found.cuda_headers}"]
    stub = path.with_name("stub.cpp")
    stub.write_text(STUB)
    argv = [compiler, "-std=c++17", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(path), str(SOURCE), str(stub)]
    done = subprocess.run([*argv, *headers, "-ldl"], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return path


def loaded(library: Path, folder: Path, kernel: str) -> list[tuple[str, str]]:
    """What the recorder refuses in a program that only loads it."""
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).InitializeInjection())"
    env = {**os.environ, "NCUBBLE_CAPSULES": str(folder), "NCUBBLE_CAPSULES_KERNEL": kernel}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    return session._refused(folder)


def test_a_pattern_that_is_none_is_named(library: Path, tmp_path: Path) -> None:
    ((kernel, why),) = loaded(library, tmp_path, "gemm(")
    assert kernel == "" and why.startswith("--kernel is no extended regular expression")


@pytest.mark.parametrize("pattern", ["gemm", "[gG]emm_(?:tma|ws)\\d+"])
def test_who_cannot_be_recorded_is_told_and_goes_on(library: Path, tmp_path: Path, pattern: str) -> None:
    ((kernel, why),) = loaded(library, tmp_path, pattern)
    # Where there is a driver, CUPTI is asked and says no.
    assert kernel == "" and why in ("the driver is older than CUDA 12.4", "CUPTI cannot be used: PLAYED")


def test_names_are_demangled_and_matched_as_ncu_does(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    try:
        found = find_cupti()
    except MeasurementError as error:
        pytest.skip(str(error))
    if compiler is None:
        pytest.skip("no g++")
    (tmp_path / "names.cpp").write_text(NAMES.format(source=SOURCE))
    (tmp_path / "stub.cpp").write_text(STUB)
    argv = [
        compiler,
        "-std=c++17",
        "-o",
        str(tmp_path / "names"),
        str(tmp_path / "names.cpp"),
        str(tmp_path / "stub.cpp"),
    ]
    headers = [f"-I{found.headers}", f"-I{found.cuda_headers}", "-ldl"]
    subprocess.run([*argv, *headers], check=True, timeout=120)
    done = subprocess.run([tmp_path / "names", tmp_path], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines() == [
        "void ns::gemm<float>(float*)|gemm",
        "gemm|gemm",
        "f|f",
        "(anonymous namespace)::copy()|copy",
        "101",
        "0000",
    ]
    assert session._refused(tmp_path) == [("gemm()", 'a "reason"\n')]


def captured(folder: Path, *words: str, filters: Filters | None = None) -> tuple[Captured, str]:
    """What a played program leaves, and its output."""
    said: list[str] = []
    request = CaptureRequest([sys.executable, "-c", PROGRAM, *words], filters or Filters("gemm", "", 2, 3), 30, 1 << 20)
    return capture(request, folder, lambda stream, text: said.append(text)), "".join(said)


@pytest.fixture(autouse=True)
def _injection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "injection", lambda source: Path("capture.so"))


def test_whole_launches_are_read_in_their_order(tmp_path: Path) -> None:
    found, said = captured(tmp_path, "refused")
    assert [capsule.kernel for capsule in found.capsules] == ["k9", "k10"], "not by name, and none that is not complete"
    assert found.refused == [("gemm", "it is recorded into a CUDA graph")], "once for each reason"
    assert found.status == 3
    assert said.split() == ["gemm", "2", "3", str(1 << 20)]


def test_what_was_refused_is_the_reason_that_nothing_was_kept(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"gemm cannot be kept: it is recorded into a CUDA graph; .* code 3"):
        captured(tmp_path, "nothing", "refused")


def test_a_program_without_such_a_kernel_is_told_the_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "describe", lambda: None)
    with pytest.raises(MeasurementError, match=r"no launch was kept: none matches .*gemm") as caught:
        captured(tmp_path, "nothing")
    assert "Filters(" not in caught.value.message


def test_a_machine_without_a_gpu_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise DriverError("no NVIDIA driver")

    monkeypatch.setattr(session, "describe", missing)
    with pytest.raises(NoGpuError, match="no NVIDIA driver"):
        captured(tmp_path, "nothing")


def test_a_range_of_nvtx_chooses_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--kernel, --skip and --count"):
        captured(tmp_path, filters=Filters(nvtx="range/"))
