"""The worker process that reads reports: it may crash, hang or run out of memory (see ``workers``).

``python -m ncubble.analysis.report.native`` reads one JSON object per line from stdin: {"path",
"parts": [name], "announced": how many launches the container announces, "first", "last": those
wanted, "series": pattern of the names of series, "out": directory, "time_limit_s": after which the
process ends itself, should nobody be left to end it}. It writes the raw tables of each part
(``columns.TABLES``) as drafts into ``out/PART`` and answers with one JSON object per line: {"ok":
true}, {"error": text} where the report is at fault, {"disk": text} where ``out`` could not be
written, or {"broken": text} where the native reader itself is not there. With "spent": true the
process has grown so much that the next report had better be read by a fresh one.

It imports little: whoever asks waits for its start.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ncubble.analysis.report.columns import TABLES, write_draft
from ncubble.analysis.report.raw import Tables, extract
from ncubble.profiling.processes import answer_requests, limit_memory

MEMORY_LIMIT_B = 8 << 30
SPENT_B = 1 << 30


def write(tables: Tables, part: str, out: Path) -> None:
    """Write the tables of one part as ``out/PART/TABLE.draft``."""
    (out / part).mkdir()
    for name in TABLES[part]:
        write_draft(tables[name], out / part / f"{name}.draft")


@contextmanager
def readable(path: Path, out: Path) -> Iterator[str]:
    """``path`` as the native reader can open it: by a name in UTF-8, and uncompressed.

    The reader itself unpacks ``.ncu-repz`` into /tmp and, where that is full, returns launches
    without names.
    """
    plain = out / "input.ncu-rep"
    try:
        if path.suffix == ".ncu-repz":
            import zstandard

            with _opened(path) as source, plain.open("wb") as sink:
                zstandard.ZstdDecompressor().copy_stream(source, sink)
        else:
            plain.symlink_to(path.absolute())
            _opened(plain).close()
        yield str(plain)
    finally:
        plain.unlink(missing_ok=True)


def _opened(path: Path) -> BinaryIO:
    """The report, open; ValueError where it has vanished since it was checked: that is no fault of
    ``out``."""
    try:
        return path.open("rb")
    except OSError as error:
        raise ValueError(f"can no longer be read ({error.strerror})") from error


def _serve(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request; ``out`` is made if need be."""
    out = Path(request["out"])
    try:
        out.mkdir(parents=True, exist_ok=True)
        with readable(Path(request["path"]), out) as plain:
            wanted = (request[name] for name in ("parts", "announced", "first", "last", "series"))
            tables = extract(plain, *wanted)
        for part in request["parts"]:
            write(tables, part, out)
    except OSError as error:
        return {"disk": error.strerror or str(error)}
    except (TypeError, UnicodeError) as error:  # what the reader's binding raises for names that are not UTF-8
        return {"error": f"contains text that is not UTF-8: the file is damaged ({error})"}
    except OverflowError:
        return {"error": "contains numbers out of range: the file is damaged"}
    except MemoryError:
        return {"error": f"needs more than {MEMORY_LIMIT_B >> 30} GiB of memory to read: probably damaged"}
    except Exception as error:
        return {"error": f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"}
    return {"ok": True}


def _import() -> str:
    """Import what reads; why that fails, or "" if it does not: no fault of any report."""
    try:
        import ncu_report  # noqa: F401
    except ImportError as error:
        return str(error)
    return ""


def _resident_b() -> int:
    """Memory that this process holds. Not its peak, which begins as that of the process that
    started it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def main() -> None:
    """Serve requests from stdin until it closes."""
    broken = _import()
    limit_memory(MEMORY_LIMIT_B)

    def answer(request: dict[str, Any], progress: Callable[[], None]) -> dict[str, Any]:
        signal.setitimer(signal.ITIMER_REAL, request["time_limit_s"])  # no handler: it also ends native code
        reply = {"broken": broken} if broken else _serve(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return {**reply, "spent": _resident_b() > SPENT_B}

    answer_requests(answer)


if __name__ == "__main__":
    main()
