"""``ncubble report`` of recordings without counters: labelled, in the form of a launch, and never
mixed with launches."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.streams import recording as records
from ncubble.analysis.traces.lanes import Lanes
from ncubble.cli.main import main
from ncubble.recordings import LANES, LEVELS, ROOT

TRACE, STREAMS = LANES / "trace-tensor_core_gemm-stages1", LANES / "streams-pageable"


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``ncubble report``."""
    with pytest.raises(SystemExit) as ended:
        main(["report", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def object_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    """The JSON that it prints."""
    status, out, err = run(capsys, *arguments, "--json")
    assert status == 0, err
    return dict(json.loads(out))


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_a_trace_is_an_account_that_says_where_it_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, TRACE)
    said = " ".join(out.split())
    assert status == 0 and max(map(len, out.splitlines())) <= 80
    assert "source: probe trace, no counters; % of the time of the recorded SMs" in said
    assert "compute 62.5 33.6..64.6" in said and "holds tensor busy, unit busy, smem wait, issue" in said
    assert "→ data wait: keep more bytes in flight" in said and "data wait 28.5 27.5..49.5" in said
    assert "not visible in it: how busy the tensor pipe" in said and "issue slots" in said and "bandwidth" in said
    assert "note: it is a section of the trace" in said


def test_a_trace_that_computes_nearly_all_the_time_has_no_bubble_as_its_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, LANES / "trace-gemm_ws")
    assert "→ no large bubble: work takes 96.1 % of the time" in out
    assert object_of(capsys, LANES / "trace-gemm_ws")["traces"][0]["cause"] == "none"


def test_streams_are_an_account_of_the_time_between_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, STREAMS)
    said = " ".join(out.split())
    assert status == 0 and "source: streams recording, no counters; % of the time of the recorded program" in said
    assert "pageable copy 90.9" in said and "→ pageable copy: use page-locked memory" in said and ".." not in said
    assert "not visible in it: anything inside a kernel" in said


def test_json_has_the_members_of_a_launch_apart_from_launches(capsys: pytest.CaptureFixture[str]) -> None:
    found = object_of(capsys, TRACE, STREAMS, ROOT / "tensor_core_gemm" / "stages1")
    assert len(found["launches"]) == 1 and [one["source"] for one in found["traces"]] == [
        "probe trace",
        "streams recording",
    ]
    trace, launch = found["traces"][0], found["launches"][0]
    shared = {"report", "label", "kernel", "device", "duration_ns", "account", "merged", "cause"}
    assert shared <= set(trace) and shared <= set(launch) and "unit" not in trace and "cycles" not in trace
    assert sum(trace["account"].values()) == pytest.approx(100.0) and trace["cause"] == "data_wait"
    assert trace["causes"][0]["cause"] == "data_wait" and trace["causes"][0]["fix"] and trace["cannot_tell"]
    assert sum(found["traces"][1]["account"].values()) == pytest.approx(100.0)
    assert set(object_of(capsys, TRACE, "--brief")) == {"schema", "launches", "errors", "traces"}
    assert object_of(capsys, ROOT / "tensor_core_gemm" / "stages1")["traces"] == []


def test_many_are_a_table_and_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, LANES)
    assert status == 0 and max(map(len, out.splitlines())) <= 80
    assert "largest bubble" in out and "from recordings, not from counters" in out and "not visible in it:" not in out
    assert "not visible in it:" in run(capsys, LANES, "--details")[1]
    chosen = object_of(capsys, LANES, "--kernel", "gemm_ws|gemm_tma")["traces"]
    assert [one["kernel"] for one in chosen] == ["gemm_tma", "gemm_ws"]
    assert len(object_of(capsys, LANES, "--limit", "2")["traces"]) == 2


def test_a_choice_of_kernels_may_leave_only_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    both = (TRACE, ROOT / "gemm_tma" / "stages2")
    found = object_of(capsys, *both, "--kernel", "tensor_core_gemm")
    assert found["launches"] == [] and len(found["traces"]) == 1
    found = object_of(capsys, *both, "--kernel", "gemm_tma")
    assert len(found["launches"]) == 1 and found["traces"] == []
    status, _, err = run(capsys, *both, "--kernel", "no_such_kernel")
    assert status == 2 and "no launch matches" in err


def test_both_levels_of_one_run_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    found = object_of(capsys, LEVELS / "streams-levels")["traces"]
    assert [one["source"] for one in found] == ["streams recording", "probe trace"]
    assert found[1]["recorded"].endswith("8 launches")


def test_a_damaged_recording_is_an_error_and_hides_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shutil.copytree(TRACE, tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "lanes.parquet").write_bytes(b"PAR1 no parquet")
    status, out, err = run(capsys, tmp_path)
    assert status == 3 and "source: probe trace" in out and "bad/lanes.parquet" in " ".join(err.split())


def test_a_trace_without_computing_says_what_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    row = {"lane": "a", "group": "w", "tag": "load", "start_ns": 0.0, "end_ns": 5.0, "index": 0}
    Lanes("warps", pd.DataFrame([row | dict.fromkeys(("sm", "cta", "warp", "launch"), 0)]), {}).save(tmp_path)
    status, _, err = run(capsys, tmp_path)
    assert status == 3 and "no warp has a `compute` region" in " ".join(err.split()) and "no report below" not in err


def test_names_in_a_recording_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = [
        {"lane": "a\x1b[31m", "group": "w", "tag": "compute", "start_ns": 0.0, "end_ns": 5.0, "index": 0}
        | dict.fromkeys(("sm", "cta", "warp", "launch"), 0)
    ]
    facts = {"kernel": {"name": "\x1b[2Jevil", "parameters": {"[bold]": "\n"}, "shape": 7}, "device": {"name": 5}}
    Lanes("warps", pd.DataFrame(rows), facts).save(tmp_path)
    status, out, _ = run(capsys, tmp_path)
    assert status == 0 and "\x1b" not in out and "[bold]" in out and "device not known" in out


def test_a_folder_that_was_ablated_in_time_is_pointed_to(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "ablation.json").write_text("{}")
    status, _, err = run(capsys, tmp_path)
    assert status == 3 and f"ncubble ablate {tmp_path}" in err.replace("\n", "")


def test_a_recording_in_which_no_gpu_worked_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "idle"
    shutil.copytree(STREAMS, folder)
    recording = records.read(folder)
    rows = recording.rows[~recording.rows["kind"].isin(records.WORK)]
    records.Recording(rows).write(folder)
    status, _, err = run(capsys, folder)
    assert status == 3 and "no GPU activity was recorded" in " ".join(err.split())
