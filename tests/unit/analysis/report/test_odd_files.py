"""What stands where a report should be: other kinds of files, odd names, files that vanish or may
not be read."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard

from ncubble.analysis.report import report as report_module
from ncubble.analysis.report.report import open_reports
from ncubble.profiling.runs import find_runs
from ncubble.recordings import H100

RUN = H100 / "softmax_online" / "default"
PACKED = (RUN / "report.ncu-repz").read_bytes()
PLAIN = zstandard.ZstdDecompressor().decompressobj().decompress(PACKED)
MAIN = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def good():
    """A report beside the odd one, which must be opened whatever that is."""
    return Path(shutil.copy(RUN / "report.ncu-repz", "good.ncu-repz"))


def opened(*paths):
    """Names of the reports that could be opened, and the messages of the others."""
    reports, failures = open_reports([Path(path) for path in paths], details=False)
    assert all(failure.error.remedy for failure in failures)
    return [report.path.name for report in reports], [failure.error.message for failure in failures]


def directory(path):
    path.mkdir()


def device(path):
    path.symlink_to("/dev/zero")


def broken(path):
    path.symlink_to("nowhere")


def loop(path):
    path.symlink_to(path.name)


def erroneous(path):
    """A regular file that gives an I/O error when it is read, also to root."""
    path.symlink_to("/proc/self/mem")


def bound(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


ODD = {
    os.mkfifo: "not a regular file",
    bound: "not a regular file",
    device: "not a regular file",
    broken: "no such file",
    loop: "no such file",
    erroneous: "cannot be read (Input/output error)",
    Path.touch: "empty",
}


@pytest.mark.parametrize(("make", "message"), ODD.items(), ids=[make.__name__ for make in ODD])
@pytest.mark.parametrize("named", [True, False], ids=["named", "found in a folder"])
def test_what_is_no_file_is_refused_at_once_by_name_and_hides_no_other(make, message, named, good):
    odd = Path("odd.ncu-rep")
    make(odd)
    begun = time.monotonic()
    names, errors = opened(*([odd, good] if named else ["."]))
    assert names == ["good.ncu-repz"]
    assert [text for text in errors if text.startswith("odd.ncu-rep: ") and message in text] == errors != []
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("member", "make"),
    [
        *(("report.ncu-rep", make) for make in (os.mkfifo, device, broken, loop)),
        *(("run.json", make) for make in (os.mkfifo, device, broken, loop, directory)),
    ],
)
def test_a_run_with_an_odd_member_is_refused_without_waiting_for_it(member, make, good):
    shutil.copytree(RUN, "run")
    Path("run", "run.json" if member == "run.json" else "report.ncu-repz").unlink()
    make(Path("run", member))
    names, errors = opened("run", good)
    assert names == ["good.ncu-repz"]
    assert len(errors) == 1 and errors[0].startswith("run")


def test_a_directory_named_like_a_report_is_a_folder_of_reports(good):
    Path("x.ncu-rep").mkdir()
    shutil.copy(good, "x.ncu-rep/inner.ncu-repz")
    assert opened("x.ncu-rep") == (["inner.ncu-repz"], [])


def test_links_to_files_are_followed_and_links_to_directories_are_not():
    Path("outside").mkdir()
    shutil.copy(RUN / "report.ncu-repz", "outside/far.ncu-repz")
    Path("tree").mkdir()
    Path("tree/near.ncu-repz").symlink_to("../outside/far.ncu-repz")
    Path("tree/folder").symlink_to("../outside")
    Path("tree/up").symlink_to("..")
    assert opened("tree") == (["near.ncu-repz"], [])
    assert opened("tree/folder") == (["far.ncu-repz"], []), "named by the user himself"


@pytest.mark.parametrize("target", ["/etc/passwd", "/proc/self/environ"])
def test_a_link_to_a_file_that_is_no_report_shows_nothing_of_it(target):
    shutil.copytree(RUN, "run")
    Path("run/report.ncu-repz").unlink()
    Path("run/report.ncu-rep").symlink_to(target)
    names, errors = opened("run")
    assert names == []
    text = Path(target).read_text(errors="replace")
    assert "not an Nsight Compute report" in errors[0] and text[:8] not in errors[0]


@pytest.mark.parametrize("name", ["x.txt", "x", "x.NCU-REP", "x.ncu-rep.bak", ".ncu-rep", "x.ncu-repx"])
def test_another_extension_is_refused_when_named_and_passed_over_in_a_folder(name, good):
    shutil.copy(good, name)
    names, errors = opened(name)
    assert names == [] and "not a report file name" in errors[0]
    found, errors = opened(".")
    assert found == ["good.ncu-repz"]
    assert [error.partition(":")[0] for error in errors] == ([name] if name == ".ncu-rep" else [])


@pytest.mark.parametrize(("suffix", "data"), [(".ncu-rep", PACKED), (".ncu-repz", PLAIN)])
def test_the_extension_of_the_other_form_is_refused_with_the_remedy(suffix, data):
    Path(f"x{suffix}").write_bytes(data)
    reports, failures = open_reports([Path(f"x{suffix}")])
    assert reports == [] and "not" in failures[0].error.message and ".ncu-rep" in failures[0].error.remedy


NAMES = {
    "newline": "a\nb",
    "markup": "[red]x[bold]",
    "escapes": "\x1b[31mx\x1b]0;t\x07",
    "shell": "$(touch hacked)`touch hacked`;&|",
    "option": "--json",
    "dash": "-",
    "no UTF-8": "\udcff\udc80",
    "direction": "e\u0301 \u202e",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_report_is_read_whatever_its_name_and_the_terminal_gets_no_control_characters(name):
    Path(f"{name}.ncu-repz").write_bytes(PACKED)
    Path(f"{name}.ncu-rep").write_bytes(PLAIN[:-1])
    done = subprocess.run([*MAIN, "report", "."], capture_output=True, timeout=120, check=False)
    assert done.returncode == 3
    said = done.stderr.decode() + done.stdout.decode()
    assert "softmax_online" in said and "truncated" in said and "Traceback" not in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)
    assert not list(Path().glob("hacked*"))


@pytest.mark.parametrize("path", ["x" * 300, "/".join(["x" * 200] * 30), "good.ncu-repz/x"])
def test_a_path_that_cannot_be_is_refused_by_name(path, good):
    names, errors = opened(f"{path}.ncu-rep", good)
    assert names == ["good.ncu-repz"]
    assert errors[0].startswith(path)


def test_a_name_of_255_bytes_is_read():
    name = f"{'é' * 123}.ncu-repz"
    Path(name).write_bytes(PACKED)
    assert opened(".") == ([name], [])


def test_a_file_that_vanishes_between_listing_and_reading_is_named(good, monkeypatch):
    def listing(paths, skipped):
        for path in list(find_runs(paths, skipped)):
            if path.name == "gone.ncu-repz":
                path.unlink()
            yield path

    shutil.copy(good, "gone.ncu-repz")
    monkeypatch.setattr(report_module, "find_runs", listing)
    names, errors = opened(".")
    assert names == ["good.ncu-repz"]
    assert errors == ["gone.ncu-repz: no such file or directory"]


def test_a_folder_that_cannot_be_listed_is_named_and_hides_no_other(good, monkeypatch):
    """For root there is no such folder: the system's answer is played."""
    real = os.scandir

    def scandir(path="."):
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    Path("locked").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "listdir", scandir)
    names, errors = opened(".")
    assert names == ["good.ncu-repz"]
    assert errors == ["locked: cannot be read (Permission denied)"]


def test_files_without_permission_are_named(good, here):
    """In a process without root's rights."""
    Path("locked.ncu-repz").write_bytes(PACKED)
    Path("folder").mkdir()
    shutil.copy(good, "folder/inner.ncu-repz")
    Path("locked.ncu-repz").chmod(0)
    Path("folder").chmod(0)
    here.chmod(0o755)
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.environ["NCUBBLE_CACHE"] = "/nowhere"
            names, errors = opened("locked.ncu-repz", "folder", "folder/inner.ncu-repz")
            code = 0 if names == [] and [text.count("Permission denied") for text in errors] == [1, 1, 1] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    Path("folder").chmod(0o755)
