"""Which files were walked already: their frames, so that a large report is not hashed again each time it is opened.

A file counts as the one that was seen while device, inode, size and both time stamps are the same. A time stamp may be
as coarse as two seconds, so a file that changed less than ``SETTLED_S`` ago is not remembered at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ncubble.analysis.container import Frame, check_frame
from ncubble.analysis.home import root
from ncubble.errors import ReportError

SETTLED_S = 3.0
Signature = tuple[int, int, int, int, int]


def signature_of(path: Path) -> Signature:
    """Device, inode, size and time stamps (ns) of a file. Raises ReportError where it cannot be asked."""
    try:
        found = path.stat()
    except OSError as error:
        raise ReportError(f"{path}: cannot be read ({error.strerror or error})", "check the path") from error
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def frame_of(path: Path) -> tuple[Frame, Signature]:
    """The frame of the report at ``path`` and what its file looked like; raises ReportError as ``check_frame`` does."""
    signature = signature_of(path)
    memo = root() / "seen" / f"{hashlib.sha256(repr(signature[:2]).encode()).hexdigest()[:32]}.json"
    if known := _recall(memo, signature):
        return known, signature
    frame = check_frame(path)
    unchanged(path, signature)
    if time.time_ns() - max(signature[3:]) > SETTLED_S * 1e9:
        _remember(memo, signature, frame)
    return frame, signature


def unchanged(path: Path, signature: Signature) -> None:
    """Raises ReportError where the file is no longer the one with this signature."""
    if signature_of(path) != signature:
        raise ReportError(f"{path}: changed while it was being read", "repeat the command when it is written")


def _recall(memo: Path, signature: Signature) -> Frame | None:
    """What was written down for this very file; None where nothing or anything else was."""
    try:
        found = json.loads(memo.read_text(encoding="utf-8"))
        return Frame(**found["frame"]) if found["signature"] == list(signature) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(memo: Path, signature: Signature, frame: Frame) -> None:
    """Write down, whole or not at all. Without a cache that can be written, files are walked each time."""
    with suppress(OSError):
        memo.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=".", dir=memo.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"signature": signature, "frame": asdict(frame)}, file)
        Path(draft).replace(memo)
