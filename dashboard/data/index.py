"""The rows of the last visit, so that a folder of ten thousand launches is shown before any of its
reports is opened.

One file per set of roots in the cache. It holds the rows of reports that were read without a
failure, as columns, under what the files looked like then and a hash of everything that rows follow
from; whatever is not the same any more is read again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

import orjson
import pyarrow as pa

from ncubble.analysis.ablation.result import FILE as ABLATION
from ncubble.analysis.ablation.result import REPORT_STEM
from ncubble.analysis.diagnosis.results import rules_hash, sources_hash
from ncubble.analysis.launches.table import LaunchRows
from ncubble.dashboard.data.utf8 import utf8
from ncubble.profiling.runs import MANIFEST, SUFFIXES
from ncubble.store import cache_root, write_private

Signature = tuple[int, ...]
ROWS = "ncubble.dashboard.data"
"""The package that makes rows, beside the rules of the analysis."""


@dataclass(frozen=True)
class Known:
    """What was read of one report: ``rows`` of its launches, and sentences about contradictions by
    launch."""

    key: str
    signature: Signature
    rows: LaunchRows
    doubts: Mapping[str, str]


def signature_of(path: Path) -> Signature:
    """Size, time stamps (ns) and inode of the report, the manifest and the ablation at ``path``;
    empty where there is no report."""
    facts: list[int] = []
    for suffix in ("", *(f"/report{suffix}" for suffix in SUFFIXES), f"/{MANIFEST}", f"/{ABLATION}"):
        with suppress(OSError, ValueError):
            status = os.stat(f"{path}{suffix}")  # noqa: PTH116 - a Path for each costs as much as the call
            if suffix or not _is_folder(status):
                facts += (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    if facts and path.stem == REPORT_STEM:  # a bare report may have these beside it
        for name in (MANIFEST, ABLATION):
            with suppress(OSError):
                beside = (path.parent / name).stat()
                facts += (beside.st_size, beside.st_mtime_ns)
    return tuple(facts)


def _is_folder(status: os.stat_result) -> bool:
    return status.st_mode & 0o170000 == 0o040000


def recall(file: Path) -> dict[Path, Known]:
    """What was known of the reports below some roots, whose ``index_file`` this is; nothing where
    that was never written, or follows other rules."""
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, pa.ArrowException):
        digest, _, body = file.read_bytes().partition(b"\n")
        if digest.decode() != hashlib.sha256(body).hexdigest():
            return {}
        line, _, blocks = body.partition(b"\n")
        del body
        head = orjson.loads(line)
        if head["rules"] == _rules():
            rows = LaunchRows(pa.ipc.open_stream(blocks).read_all())
            return {Path(path): _known(rows, *members) for path, *members in head["reports"]}
    return {}


def _known(
    rows: LaunchRows, start: int, end: int, key: str, signature: Sequence[int], doubts: Mapping[str, str]
) -> Known:
    return Known(key, tuple(signature), rows[start:end], doubts)


def remember(file: Path, known: Mapping[Path, Known]) -> dict[Path, Known]:
    """Write down what is known in the ``index_file`` of the roots, and return the same with its
    rows packed. Where the cache cannot be written, nothing is remembered."""
    rows = LaunchRows.joined([entry.rows for entry in known.values()])
    ends = accumulate(len(entry.rows) for entry in known.values())
    reports = {
        path: (end - len(entry.rows), end, entry.key, entry.signature, entry.doubts)
        for (path, entry), end in zip(known.items(), ends, strict=True)
    }
    # The name of a file may be any bytes; such a one is read at each visit.
    named = [(str(path), *members) for path, members in reports.items() if str(path) == utf8(str(path))]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.table.schema) as stream:
        stream.write_table(rows.table)
    blocks = sink.getvalue().to_pybytes()
    body = orjson.dumps({"rules": _rules(), "reports": named}) + b"\n" + blocks
    with suppress(OSError):
        write_private(file, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    return {path: _known(rows, *members) for path, members in reports.items()}


def index_file(roots: Iterable[Path]) -> Path:
    """Where in the cache it is written what is known of the reports below ``roots``."""
    named: Sequence[str] = sorted({str(path.absolute()) for path in roots})
    return cache_root() / "index" / f"{hashlib.sha256(os.fsencode(chr(0).join(named))).hexdigest()[:32]}.rows"


@cache
def _rules() -> str:
    """A hash over everything that turns reports into rows."""
    return hashlib.sha256((rules_hash() + sources_hash(ROWS)).encode()).hexdigest()
