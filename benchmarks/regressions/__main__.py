"""Real regressions: mistakes in the shipped kernels, put in on purpose, and what the gate says of
them.

    python -m benchmarks.regressions run OUT [--only REGEX] [--repeats 5] [--trees DIR]     # on a machine with a GPU
    python -m benchmarks.regressions keep OUT [--only REGEX]   # what the table needs of OUT, into recordings/
    python -m benchmarks.regressions table [--only REGEX]      # anywhere: of what was kept

Each file of ``regressions/`` is one mistake (``regressions/plan.py`` describes the members). It is
put into a copy of the kernels in a folder of its own, DIR/NAME (``OUT-trees`` beside OUT, unless
named), from which the ordinary commands run it: its name, parameters and shape stay, as in a merge
request.

``run`` first verifies every changed kernel (several at a time, which also compiles them;
OUT/verified/NAME.json): one with wrong results is no regression of speed, and is not profiled. Then
it profiles, one process each and alone, OUT/CASE/base and OUT/CASE/NAME in turns, with the default
sets. Regressions of one case (kernel, parameters, shape) share its base. What is there is kept, so
an interrupted run goes on where it stopped. All take about 30 profiles.

``table`` records a baseline from each base, checks what was changed against it, and prints what
grew, where, and what had been expected. It ends with 1 where one was not judged.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.harness.command import NCUBBLE
from benchmarks.regressions.plan import Regression, environment, make_tree, regressions
from benchmarks.regressions.table import FOLDER, keep, markdown
from ncubble.errors import NcubbleError

BASE = "base"
VERIFIERS = 4  # kernels that are compiled and verified at a time


def run(out: Path, folder: Path, chosen: list[Regression], repeats: int) -> bool:
    """Verifies, then profiles; whether everything went well."""
    trees = {BASE: make_tree(folder / BASE, None)} | {one.name: make_tree(folder / one.name, one) for one in chosen}

    def verified(one: Regression) -> bool:
        """Whether the changed kernel still computes its reference; remembered where it does."""
        note = out / "verified" / f"{one.name}.json"
        return _ran(["verify", *one.arguments, "--json"], trees[one.name], note, output=note)

    with ThreadPoolExecutor(VERIFIERS) as pool:
        right = [one for one, ok in zip(chosen, pool.map(verified, chosen), strict=True) if ok]
    profiled = [
        _ran(["profile", *one.arguments, "--count", str(repeats), "--out", str(to)], trees[to.name], to / "run.json")
        for one, to in turns(out, right)
    ]
    print(f"{len(right)} of {len(chosen)} verified, {sum(profiled)} of {len(profiled)} profiled")
    return len(right) == len(chosen) and all(profiled)


def _ran(words: list[str], tree: Path, made: Path, output: Path | None = None) -> bool:
    """Whether ``ncubble WORDS`` by the kernels of ``tree`` makes the file ``made``, now or before."""
    if made.is_file():
        return True
    done = subprocess.run([*NCUBBLE, *words], capture_output=True, text=True, check=False, env=environment(tree))
    word = f"ended with {done.returncode}\n{(done.stderr + done.stdout)[-1500:]}" if done.returncode else "ok"
    print(f"{words[0]} {tree.name}: {word}", flush=True)
    if output and not done.returncode:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(done.stdout, encoding="utf-8")
    return done.returncode == 0


def turns(out: Path, chosen: list[Regression]) -> Iterator[tuple[Regression, Path]]:
    """Regression and run directory of every profile: a case's base right before the first of its changes."""
    done: set[str] = set()
    for one in chosen:
        if one.case not in done:
            yield one, out / one.case / BASE
        done.add(one.case)
        yield one, out / one.case / one.name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "keep", "table"))
    parser.add_argument("out", type=Path, nargs="?", default=Path("build/regressions"), help="folder of the runs")
    parser.add_argument("--only", default="", help="regular expression over the names")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trees", type=Path, help="where the changed kernels go (default: OUT-trees)")
    given = parser.parse_args()
    try:
        chosen = regressions(given.only)
        if given.what == "run":
            return 0 if run(given.out, given.trees or Path(f"{given.out}-trees"), chosen, given.repeats) else 1
        if given.what == "keep":
            print("\n".join(map(str, keep(given.out, chosen))))
            return 0
        text, failures = markdown(FOLDER, chosen)
        print("\n".join([text, *failures]))
        return 1 if failures else 0
    except NcubbleError as error:
        print(f"regressions: {error}", file=sys.stderr)
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main())
