"""Which files were walked already: their frames, so that a large report is not hashed again each
time it is opened.

A file counts as the one that was seen while device, inode, size and both time stamps are the same.
A time stamp may be as coarse as two seconds, so a file that changed less than ``SETTLED_S`` ago is
not remembered at all.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from pathlib import Path

from ncubble.analysis.report.container import Frame, check_frame
from ncubble.errors import ReportError
from ncubble.store import cache_root, recall, remember

SETTLED_S = 3.0
Signature = tuple[int, int, int, int, int]


def signature_of(path: Path) -> Signature:
    """Device, inode, size and time stamps (ns) of a file. Raises ReportError where it cannot be
    asked."""
    try:
        status = path.stat()
    except OSError as error:
        raise ReportError(f"{path}: cannot be read ({error.strerror or error})", "check the path") from error
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def frame_of(path: Path) -> tuple[Frame, Signature]:
    """The frame of the report at ``path`` and what its file looked like; raises ReportError as
    ``check_frame`` does."""
    signature = signature_of(path)
    key = f"{_walk()} {signature[:2]} {path.suffix}"
    place = cache_root() / "seen" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    known = recall(place)
    if known and known["signature"] == list(signature):
        return Frame(**known["frame"]), signature
    frame = check_frame(path)
    unchanged(path, signature)
    if time.time_ns() - max(signature[3:]) > SETTLED_S * 1e9:
        remember(place, {"signature": signature, "frame": asdict(frame)})
    return frame, signature


@cache
def _walk() -> str:
    """A hash of how files are walked: what was seen in another way is looked at again."""
    code = [files("ncubble.analysis.report") / name for name in ("container.py", "messages.py")]
    return hashlib.sha256(b"".join(module.read_bytes() for module in code)).hexdigest()


def unchanged(path: Path, signature: Signature) -> None:
    """Raises ReportError where the file is no longer the one with this signature."""
    if signature_of(path) != signature:
        raise ReportError(f"{path}: changed while it was being read", "repeat the command when the file is complete")
