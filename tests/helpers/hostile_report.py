"""Real report files whose texts try to be markup: strings of a recording, replaced by others of the
same length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zstandard

from ncubble.analysis.report.report import Report
from ncubble.recordings import ROOT

TAG = "<u id=own>"
"""Short enough for names. An element with this id, anywhere, means that a text became markup."""
SCRIPTS = (
    "<img src=x onerror=\"document.title='owned'\">",
    "</script><script>document.title='owned'</script>",
    "<a href=//evil.example>x</a>",
)
KERNEL = "triton_gemm"
RECORDED = ROOT / KERNEL / "stages4"


def hostile_runs(folder: Path) -> list[Path]:
    """Two run directories below ``folder`` that are hostile in every text: report, manifest and
    their own names."""
    return [_run(str(index), folder / f"{TAG}{index}") for index in range(2)]


def _run(mark: str, place: Path) -> Path:
    place.mkdir(parents=True)
    (place / "report.ncu-rep").write_bytes(_report(mark))
    manifest = json.loads((RECORDED / "run.json").read_text())
    manifest["kernel"] |= {"name": SCRIPTS[0], "function": _fit(TAG, KERNEL)}
    manifest["kernel"]["parameters"] |= {TAG: SCRIPTS[2]}
    manifest["kernel"]["shape"] = {TAG: 4096, **(manifest["kernel"].get("shape") or {})}
    manifest["device"] |= {"driver": SCRIPTS[0]}
    manifest["git"] = {"sha": TAG, "dirty": False}
    manifest |= {"argv": [SCRIPTS[1]], "notes": [SCRIPTS[0]], "metric_set": [TAG], "started": TAG}
    (place / "run.json").write_text(json.dumps(manifest))
    return place


def _report(mark: str) -> bytes:
    """The recording, uncompressed, with its texts replaced; another ``mark`` makes another
    content."""
    with (RECORDED / "report.ncu-repz").open("rb") as file:
        data: bytes = zstandard.ZstdDecompressor().stream_reader(file).read()
    for old, new in _replacements(Report.open(RECORDED), mark).items():
        assert old.encode() in data, old
        data = data.replace(old.encode(), _fit(new, old).encode())
    return data


def _replacements(report: Any, mark: str) -> dict[str, str]:
    """What becomes of each text: rule titles and messages, source, the names of kernel, GPU and a
    metric."""
    source = next(iter(report.files.values())).splitlines()
    lines = [line for line in source if len(line) >= 50 and line.isascii() and KERNEL not in line]
    metric = next(
        name for name in report.metrics["metric"].astype(str) if name.startswith("device__") and len(name) > 45
    )
    rule = report.rules.iloc[0]
    return {
        str(rule["message"])[:60]: SCRIPTS[0],
        str(rule["title"]): TAG,
        lines[0]: SCRIPTS[1],
        lines[1]: SCRIPTS[2],
        metric: SCRIPTS[0],
        "NVIDIA H200": TAG + mark,
        KERNEL: TAG,
    }


def _fit(new: str, old: str) -> str:
    """``new``, filled up with the end of ``old`` to its length."""
    assert len(new) <= len(old), (new, old)
    return new + old[len(new) :]
