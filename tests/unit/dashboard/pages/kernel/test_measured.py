"""What was measured of a launch, on its page."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

from ncubble.analysis.ablation.result import MeasuredLine, MeasuredPart, MeasuredVariant
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.kernel import account, layout
from tests.helpers import dashboard_frames as frames
from tests.helpers.ablations import ABLATED, ablation


def shown(path: Path) -> Any:
    store = ReportStore([path]).start()
    assert store.wait(60)
    (row,) = store.rows()
    return frames.view(store, str(row["id"]).split("/")[0])


def page(path: Path) -> Any:
    view = shown(path)
    return layout.layout(view.store, view.entry)


def texts(content: Any) -> str:
    return " ".join(filter(None, frames.texts(content)))


def test_an_ablated_launch_has_measured_beside_estimated() -> None:
    ablated = page(ABLATED)
    said, sent = texts(ablated), frames.sent(ablated)
    assert '"data-anchor": "measured"' in sent
    assert "Part Estimated Time, estimated Measured Meaning" in said
    assert "data wait 28.03 % 67.0 µs 30.3 ± 0.2 %" in said
    assert "data wait 28.0 30.3 0.2 30.6" in said and "copy cost 0.0 2.9 0.2 32.8" in said
    assert "neither work nor removed – 3.5 –" in said
    assert "Data wait is the largest cost, 30.3 ± 0.2 % of the time, as estimated." in said
    assert "Cycles 404,552 ± 0.14 % Rounds 5 Route machine code" in said
    assert "the loss to look at first is data wait, measured 30.3 % of kernel time" in said
    assert "measured by ablation: from 100 % of elapsed SM cycles" in said and "measured 30.3 % of the time" in said
    assert "copy cost 0.03 % 74 ns 2.9 ± 0.2 %" in said
    assert "data wait 30.3 %, epilogue 3.0 %, copy cost 2.9 %, remainder" in sent
    assert "30.3 data wait gemm_tma.cu:93" in said and "line=93" in sent
    assert "Slack" not in said


def test_a_launch_that_was_not_ablated_says_nothing_of_it(tmp_path: Path) -> None:
    shutil.copytree(ABLATED, tmp_path / "run", ignore=shutil.ignore_patterns("ablation.json"))
    plain = page(tmp_path / "run")
    assert '"measured"' not in frames.sent(plain) and "Part Share Time Meaning" in texts(plain)


def test_a_damaged_file_is_named_in_a_section_of_its_own(tmp_path: Path) -> None:
    run = shutil.copytree(ABLATED, tmp_path / "run")
    (run / "ablation.json").write_text("{")
    said = texts(page(run))
    assert "Measured by ablation This section could not be shown" in said and "ablation.json: not an ablation" in said
    assert "Part Share Time Meaning" in said


def test_parts_that_were_only_measured_together_say_so(tmp_path: Path) -> None:
    view = frames.view(frames.store(tmp_path))
    view.ablation = ablation([MeasuredPart("data_wait+copy_cost", 27.0, 38.5, 0.4, None)])
    said = texts(account.waterfall_card(view))
    assert "estimated, because not every combination of parts could be measured" in said
    assert "38.5 ± 0.4 % with data wait" in said and "38.5 ± 0.4 % with copy cost" in said
    assert "data wait and copy cost 27.0 38.5 0.4 –" in texts(account.measured(view))


def test_delays_failures_and_notes_are_shown(tmp_path: Path) -> None:
    view = frames.view(frames.store(tmp_path))
    known = ablation(
        [MeasuredPart("sync_wait", None, 1.0, math.nan, None)],
        [MeasuredLine(None, None, "BAR.SYNC <b>", "sync_wait", 1.0)],
        [MeasuredVariant("slack tensor", "hangs", 3), MeasuredVariant("slack float", "ok", 314, [], -73.2, 1.4)],
    )
    known.variants.append(MeasuredVariant("copy_sync", "changes results", 4))
    known.notes.append("too few variants")
    view.ablation = known
    said = texts(account.measured(view))
    assert "Delayed in the loop Instructions Costs ± float 314 73.2 1.4 tensor 3 hangs" in said
    assert "sync wait BAR.SYNC <b>" in said
    assert "Without copy, sync: changes results. Too few variants." in said
