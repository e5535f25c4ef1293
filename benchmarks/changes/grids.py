"""``ncubble try --repeat`` on grids that were measured whole, without a GPU: ``python -m benchmarks.changes.grids``.

Of four kernels of the catalog every configuration was verified and timed on an H200
(docs/validation/grids.json). The search starts at the default and at the slowest configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.blocks import table
from benchmarks.harness.command import REPOSITORY
from ncubble.analysis.changes.search import Check, Knob, Refusal, Search
from ncubble.analysis.changes.tried import Built, Settings
from ncubble.kernels.catalog.registry import find_spec

GRIDS = REPOSITORY / "docs/validation/grids.json"
NEAR_PCT, MOST_SHARE = 2.0, 1.0 / 3.0
"""The claim: how far from the best of the grid, at which share of its launches."""


@dataclass
class GridBench:
    """Configurations of a grid, timed by what was measured. ``launched``: those that were asked for."""

    grid: Mapping[str, Any]
    base: Settings
    launched: set[str] = field(default_factory=set)
    sm_mhz: int = 0
    most_rounds: int = 15

    def __post_init__(self) -> None:
        names = [name for name in self.grid["grid"][0] if name != "p50_us"]
        self.times = {self._key(row): float(row["p50_us"]) for row in self.grid["grid"]}
        self.knobs = [Knob(name, name, tuple(dict.fromkeys(row[name] for row in self.grid["grid"]))) for name in names]

    @staticmethod
    def _key(settings: Mapping[str, Any]) -> str:
        return json.dumps({name: value for name, value in settings.items() if name != "p50_us"}, sort_keys=True)

    def build(self, variants: Sequence[Settings]) -> list[Built | Refusal]:
        return [Built() if self._key(one) in self.times else Refusal("not valid") for one in variants]

    def check(self, settings: Settings) -> Check:
        self.launched.add(self._key(settings))
        return Check()

    def time(self, variants: Sequence[Settings], rounds: int) -> list[list[float]]:
        return [[self.times[self._key(one)]] * rounds for one in variants]


def rows() -> Iterator[tuple[str, ...]]:
    """A row for each search."""
    for name, grid in json.loads(GRIDS.read_text(encoding="utf-8")).items():
        times = {GridBench._key(row): float(row["p50_us"]) for row in grid["grid"]}
        searched = [key for key in grid["grid"][0] if key != "p50_us"]
        default = {item.name: item.default for item in find_spec(name).parameters if item.name in searched}
        slowest = json.loads(max(times, key=times.__getitem__))
        for words, start in (("default", default), ("slowest", slowest)):
            bench = GridBench(grid, {key: start[key] for key in searched})
            search = Search(repeat=True)
            search.run(bench)
            last = search.rounds[-1]
            apart = 100.0 * (last.us / min(times.values()) - 1.0)
            share = len(bench.launched) / len(times)
            launches = f"{len(bench.launched)} of {len(times)} ({100 * share:.0f} %)"
            yield f"`{name}`", words, f"{apart:+.1f} %", launches, str(len(search.rounds))


if __name__ == "__main__":
    print(table(("kernel", "from", "apart from the best", "launches", "rounds"), rows()))
