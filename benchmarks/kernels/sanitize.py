"""Runs every kernel of the catalog under compute-sanitizer, and keeps the summaries.

    python -m benchmarks.kernels.sanitize OUT.json [--only REGEX] [--jobs 8]
    python -m benchmarks.kernels.sanitize --write        # write docs/validation/sanitizer.md from its JSON

``memcheck`` finds accesses outside of what was allocated, ``racecheck`` accesses to shared memory
that no barrier orders. Each case is one launch, verified, of a small problem with remainders where
the kernel takes them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.command import REPOSITORY
from benchmarks.kernels.plan import SANITIZED, TWO_GPUS
from benchmarks.validation.planted import PLANTED

KEPT = REPOSITORY / "docs" / "validation" / "sanitizer.json"
PAGE = KEPT.with_suffix(".md")
TOOLS = ("memcheck", "racecheck")
SUMMARY = re.compile(r"========= (?:ERROR SUMMARY|RACECHECK SUMMARY): (.*)")
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Finding:
    """What one tool said of one case. ``clean`` also needs a verified result: exit code 0."""

    kernel: str
    arguments: str
    tool: str
    clean: bool
    summary: str
    device: str = ""  # where it is not that of the file


def check(kernel: str, arguments: str, tool: str) -> Finding:
    """One case under one tool."""
    argv = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", "ncubble.kernels"]
    catalog = ["--catalog", str(PLANTED)] if kernel.startswith("planted_") else []
    try:
        done = subprocess.run(
            [*argv, kernel, *arguments.split(), *catalog, "--once"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding(kernel, arguments, tool, False, f"not done within {TIMEOUT_S:.0f} s")
    said = SUMMARY.findall(done.stdout + done.stderr)
    last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["nothing was said"]
    clean = done.returncode == 0 and bool(said)
    if not clean:
        print(f"{tool} of {kernel} {arguments}:\n{done.stdout}{done.stderr}", flush=True)  # which accesses
    return Finding(kernel, arguments, tool, clean, said[-1] if said else last[0])


def _gpus() -> int:
    """GPUs that programs see here."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len(visible.split(","))
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return len(done.stdout.strip().splitlines())


def measure(out: Path, only: str, jobs: int) -> bool:
    """Checks the plan and adds it to ``out``; says whether all of it was clean."""
    chosen = [(kernel, arguments) for kernel, arguments in SANITIZED if re.search(only, f"{kernel} {arguments}")]
    if _gpus() < 2:
        for kernel, arguments in [case for case in chosen if case[0] in TWO_GPUS]:
            print(f"left out: {kernel} {arguments} needs two GPUs")
        chosen = [case for case in chosen if case[0] not in TWO_GPUS]
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(check, *case, tool) for case in chosen for tool in TOOLS]
        found = [item.result() for item in waiting]
    version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=True).stdout
    device = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[0]
    kept = {"device": device, "sanitizer": version.strip().splitlines()[-1], "findings": []}
    if out.is_file():
        kept = json.loads(out.read_text(encoding="utf-8"))
    elsewhere = "" if kept["device"] == device else device
    kept["findings"] = with_findings(kept["findings"], [asdict(item) | {"device": elsewhere} for item in found])
    out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for item in found:
        print(f"{'clean' if item.clean else 'FOUND'}  {item.tool:9}  {item.kernel} {item.arguments}: {item.summary}")
    return all(item.clean for item in found)


def with_findings(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """``old`` without cases that the plan has no more, and with ``new`` in the place of the same."""
    known = {(item["kernel"], item["arguments"], item["tool"]): item for item in (*old, *new)}
    return [item for key, item in known.items() if key[:2] in SANITIZED]


def page(kept: dict[str, Any]) -> str:
    """The Markdown page of a kept result: its cases by kernel, and what was not clean."""
    findings = [Finding(**item) for item in kept["findings"]]
    cases: dict[str, dict[str, None]] = {}
    for item in findings:
        mark = " \\*" if item.device else ""
        cases.setdefault(item.kernel, {})[f"`{item.arguments}`{mark}"] = None
    where = [kept["device"], *(f"\\*: {device}" for device in sorted({item.device for item in findings} - {""}))]
    dirty = [item for item in findings if not item.clean]
    lines = [
        "# The catalog under compute-sanitizer",
        "",
        f"{len(findings)} checks ({' and '.join(TOOLS)} of each case), {len(dirty)} of them not clean. "
        f"{'; '.join(where)}; {kept['sanitizer']}.",
        "Measured by `python -m benchmarks.kernels.sanitize docs/validation/sanitizer.json`, written by `--write`.",
        "",
        *(f"- {item.tool} of `{item.kernel} {item.arguments}`: {item.summary}" for item in dirty),
        "",
        "| kernel | cases |",
        "| --- | --- |",
        *(f"| `{kernel}` | {'; '.join(ran)} |" for kernel, ran in cases.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="The catalog under compute-sanitizer")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="regular expression over kernel and arguments")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.write:
        PAGE.write_text(page(json.loads(KEPT.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
    if given.out is None:
        parser.error("name the file to write, or --write")
    return 0 if measure(given.out, given.only, given.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
