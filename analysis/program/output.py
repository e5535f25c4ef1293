"""The account of a program as JSON and Markdown, and its rows as tables show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.program.account import (
    BETWEEN,
    INSIDE,
    KINDS,
    OTHER_WORK,
    TENSOR,
    UNPROFILED,
    KernelTime,
    PartTime,
    ProgramAccount,
)
from ncubble.analysis.program.opening import RecordedProgram
from ncubble.analysis.program.ranges import OUTSIDE
from ncubble.analysis.streams.causes import CAUSES
from ncubble.text.markup import code, escape
from ncubble.text.values import duration, number

SCHEMA = 1
MARK = "<!-- ncubble program -->"
NO_RANGE = "outside of all ranges"


class TimeRow(NamedTuple):
    """A row of kernels or ranges: percent of the span, and of it by kind. ``worst``: the part that
    costs most; ``launches`` is None for ranges."""

    name: str
    launches: int | None
    ns: float
    pct: float
    tensor: float
    work: float
    inside: float
    between: float
    unprofiled: float
    worst: str


def part_words(part: PartTime) -> str:
    """What a part is called."""
    if part.kind == BETWEEN:
        return CAUSES[part.name].title
    return PARTS[part.name].label if part.name in PARTS else KINDS[part.kind]


def part_fix(part: PartTime) -> str:
    """What helps against a part; empty for work."""
    if part.kind == BETWEEN:
        return CAUSES[part.name].remedy
    return PARTS[part.name].fix if part.name in PARTS else ""


def kernel_rows(account: ProgramAccount) -> list[TimeRow]:
    """A row for each kernel, most time first."""
    return [_row(account, account.title(kernel.kernel), kernel.launches, kernel.parts) for kernel in account.kernels]


def range_rows(account: ProgramAccount) -> list[TimeRow]:
    """A row for each NVTX path, most time first; none where no range was recorded."""
    if set(account.by_range) <= {OUTSIDE}:
        return []
    return [_row(account, path or NO_RANGE, None, parts) for path, parts in account.by_range.items()]


def rest_of(rows: Iterable[TimeRow]) -> TimeRow | None:
    """Several rows as one."""
    rows = list(rows)
    if not rows:
        return None
    launches = sum(row.launches or 0 for row in rows) if rows[0].launches is not None else None
    return TimeRow(
        name=f"{len(rows)} more",
        launches=launches,
        ns=sum(row.ns for row in rows),
        pct=sum(row.pct for row in rows),
        tensor=sum(row.tensor for row in rows),
        work=sum(row.work for row in rows),
        inside=sum(row.inside for row in rows),
        between=sum(row.between for row in rows),
        unprofiled=sum(row.unprofiled for row in rows),
        worst="",
    )


def _row(account: ProgramAccount, name: str, launches: int | None, parts: list[PartTime]) -> TimeRow:
    ns = sum(part.ns for part in parts)
    pct = {kind: sum(account.pct(part.ns) for part in parts if part.kind == kind) for kind in KINDS}
    lost = [part for part in parts if part.kind in (INSIDE, BETWEEN)]
    worst = max(lost, key=lambda part: part.ns, default=None)
    words = part_words(worst) if worst else ("not profiled" if pct[UNPROFILED] else "")
    figures = (pct[TENSOR], pct[OTHER_WORK], pct[INSIDE], pct[BETWEEN], pct[UNPROFILED])
    return TimeRow(name, launches, ns, account.pct(ns), *figures, words)


def as_json(shown: RecordedProgram) -> dict[str, Any]:
    """The object of ``ncubble program --json``. Times in us, shares in percent of the span."""
    record = shown.record
    return {
        "schema": SCHEMA,
        "run": str(shown.folder),
        "notes": list(shown.notes),
        "failed": record.failed or None,
        "recorded_s": record.recorded_s,
        "profiled_s": record.profiled_s,
        "selected": {"kernels": len(record.kernels), "invocation": record.invocation, "pct": record.covered_pct},
        "devices": [account_json(account) for account in shown.accounts],
    }


def account_json(account: ProgramAccount) -> dict[str, Any]:
    """One element of ``devices``. ``parts``, each list of ``ranges`` and ``kernels`` with the gaps
    and ``memory`` sum to the span."""
    span = account.span
    return {
        "process": account.process,
        "device": account.device,
        "span_us": span.ns / 1e3,
        "rule": span.rule,
        "repeats": span.steady.repeats if span.steady else None,
        "windows": len(span.windows),
        "excluded": [{"what": what, "us": ns / 1e3} for what, ns in span.excluded],
        "overlapped_us": account.overlapped_ns / 1e3,
        "profiled_pct": account.covered_pct,
        "kinds": {kind: account.pct(ns) for kind, ns in account.by_kind.items()},
        "parts": _parts_json(account, account.parts),
        "kernels": [_kernel_json(account, kernel) for kernel in account.kernels],
        "ranges": [
            {"range": path, "us": sum(part.ns for part in parts) / 1e3, "parts": _parts_json(account, parts)}
            for path, parts in account.by_range.items()
        ],
    }


def _parts_json(account: ProgramAccount, parts: Iterable[PartTime]) -> list[dict[str, Any]]:
    return [{"kind": part.kind, "part": part.name, "us": part.ns / 1e3, "pct": account.pct(part.ns)} for part in parts]


def _kernel_json(account: ProgramAccount, kernel: KernelTime) -> dict[str, Any]:
    what, verdict = kernel.kernel, kernel.verdict
    return {
        "kernel": what.name,
        "function": what.function,
        "grid": what.grid or None,
        "block": what.block or None,
        "shared_B": what.shared_B if what.grid else None,
        "launches": kernel.launches,
        "us": kernel.ns / 1e3,
        "pct": account.pct(kernel.ns),
        "median_us": kernel.median_ns / 1e3,
        "spread": number(kernel.spread),
        "launch": verdict.address if verdict else None,
        "cause": verdict.cause if verdict else None,
        "profiled_over_median": number(kernel.stretched),
        "not_profiled": kernel.lacking or None,
        "parts": _parts_json(account, kernel.parts),
    }


def markdown_text(shown: RecordedProgram, limit: int) -> str:
    """The tables of all devices for a merge request."""
    lines = [MARK, ""]
    for account in shown.accounts:
        title = f"{account.name}: " if account.name else ""
        lines += [f"**{escape(title)}{duration(account.span.ns)}** accounted for: {escape(account.span.rule)}", ""]
        lines += ["| part | time | % |", "| -- | -: | -: |"]
        for kind, ns in account.by_kind.items():
            lines.append(f"| **{KINDS[kind]}** | {duration(ns)} | {account.pct(ns):.1f} |")
            parts = [part for part in account.parts if part.kind == kind and kind in (INSIDE, BETWEEN)]
            lines += [
                f"| {escape(part_words(one))} | {duration(one.ns)} | {account.pct(one.ns):.1f} |" for one in parts
            ]
        lines += ["", *_markdown_rows("kernel", kernel_rows(account), limit)]
        if ranges := range_rows(account):
            lines += ["", *_markdown_rows("NVTX range", ranges, limit)]
        lines.append("")
    lines += [f"- {escape(note)}" for note in shown.notes]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_rows(first: str, rows: list[TimeRow], limit: int) -> list[str]:
    lines = [
        f"| {first} | launches | time | % | tensor % | other work % | lost inside % | lost between % | mostly |",
        "| -- | -: | -: | -: | -: | -: | -: | -: | -- |",
    ]
    rest = rest_of(rows[limit:])
    for row in [*rows[:limit], *([rest] if rest else [])]:
        launches = "" if row.launches is None else f"{row.launches:,}"
        figures = (f"{pct:.1f}" for pct in (row.pct, row.tensor, row.work, row.inside, row.between))
        cells = [code(row.name), launches, duration(row.ns), *figures, escape(row.worst)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
