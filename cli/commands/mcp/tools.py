"""Questions of agents about recorded launches. Answers are plain data of at most 4 KB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ncubble.cli.commands.mcp.roots import Roots
from ncubble.cli.terminal import fitted
from ncubble.errors import UsageError

Order = Literal["time", "lost", "busy", "dram", "read"]
MOST_ROWS = 200
MOST_STAGES = 64
SQL_SECONDS = 20.0


@dataclass(frozen=True)
class Tools:
    """The questions, on the folders of ``roots``. All raise NcubbleError if they cannot be
    answered."""

    roots: Roots

    def list_launches(
        self, path: str = "", kernel: str = "", sort: Order = "lost", limit: int = 12, skip: int = 0
    ) -> dict[str, Any]:
        """Kernels by lost time: each with its longest launch of the main cause, launches, share of the time, busy share
        of its bounding unit and cause. path: a report or folder (default: all). kernel: regular expression. sort:
        time, lost, busy, dram, read."""
        from ncubble.cli.commands.report.view import View

        _within("skip", skip, 0)
        limit = min(_within("limit", limit), MOST_ROWS)
        _, result = self.roots.open(self.roots.paths([path] if path else []))
        view = View(kernel or None, sort)
        chosen = view.chosen(result)
        groups = view.groups(chosen)
        total = sum(group.time_ns for group in groups)
        rows = [
            {
                "launch": group.verdict.address,
                "kernel": group.verdict.label or group.verdict.kernel,
                "launches": len(group.launches),
                "time_pct": round(100.0 * group.time_ns / total, 1) if total else None,
                "unit": group.verdict.unit,
                "busy_pct": None if group.busy_pct is None else round(group.busy_pct, 1),
                "verdict": group.verdict.cause,
            }
            for group in groups[skip : skip + limit]
        ]
        answer = {
            "kernels": len(groups),
            "launches": len(chosen.verdicts),
            "time_us": round(total / 1e3, 1),
            "from": skip,
            "rows": rows,
            "unreadable": [{"report": error.report, "error": error.error} for error in result.errors],
        }
        return fitted(answer, "repeat with skip, a path or a kernel to get the missing rows")

    def verdict(self, launch: str) -> dict[str, Any]:
        """Verdict of one launch: account, causes with gain (expected, least and most), fix, hottest
        lines, and what was not measured. launch: REPORT#NUMBER, as list_launches gives it."""
        from ncubble.analysis.diagnosis.brief import brief

        opened, result, place = self.roots.launch(launch)
        answer = brief(opened, result.verdicts[place], result.ablations[place])
        return fitted(answer, "explain shows the parts, source_hot_lines the lines")

    def explain(self, launch: str, part: str = "") -> dict[str, Any]:
        """Inputs of an account part: counters, timeline, classes of instructions. part: a name of
        account_pct (default: all, in short)."""
        from dataclasses import asdict

        from ncubble.analysis.account.explain import explain

        opened, _, _ = self.roots.launch(launch)
        found = explain(opened)
        known = [one.part for one in found.parts]
        if part and part not in known:
            raise UsageError(f"{part}: not a part of this account", f"use one of {', '.join(known)}")
        if part:
            (one,) = (one for one in found.parts if one.part == part)
            return fitted({"launch": launch, **asdict(one)}, "the lists were cut: ncubble report --explain shows all")
        answer = {
            "launch": launch,
            "parts": [
                {"part": one.part, "pct": round(one.pct, 1), "how": one.formula} for one in found.parts if one.pct
            ],
            "missing": list(found.missing),
        }
        return fitted(answer, "ask for one part by its name")

    def source_hot_lines(self, launch: str, limit: int = 10) -> dict[str, Any]:
        """The source lines (instructions without line information) with most warp samples, each with its share, its
        hottest instruction and main stall reason."""
        from ncubble.analysis.details.hot_lines import hot_lines

        opened, _, _ = self.roots.launch(launch)
        rows, lacking = hot_lines(opened.source, min(_within("limit", limit), MOST_ROWS))
        return fitted({"launch": launch, "rows": rows, "missing": lacking}, "not all rows fit: use a smaller limit")

    def compare(self, first: str, second: str) -> dict[str, Any]:
        """Changes from the launches of one path to those of another: time, cycles, account, stalls,
        code."""
        from ncubble.analysis.compare.compare import compare_sides, compared_launch, groups
        from ncubble.analysis.compare.words import sentences

        sides = []
        for text in (first, second):
            report_name, number = self.roots.parts(text)
            reports, result = self.roots.open([self.roots.path(report_name)])
            of_report = {str(report.path): report for report in reports}
            judged = zip(result.verdicts, result.ablations, strict=True)
            wanted = [pair for pair in judged if not number or str(pair[0].launch) == number]
            sides.append([compared_launch(of_report[one.report].launch(one.launch), one, own) for one, own in wanted])
        outcome = compare_sides([groups(side) for side in sides])
        if not outcome.comparisons:
            raise UsageError(f"{first}, {second}: no kernel occurs on both sides", "compare launches of one kernel")
        answer = {
            "kernels": [
                {
                    "kernel": first_side.title if (first_side := comparison.sides[0]) else "",
                    "changes": sentences(comparison),
                    "notes": list(comparison.notes),
                }
                for comparison in outcome.comparisons
            ],
        }
        return fitted(answer, "compare single launches: REPORT#NUMBER")

    def advise(self, launch: str, stages: int = 0) -> dict[str, Any]:
        """Predictions for other pipeline depths, with 90 % intervals, and for the fix of each cause.
        stages: the present depth, if the report does not show it."""
        from ncubble.analysis.diagnosis.advise import advise
        from ncubble.analysis.diagnosis.brief import fix_words

        _within("stages", stages, 0, MOST_STAGES)
        opened, _, _ = self.roots.launch(launch)
        advice = advise(opened, stages or None)
        depths = {
            str(depth): [round(one.tensor_elapsed_pct, 1), round(one.low, 1), round(one.high, 1), round(one.cycles)]
            for depth, one in advice.depths.items()
            if one is not None
        }
        answer = {
            "launch": launch,
            "stages": advice.stages,
            "busy_from_to_cycles": depths,
            "fixes": [fix_words(fix) for fix in advice.fixes],
            "notes": advice.notes,
        }
        return fitted(answer, "ncubble advise shows everything")

    def measured(self, launch: str) -> dict[str, Any]:
        """Ablation of a launch: time saved by removing each part, with standard errors, and whether
        that agrees with the estimate."""
        from ncubble.analysis.diagnosis.measured import finding

        _, result, place = self.roots.launch(launch)
        ablation, verdict = result.ablations[place], result.verdicts[place]
        if ablation is None:
            return {"launch": launch, "measured": None, "how_to": "ncubble ablate, on a machine with a GPU"}
        parts = [
            {"part": one.part, "estimated_pct": one.estimated, "measured_pct": round(one.measured, 1), "se": one.se}
            for one in sorted(ablation.parts, key=lambda one: -one.measured)
        ]
        answer = {
            "launch": launch,
            "finding": finding(verdict, ablation),
            "rounds": ablation.rounds,
            "parts": parts,
            "lines": [vars(line) for line in ablation.lines],
            "notes": ablation.notes,
        }
        return fitted(answer, "ablation.json beside the report has everything")

    def check(self, paths: list[str], baseline: str) -> dict[str, Any]:
        """Whether launches are slower than their baselines: verdict of each kernel, with what
        changed and where. baseline: a folder or file below the folders of this server."""
        from ncubble.analysis.gate.annotations import annotations_of
        from ncubble.analysis.gate.baseline_file import load_store
        from ncubble.analysis.gate.check import check
        from ncubble.analysis.gate.repeats import collect
        from ncubble.analysis.gate.verdicts import CheckOptions

        baselines, broken = load_store(self.roots.tree(baseline))
        reports, result = self.roots.open(self.roots.paths(paths))
        groups, notes = collect(reports)
        errors = [*result.errors, *((baseline, str(error)) for error in broken)]
        found = check(groups, baselines, CheckOptions(allow_new=True), [(str(a), str(b)) for a, b in errors], notes)
        kinds = {kernel.label: kernel.verdict for kernel in found.kernels}
        marks = [{"kind": one.kind, "message": one.message} for one in annotations_of(found)]
        answer = {"verdict": found.verdict, "exit_code": found.exit_code, "kernels": kinds, "annotations": marks}
        return fitted(answer, "check fewer paths at a time")

    def query(self, dataset: str, sql: str, limit: int = 20) -> dict[str, Any]:
        """Rows of one SELECT over a dataset that `ncubble ingest` wrote (tables launches, reports, metrics, errors)."""
        from ncubble.analysis.datasets.dataset import Dataset, plain_rows

        most = min(_within("limit", limit), MOST_ROWS)
        rows = Dataset.open(self.roots.tree(dataset)).select(sql, most, SQL_SECONDS)
        listed = [list(row.values()) for row in plain_rows(rows)]
        return fitted({"columns": rows.schema.names, "rows": listed}, "select fewer columns or rows")


def _within(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """``value``; raises UsageError below ``least`` or above ``most``."""
    if value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise UsageError(f"{name} {value}: out of range", f"use a number of at least {least}{upper}")
    return value
