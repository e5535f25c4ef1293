"""The Open page as a component tree: what it says of uploads, roots, progress, failures and
copies."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from plotly.utils import PlotlyJSONEncoder

from ncubble.dashboard.data.readings import Failure, Progress, Reading
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import OpenAddress
from ncubble.dashboard.pages.open import lists as open_lists
from ncubble.dashboard.pages.open import routes as upload_routes
from ncubble.dashboard.pages.open.layout import layout, version
from ncubble.dashboard.pages.open.limits import UploadLimits
from ncubble.dashboard.pages.open.uploads import Upload, Uploads
from tests.helpers import dashboard_frames as frames


def tree(component: Any) -> str:
    return json.dumps(component, cls=PlotlyJSONEncoder, ensure_ascii=False)


@pytest.fixture
def store(tmp_path: Path) -> ReportStore:
    return frames.store(tmp_path)


def shown(store: Any, limits: UploadLimits) -> str:
    server = Flask("test")
    upload_routes.register(server, Uploads(store, limits))
    with server.app_context():
        return tree(layout(store, OpenAddress()))


def test_the_limits_are_said_where_files_are_dropped(store: ReportStore) -> None:
    sent = shown(store, UploadLimits.of_megabytes(300))
    assert "up to 300 MB each" in sent and "at most 64 files and 4 GB" in sent and "open-choose" in sent


def test_a_server_that_takes_no_files_says_what_to_do(store: ReportStore) -> None:
    for sent in (shown(store, UploadLimits.of_megabytes(0)), tree(layout(store, OpenAddress()))):
        assert (
            "does not accept files" in sent and "ncubble dashboard FILE_OR_FOLDER" in sent and "open-choose" not in sent
        )


def test_roots_failures_and_reasons_are_listed(store: ReportStore, tmp_path: Path) -> None:
    sent = tree(layout(store, OpenAddress()))
    for path in store.paths:
        assert str(path) in sent
    assert "file ends inside block 3" in sent and "record it again" in sent


@pytest.mark.parametrize(
    ("root", "read", "count"),
    [
        (".", "a/b.ncu-rep", "1"),
        ("runs/../runs", "runs/../runs/b.ncu-rep", "1"),
        ("./runs/", "runs/b.ncu-rep", "1"),
        ("../b.ncu-rep", "../b.ncu-rep", "1"),
        ("/", "/runs/b.ncu-rep", "1"),
        (".", "../b.ncu-rep", "0"),
        ("run", "runs/b.ncu-rep", "0"),
    ],
)
def test_reports_are_counted_below_their_root_however_it_is_written(root: str, read: str, count: str) -> None:
    line = open_lists._root(Path(root), [Reading(Path(read), "shown", ids=("feed/7",))])
    assert line[1:] == [count, count, "0"] and str(Path(root)) in tree(line[0])


def kept(state: str, **changes: Any) -> str:
    """The card of one added file in this state."""
    one = Upload("ab12", f"{frames.HOSTILE}.ncu-rep", 2_000_000, Path("/cache/x.ncu-rep"), received=2_000_000)
    reading = Reading(one.path, state, one.name, **changes)
    row = {"name": "gemm", "launch": 3, "duration_ns": 4e5, "unit": "tensor", "busy": 43.12, "cause": "copy cost"}
    store: Any = SimpleNamespace(
        state_of=lambda path: reading if state else None,
        find=lambda key, launch: SimpleNamespace(row=row),
        readings=lambda: [Reading(Path("/runs/a"), "shown", ids=("feed/7",))],
    )
    return tree(open_lists.added([one], store))


def test_each_state_of_an_added_file_is_said_with_what_comes_next() -> None:
    assert (
        "waits to be read" in kept("") and "waits to be read" in kept("queued") and "is being read" in kept("reading")
    )
    several = kept("shown", ids=tuple(f"abcd/{number}" for number in range(9)))
    assert several.count("/kernel/abcd/") == open_lists.LINKS and "6 more launches in the table" in several
    assert "launch 3, 400 µs, tensor busy 43.1 %, copy cost" in several
    assert "has no launches" in kept("shown")
    copy = kept("duplicate", twin="/runs/a")
    assert "Same content as /runs/a" in copy and "/kernel/feed/7" in copy
    damaged = kept("failed", failures=(Failure("x", "/cache/x.ncu-rep: truncated", "copy it again"),))
    assert "truncated" in damaged and "/cache/" not in damaged and "Remedy: copy it again" in damaged
    assert "Read again" in damaged and "Read again" not in several
    part = kept("shown", ids=("abcd/0",), failures=(Failure("x", "no cycles", ""),))
    assert "A launch could not be shown: no cycles" in part and "/kernel/abcd/0" in part


def test_a_file_that_is_still_coming_is_not_listed() -> None:
    one = Upload("ab12", "a.ncu-rep", 20, Path("/cache/x.part"), received=10)
    assert open_lists.added([one], SimpleNamespace()) == []


def test_reading_says_how_far_it_is_and_what_it_reads() -> None:
    readings = [Reading(Path(f"/runs/k/{number}"), "reading" if number < 5 else "queued") for number in range(9)]
    progress = Progress(done=2, total=9, launches=2, failures=0, finished=False, version=1)
    store: Any = SimpleNamespace(
        paths=[Path("/runs"), Path("/run")], readings=lambda: readings, progress=lambda: progress, watch=True
    )
    sent = tree(open_lists.watched(store))
    assert "2 of 9 reports read" in sent and "k/0, k/1, k/2" in sent and '"max": "9"' in sent
    assert sent.count('"children": "9"') == 1  # nothing of /runs lies in /run


def test_long_lists_are_cut_and_say_so() -> None:
    failures = [Failure(f"/runs/{number}", "damaged", "") for number in range(open_lists.LISTED + 7)]
    store: Any = SimpleNamespace(failures=lambda: failures, duplicates=lambda: failures[:2])
    sent = tree(open_lists.failed(store))
    assert "and 7 more" in sent and "2 copies" in sent and f"/runs/{open_lists.LISTED}" not in sent


def test_the_version_follows_the_store_and_the_uploads(store: ReportStore, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    uploads = Uploads(store)
    before = version(store, uploads)
    uploads.remove(uploads.admit("a", 9).id)
    assert version(store, uploads) != before and version(store, None)[0] == before[0]
    uploads.close()
