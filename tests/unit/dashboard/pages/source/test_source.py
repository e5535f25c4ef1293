"""The Source page without a browser: addresses, what is sent of a launch, and how the server
answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from ncubble.analysis.details import source_columns as source_model
from ncubble.dashboard.app.app import create_app
from ncubble.dashboard.pages.addresses import SourceAddress
from ncubble.dashboard.pages.source import layout as page
from ncubble.errors import ReportError
from tests.helpers import dashboard_frames as frames
from tests.helpers.source_rows import code


def test_a_reason_with_a_strange_name_gets_an_id_that_addresses_take() -> None:
    strange = code().rename(columns={"barrier": frames.HOSTILE, "selected": "issue"})
    ids = [cause["id"] for cause in source_model.view(strange, {})["causes"]]
    assert ids == ["samples", "stall.0", "stall.1"]
    assert all(SourceAddress.parse(f"by={name}").by == name for name in ids)


class Coded(frames.FakeReport):
    """A made-up report that can be asked for the code of one launch."""

    files: dict[str, str] = {}  # noqa: RUF012
    broken: Exception | None = None

    def source_of(self, launch: int) -> pd.DataFrame:
        if self.broken:
            raise self.broken
        return self.source[self.source["launch"] == launch].reset_index(drop=True)


def coded(report: frames.FakeReport) -> Coded:
    return Coded(**{name: getattr(report, name) for name in frames.FakeReport.__dataclass_fields__})


@pytest.fixture
def asking(tmp_path: Path) -> Any:
    report = coded(frames.gemm())
    store = frames.store(tmp_path, [report])
    client = create_app([], store=store).server.test_client()
    return SimpleNamespace(report=report, store=store, get=lambda path, **more: client.get(path, **more))


def test_the_page_opens_no_report(asking: Any) -> None:
    entry = asking.store.find("0123456789abcdef", 0)
    asking.report.broken = ReportError("must not be opened", "")
    text = frames.sent(page.layout(asking.store, entry, SourceAddress.parse("?pc=32&by=barrier")))
    assert '"/_source/0123456789abcdef/0"' in text
    assert '"pc": 32' in text and '"by": "barrier"' in text
    assert '"/kernel/0123456789abcdef/0"' in text
    assert '"/source/0123456789abcdef/1"' in text and '"previous-launch"' not in text


def test_the_code_is_sent_compressed_where_it_is_taken(asking: Any) -> None:
    plain = asking.get("/_source/0123456789abcdef/0")
    packed = asking.get("/_source/0123456789abcdef/0", headers={"Accept-Encoding": "gzip"})
    assert plain.status_code == packed.status_code == 200
    assert packed.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.data)) == plain.json
    assert len(plain.json["sass"]) == 40
    assert packed.headers["X-Content-Type-Options"] == "nosniff"
    asking.report.broken = ReportError("must not be read again", "")
    assert asking.get("/_source/0123456789abcdef/0").json == plain.json


def test_an_unknown_launch_and_a_damaged_report_say_so(asking: Any) -> None:
    assert asking.get("/_source/0123456789abcdef/9").status_code == 404
    assert asking.get("/_source/..%2f..%2fetc/0").status_code == 404
    asking.report.broken = ReportError("file ends inside block 3", "record it again")
    answer = asking.get("/_source/0123456789abcdef/1")
    assert (answer.status_code, answer.json["error"]) == (500, "file ends inside block 3. record it again")
