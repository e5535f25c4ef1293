"""Label launches that nobody tuned against, by experiment, on this machine's GPU.

    python -m benchmarks.foreign OUT [--set second] [--only REGEX] [--skip nsight] [--processes 8]

Run in the repository, each set in a folder of its own. In turn:

prepare  runs every launch once without a profiler, in several processes: what fails is left out, and named
base     profiles the launches to be labelled with the default sets: OUT/base/FAMILY, the runs to keep
changed  profiles them and all their changes with the set tensor: OUT/changed/FAMILY
nsight   profiles them with the set full, for the estimates of Nsight's own rules: OUT/nsight/FAMILY

and writes OUT/labels.json of all that is there. Runs that exist are kept, so that an interrupted
recording goes on. Ends with 1 where a step failed or a launch got no label.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.foreign import facts, measure, plan, prepare, programs, rules
from benchmarks.foreign.experiment import BASE, Experiment
from benchmarks.harness.command import REPOSITORY, module
from ncubble.errors import NcubbleError

PROGRAM = tuple(module("foreign.programs"))
FIRST = "first"
PREPARED = "prepared.json"
STEPS = {"base": ("base", ()), "changed": ("all", ("tensor",)), "nsight": ("base", ("full",))}
"""Which launches a step profiles, and with which sets (none: the default)."""


def known_of(out: Path) -> dict[str, Any]:
    """What earlier checks found: launches ``checked``, what failed (``errors``), what a call
    launches (``kernels``)."""
    place = out / PREPARED
    empty: dict[str, Any] = {"checked": [], "errors": {}, "kernels": {}}
    return json.loads(place.read_text(encoding="utf-8")) if place.is_file() else empty


def checked(out: Path, only: str, processes: int, of: str = FIRST) -> dict[str, Any]:
    """The same, with every launch of the set ``of`` checked that was not yet."""
    known = known_of(out)
    wanted = {
        family: [
            name for launch in programs.chosen(family, only, "all", of) if (name := launch.name) not in known["checked"]
        ]
        for family in plan.FAMILIES
    }
    with ThreadPoolExecutor(len(wanted)) as pool:
        results = pool.map(
            lambda item: prepare.prepare([*PROGRAM, "--set", of, item[0]], item[1], processes), wanted.items()
        )
    for names, told in zip(wanted.values(), results, strict=True):
        known["checked"] += names
        known["errors"] |= told.errors
        known["kernels"] |= told.kernels
    (out / PREPARED).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for name, error in known["errors"].items():
        print(f"LEFT OUT {name}: {error}", flush=True)
    return known


def profiled(out: Path, step: str, family: str, only: str, known: dict[str, Any], of: str = FIRST) -> bool:
    """Profile one family of the set ``of`` for one step, unless it is there or has nothing to
    run."""
    what, sets = STEPS[step]
    place, errors = out / step / family, known["errors"]
    names = {launch.name for launch in programs.chosen(family, only, what, of)}
    if (place / "run.json").is_file() or not names - set(errors):
        return True
    argv = ["ncubble", "profile", *(text for name in sets for text in ("--set", name)), "--nvtx", f"{programs.RANGE}/"]
    argv += ["--timeout", "400", "--out", str(place), "--", *PROGRAM, "--set", of, family, "--what", what]
    argv += ["--only", only] if only else []
    argv += ["--without", ",".join(sorted(names & set(errors)))] if names & set(errors) else []
    several = [f"{name}={len(found)}" for name, found in known["kernels"].items() if name in names and len(found) > 1]
    argv += ["--several", ",".join(several)] if several else []
    place.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    failed = re.findall(r"FAILED .*", done.stdout + done.stderr)
    print(f"{step}/{family}: {time.monotonic() - start:.1f} s, exit {done.returncode}", *failed, sep="\n", flush=True)
    if done.returncode:
        print(done.stderr[-2000:], flush=True)
    return (place / "run.json").is_file()


def labelled(experiment: Experiment, out: Path, found: dict[str, Any]) -> dict[str, Any] | None:
    """The row of one experiment; None where its base was not measured."""
    changed = found["changed"]
    if experiment.base.name not in changed:
        return None
    work = facts.work(experiment.program, experiment.options)
    tried = [
        rules.Tried(change, facts.work(launch.program, launch.options) / work, changed[launch.name][1])
        for change, launch in experiment.changed()
        if launch.name in changed
    ]
    row = rules.row(changed[experiment.base.name][1], tried)
    report = {"report": f"{BASE}/{experiment.family}", "launch": None}
    if experiment.base.name in found["base"]:
        number, whole = found["base"][experiment.base.name]
        report |= {"launch": number, "default_sets_cycles": whole.cycles}
    nsight = found["nsight"].get(experiment.base.name)
    return {"experiment": experiment.name, **report, "facts": facts.of(experiment.base), **row, "nsight": nsight}


def read(out: Path) -> dict[str, Any]:
    """What the runs in OUT hold, by step and name; a run that is missing or damaged is named and
    left out."""
    found: dict[str, Any] = {step: {} for step in STEPS}
    for step in STEPS:
        for family in plan.FAMILIES:
            place = out / step / family
            if not place.exists():
                continue
            try:
                found[step] |= (measure.estimates if step == "nsight" else measure.read)(place)
            except NcubbleError as error:
                print(f"UNREADABLE {place}: {error}", flush=True)
    return found


def write(out: Path, errors: dict[str, str], of: str = FIRST) -> list[dict[str, Any]]:
    """Write OUT/labels.json of the set ``of`` and give its experiments."""
    found = read(out)
    rows = [row for experiment in plan.SETS[of]() if (row := labelled(experiment, out, found))]
    manifests = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(out.glob("changed/*/run.json"))]
    origin = {key: manifests[0][key] for key in ("device", "ncu_version", "git", "started")} if manifests else {}
    content = {"schema": 1, **origin, "set": of, "rule": rules.THRESHOLDS, "left_out": errors, "experiments": rows}
    (out / "labels.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return rows


def table(rows: list[dict[str, Any]]) -> list[str]:
    """The labels in lines."""
    lines = [f"{'experiment':24} {'cycles':>9} {'tensor':>6}  {'label':24} {'gain':>6}  shares"]
    for row in rows:
        shares = "  ".join(f"{cause} {pct:.1f}" for cause, pct in row["shares_pct"].items())
        gain = "" if row["gain"] is None else f"{row['gain']['gain_pct']:.1f}"
        base = row["base"]
        busy = "–" if base["tensor_pct"] is None else f"{base['tensor_pct']:.1f}"
        label = ", ".join(row["label"]) or "–"
        lines.append(f"{row['experiment']:24} {base['cycles']:9.0f} {busy:>6}  {label:24} {gain:>6}  {shares}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", choices=plan.SETS, default=FIRST, dest="of", help="which experiments (default: first)")
    parser.add_argument("--only", default="", metavar="REGEX", help="over the experiments' names")
    parser.add_argument("--skip", nargs="*", choices=["prepare", *STEPS], default=[], help="steps to leave out")
    parser.add_argument("--processes", type=int, default=8, help="of each family in prepare")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    known = known_of(out) if "prepare" in given.skip else checked(out, given.only, given.processes, given.of)
    print(f"prepare: {time.monotonic() - start:.1f} s", flush=True)
    steps = [step for step in STEPS if step not in given.skip]
    whole = [profiled(out, step, family, given.only, known, given.of) for step in steps for family in plan.FAMILIES]
    rows = write(out, known["errors"], given.of)
    print("\n".join(table(rows)))
    told = [row for row in rows if row["label"]]
    print(f"{len(told)} of {len(rows)} launches labelled; {len(known['errors'])} launches left out")
    return 0 if all(whole) and rows and len(told) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
