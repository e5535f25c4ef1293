"""Whether two reports hold the same machine code of a kernel: then no difference between them is
the code's."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ncubble.analysis.report.launch import Launch
from ncubble.analysis.report.report import Report

_ADDRESS = re.compile(r"0x[0-9a-f]{9,}")
"""Branch targets depend on the load address; constants have at most eight digits."""


def codes(reports: Iterable[Report]) -> dict[str, set[str]]:
    """Hashes of the SASS by kernel (demangled name), of its first launch in each report; nothing
    for what was not collected."""
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for report in reports:
        first = report.launches.drop_duplicates("demangled")
        for launch, name in zip(first["launch"], first["demangled"], strict=True):
            code = code_of(report.launch(launch))
            if code:
                hashes[str(name)].add(code)
    return dict(hashes)


def code_of(launch: Launch) -> str:
    """Hash of the SASS of one launch; empty where it was not collected."""
    sass = launch.source["sass"].tolist()
    return code_hash(sass) if sass else ""


def code_hash(sass: Iterable[str]) -> str:
    """SHA-256 of instructions in the order of their address, wherever the code was loaded."""
    text = "\n".join(" ".join(line.split()) for line in sass)
    first = _ADDRESS.search(text)
    base = int(first[0], 16) if first else 0
    return hashlib.sha256(_ADDRESS.sub(lambda match: f"{int(match[0], 16) - base:+d}", text).encode()).hexdigest()


def same(before: Mapping[str, set[str]], now: Mapping[str, set[str]]) -> list[str]:
    """Kernels that both sides hold with the same code, each with one code only."""
    return [name for name, code in now.items() if len(code) == 1 and before.get(name) == code]
