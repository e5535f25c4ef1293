"""What ncubble says of every shipped recording, written into files so that two versions can be compared.

    python -m benchmarks.goldens write FOLDER [REGEX]   # a quarter of an hour; FOLDER must not exist
    python -m benchmarks.goldens compare OLD NEW        # exit code 1 where they differ, with the differing lines

With REGEX, only files whose name (``report/h200-gemm_tma``) matches are written, and only those are compared.
JSON is printed one value a line with sorted keys and six significant digits; of exported pages, the text that a reader
sees and the data of the figures. Caches are made anew, so that nothing of another version is compared with itself.
"""

from __future__ import annotations

import difflib
import json
import multiprocessing
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("recordings/h200", "recordings/h200-full", "recordings/h100-program", "recordings/validation/diagnosis")
"""Recordings whose pages are exported, one file a folder of theirs."""
VALIDATIONS = ("account", "diagnosis", "prediction", "truth")
MOST_LINES = 40
"""Differing lines of a file that ``compare`` prints."""
MARKS = ("---", "+++")
Job = tuple[str, list[str]]
"""Name of the file, and the arguments of ``ncubble``; where these name ``{out}``, the page is kept, else the output."""


def jobs() -> Iterator[Job]:
    """All commands whose answers are kept."""
    os.chdir(ROOT)
    runs = sorted({str(path.parent) for path in Path("recordings").rglob("*.ncu-repz")})
    folders: dict[str, list[str]] = {}
    for run in runs:
        folders.setdefault("/".join(Path(run).parts[:3]), []).append(run)
    for folder, held in folders.items():
        name = folder.removeprefix("recordings/").replace("/", "-")
        yield f"report/{name}", ["report", folder, "--json"]
        check = ["check", folder, "--allow-new", "--baseline", "baselines", "--no-history", "--no-config", "--json"]
        yield f"check/{name}", check
        if 1 < len(held) <= 8:
            yield f"compare/{name}", ["compare", *held, "--json"]
        if any(folder.startswith(f"{place}/") for place in PAGES):
            yield f"page/{name}", ["export", folder, "-o", "{out}"]
            if 1 < len(held) <= 8:
                yield f"page/{name}-compared", ["export", *held, "--compare", "-o", "{out}"]
    for run in runs:
        name = run.removeprefix("recordings/").replace("/", "-")
        yield f"depths/{name}", ["report", run, "--depths", "--limit", "1", "--json"]
        yield f"explain/{name}", ["report", run, "--explain", "--limit", "3"]
    for path in sorted(Path("recordings").rglob("lanes.parquet")):
        run, name = str(path.parent), path.parent.name
        command = "trace" if name.startswith("trace") else "streams"
        yield f"{command}/{path.parent.parent.name}-{name}", [command, run, "--json"]
    yield "program/train", ["program", "recordings/h100-program/train", "--json"]
    yield "report/h200-lanes", ["report", "recordings/h200-lanes", "--json"]
    yield "trend/h200-checks", ["trend", "recordings/h200-checks", "--all", "--json"]
    for name in VALIDATIONS:
        yield f"validate/{name}", ["validate", name, "--json"]  # of benchmarks/validation


def write(folder: Path, pattern: str = "") -> int:
    """Write a file below ``folder`` for each of ``jobs`` whose name matches ``pattern``.

    Returns how many commands ended unexpectedly.
    """
    folder.mkdir(parents=True)
    todo = sorted(
        (job for job in jobs() if re.search(pattern, job[0])),
        key=lambda job: job[0].split("/")[0] not in ("validate", "page"),
    )  # the longest first
    failed = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NCUBBLE_CACHE"], os.environ["COLUMNS"] = cache, "120"
        # Not ProcessPoolExecutor: with Python 3.11 it hangs once its processes have done their number of tasks.
        with multiprocessing.get_context("spawn").Pool(maxtasksperchild=20) as pool:
            for name, text in pool.imap(answer, todo):
                path = folder / f"{name}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                if text.startswith("exit 4"):
                    failed += 1
                    print(f"{name}: {text.splitlines()[1:2]}", file=sys.stderr)
    print(f"{len(todo)} files in {folder}, {failed} of them of commands that failed")
    return failed


def answer(job: Job) -> tuple[str, str]:
    """The name of a job, and its exit code with what it wrote."""
    from benchmarks.validation.__main__ import main as validate
    from ncubble.cli.main import main

    name, argv = job
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        out, err, code = StringIO(), StringIO(), 0
        try:
            with redirect_stdout(out), redirect_stderr(err):
                if argv[0] == "validate":
                    code = validate(argv[1:])
                else:
                    main([text.replace("{out}", str(page)) for text in argv])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        except BaseException as error:
            return name, f"exit 4\n{type(error).__name__}: {error}\n{err.getvalue()}"
        text = out.getvalue()
        if page.is_file():
            text = page_text(page.read_text(encoding="utf-8"))
        elif "--json" in argv:
            with suppress(ValueError):
                text = json_lines(json.loads(text))
        return name, f"exit {code}\n{text}\n{err.getvalue() if code else ''}"


def rounded(value: Any) -> Any:
    """``value`` with six significant digits in each float."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def json_lines(value: Any) -> str:
    """``value`` as JSON, one value a line."""
    return json.dumps(rounded(value), indent=1, sort_keys=True, ensure_ascii=False)


class _Page(HTMLParser):
    """Collects the visible text of a page and the data of its figures."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.inside: tuple[str, bool] = ("", False)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self.inside = tag, ("type", "application/json") in attrs and not any(key == "id" for key, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == self.inside[0]:
            self.inside = "", False

    def handle_data(self, data: str) -> None:
        tag, figure = self.inside
        if figure:
            traces = json.loads(data)["data"]
            self.lines.extend(json.dumps(rounded(trace), sort_keys=True, ensure_ascii=False) for trace in traces)
        elif not tag and (text := " ".join(data.split())):
            self.lines.append(text)


def page_text(html: str) -> str:
    """What a reader sees of an exported page."""
    page = _Page()
    page.feed(html)
    return "\n".join(page.lines)


def compare(old: Path, new: Path) -> int:
    """Print the lines that differ; returns how many files do. A file that only ``old`` has was not asked for."""
    names = sorted(path.relative_to(new) for path in new.rglob("*.txt"))
    differing = 0
    for name in names:
        before, after = (
            (folder / name).read_text(encoding="utf-8").splitlines() if (folder / name).is_file() else []
            for folder in (old, new)
        )
        if before == after:
            continue
        differing += 1
        lines = [
            line
            for line in difflib.unified_diff(before, after, lineterm="", n=0)
            if line[:3] not in MARKS and line[0] != "@"
        ]
        print(f"== {name}: {len(lines)} lines")
        print("\n".join(line[:200] for line in lines[:MOST_LINES]))
    print(f"{differing} of {len(names)} files differ")
    return differing


def main(argv: list[str]) -> int:
    """The command line: 0, or 1 where a command failed or files differ."""
    if len(argv) in (2, 3) and argv[0] == "write" and not Path(argv[1]).exists():
        return int(write(Path(argv[1]).absolute(), *argv[2:]) > 0)
    if len(argv) == 3 and argv[0] == "compare":
        return int(compare(Path(argv[1]), Path(argv[2])) > 0)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
