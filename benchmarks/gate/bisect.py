"""Searches for a planted change, over launches that were recorded: how often ``ncubble check
--bisect`` names it, names another, or leaves it open.

    python -m benchmarks.gate.bisect [--searches 1000] [--jobs 2] [--write docs/validation/bisect.md]

No GPU and no git: the search, the proof and the judgements are those of the product
(``analysis/gate/bisect``), over 64 candidates in a row. The launches are those of
``recordings/h200-gate/series.parquet``: unchanged code, 5 launches of a process, and every process
of a comparison is another one. A GPU alone has 3 to 6 recorded processes, which is too few for 3 +
3 and more: the processes of three GPUs are put together, values and clocks of each GPU scaled to
the mean of all. So what differs between launches, between processes and by the clock is real; that
all ran on one GPU is made. Comparisons of one search share processes, as only 12 to 15 are there.

The loss is put on the candidates from the culprit on: utilization times 1 - loss, cycles over 1 -
loss. ``broken``: so many candidates, drawn, cannot be judged. ``other``: a loss of so many percent
in another commit, drawn, beside the one that is searched.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

from benchmarks.gate.draws import FOLDER, METRICS, Process, factor, load, random_of
from benchmarks.readme_tables import table
from ncubble.analysis.gate.bisect.judging import weigh
from ncubble.analysis.gate.bisect.search import Candidates, Search
from ncubble.analysis.gate.noise.metrics import BY_NAME, GateMetric
from ncubble.analysis.gate.noise.noise import NoiseTest, Sample, compare
from ncubble.analysis.validation.page import fill

NUMBER, LAUNCHES = 64, 5
ROUNDS, MOST = 3, 6
LOSSES = (0.5, 1.0, 2.0, 5.0)
SEARCHES = 1000
OUTCOMES = ("named", "set", "wrong", "refused")


@dataclass(frozen=True)
class Scene:
    """One kind of search: loss in percent, share of candidates that cannot be judged, percent of
    another loss."""

    series: str
    loss_pct: float
    broken: float = 0.0
    other_pct: float = 0.0


@cache
def pooled(series: str) -> tuple[Process, ...]:
    """The processes of a series as if of one GPU: values and clocks of each GPU scaled to the mean
    of all."""
    members = load(FOLDER / "series.parquet")[series]
    gpus = {one.gpu for one in members}
    centre = {gpu: _means([one for one in members if one.gpu == gpu]) for gpu in gpus}
    whole = {name: math.fsum(means[name] for means in centre.values()) / len(gpus) for name in ("clock", *METRICS)}
    moved = []
    for one in members:
        scale = {name: whole[name] / mean for name, mean in centre[one.gpu].items() if mean}
        values = {name: tuple(value * scale[name] for value in given) for name, given in one.values.items()}
        clocks = tuple(clock * scale["clock"] for clock in one.clocks)
        moved.append(replace(one, gpu="one", clocks=clocks, values=values))
    return tuple(moved)


def _means(members: Sequence[Process]) -> dict[str, float]:
    columns = {"clock": [clock for one in members for clock in one.clocks]}
    columns |= {name: [value for one in members for value in one.values.get(name, ())] for name in METRICS}
    return {name: math.fsum(values) / len(values) if values else 0.0 for name, values in columns.items()}


class Machine:
    """Draws what a comparison measures. ``metric``: utilization where the series has it, else
    cycles."""

    def __init__(self, series: str, rng: random.Random) -> None:
        self.processes, self.rng = pooled(series), rng
        name = METRICS[0] if METRICS[0] in self.processes[0].values else METRICS[1]
        self.metric: GateMetric = BY_NAME[name]

    def pair(self, losses: tuple[float, float], rounds: int) -> tuple[Sample, Sample]:
        """``rounds`` processes of each of two sides with these losses in percent."""
        chosen = self.rng.sample(self.processes, 2 * rounds)
        sides = chosen[::2], chosen[1::2]
        first, other = (self._sample(side, loss) for side, loss in zip(sides, losses, strict=True))
        return first, other

    def _sample(self, side: Sequence[Process], loss: float) -> Sample:
        drawn = [(one, i) for one in side for i in self.rng.sample(range(len(one)), LAUNCHES)]
        scale = factor(self.metric.name, loss)
        return Sample(
            tuple(one.values[self.metric.name][i] * scale for one, i in drawn),
            tuple(one.clocks[i] for one, i in drawn),
            tuple(one.run for one, _ in drawn),
        )


@dataclass
class Outcome:
    """How a search ended, and how many comparisons and processes it took."""

    what: str
    comparisons: int = 0
    processes: int = 0


def searched(scene: Scene, number: int) -> Outcome:
    """One search, drawn by its number."""
    rng = random_of("bisect", scene, number)
    machine = Machine(scene.series, rng)
    culprit, beside = rng.randrange(NUMBER), rng.randrange(NUMBER)
    broken = set(rng.sample(range(NUMBER - 1), round(scene.broken * (NUMBER - 1))))

    def loss(place: int) -> float:
        own = scene.loss_pct if place >= culprit else 0.0
        return own + (scene.other_pct if place >= beside else 0.0)

    outcome = Outcome("refused")
    proof, far = _proof(machine, loss(NUMBER - 1), outcome)
    if proof.outcome != "regressed":
        return outcome
    search = Search(Candidates.in_a_row([str(place) for place in range(NUMBER)]))
    while (name := search.next()) is not None:
        place = int(name)
        verdict = "skipped" if place in broken else _judged(machine, loss(place), far, proof.loss_pct, outcome)
        search.judge(name, verdict)
    left = [int(name) for name in search.left]
    outcome.what = "wrong" if culprit not in left else "named" if len(left) == 1 else "set"
    return outcome


def _proof(machine: Machine, loss: float, outcome: Outcome) -> tuple[NoiseTest, Sample]:
    metric = machine.metric
    for rounds in (ROUNDS, MOST):
        good, far = machine.pair((0.0, loss), rounds)
        test = compare(
            good, far, better=metric.better, limit_pct=metric.limit_pct, cv_pct=metric.cv_pct, shifts=metric.shifts
        )
        if test.outcome != "inconclusive":
            break
    outcome.comparisons += 1
    outcome.processes += 2 * rounds
    return test, far


def _judged(machine: Machine, loss: float, far: Sample, sought: float, outcome: Outcome) -> str:
    outcome.comparisons += 1
    for rounds in (ROUNDS, MOST):
        good, candidate = machine.pair((0.0, loss), rounds)
        verdict = weigh(good, candidate, far, machine.metric, sought).verdict
        if verdict != "unsure":
            break
    outcome.processes += 2 * rounds
    return verdict


def tally(scene: Scene, searches: int) -> tuple[Scene, Counter[str], float]:
    """Outcomes of all searches of a scene, and processes of those that were begun, on average."""
    ended = [searched(scene, number) for number in range(searches)]
    begun = [one.processes for one in ended if one.what != "refused"]
    return scene, Counter(one.what for one in ended), math.fsum(begun) / len(begun) if begun else math.nan


def scenes() -> list[Scene]:
    """All that is simulated."""
    series = sorted(load(FOLDER / "series.parquet"))
    plain = [Scene(name, loss) for name, loss in product(series, LOSSES)]
    return [
        *plain,
        *(Scene(name, 2.0, broken=0.2) for name in series),
        *(Scene(name, 3.0, other_pct=1.0) for name in series),
    ]


def rows(ended: Sequence[tuple[Scene, Counter[str], float]]) -> list[list[str]]:
    """A row for each scene: shares of searches in percent. *wrong* is of the searches that began."""
    found = []
    for scene, counts, processes in ended:
        total = counts.total()
        more = [f"{scene.broken:.0%} not judged".replace("%", " %")] if scene.broken else []
        more += [f"{scene.other_pct:g} % elsewhere"] if scene.other_pct else []
        shares = [f"{100 * counts[what] / total:.1f}" for what in OUTCOMES]
        cost = "–" if math.isnan(processes) else f"{processes:.0f}"
        found.append([f"`{scene.series}`", f"{scene.loss_pct:g} %", ", ".join(more) or "–", *shares, cost])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=SEARCHES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, metavar="PAGE")
    given = parser.parse_args()
    chosen = scenes()
    with ProcessPoolExecutor(given.jobs) as pool:
        ended = list(pool.map(tally, chosen, [given.searches] * len(chosen)))
    head = ["kernel", "loss", "beside it", "named", "set with it", "wrong", "no proof", "processes"]
    text = table(head, rows(ended))
    print(text)
    if given.write:
        page = given.write.read_text(encoding="utf-8")
        given.write.write_text(fill(page, {"bisect-rates": text}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
