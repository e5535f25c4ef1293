"""What every test may ask for, and which tests this machine can run."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ncubble.errors import NcubbleError
from ncubble.profiling.ncu import find_ncu

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("ncubble", "kernels", "profiling", "analysis", "dashboard", "cli", "api", "recordings")
SHARING = ("tests/gpu", "tests/browser", "tests/wheel")
LONG = (
    "tests/unit/benchmarks/validation/test_page.py",
    "tests/browser",
    "tests/unit/kernels/test_build.py",
    "tests/wheel",
    "tests/unit/analysis/gate/test_wrong_passes.py",
    "tests/unit/analysis/report/test_cache.py",
    "tests/unit/benchmarks/validation/test_waste.py",
    "tests/unit/profiling/runs/test_kills.py",
)
"""What takes longest runs first, so that no worker has it left when the others are done."""
WITHOUT_GPU = pytest.StashKey[str]()
"""What the summary says of GPU tests that did not run."""

# In a process of its own: a CUDA context that was opened here would be inherited by every child of
# the tests.
_COUNT_GPUS = """
import ctypes, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit("no NVIDIA driver (libcuda.so.1 is missing)")
count = ctypes.c_int()
code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
if code or not count.value:
    sys.exit(f"no usable NVIDIA GPU (the driver answers {code}, {count.value} devices)")
"""


# A shell lets what it starts in the background ignore SIGINT, and nohup SIGHUP; tests send both to
# their children.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _gpu_lacks() -> str:
    """Why GPU tests cannot run here; empty where they can."""
    probe = subprocess.run([sys.executable, "-c", _COUNT_GPUS], capture_output=True, text=True, timeout=60)
    if probe.returncode:
        return probe.stderr.strip() or f"probing for a GPU ended with {probe.returncode}"
    try:
        find_ncu()
    except NcubbleError as error:
        return error.message
    return ""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without looking for garbage, and never look at what was collected: nearly half of the
    time goes there otherwise."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """What was collected is garbage again, as libraries that look for leaks at the end expect."""
    gc.unfreeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what is ``LONG`` first. Deselect GPU tests where they cannot run, for a reason that the
    summary gives once; where NCUBBLE_REQUIRE_GPU is set, refuse to pass without having run them."""
    items.sort(key=lambda item: next((n for n, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG)))
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    reason = _gpu_lacks() if gpu_items else ""
    if not reason:
        return
    if os.environ.get("NCUBBLE_REQUIRE_GPU"):
        raise pytest.UsageError(f"the GPU tests were asked for, but: {reason}")
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=gpu_items)
    config.stash[WITHOUT_GPU] = f"{len(gpu_items)} GPU tests were deselected: {reason}"
    if (output := getattr(config, "workeroutput", None)) is not None:  # a worker of xdist, which prints nothing
        output["without_gpu"] = config.stash[WITHOUT_GPU]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the reason over from a worker of xdist; all have the same."""
    if text := getattr(node, "workeroutput", {}).get("without_gpu"):
        node.config.stash[WITHOUT_GPU] = text


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say once why GPU tests did not run."""
    if text := config.stash.get(WITHOUT_GPU, ""):
        terminalreporter.write_line(text)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files in parallel, so that what a module makes for its tests is made once; folders whose
    tests share one thing (a GPU, a browser, an installed wheel) in one worker; in the order in
    which they were collected.

    Not ``--dist loadgroup``: pytest-xdist 3.8 marks groups in the node id, which pytest 9.2 does
    not let it change.
    """
    from xdist.scheduler import LoadFileScheduling

    class FolderScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = "/".join(nodeid.split("/")[:2])
            return folder if folder in SHARING else super()._split_scope(nodeid)

    if config.getvalue("dist") != "load":
        return None
    config.option.loadscopereorder = False  # else files with few tests come last, however long they take
    return FolderScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Path]:
    """A cache of the tests' own, for all workers of a run. Cubins outlive the run: their key is the
    hash of all that went into them."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "ncubble-cache"
    cache.mkdir(exist_ok=True)
    if getattr(pytestconfig, "cache", None) is not None:
        with suppress(FileExistsError):  # another worker was faster
            (cache / "cubins").symlink_to(pytestconfig.cache.mkdir("cubins"), target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NCUBBLE_CACHE", str(cache))
        yield cache


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def rooms() -> tuple[str, ...]:
    """Folders that are installed inside the package ``ncubble``."""
    return ROOMS


@pytest.fixture(scope="session")
def sources() -> list[Path]:
    """Every Python file of the product."""
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


@pytest.fixture(scope="session")
def tracked() -> list[Path]:
    """Every file that git tracks or would: what is ignored is left out."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    return sorted({ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()})


@pytest.fixture(scope="session")
def foreign_reports() -> list[Path]:
    """Reports that others published (any GPU, any ncu), in the folder NCUBBLE_FOREIGN_REPORTS: not
    ours to commit."""
    folder = os.environ.get("NCUBBLE_FOREIGN_REPORTS")
    if not folder:
        pytest.skip("NCUBBLE_FOREIGN_REPORTS names no folder of foreign reports")
    found = sorted(Path(folder).rglob("*.ncu-rep"))
    if not found:
        pytest.skip(f"NCUBBLE_FOREIGN_REPORTS={folder} holds no *.ncu-rep")
    return found


class TinyDisk(type(Path())):  # type: ignore[misc]
    """A file system of one megabyte; ``free`` bytes are left on it."""

    @property
    def free(self) -> int:
        return shutil.disk_usage(self).free


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[TinyDisk]:
    """A disk that a test may fill. Only root may mount one: elsewhere the test is skipped."""
    folder = TinyDisk(tmp_path / "disk")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False) if shutil.which("mount") else None
    if done is None or done.returncode:
        pytest.skip(f"no small disk to fill: {done.stderr.strip() if done else 'mount is missing'}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
