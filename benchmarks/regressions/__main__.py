"""Real regressions: mistakes in the shipped kernels, put in on purpose, and what the gate says of
them.

    python -m benchmarks.regressions list                    # what was broken, and what it is expected to cost
    python -m benchmarks.regressions code [--only REGEX]     # compile all, check what changed in the machine code
    python -m benchmarks.regressions run OUT [--only REGEX] [--repeats 5] [--trees DIR]     # on a machine with a GPU
    python -m benchmarks.regressions keep OUT [--only REGEX]       # what the table needs of OUT, into recordings/
    python -m benchmarks.regressions table [OUT] [--only REGEX]    # anywhere: of OUT, or of what was kept

Each file of ``regressions/`` is one mistake (``regressions/plan.py`` describes the members). It is
put into a copy of the kernels in a folder of its own, DIR/NAME (``OUT-trees`` beside OUT, unless
named), from which the ordinary commands run it: its name, parameters and shape stay, as in a merge
request. ``prepare DIR`` only writes these folders.

``run`` first verifies every changed kernel (several at a time, which also compiles them;
OUT/verified/NAME.json): one with wrong results is no regression of speed, and is not profiled. Then
it profiles, one process each and alone, OUT/CASE/base and OUT/CASE/NAME in turns, with the default
sets. Regressions of one case (kernel, parameters, shape) share its base. What is there is kept, so
an interrupted run goes on where it stopped. All take about 30 profiles.

``table`` records a baseline from each base, checks what was changed against it, and prints what
grew, where, and what had been expected. It ends with 1 where one was not judged. ``code`` needs
nvcc, for Numba the extra gpu, and no GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.regressions import kept as regression_kept
from benchmarks.regressions.code import broken_facts, code_of, differences
from benchmarks.regressions.plan import Regression, regressions
from benchmarks.regressions.table import markdown
from benchmarks.regressions.tree import command, environment, make_tree
from ncubble.errors import NcubbleError

BASE = "base"
VERIFIERS = 4  # kernels that are compiled and verified at a time
WRONG = 4  # exit code of a kernel whose results are not its reference's
TAIL = 1500  # characters of a failed command's messages


def prepare(folder: Path, chosen: list[Regression]) -> dict[str, Path]:
    """Writes the tree of every chosen regression, and the unchanged one, below ``folder``; their
    places by name."""
    trees = {BASE: make_tree(folder / BASE, None)}
    return trees | {one.name: make_tree(folder / one.name, one) for one in chosen}


def verify(one: Regression, tree: Path, note: Path) -> bool:
    """Whether the changed kernel still computes its reference; remembered in ``note`` where it
    does."""
    if note.is_file():
        return True
    argv = command("verify", *one.arguments, "--json")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment(tree))
    if done.returncode:
        word = "WRONG   " if done.returncode == WRONG else "FAILED  "
        print(f"{word}  {one.name}: verify ended with {done.returncode}\n{_tail(done)}", flush=True)
        return False
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(json.loads(done.stdout), indent=1) + "\n", encoding="utf-8")
    return True


def profile(one: Regression, tree: Path, out: Path, repeats: int) -> bool:
    """One profile by the default sets; kept where it is there already."""
    if (out / "run.json").is_file():
        print(f"kept      {out}")
        return True
    started = time.monotonic()
    argv = command("profile", *one.arguments, "--repeat", str(repeats), "--out", str(out))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment(tree))
    word = "FAILED  " if done.returncode else "recorded"
    print(f"{word}  {time.monotonic() - started:5.1f} s  {out}{_tail(done) if done.returncode else ''}", flush=True)
    return done.returncode == 0


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    return "\n" + (done.stderr + done.stdout)[-TAIL:]


def run(out: Path, trees: dict[str, Path], chosen: list[Regression], repeats: int) -> bool:
    """Verifies, then profiles; whether everything went well."""
    with ThreadPoolExecutor(VERIFIERS) as pool:
        notes = [out / "verified" / f"{one.name}.json" for one in chosen]
        right = list(pool.map(verify, chosen, [trees[one.name] for one in chosen], notes))
    results = [
        profile(*job, repeats) for job in turns(out, trees, [one for one, ok in zip(chosen, right, strict=True) if ok])
    ]
    print(f"{sum(right)} of {len(chosen)} verified, {sum(results)} of {len(results)} profiled")
    return all(right) and all(results)


def turns(out: Path, trees: dict[str, Path], chosen: list[Regression]) -> Iterator[tuple[Regression, Path, Path]]:
    """Regression, tree and run directory of every profile: a case's base right before the first of
    its changes."""
    done: set[str] = set()
    for one in chosen:
        if one.case not in done:
            yield one, trees[BASE], out / one.case / BASE
        done.add(one.case)
        yield one, trees[one.name], out / one.case / one.name


def code(trees: dict[str, Path], chosen: list[Regression]) -> bool:
    """Compiles all, prints what changed in the machine code; whether it is what the regressions'
    files say."""
    before = {case: code_of(one, trees[BASE]) for case, one in {one.case: one for one in chosen}.items()}
    wrong = []
    for one in chosen:
        after = code_of(one, trees[one.name])
        found = ", ".join(f"{name} {by:+d}" for name, by in differences(before[one.case], after).items())
        print(f"{one.name}: {len(before[one.case].instructions)} → {len(after.instructions)} instructions; {found}")
        wrong += broken_facts(one, before[one.case], after)
    print("\n".join(wrong) or f"{len(chosen)} as their files say")
    return not wrong


def listed(chosen: list[Regression]) -> str:
    """One paragraph each."""
    lines = [
        f"{one.name}: {' '.join(one.arguments)}\n  {one.broken}\n  expected: {' or '.join(one.parts)}"
        f", at {one.where[0].file}: {one.where[0].text}"
        for one in chosen
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("list", "prepare", "code", "run", "keep", "table"))
    parser.add_argument("out", type=Path, nargs="?", help="folder of trees (prepare), or of runs (run, keep, table)")
    parser.add_argument("--only", default="", help="regular expression over the names")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--trees", type=Path, help="where the changed kernels go (default: OUT-trees)")
    return parser


def main() -> int:
    given = _parser().parse_args()
    if given.out is None and given.what in ("prepare", "run", "keep"):
        _parser().error(f"{given.what} needs a folder")
    try:
        return 0 if _did(given) else 1
    except NcubbleError as error:
        print(f"regressions: {error}", file=sys.stderr)
        return int(error.exit_code)


def _did(given: argparse.Namespace) -> bool:
    chosen = regressions(given.only)
    if given.what == "list":
        print(listed(chosen))
        return True
    if given.what == "table":
        text, failures = markdown(given.out or regression_kept.FOLDER, chosen)
        print("\n".join([text, *failures]))
        return not failures
    if given.what == "keep":
        print("\n".join(map(str, regression_kept.keep(given.out, chosen))))
        return True
    out = given.out or Path("build/regressions")
    trees = prepare(given.trees or (out if given.what == "prepare" else Path(f"{out}-trees")), chosen)
    if given.what == "run":
        return run(out, trees, chosen, given.repeats)
    return code(trees, chosen) if given.what == "code" else True


if __name__ == "__main__":
    sys.exit(main())
