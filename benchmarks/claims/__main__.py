"""Every claim of the five seed documents, held against a measurement.

    python -m benchmarks.claims --only ID           # measure what one claim needs: values and verdict
    python -m benchmarks.claims --measure OUT.json  # measure everything (a GPU, nvcc and ncu; some three minutes)
    python -m benchmarks.claims --write             # docs/claims.md from docs/validation/claims.json, without a GPU
    python -m benchmarks.claims --list              # ids and claims

The claims are data (benchmarks/claims/claims.toml), and so are the rules from which the verdicts
follow. A measurement that fails is recorded with its reason; the others go on.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.claims import page, rules, runner, setting
from benchmarks.claims.registry import load_all
from benchmarks.harness.command import REPOSITORY

MEASURED, DOCUMENT = REPOSITORY / "docs" / "validation" / "claims.json", REPOSITORY / "docs" / "claims.md"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--only", metavar="ID", nargs="+", help="claims, or measurements, to take now")
    action.add_argument("--measure", type=Path, metavar="OUT", help="take all measurements and write them as JSON")
    action.add_argument("--write", action="store_true", help="write docs/claims.md")
    action.add_argument("--list", action="store_true", help="list the claims")
    action.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, metavar="JSON", help="with --measure: earlier results; take only the rest")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help="with --keep: take these all the same")
    given = parser.parse_args()
    if given.worker:
        runner.work(given.worker)
        return 0
    if given.list:
        for claim in rules.load():
            print(f"{claim.id:34} {claim.claim}")
        return 0
    if given.write:
        measured = json.loads(MEASURED.read_text(encoding="utf-8"))
        DOCUMENT.write_text(page.page(rules.load(), measured), encoding="utf-8")
        return 0
    if given.only:
        return only(given.only)
    return measure(given.measure, given.keep, given.again)


def only(names: list[str]) -> int:
    """Takes what the claims (or measurements) named need, and prints values and verdicts. 3:
    something failed."""
    known = load_all()
    chosen = [claim for claim in rules.load() if claim.id in names or claim.measurements & set(names)]
    wanted = [name for name in known if name in names or any(name in claim.measurements for claim in chosen)]
    if unknown := [name for name in names if name not in known and name not in {claim.id for claim in chosen}]:
        print(f"no claim or measurement is called {', '.join(unknown)} (see --list)", file=sys.stderr)
        return 2
    results = runner.take(wanted, lambda name, told: print(outcome(name, told), file=sys.stderr, flush=True))
    for name in wanted:
        print(f"{name}: {json.dumps(results[name].get('values') or results[name], indent=1)}")
    for claim in chosen:
        if claim.id in names or claim.measurements <= set(wanted):
            print(page.line(claim, results))
    return 3 if any("failed" in result for result in results.values()) else 0


def outcome(name: str, told: runner.Told) -> str:
    """One measurement for the terminal."""
    return f"{name}: {told.get('failed') or 'ok'} ({told.get('seconds', 0):.1f} s)"


def measure(out: Path, kept: Path | None, again: list[str]) -> int:
    """Takes all measurements, writes each when it is there, and prints the verdicts. 3: something
    failed. On another GPU than that of the kept results, what is taken now names its own."""
    claims, known = rules.load(), load_all()
    whole: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept else {}
    earlier: dict[str, runner.Told] = whole.pop("measurements", {})
    results = {name: told for name, told in earlier.items() if "values" in told and name not in again}
    needed = {name for claim in claims for name in claim.measurements} | page.NEEDED
    where = setting.setting()
    here = where["device"] if whole.get("device", where["device"]) != where["device"] else None
    if here:
        where = {key: whole.get(key) for key in where}
    out.parent.mkdir(parents=True, exist_ok=True)

    def add(name: str, told: runner.Told) -> None:
        print(outcome(name, told), flush=True)
        results[name] = {**told, "device": here} if here else told
        ordered = {name: results[name] for name in known if name in results}
        text = json.dumps({"schema": 1, **where, "measurements": ordered}, indent=1)
        out.write_text(text + "\n", encoding="utf-8")

    gpus = setting.gpus()
    for name in [name for name in known if name in needed and name not in results and known[name].gpus > gpus]:
        results[name] = earlier.get(name, {"failed": f"needs {known[name].gpus} GPUs, {gpus} are here"})
    runner.take([name for name in known if name in needed and name not in results], add)
    for claim in claims:
        print(page.line(claim, results))
    return 3 if any("failed" in told for told in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
