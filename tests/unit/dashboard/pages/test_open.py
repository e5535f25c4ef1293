"""The Open page and its uploads: what the page says, what is taken from a browser, what is refused
and with which words, and what is left on the disk."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from ncubble.analysis.report.container import MAGIC, ZSTD_MAGIC
from ncubble.dashboard.app.serving import protect
from ncubble.dashboard.data.readings import Failure, Progress, Reading
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages import open as open_page
from ncubble.dashboard.pages import uploads
from ncubble.dashboard.pages.addresses import OpenAddress
from ncubble.dashboard.pages.open import layout, version
from ncubble.dashboard.pages.uploads import TOKEN, Upload, UploadError, Uploads
from ncubble.text.values import file_size
from tests.helpers import dashboard_frames as frames

REPORT = MAGIC + bytes(range(256)) * 4


@dataclass
class Taken:
    """Stands in for the store: what it was told to read and to forget."""

    added: list[tuple[Path, str]] = field(default_factory=list)
    dropped: list[Path] = field(default_factory=list)

    def add(self, path: Path, shown_as: str = "") -> None:
        self.added.append((path, shown_as))

    def drop(self, path: Path) -> None:
        self.dropped.append(path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store() -> Any:
    return Taken()


@pytest.fixture
def kept(cache: Path, store: Any) -> Any:
    """Uploads of up to 4,000 bytes, 3 files and 6,000 bytes in all."""
    made = Uploads(store)
    made.largest, made.most, made.total = 4000, 3, 6000
    yield made
    made.close()


def send(kept: Uploads, data: bytes, name: str = "a.ncu-rep") -> Upload:
    return kept.take(name, len(data), io.BytesIO(data))


def files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file() and path.name != "owner.json"]


def test_a_report_is_kept_for_this_user_alone_and_handed_to_the_store(kept: Uploads, store: Taken, cache: Path) -> None:
    one = send(kept, REPORT, "gemm.ncu-rep")
    assert store.added == [(one.path, "gemm.ncu-rep")] and kept.kept() == [one]
    assert one.path.read_bytes() == REPORT
    assert one.path.suffix == ".ncu-rep" and one.path.is_relative_to(cache)
    assert one.path.stat().st_mode & 0o077 == 0 and one.path.parent.parent.stat().st_mode & 0o077 == 0


def test_the_content_tells_the_kind_and_the_name_does_not(kept: Uploads) -> None:
    assert send(kept, ZSTD_MAGIC + b"x" * 99, "plain.ncu-rep").path.suffix == ".ncu-repz"
    assert send(kept, MAGIC, "notes.txt").path.suffix == ".ncu-rep"


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"NVIDIA Tegra Profiler Report", "Nsight Systems"),
        (b"SQLite format 3\0", "SQLite"),
        (b"PK\x03\x04", "zip"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"version https://git-lfs.github.com", "Git LFS"),
        (b'{"schema": 1}', "JSON"),
        (b"<!DOCTYPE html>", "markup"),
        (b"hello", "not a report of Nsight Compute"),
    ],
)
def test_what_is_no_report_is_named_and_nothing_of_it_is_kept(
    kept: Uploads, store: Taken, cache: Path, head: bytes, said: str
) -> None:
    for content in (head, head.ljust(900, b"\0")):
        with pytest.raises(UploadError, match=said) as refused:
            send(kept, content)
        assert refused.value.status == 415 and refused.value.remedy
    assert kept.kept() == [] and store.added == [] and files(cache) == []


@pytest.mark.parametrize(("size", "status", "said"), [(0, 422, "empty"), (-4, 422, "empty"), (4001, 413, "too large")])
def test_the_size_is_judged_before_anything_is_read(kept: Uploads, size: int, status: int, said: str) -> None:
    for judge in (kept.check, lambda size: kept.take("a", size, None)):
        with pytest.raises(UploadError, match=said) as refused:
            judge(size)
        assert refused.value.status == status and refused.value.remedy


def test_a_file_too_many_and_a_byte_too_much_are_refused_until_there_is_room(kept: Uploads) -> None:
    first = send(kept, MAGIC.ljust(4000))
    with pytest.raises(UploadError, match="too much"):
        kept.check(2001)
    send(kept, MAGIC.ljust(1000))
    send(kept, MAGIC.ljust(1000))
    with pytest.raises(UploadError, match="too many"):
        kept.check(1)
    kept.remove(first.id)
    kept.check(4000)


def test_a_file_counts_while_it_comes(kept: Uploads) -> None:
    class Meanwhile(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            with pytest.raises(UploadError, match="too much"):
                kept.check(2001)
            assert kept.kept() == []
            return super().read(size)

    kept.take("a", 4000, Meanwhile(MAGIC.ljust(4000)))


def test_a_full_disk_is_said_before_and_while_a_file_is_written(
    kept: Uploads, store: Taken, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UploadError, match="No space left") as refused:
        kept.take("a", 100, Full())
    assert refused.value.status == 507 and files(cache) == [] and kept.kept() == [] and store.added == []
    monkeypatch.setattr(uploads, "SPARE_B", 1 << 62)
    with pytest.raises(UploadError, match="not enough disk space"):
        kept.check(100)


def test_of_a_file_that_was_cut_off_nothing_is_kept(kept: Uploads, store: Taken, cache: Path) -> None:
    with pytest.raises(UploadError, match="cut off"):
        kept.take("a", len(REPORT) + 1, io.BytesIO(REPORT))
    assert files(cache) == [] and store.added == [] and kept.kept() == []


def test_a_removed_file_is_forgotten_by_the_store(kept: Uploads, store: Taken, cache: Path) -> None:
    one = send(kept, REPORT)
    kept.remove(one.id)
    kept.remove(one.id)
    assert store.dropped == [one.path] and files(cache) == []


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\runs\\a.ncu-rep", "a.ncu-rep"),
        ("a\nb\x1b[31m\0.ncu-rep", "a�b�[31m�.ncu-rep"),
        ("gpu\u202eper-ucn", "gpu�per-ucn"),
        ("", "unnamed report"),
        ("x" * 900, "x" * uploads.LONGEST_NAME + "…"),
        ("<b>&amp;", "<b>&amp;"),
    ],
)
def test_names_are_shown_and_never_used(kept: Uploads, cache: Path, given: str, shown: str) -> None:
    one = send(kept, REPORT, given)
    assert one.name == shown
    assert len(one.path.stem) == 16 and set(one.path.stem) <= set("0123456789abcdef")
    assert files(cache) == [one.path]


def test_the_folder_ends_with_the_process_or_with_the_next_one(kept: Uploads, cache: Path) -> None:
    code = (
        "from ncubble.dashboard.pages.uploads import Uploads; import io, os, types; "
        "store = types.SimpleNamespace(add=lambda path, shown_as: None); "
        "print(Uploads(store).take('a', 9, io.BytesIO(b'NVR\\0hello')).path, flush=True); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert done.returncode == 9 and left.is_file() and left.is_relative_to(cache), done.stderr
    mine = send(kept, REPORT)
    assert not left.exists() and mine.path.is_file()
    kept.close()
    assert files(cache) == []


def test_uploads_lie_elsewhere_where_the_cache_cannot_be_written(
    tmp_path: Path, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "temp").mkdir()
    monkeypatch.setenv("NCUBBLE_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    made = Uploads(store)
    assert send(made, REPORT).path.is_relative_to(tmp_path / "temp")
    made.close()
    assert list((tmp_path / "temp").iterdir()) == []


@pytest.fixture
def client(kept: Uploads) -> FlaskClient:
    server = Flask("test")
    uploads.register(server, kept)
    protect(server, "default-src 'none'", ["localhost"], lambda path: True)
    return server.test_client()


def test_a_browser_adds_a_file_and_removes_it(client: FlaskClient, kept: Uploads, store: Taken) -> None:
    settings = client.get(f"/upload?size={len(REPORT)}")
    assert settings.headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in settings.headers
    assert settings.json.keys() == {"token"}
    own = {TOKEN: settings.json["token"], "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    added = client.post("/upload?name=a%26b.ncu-rep", data=REPORT, headers=own)
    assert added.status_code == 201 and [name for _, name in store.added] == ["a&b.ncu-rep"]
    assert client.delete(f"/upload/{added.json['id']}", headers=own).status_code == 200 and kept.kept() == []


def test_what_speaks_against_a_file_is_said_before_it_is_sent(client: FlaskClient) -> None:
    said = client.get("/upload?size=4001").json
    assert "too large" in said["error"] and "--upload-limit" in said["remedy"]
    for size in ("x", "", "1e9", "9" * 400):
        assert client.get(f"/upload?size={size}").status_code == 200


@pytest.mark.parametrize(("method", "place"), [("post", "/upload?name=a"), ("delete", "/upload/{}")])
@pytest.mark.parametrize("token", [None, "", "wrong", "\xfc"])
def test_nothing_is_taken_or_removed_without_the_token(
    client: FlaskClient, kept: Uploads, method: str, place: str, token: str | None
) -> None:
    one = send(kept, REPORT)
    answer = getattr(client, method)(place.format(one.id), data=REPORT, headers={} if token is None else {TOKEN: token})
    assert answer.status_code == 403 and "token" in answer.json["error"]
    assert kept.kept() == [one]


@pytest.mark.parametrize(
    "from_afar",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"},
    ],
)
def test_other_origins_are_refused_even_with_the_token(
    client: FlaskClient, kept: Uploads, from_afar: dict[str, str]
) -> None:
    answer = client.post("/upload?name=a", data=REPORT, headers={TOKEN: kept.token, **from_afar})
    assert answer.status_code == 403 and kept.kept() == []


def test_a_request_without_or_beyond_the_limit_of_length_is_refused(client: FlaskClient, kept: Uploads) -> None:
    headers = {TOKEN: kept.token}
    assert client.post("/upload?name=a", headers=headers, data=MAGIC.ljust(4001)).status_code == 413
    assert client.post("/upload?name=a", headers=headers).status_code == 411
    assert kept.kept() == []


@pytest.mark.parametrize("key", ["..%2f..%2fetc%2fpasswd", "../upload", "%00", "owner.json", "0" * 16])
def test_an_upload_is_found_by_its_id_and_by_nothing_else(client: FlaskClient, kept: Uploads, key: str) -> None:
    send(kept, REPORT)
    answer = client.delete(f"/upload/{key}", headers={TOKEN: kept.token})
    assert answer.status_code in (200, 404, 405) and len(kept.kept()) == 1


def test_a_server_that_takes_no_files_says_so(cache: Path, store: Any) -> None:
    with pytest.raises(UploadError, match="does not accept files") as refused:
        Uploads(store, 0).check(1)
    assert refused.value.status == 403


def test_sizes_are_said_in_the_units_of_file_managers() -> None:
    said = [file_size(size) for size in (0, 12, 4200, 12_500_000, 4_000_000_000)]
    assert said == ["0 B", "12 B", "4.2 kB", "12.5 MB", "4 GB"]
    large = Uploads(Taken(), 9000)
    assert (large.largest, large.most, large.total) == (9_000_000_000, 64, 9_000_000_000)


@pytest.fixture
def reports(tmp_path: Path) -> ReportStore:
    return frames.store(tmp_path)


def shown(store: Any, upload_mb: int) -> str:
    server = Flask("test")
    uploads.register(server, Uploads(store, upload_mb))
    with server.app_context():
        return frames.sent(layout(store, OpenAddress()))


def test_the_limits_are_said_where_files_are_dropped(reports: ReportStore) -> None:
    sent = shown(reports, 300)
    assert "up to 300 MB each" in sent and "at most 64 files and 4 GB" in sent and "open-choose" in sent


def test_a_server_that_takes_no_files_says_what_to_do(reports: ReportStore) -> None:
    for sent in (shown(reports, 0), frames.sent(layout(reports, OpenAddress()))):
        assert (
            "does not accept files" in sent and "ncubble dashboard FILE_OR_FOLDER" in sent and "open-choose" not in sent
        )


def test_roots_failures_and_reasons_are_listed(reports: ReportStore, tmp_path: Path) -> None:
    sent = frames.sent(layout(reports, OpenAddress()))
    for path in reports.paths:
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
    line = open_page._root(Path(root), [Reading(Path(read), "shown", ids=("feed/7",))])
    assert line[1:] == [count, count, "0"] and str(Path(root)) in frames.sent(line[0])


def listed(state: str, **changes: Any) -> str:
    """The card of one added file in this state."""
    one = Upload("ab12", f"{frames.HOSTILE}.ncu-rep", 2_000_000, Path("/cache/x.ncu-rep"), complete=True)
    reading = Reading(one.path, state, one.name, **changes)
    row = {"name": "gemm", "launch": 3, "duration_ns": 4e5, "unit": "tensor", "busy": 43.12, "cause": "copy cost"}
    store: Any = SimpleNamespace(
        state_of=lambda path: reading if state else None,
        find=lambda key, launch: SimpleNamespace(row=row),
        readings=lambda: [Reading(Path("/runs/a"), "shown", ids=("feed/7",))],
    )
    return frames.sent(open_page.added([one], store))


def test_each_state_of_an_added_file_is_said_with_what_comes_next() -> None:
    assert "waits to be read" in listed("") and "waits to be read" in listed("queued")
    assert "is being read" in listed("reading")
    several = listed("shown", ids=tuple(f"abcd/{number}" for number in range(9)))
    assert several.count("/kernel/abcd/") == open_page.LINKS and "6 more launches in the table" in several
    assert "launch 3, 400 µs, tensor busy 43.1 %, copy cost" in several
    assert "has no launches" in listed("shown")
    copy = listed("duplicate", twin="/runs/a")
    assert "Same content as /runs/a" in copy and "/kernel/feed/7" in copy
    damaged = listed("failed", failures=(Failure("x", "truncated", "copy it again"),))
    assert "truncated" in damaged and "Remedy: copy it again" in damaged
    part = listed("shown", ids=("abcd/0",), failures=(Failure("x", "no cycles", ""),))
    assert "A launch could not be shown: no cycles" in part and "/kernel/abcd/0" in part


def test_reading_says_how_far_it_is_and_what_it_reads() -> None:
    readings = [Reading(Path(f"/runs/k/{number}"), "reading" if number < 5 else "queued") for number in range(9)]
    progress = Progress(done=2, total=9, launches=2, failures=0, finished=False, version=1)
    store: Any = SimpleNamespace(
        paths=[Path("/runs"), Path("/run")], readings=lambda: readings, progress=lambda: progress, watch=True
    )
    sent = frames.sent(open_page.watched(store))
    assert "2 of 9 reports read" in sent and "k/0, k/1, k/2" in sent and '"max": "9"' in sent
    assert sent.count('"children": "9"') == 1  # nothing of /runs lies in /run


def test_the_version_follows_the_store_and_the_uploads(reports: ReportStore, kept: Uploads) -> None:
    before = version(reports, kept)
    kept.remove(send(kept, REPORT).id)
    assert version(reports, kept) != before and version(reports, None)[0] == before[0]
