"""The recorder compiles without a warning, and what it leaves of a program is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ncubble.chips import Version
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling import session as session_module
from ncubble.profiling.capsules.capsule import Capsule
from ncubble.profiling.driver import Device, DriverError
from ncubble.profiling.failures import NoGpuError
from ncubble.profiling.ncu import WAITING, Filters
from ncubble.profiling.recorders import capsules as recorder
from ncubble.profiling.recorders.capsules import SOURCE, Captured
from ncubble.profiling.session import Observer, Session
from ncubble.profiling.subject import Subject

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
  compiled(&state().wanted, "--kernel", ""), compiled(&state().unwanted, "--without", "WAITING");
  state().leaves_out = true;
  printf("%d%d%d\\n", matches("_ZN2ns4gemmIfEEvPT_"), matches("twoShotAllReduceKernel"), matches("nccl_x"));
  refuse("_Z4gemmv", "a \\"reason\\"\\n");
  std::vector<char> junk(4096, '\\xff');
  memcpy(junk.data(), ELFMAG, SELFMAG);
  for (size_t size : {{size_t(0), size_t(10), sizeof(Elf64_Ehdr), junk.size()}})
    printf("%d", holds_function(std::vector<char>(junk.begin(), junk.begin() + size), "gemm"));
}}
"""
LAUNCHES = """
#include "{source}"

// A large allocation, a small one that points to it, and another small one.
constexpr CUdeviceptr kAt[] = {{0x1000000, 0x2000000, 0x3000000}};
constexpr size_t kSizes[] = {{8 << 20, 4096, 4096}};
size_t copied = 0;

CUresult attributes(unsigned, CUpointer_attribute*, void** values, CUdeviceptr pointer) {{
  for (int i = 0; i < 3; i++) {{
    if (pointer < kAt[i] || pointer - kAt[i] >= kSizes[i]) continue;
    *static_cast<unsigned*>(values[0]) = CU_MEMORYTYPE_DEVICE, *static_cast<unsigned*>(values[1]) = 0;
    *static_cast<CUdeviceptr*>(values[2]) = kAt[i], *static_cast<size_t*>(values[3]) = kSizes[i];
    return CUDA_SUCCESS;
  }}
  return CUDA_ERROR_INVALID_VALUE;
}}

CUresult copy(void* to, CUdeviceptr from, size_t size) {{
  memset(to, 0, size);
  if (from == kAt[1]) memcpy(to, &kAt[0], 8);
  copied += size;
  return CUDA_SUCCESS;
}}

void launched(CUdeviceptr argument) {{
  Launch launch;
  launch.name = "main";
  void* parameters[] = {{&argument}};
  copied = 0;
  before(&launch, reinterpret_cast<CUfunction>(1), parameters, nullptr);
  printf("%zu %d ", copied, pending != nullptr);
  if (pending) after(true, "main");
  printf("%d %d\\n", static_cast<int>(state().kept), static_cast<int>(state().refused));
}}

int main(int, char** words) {{
  Driver& d = driver();
  d.cuPointerGetAttributes = attributes, d.cuMemcpyDtoH = copy;
  d.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {{ return *value = 1, CUDA_SUCCESS; }};
  d.cuFuncGetModule = [](CUmodule*, CUfunction) {{ return CUDA_SUCCESS; }};
  d.cuFuncGetParamInfo = [](CUfunction, size_t index, size_t* offset, size_t* size) {{
    return *offset = 0, *size = 8, index ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }};
  d.cuModuleGetGlobal = [](CUdeviceptr*, size_t*, CUmodule, const char*) {{ return CUDA_ERROR_NOT_FOUND; }};
  d.cuStreamIsCapturing = [](CUstream, CUstreamCaptureStatus* status) {{
    return *status = CU_STREAM_CAPTURE_STATUS_NONE, CUDA_SUCCESS;
  }};
  d.cuCtxSynchronize = [] {{ return CUDA_SUCCESS; }};
  d.cuMemHostAlloc = [](void** host, size_t size, unsigned) {{ return *host = malloc(size), CUDA_SUCCESS; }};
  d.cuMemFreeHost = [](void* host) {{ return free(host), CUDA_SUCCESS; }};
  d.cuCtxGetDevice = [](CUdevice*) {{ return CUDA_SUCCESS; }};
  d.cuDeviceGetName = [](char*, int, CUdevice) {{ return CUDA_SUCCESS; }};
  d.cuDriverGetVersion = [](int*) {{ return CUDA_SUCCESS; }};
  State& s = state();
  s.folder = words[1], s.pid = 7, s.count = 2, s.most = 1 << 20;
  FILE* own = fopen("/proc/self/exe", "rb");  // an ELF file that holds a function `main`, as a cubin does
  std::vector<char> code(16 << 20);
  code.resize(fread(code.data(), 1, code.size(), own));
  s.cubins.push_back(std::make_shared<const std::vector<char>>(code));
  for (CUdeviceptr argument : {{kAt[0], kAt[1], kAt[2], kAt[0] + 64}}) launched(argument);
  for (int i = 0; i < 1000; i++) launched(kAt[0]);
  launched(kAt[2]);
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
for why in ("it is captured into a CUDA graph",) * 2 if "refused" in sys.argv[1:] else ():
    with (folder / "refused-7.jsonl").open("a") as file:
        file.write('{"kernel": "gemm", "why": "%s"}\\n' % why)
sys.exit(3)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, cupti_compiler: list[str]) -> Path:
    """The recorder as a library, beside a CUPTI that subscribes nothing."""
    path = tmp_path_factory.mktemp("capture") / "capture.so"
    stub = path.with_name("stub.cpp")
    stub.write_text(STUB)
    argv = [*cupti_compiler, "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(path), str(SOURCE), str(stub), "-ldl"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
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
    return recorder.refused_launches(folder)


def test_a_pattern_that_is_none_is_named(library: Path, tmp_path: Path) -> None:
    ((kernel, why),) = loaded(library, tmp_path, "gemm(")
    assert kernel == "" and why.startswith("--kernel is no extended regular expression")


@pytest.mark.parametrize("pattern", ["gemm", "[gG]emm_(?:tma|ws)\\d+"])
def test_who_cannot_be_recorded_is_told_and_goes_on(library: Path, tmp_path: Path, pattern: str) -> None:
    ((kernel, why),) = loaded(library, tmp_path, pattern)
    # Where there is a driver, CUPTI is asked and says no.
    assert kernel == "" and why in ("the driver is older than CUDA 12.4", "CUPTI cannot be used: PLAYED")


def printed(compiler: list[str], folder: Path, program: str) -> list[str]:
    """What a program that contains the recorder prints; what it records lies in ``folder``."""
    sources = [folder / "program.cpp", folder / "stub.cpp"]
    for path, text in zip(sources, (program.format(source=SOURCE), STUB), strict=True):
        path.write_text(text)
    binary = folder / "program"
    subprocess.run([*compiler, "-o", binary, *sources, "-ldl"], check=True, timeout=120)
    done = subprocess.run([binary, folder], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.splitlines()


def test_launches_that_need_too_much_memory_are_not_copied_and_leave_their_place(
    tmp_path: Path, cupti_compiler: list[str]
) -> None:
    lines = printed(cupti_compiler, tmp_path, LAUNCHES)
    assert lines[:4] == [
        "0 0 0 1",
        "4096 0 0 2",  # what may hold pointers is read
        "8192 1 1 2",
        "0 0 1 3",
    ]
    assert lines[-1] == "0 0 1 100" == lines[101], "after a hundred none is tried, whatever it needs"
    assert [path.name for path in tmp_path.glob("capsule-*")] == ["capsule-7-2"]
    memory, last = (why for _, why in recorder.refused_launches(tmp_path))
    assert memory == "the memory reachable from its arguments takes more than 1 MiB"
    assert last == "no more launches are tried after 100 refused ones"
    (kept,) = (Capsule.load(path) for path in tmp_path.glob("capsule-*") if (path / "complete").is_file())
    assert [region["base"] for region in kept.facts["regions"]] == [0x3000000]


def test_names_are_demangled_and_matched_as_ncu_does(tmp_path: Path, cupti_compiler: list[str]) -> None:
    assert printed(cupti_compiler, tmp_path, NAMES.replace("WAITING", WAITING)) == [
        "void ns::gemm<float>(float*)|gemm",
        "gemm|gemm",
        "f|f",
        "(anonymous namespace)::copy()|copy",
        "101",
        "100",
        "0000",
    ]
    assert recorder.refused_launches(tmp_path) == [("gemm()", 'a "reason"\n')]


DEVICE = Device("NVIDIA H200", Version(9, 0), "580.82", Version(13, 0))


def captured(folder: Path, *words: str, filters: Filters | None = None) -> tuple[Captured, str]:
    """What a played program leaves, and its output."""
    said: list[str] = []
    heard = Observer(output=lambda stream, text: said.append(text))
    subject = Subject([sys.executable, "-c", PROGRAM, *words])
    session = Session(subject, folder / "run", timeout_s=30, observer=heard)
    return recorder.record(session, filters or Filters("gemm", "", 2, 3), folder), "".join(said)


@pytest.fixture(autouse=True)
def _injection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "injection", lambda source: Path("capture.so"))


def test_whole_launches_are_read_in_their_order(tmp_path: Path) -> None:
    found, said = captured(tmp_path, "refused")
    assert [capsule.kernel for capsule in found.capsules] == ["k9", "k10"], "not by name, and none that is not complete"
    assert found.refused == [("gemm", "it is captured into a CUDA graph")], "once for each reason"
    assert found.end.status == 3
    assert said.split() == ["gemm", "2", "3", str(recorder.MOST_B)]


def test_what_was_refused_is_the_reason_that_nothing_was_kept(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"gemm cannot be recorded: .* CUDA graph; .* status 3"):
        captured(tmp_path, "nothing", "refused")


def test_a_program_without_such_a_kernel_is_told_the_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "describe", lambda: DEVICE)
    with pytest.raises(MeasurementError, match=r"no launch was recorded: none matches .*gemm") as caught:
        captured(tmp_path, "nothing")
    assert "Filters(" not in caught.value.message


def test_a_machine_without_a_gpu_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise DriverError("no NVIDIA driver")

    monkeypatch.setattr(session_module, "describe", missing)
    with pytest.raises(NoGpuError, match="no NVIDIA driver"):
        captured(tmp_path, "nothing")


def test_a_range_of_nvtx_chooses_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--kernel, --skip and --count"):
        captured(tmp_path, filters=Filters(nvtx="range/"))
