"""Whether the counters are refused, read off the system's files, and what works without."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncubble.cli import main as cli
from ncubble.profiling import doctor, failures, ncu
from ncubble.profiling.doctor import DoctorCheck, Need
from ncubble.profiling.failures import CounterPermission, counter_permission
from ncubble.profiling.ncu import NcuLog

ADMIN, NONE = "000001ffffffffff", "0000000000000000"


def system(folder: Path, parameters: str | None, capabilities: str, container: bool = False) -> CounterPermission:
    """What is read off a system with these files."""
    if parameters is not None:
        (folder / "params").write_text(f'ResmanDebugLevel: 4294967295\n{parameters}\nRegistryDwords: ""\n')
    (folder / "status").write_text(f"Name:\tpython\nCapPrm:\t{NONE}\nCapEff:\t{capabilities}\nCapBnd:\t{ADMIN}\n")
    mark = folder / ".dockerenv"
    if container:
        mark.touch()
    return counter_permission(folder / "params", folder / "status", (mark,))


@pytest.mark.parametrize(
    ("parameters", "capabilities", "refused"),
    [
        ("RmProfilingAdminOnly: 1", NONE, True),
        ("RmProfilingAdminOnly: 1", "00000000a80425fb", True),  # root in a container of Docker
        ("RmProfilingAdminOnly: 1", ADMIN, False),
        ("RmProfilingAdminOnly: 0", NONE, False),
        ("", NONE, False),  # a driver that does not tell
        (None, NONE, False),  # no driver
    ],
)
def test_counters_are_known_to_be_refused_only_by_both_facts(
    tmp_path: Path, parameters: str | None, capabilities: str, refused: bool
) -> None:
    assert system(tmp_path, parameters, capabilities).refused is refused


def test_the_nearest_way_comes_first(tmp_path: Path) -> None:
    inside = system(tmp_path, "RmProfilingAdminOnly: 1", NONE, container=True)
    assert inside.remedy.startswith("start the container with --cap-add=SYS_ADMIN") and "sudo" not in inside.remedy
    assert inside.reason == "RmProfilingAdminOnly is 1, this process lacks CAP_SYS_ADMIN, it runs in a container"
    (tmp_path / ".dockerenv").unlink()
    outside = system(tmp_path, "RmProfilingAdminOnly: 1", NONE)
    assert outside.remedy.startswith("run as root") and "NVreg_RestrictProfilingToAdminUsers=0" in outside.remedy
    assert "cap-add" not in outside.remedy
    unknown = CounterPermission(None, None, False)
    assert unknown.reason == "" and "--cap-add" in unknown.remedy and "run as root" in unknown.remedy


def test_files_that_cannot_be_read_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "status").write_bytes(b"\xff\xfeCapEff:\tnone\n")
    assert counter_permission(tmp_path, tmp_path / "status", ()) == CounterPermission(None, None, False)


def test_every_failure_for_that_reason_says_what_still_works() -> None:
    log = NcuLog()
    log.feed("stderr", "==ERROR== ERR_NVGPUCTRPERM - no permission\n")
    problem = ncu.failure(log, 1, "")
    assert isinstance(problem, failures.CounterPermissionError)
    for command in ("streams", "trace", "report", "ablate (in time)", "bench", "`ncubble doctor`"):
        assert command in problem.remedy


def checks(*wrong: tuple[str, Need]) -> list[DoctorCheck]:
    """A machine that lacks ``wrong`` only."""
    present: list[tuple[str, Need]] = [
        *(("dash", "view"), ("driver and GPU", "profile"), ("ncu", "profile"), ("performance counters", "profile")),
        *(("nvcc", "kernels"), ("cupti-python", "streams"), ("dask", "sweeps"), ("mcp", "agents")),
    ]
    return [
        DoctorCheck(name, need, "wrong" if (name, need) in wrong else "ok", "", f"fix {name}") for name, need in present
    ]


def answers(*wrong: tuple[str, Need]) -> dict[str, str]:
    """Whether each command works."""
    return {name: row.works for row in doctor.commands(checks(*wrong)) for name in row.commands}


def test_without_counters_the_rest_works() -> None:
    found = answers(("performance counters", "profile"))
    assert {name for name, works in found.items() if works == "no"} == {"profile", "sweep"}
    assert {name for name, works in found.items() if works == "partly"} == {"check", "ablate", "program", "try"}
    assert found["trace"] == found["streams"] == found["verify"] == found["report"] == "yes"
    rows = {row.commands[0]: row for row in doctor.commands(checks(("performance counters", "profile")))}
    assert rows["ablate"].how.startswith("in time instead of cycles")
    assert rows["ablate"].fix == "fix performance counters"
    assert rows["profile"].how == "needs performance counters" and rows["report"].fix == ""


def test_the_docs_show_what_works_as_doctor_prints_it() -> None:
    page = (Path(__file__).parents[4] / "docs" / "without-counters.md").read_text(encoding="utf-8")
    shown = " ".join(page.split())
    limited = [row for row in doctor.commands(checks(("performance counters", "profile"))) if row.how]
    assert limited
    for row in limited:
        assert f"{', '.join(row.commands)} {row.works} {row.how}" in shown


@pytest.mark.parametrize(
    ("lacks", "works"),
    [
        ((), dict.fromkeys(("profile", "sweep", "ablate", "try", "streams"), "yes")),
        (
            (("driver and GPU", "profile"),),
            dict.fromkeys(("profile", "bench"), "no")
            | dict.fromkeys(("verify", "ablate", "trace", "check"), "partly")
            | {"report": "yes"},
        ),
        ((("ncu", "profile"),), {"ablate": "partly", "profile": "no", "streams": "yes"}),
        ((("cupti-python", "streams"),), {"streams": "partly", "profile": "yes", "program": "yes"}),
        ((("driver and GPU", "profile"), ("nvcc", "kernels")), {"verify": "no", "bench": "no"}),
        ((("nvcc", "kernels"),), {"verify": "no", "trace": "partly", "try": "no", "sweep": "no", "profile": "yes"}),
        ((("driver and GPU", "profile"), ("dash", "view")), {"trace": "no", "program": "no", "streams": "no"}),
        ((("dash", "view"),), {"report": "no", "mcp": "no", "profile": "yes"}),
        ((("mcp", "agents"),), {"report": "yes", "mcp": "no"}),
    ],
)
def test_what_works_follows_from_what_is_there(lacks: tuple[tuple[str, Need], ...], works: dict[str, str]) -> None:
    found = answers(*lacks)
    assert {name: found[name] for name in works} == works


def test_every_command_is_named_once() -> None:
    listed = [name for row in doctor.commands(checks()) for name in row.commands]
    assert {name for names in cli.COMMANDS.values() for name in names} - {"doctor"} <= set(listed) and len(
        listed
    ) == len(set(listed))


def test_where_nothing_can_be_profiled_a_refusal_is_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "counter_permission", lambda: CounterPermission(True, False, True))
    missing = DoctorCheck("ncu", "profile", "missing", "")
    check = doctor._untried_counters(missing)
    assert check.status == "wrong" and "not tried: needs ncu; counters would be refused" in check.detail
    assert "--cap-add=SYS_ADMIN" in check.remedy
    monkeypatch.setattr(doctor, "counter_permission", lambda: CounterPermission(True, True, True))
    assert doctor._untried_counters(missing).status == "missing"
