"""Files from the browser: what is taken, what is refused and with which words, and what is left on
the disk."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from ncubble.analysis.report.container import MAGIC, ZSTD_MAGIC
from ncubble.dashboard.app.security import LARGEST_BODY_B, protect
from ncubble.dashboard.pages.open import routes as upload_routes
from ncubble.dashboard.pages.open import uploads
from ncubble.dashboard.pages.open.limits import UploadError, UploadLimits, megabytes
from ncubble.dashboard.pages.open.routes import OFFSET, TOKEN
from ncubble.dashboard.pages.open.uploads import PIECE_B, Upload, Uploads

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
def store() -> Taken:
    return Taken()


@pytest.fixture
def kept(cache: Path, store: Taken) -> Any:
    made = Uploads(store, UploadLimits(file_bytes=4000, files=3, total_bytes=6000))
    yield made
    made.close()


def send(kept: Uploads, data: bytes, name: str = "a.ncu-rep", piece: int = 1 << 20) -> Upload:
    """What the browser does: announce, then piece after piece."""
    one = kept.admit(name, len(data))
    for start in range(0, len(data), piece):
        part = data[start : start + piece]
        kept.take(one.id, start, len(part), io.BytesIO(part))
    return one


def files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file() and path.name != "owner.json"]


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_report_arrives_whole_whatever_its_pieces(kept: Uploads, store: Taken, cache: Path, piece: int) -> None:
    one = send(kept, REPORT[:300], "gemm.ncu-rep", piece)
    assert store.added == [(one.path, "gemm.ncu-rep")]
    assert one.path.read_bytes() == REPORT[:300]
    assert one.path.suffix == ".ncu-rep" and one.path.is_relative_to(cache)
    assert one.path.stat().st_mode & 0o077 == 0 and one.path.parent.parent.stat().st_mode & 0o077 == 0


def test_the_content_tells_the_kind_and_the_name_does_not(kept: Uploads) -> None:
    assert send(kept, ZSTD_MAGIC + b"x" * 99, "plain.ncu-rep").path.suffix == ".ncu-repz"
    assert send(kept, REPORT, "notes.txt").path.suffix == ".ncu-rep"


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
    with pytest.raises(UploadError, match=said) as refused:
        send(kept, head.ljust(900, b"\0"), piece=100)
    assert refused.value.status == 415 and refused.value.remedy
    assert kept.kept() == [] and store.added == [] and files(cache) == []


def test_a_short_file_is_looked_at_when_it_is_complete(kept: Uploads) -> None:
    with pytest.raises(UploadError, match="not a report"):
        send(kept, b"abc", piece=1)
    assert send(kept, MAGIC, piece=1).complete


@pytest.mark.parametrize(("size", "status", "said"), [(0, 422, "empty"), (-4, 422, "empty"), (4001, 413, "too large")])
def test_the_size_is_judged_before_anything_is_sent(kept: Uploads, size: int, status: int, said: str) -> None:
    with pytest.raises(UploadError, match=said) as refused:
        kept.admit("a", size)
    assert refused.value.status == status and refused.value.remedy


def test_a_file_too_many_and_a_byte_too_much_are_refused_until_there_is_room(kept: Uploads) -> None:
    first = kept.admit("a", 4000)
    with pytest.raises(UploadError, match="too much"):
        kept.admit("b", 2001)
    kept.admit("b", 1000)
    kept.admit("c", 1000)
    kept.remove(first.id)
    kept.admit("d", 1)
    with pytest.raises(UploadError, match="too many"):
        kept.admit("e", 1)


def test_a_full_disk_is_said_before_and_while_a_file_is_written(
    kept: Uploads, store: Taken, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    one = kept.admit("a", 100)
    with pytest.raises(UploadError, match="No space left") as refused:
        kept.take(one.id, 0, 100, Full())
    assert refused.value.status == 507 and files(cache) == [] and kept.kept() == []
    monkeypatch.setattr(uploads, "SPARE_B", 1 << 62)
    with pytest.raises(UploadError, match="not enough disk space"):
        kept.admit("a", 100)


def test_a_piece_that_was_cut_off_is_sent_again(kept: Uploads) -> None:
    one = kept.admit("a", len(REPORT))
    kept.take(one.id, 0, 100, io.BytesIO(REPORT[:100]))
    with pytest.raises(UploadError, match="incomplete") as refused:
        kept.take(one.id, 100, 500, io.BytesIO(REPORT[100:400]))
    assert refused.value.received == 100
    kept.take(one.id, 100, len(REPORT) - 100, io.BytesIO(REPORT[100:]))
    assert one.path.read_bytes() == REPORT


@pytest.mark.parametrize(
    ("offset", "length", "status"), [(50, 10, 409), (200, 10, 409), (100, 9999, 413), (100, 0, 413), (100, -1, 413)]
)
def test_a_piece_that_does_not_follow_is_refused_with_what_is_here(
    kept: Uploads, offset: int, length: int, status: int
) -> None:
    one = kept.admit("a", 1000)
    kept.take(one.id, 0, 100, io.BytesIO(REPORT[:100]))
    with pytest.raises(UploadError) as refused:
        kept.take(one.id, offset, length, io.BytesIO(b"x" * 10_000))
    assert (refused.value.status, refused.value.received) == (status, 100)
    assert one.path.stat().st_size == 100


def test_two_pieces_are_never_written_at_once(kept: Uploads) -> None:
    one = kept.admit("a", 200)

    class Meanwhile(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            with pytest.raises(UploadError) as refused:
                kept.take(one.id, 0, 100, io.BytesIO(REPORT[:100]))
            assert refused.value.status == 409
            return super().read(size)

    kept.take(one.id, 0, 100, Meanwhile(REPORT[:100]))


def test_a_file_that_is_removed_while_it_comes_leaves_nothing(kept: Uploads, store: Taken, cache: Path) -> None:
    one = kept.admit("a", 100)

    class Removing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            kept.remove(one.id)
            return super().read(size)

    with pytest.raises(UploadError) as refused:
        kept.take(one.id, 0, 100, Removing(REPORT[:100]))
    assert refused.value.status == 404 and store.added == [] and files(cache) == []


def test_what_was_given_up_makes_room(kept: Uploads, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.admit("a", 4000)
    monkeypatch.setattr(uploads, "STALE_S", -1.0)
    kept.admit("b", 4000)
    assert [one.name for one in kept.kept()] == ["b"] and len(files(cache)) == 1


def test_a_removed_file_is_forgotten_by_the_store(kept: Uploads, store: Taken, cache: Path) -> None:
    one = send(kept, REPORT)
    kept.again(one.id)
    assert len(store.added) == 2
    kept.remove(one.id)
    assert store.dropped == [one.path] and files(cache) == []


def test_a_file_that_is_removed_while_it_is_handed_over_leaves_no_entry(
    kept: Uploads, store: Taken, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []

    def add(path: Path, shown_as: str = "") -> None:
        kept.remove(kept.kept()[0].id)  # as another thread does between the renaming and this
        listed.append(path)

    monkeypatch.setattr(store, "add", add)
    monkeypatch.setattr(store, "drop", lambda path: path in listed and listed.remove(path))
    send(kept, REPORT)
    assert listed == [] and files(cache) == []


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


def test_the_folder_ends_with_the_process_or_with_the_next_one(kept: Uploads, cache: Path, store: Taken) -> None:
    code = (
        "from ncubble.dashboard.pages.open.uploads import Uploads; import os; "
        "one = Uploads(None).admit('a', 9); print(one.path, flush=True); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert done.returncode == 9 and left.is_file() and left.is_relative_to(cache), done.stderr
    mine = kept.admit("b", 9)
    assert not left.exists() and mine.path.is_file()
    kept.close()
    assert files(cache) == []


def test_uploads_lie_elsewhere_where_the_cache_cannot_be_written(
    tmp_path: Path, store: Taken, monkeypatch: pytest.MonkeyPatch
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
    upload_routes.register(server, kept)
    protect(server, "default-src 'none'", ["localhost"], lambda path: True)
    return server.test_client()


def test_a_browser_adds_a_file(client: FlaskClient, kept: Uploads, store: Taken) -> None:
    settings = client.get("/upload")
    assert settings.headers["Cache-Control"] == "no-store" and "Access-Control-Allow-Origin" not in settings.headers
    own = {TOKEN: settings.json["token"], "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    admitted = client.post("/upload", json={"name": "a.ncu-rep", "size": len(REPORT)}, headers=own)
    assert admitted.status_code == 201
    place = f"/upload/{admitted.json['id']}"
    assert client.patch(place, data=REPORT[:500], headers={**own, OFFSET: "0"}).json == {"received": 500}
    again = client.patch(place, data=REPORT[:500], headers={**own, OFFSET: "0"})
    assert again.status_code == 409 and again.json["received"] == 500
    assert client.patch(place, data=REPORT[500:], headers={**own, OFFSET: "500"}).status_code == 200
    assert [name for _, name in store.added] == ["a.ncu-rep"]
    assert client.post(place, headers=own).status_code == 200 and len(store.added) == 2
    assert client.delete(place, headers=own).status_code == 200 and kept.kept() == []


@pytest.mark.parametrize("method", ["post", "patch", "delete"])
@pytest.mark.parametrize("token", [None, "", "wrong", "\xfc"])
def test_nothing_is_taken_without_the_token(client: FlaskClient, kept: Uploads, method: str, token: str | None) -> None:
    one = kept.admit("a", 10)
    headers = {OFFSET: "0"} | ({TOKEN: token} if token is not None else {})
    for place in [f"/upload/{one.id}", "/upload"] if method == "post" else [f"/upload/{one.id}"]:
        answer = getattr(client, method)(place, data=MAGIC, headers=headers)
        assert answer.status_code == 403 and "token" in answer.json["error"]
    assert [(other.id, other.received) for other in kept.kept()] == [(one.id, 0)]


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
    headers = {TOKEN: kept.token, **from_afar}
    assert client.post("/upload", json={"name": "a", "size": 10}, headers=headers).status_code == 403
    assert kept.kept() == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"name": 1, "size": 2}', b'{"name": "a", "size": true}', b'{"name": "a", "size": 1e3}'],
)
def test_a_strange_announcement_is_refused(client: FlaskClient, kept: Uploads, body: bytes) -> None:
    headers = {TOKEN: kept.token, "Content-Type": "application/json"}
    assert client.post("/upload", data=body, headers=headers).status_code == 400
    long = client.post("/upload", data=b" " * (1 << 17), headers=headers)
    assert long.status_code == 413


def test_no_body_is_larger_than_what_any_request_may_have(client: FlaskClient, kept: Uploads) -> None:
    assert PIECE_B < LARGEST_BODY_B
    one = kept.admit("a", 4000)
    headers = {TOKEN: kept.token, OFFSET: "0", "Content-Length": str(LARGEST_BODY_B + 1)}
    assert client.patch(f"/upload/{one.id}", headers=headers, input_stream=io.BytesIO(b"")).status_code == 413
    missing = client.patch(f"/upload/{one.id}", data=MAGIC, headers={TOKEN: kept.token})
    assert missing.status_code == 411


@pytest.mark.parametrize("key", ["..%2f..%2fetc%2fpasswd", "../upload", "%00", "owner.json", "0" * 16])
def test_an_upload_is_found_by_its_id_and_by_nothing_else(client: FlaskClient, kept: Uploads, key: str) -> None:
    kept.admit("a", 4000)
    for method in (client.patch, client.post, client.delete):
        answer = method(f"/upload/{key}", data=MAGIC, headers={TOKEN: kept.token, OFFSET: "0"})
        assert answer.status_code in (200, 404, 405) and len(kept.kept()) == 1


def test_a_server_that_takes_no_files_says_so(cache: Path, store: Taken) -> None:
    off = Uploads(store, UploadLimits.of_megabytes(0))
    assert not off.allowed
    with pytest.raises(UploadError, match="does not accept files"):
        off.admit("a", 1)


def test_sizes_are_said_in_the_units_of_file_managers() -> None:
    said = [megabytes(size) for size in (0, 12, 4200, 12_500_000, 4_000_000_000)]
    assert said == ["0 kB", "1 kB", "4 kB", "12.5 MB", "4 GB"]
    assert UploadLimits.of_megabytes(9000) == UploadLimits(9_000_000_000, 64, 9_000_000_000)
