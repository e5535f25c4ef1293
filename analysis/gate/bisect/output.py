"""The answer of a search in words, as JSON and as Markdown. Pure functions of a ``BisectResult``.

JSON: the object of ``gate.output`` for the comparison that the answer rests on, with one more key::

    "bisect": {"verdict": named | several | no_regression | not_judged, "kind": commit | nvcc,
               "good": candidate, "bad": candidate, "candidates": number, "suspects": [candidate],
               "kernel", "metric", "loss_pct", "reach_pct", "against": candidate or null,
               "confirmed": true, false or null, "step": judgement or null,
               "also_regressed": [{"kernel", "metric"}],
               "judged": [{**candidate, **judgement, "rounds"}], "folder", "answer"}

A candidate has ``name``, ``short``, ``subject``, ``author``, ``date`` and ``path``; a judgement
``verdict``, ``reason``, ``loss_pct``, ``reach_pct`` and ``missing_pct``. Losses are percent of
GOOD's mean, ``step`` of the parent's; of a limit in points, points. Texts come from commits: they
are data, never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ncubble.analysis.gate.bisect.judging import Aim, CandidateJudgement, kernel_of
from ncubble.analysis.gate.bisect.result import BisectResult, Candidate, Judged
from ncubble.analysis.gate.check.result import GateResult
from ncubble.analysis.gate.output.output import MARKDOWN_MARK, as_json, markdown
from ncubble.text.markup import code, escape

MOST_NAMED = 8


def sentence(result: BisectResult) -> str:
    """The answer in a sentence or two."""
    if result.aim is None:
        return f"{result.bad.short} is not worse than {result.good.words}: nothing to search for"
    if result.culprit is None:
        names = ", ".join(candidate.short for candidate in result.suspects[:MOST_NAMED])
        more = f" and {len(result.suspects) - MOST_NAMED} more" if len(result.suspects) > MOST_NAMED else ""
        which = f"one of {len(result.suspects)} that could not be distinguished ({names}{more})"
        return f"{which} made {result.aim.label} worse: {_whole(result.aim)}"
    return f"{named(result.culprit)} made {result.aim.label} worse: {_step_words(result, result.aim)}"


def named(candidate: Candidate) -> str:
    """``1a2b3c "subject" (author, date)``, or a compiler's version."""
    if not candidate.author:
        return candidate.short
    return f'{candidate.short} "{candidate.subject}" ({candidate.author}, {candidate.date[:10]})'


def _whole(aim: Aim) -> str:
    return f"from GOOD to BAD {aim.name} lost {loss_words(aim)}"


def _step_words(result: BisectResult, aim: Aim) -> str:
    step, before = result.step, result.against
    if step is None or step.loss_pct is None or before is None:
        return _whole(aim)
    own = f"against its parent {before.short} {aim.name} lost {change_words(step)}"
    if result.confirmed:
        return f"{own}, {_whole(aim)}"
    return (
        f"it is the first beyond half of the loss, but its own step does not explain it ({own}; "
        f"{_whole(aim)}): there may be several small steps, or a side branch from before GOOD"
    )


def loss_words(aim: Aim) -> str:
    """``3.10 % (95 %: 2.9 to 3.3)``; of a limit its own number."""
    return _with_interval(aim.loss_pct, None if aim.rule else aim.reach_pct)


def change_words(judgement: CandidateJudgement) -> str:
    """The same of a judgement."""
    return "–" if judgement.loss_pct is None else _with_interval(judgement.loss_pct, judgement.reach_pct)


def _with_interval(loss: float, reach: float | None) -> str:
    if reach is None:
        return f"{loss:.2f}"
    return f"{loss:.2f} % (95 %: {loss - reach:.2f} to {loss + reach:.2f})"


def explained(result: BisectResult) -> GateResult:
    """The comparison with the answer as the reason of its kernel, for outputs that show no more."""
    if result.aim is None:
        return result.gate
    kernel = kernel_of(result.gate, result.aim)
    kernels = tuple(replace(item, reason=sentence(result)) if item is kernel else item for item in result.gate.kernels)
    return replace(result.gate, kernels=kernels)


def json_of(result: BisectResult) -> dict[str, Any]:
    """The object that ``--json`` prints; see the module's docstring."""
    aim = result.aim
    bisect = {
        "verdict": result.verdict,
        "kind": result.kind,
        "good": asdict(result.good),
        "bad": asdict(result.bad),
        "candidates": result.number,
        "suspects": [asdict(candidate) for candidate in result.suspects],
        "kernel": aim.label if aim else None,
        "metric": aim.name if aim else None,
        "loss_pct": aim.loss_pct if aim else None,
        "reach_pct": aim.reach_pct if aim and not aim.rule else None,
        "against": asdict(result.against) if result.against else None,
        "confirmed": result.confirmed,
        "step": asdict(result.step) if result.step else None,
        "also_regressed": [{"kernel": other.label, "metric": other.name} for other in result.more],
        "judged": [
            {**asdict(item.candidate), **asdict(item.judgement), "rounds": item.rounds} for item in result.judged
        ],
        "folder": result.folder,
        "answer": sentence(result),
    }
    return {**as_json(result.gate), "exit_code": result.exit_code, "bisect": bisect}


def cells_of(item: Judged) -> tuple[str, str, str, str, str]:
    """Commit or version, subject, verdict, loss against GOOD with its interval, processes of a
    side."""
    rounds = str(item.rounds) if item.rounds else "–"
    loss = change_words(item.judgement)
    return item.candidate.short, item.candidate.subject or item.candidate.path, item.judgement.verdict, loss, rounds


def markdown_of(result: BisectResult) -> str:
    """A comment: the answer, what was judged, then the comparison that it rests on."""
    head = [MARKDOWN_MARK, f"### ncubble check --bisect: {escape(result.verdict.replace('_', ' '))}", ""]
    lines = [escape(sentence(result)), ""]
    if result.judged:
        lines += ["| candidate | subject | verdict | loss | processes |", "| --- | --- | --- | ---: | ---: |"]
        lines += [_row(cells_of(item)) for item in result.judged]
        lines.append("")
    rest = markdown(result.gate).removeprefix(f"{MARKDOWN_MARK}\n")
    return "\n".join([*head, *lines, rest])


def _row(cells: Sequence[str]) -> str:
    short, *others = cells
    return f"| {' | '.join([code(short), *map(escape, others)])} |"
