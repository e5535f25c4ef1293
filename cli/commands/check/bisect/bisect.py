"""``ncubble check --bisect``: prove the loss, halve the candidates, confirm the step of the one that is left.

Every candidate is measured in turns with GOOD (A), and judged by ``analysis.gate.bisect.judging``. The one that is
named is measured once more, in turns with its parent: what it lost itself, and which part of the account moved there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ncubble.analysis.gate.bisect.judging import CandidateJudgement, aims, judge, kernel_of, undecided
from ncubble.analysis.gate.bisect.result import BisectResult, Judged
from ncubble.analysis.gate.bisect.search import Search
from ncubble.cli.commands.check.bisect.answer import answer
from ncubble.cli.commands.check.bisect.hunt import Hunt, progress, steps_of
from ncubble.cli.commands.check.bisect.journal import JudgedEntry, SearchJournal, only_one
from ncubble.cli.commands.check.bisect.measuring import OF_THE_MACHINE, ReadySide, SideBench
from ncubble.cli.commands.check.bisect.ranges import Range, range_of
from ncubble.cli.commands.check.now import subjects_of
from ncubble.cli.commands.check.subject import SAME
from ncubble.cli.terminal import ended_by_signals
from ncubble.errors import MeasurementError, UsageError
from ncubble.profiling.ncu import ncu

if TYPE_CHECKING:
    from ncubble.analysis.gate.check.result import CheckOptions
    from ncubble.cli.commands.check.options import Measuring

SAME_CODE = "machine code and launch are those of {}: not measured (--skip-same)"


def take_bisect(measuring: Measuring, names: Sequence[Path], options: CheckOptions, nvtx: bool) -> BisectResult:
    """The answer. Raises UsageError, and MeasurementError where the machine cannot measure; what was judged by then
    is kept in the folder of the search."""
    measuring.check(names)
    ncu.find_ncu()  # before anything is built
    subject = next(iter(subjects_of(measuring, names)), None)
    span = range_of(measuring, subject.name if subject else "")
    root = getattr(getattr(span, "checkout", None), "root", None)
    bench = SideBench(measuring, options, nvtx, subject, root)
    folder = measuring.out or Path("runs") / _folder_name(span, bench)
    kept = f"what was judged is kept in {folder}: the same command goes on"
    with only_one(folder), ended_by_signals(kept), ExitStack() as stack:
        journal = SearchJournal.open(folder, _request(measuring, span, bench))
        _announce(span, bench, journal)
        good = bench.ready(stack.enter_context(span.opened(span.good.name, "A")))
        journal.save()
        hunt = Hunt(bench, span, journal, good)
        _prove(hunt)
        return answer(hunt, () if hunt.aim is None else _searched(hunt))


def _folder_name(span: Range, bench: SideBench) -> str:
    label = bench.subject.label if bench.subject else Path((bench.measuring.program or ["program"])[0]).name
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", label.replace("=", "")).strip("-.") or "program"
    return f"bisect-{clean[:80]}-{span.good.name[:7]}-{span.candidates.order[-1][:7]}"


def _request(measuring: Measuring, span: Range, bench: SideBench) -> dict[str, object]:
    """What must be the same for judgements to be of one search."""
    subject = bench.subject
    return {
        "kind": span.kind,
        "good": span.good.name,
        "candidates": [span.candidates.order[0], span.candidates.order[-1], len(span.candidates.order)],
        "kernel": subject.label if subject else "",
        "catalog": str(measuring.catalog or ""),
        "program": list(measuring.program or []),
        "build": measuring.build,
        "filter": [bench.options.kernel, measuring.nvtx, measuring.skip, measuring.count],
        "sets": list(measuring.metric_sets),
        "launches": measuring.launches,
        "rules": repr(bench.options.rules),
        "accepted": [bench.options.allow_suspicious, bench.options.same_gpu, measuring.skip_same],
    }


def _announce(span: Range, bench: SideBench, journal: SearchJournal) -> None:
    """The bounds, before anything is measured."""
    for note in span.notes():
        typer.echo(note, err=True)
    steps, rounds, most = span.candidates.steps, bench.rounds, bench.most
    typer.echo(
        f"a proof, about {steps} judgement{'' if steps == 1 else 's'} and a confirmation: {steps + 2} comparisons of "
        f"{rounds} + {rounds}\nprocesses, up to {most} + {most} where repeats leave it open",
        err=True,
    )
    if journal.entries:
        skipped = sum(entry.verdict == "skipped" for entry in journal.entries.values())
        what = "now tried again" if bench.measuring.retry_skipped else "--retry-skipped tries them again"
        more = f", {skipped} of them skipped ({what})" if skipped else ""
        typer.echo(f"going on in {journal.folder}: {len(journal.entries)} judged before{more}", err=True)


def _prove(hunt: Hunt) -> None:
    """Measure BAD against GOOD, with more repeats while that is open, and note what regressed."""
    bench, name = hunt.bench, hunt.bad
    progress(f"proof: {hunt.range.candidate(name).words} against {hunt.range.good.words}")
    with hunt.range.opened(name, "B") as side:
        hunt.bad_launch = bad = bench.ready(side)
        for rounds in steps_of(bench):
            hunt.proof = bench.compared((hunt.good, bad), hunt.place(name), rounds)
            if not undecided(hunt.proof.gate):
                break
    assert hunt.proof is not None  # noqa: S101 (``steps_of`` yields once at least)
    hunt.aim = next(iter(aims(hunt.proof.gate)), None)


def _searched(hunt: Hunt) -> tuple[str, ...]:
    """All that may be the first bad one, after judging what could be judged."""
    assert hunt.aim is not None and hunt.proof is not None  # noqa: S101 (the proof came before)
    proof = CandidateJudgement("bad", "", hunt.aim.loss_pct, hunt.aim.reach_pct, 0.0)
    hunt.judged.append(Judged(hunt.range.candidate(hunt.bad), proof, hunt.proof.rounds))
    search = Search(hunt.range.candidates)
    while (name := search.next()) is not None:
        candidate = hunt.range.candidate(name)
        entry = hunt.journal.entries.get(name)
        if entry is None or _again(hunt, entry):
            progress(f"{len(search.left)} left, judging {candidate.words}")
            entry = _judged(hunt, name)
            hunt.journal.add(entry)
        progress(f"{entry.verdict}{f': {entry.reason}' if entry.reason else ''}")
        hunt.judged.append(Judged(candidate, entry.judgement, entry.rounds))
        search.judge(name, entry.verdict)
    return tuple(search.left)


def _again(hunt: Hunt, entry: JudgedEntry) -> bool:
    """Whether a candidate that was judged before is judged once more."""
    if entry.verdict == "skipped":
        return hunt.bench.measuring.retry_skipped
    return entry.verdict == "unsure" and entry.rounds < hunt.bench.most


def _judged(hunt: Hunt, name: str) -> JudgedEntry:
    """The judgement on one candidate; ``skipped`` where it cannot be built or measured."""
    assert hunt.aim is not None and hunt.proof is not None  # noqa: S101 (the proof came before)
    bad = kernel_of(hunt.proof.gate, hunt.aim)
    assert bad is not None  # noqa: S101 (the aim is of a kernel of the proof)
    bench, judgement, rounds = hunt.bench, CandidateJudgement("unsure"), 0
    try:
        with hunt.range.opened(name, "B") as side:
            ready = bench.ready(side)
            if (known := _by_code(hunt, ready)) is not None:
                return JudgedEntry.of(name, known, 0)
            for rounds in steps_of(bench):
                pair = bench.compared((hunt.good, ready), hunt.place(name), rounds)
                judgement = judge(hunt.aim, pair.gate, bad, same_gpu=bench.options.same_gpu)
                if judgement.verdict != "unsure":
                    break
    except OF_THE_MACHINE:
        raise
    except (UsageError, MeasurementError) as error:
        return JudgedEntry.of(name, CandidateJudgement("skipped", " ".join(error.message.split())[:500]), rounds)
    return JudgedEntry.of(name, judgement, rounds)


def _by_code(hunt: Hunt, ready: ReadySide) -> CandidateJudgement | None:
    """With ``--skip-same``: good or bad as the end whose machine code and launch it has."""
    ends = (("good", hunt.good, "GOOD"), ("bad", hunt.bad_launch, "BAD"))
    if not hunt.bench.measuring.skip_same or ready.launch is None:
        return None
    for verdict, end, name in ends:
        if end is not None and end.launch is not None and ready.launch.likeness(end.launch) == SAME:
            return CandidateJudgement(verdict, SAME_CODE.format(name))
    return None
