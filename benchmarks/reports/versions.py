"""What ncubble makes of foreign reports, by version of ncu and GPU: the tables of
docs/validation/report-versions.md.

    python -m benchmarks.reports.versions FOLDER            # print them for all reports below FOLDER, and by folder
                                                            # (a repository each) how many are called suspicious
    python -m benchmarks.reports.versions FOLDER --write    # put them between the markers of the document

Ends with 1 if a report could not be read or is called suspicious, if a launch without account does not name the
counters that it takes, or if a report whose SHA-256 is listed in docs/validation/public-reports.csv shows
another GPU, ncu or number of launches.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from benchmarks.harness.blocks import REPOSITORY, fill, table
from ncubble.analysis.account import lacking
from ncubble.analysis.account.account import account
from ncubble.analysis.account.plausibility import doubts
from ncubble.analysis.report.report import Launch, Report, open_reports
from ncubble.errors import UsageError
from ncubble.profiling.metrics.generations import load_generations

DOCUMENT = REPOSITORY / "docs" / "validation" / "report-versions.md"
LISTED = REPOSITORY / "docs" / "validation" / "public-reports.csv"
HEADER = ["ncu", "GPU", "reports", "launches", "accounts", "phases", "parts", "counted unit", "what the launches lack"]


@dataclass(frozen=True)
class Version:
    """One launch of a report, and what ncubble made of it. ``unit`` is empty where there is no
    account."""

    report: str
    ncu: str
    capability: str
    gpu: str
    unit: str
    phases: bool
    split: bool
    lacks: tuple[str, ...]
    names_counters: bool

    @property
    def generation(self) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """Version of ncu, compute capability and GPU, in the order of the table."""
        ncu, capability = (tuple(int(part) for part in text.split(".") if part) for text in (self.ncu, self.capability))
        return ncu, capability, self.gpu


def launches_of(report: Report) -> list[Version]:
    """All launches of one report."""
    return [_version(launch) for launch in report]


def _version(launch: Launch) -> Version:
    row, found = launch.identity, account(launch)
    lacks = lacking.of_account(launch, found) if found else [lacking.no_account(launch)]
    return Version(
        report=launch.report.frame.sha256,
        ncu=row.ncu_version,
        capability=row.compute_capability,
        gpu=row.device.removeprefix("NVIDIA "),
        unit=found.unit if found else "",
        phases=bool(found and found.phases),
        split=bool(found and found.weights is not None),
        lacks=tuple(lack.short if found else f"**{lack.short}**" for lack in lacks),
        names_counters=found is not None or "Collect " in lacks[0].text,
    )


def versions(found: Iterable[Version]) -> str:
    """One row per version of ncu and GPU."""
    groups = groupby(sorted(found, key=lambda one: one.generation), key=lambda one: one.generation)
    return table(HEADER, [_row(list(group)) for _, group in groups])


def _row(same: Sequence[Version]) -> list[str]:
    """The row of all launches of one generation."""
    one = same[0]
    units = Counter(one.unit for one in same if one.unit)
    counts = [len({one.report for one in same}), len(same), units.total()]
    counts += [sum(one.phases for one in same), sum(one.split for one in same)]
    lacks = Counter(lack for one in same for lack in one.lacks)
    return [one.ncu, f"{one.gpu} ({one.capability})", *map(str, counts), _counted(units), _counted(lacks)]


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in names.most_common()) or "–"


def doubtful(reports: Sequence[Report]) -> tuple[str, list[str]]:
    """Reports, launches and suspicious reports by the folder in which they lie, and what is said of
    the latter."""
    told = [(report, sorted({text for launch in report for text in doubts(launch)})) for report in reports]
    groups = groupby(
        sorted(told, key=lambda one: one[0].path), key=lambda one: one[0].path.parent.name.replace("+", "/")
    )
    rows = [("**all**", told), *((name, list(same)) for name, same in groups)]
    counts = [
        [
            name,
            str(len(same)),
            str(sum(len(one.launches) for one, _ in same)),
            str(sum(bool(texts) for _, texts in same)),
        ]
        for name, same in rows
    ]
    wrong = [f"{report.path}: {text}" for report, texts in told for text in texts]
    return table(["repository", "reports", "launches", "suspicious reports"], counts), wrong


def gaps() -> str:
    """What chips and versions of ncu lack, from the catalog."""
    rows = [
        [gap.what, str(gap.cc or "any"), str(gap.ncu or "any"), gap.source] for gap in load_generations().gaps.values()
    ]
    return table(["what", "first capability", "first ncu", "known from"], rows)


def summary(found: Sequence[Version], strangers: int) -> str:
    """The totals, in sentences."""
    with_account, reports = sum(bool(one.unit) for one in found), len({one.report for one in found})
    named = sum(one.names_counters for one in found if not one.unit)
    known = f"all in {LISTED.name}" if not strangers else f"{reports - strangers} of them in {LISTED.name}"
    return (
        f"{reports} reports ({known}), {len(found)} launches: every report was read. {with_account} launches have an "
        f"account; of the {len(found) - with_account} others, {named} name the counters that an account takes."
    )


def contradictions(reports: Iterable[Report], found: Sequence[Version]) -> tuple[list[str], int]:
    """Reports that differ from their entry in the list, and the number that have none."""
    with LISTED.open(encoding="utf-8", newline="") as file:
        listed = {row["sha256"]: row for row in csv.DictReader(file)}
    length = len(next(iter(listed)))
    wrong, strangers = [], 0
    for report in reports:
        row = listed.get(report.frame.sha256[:length])
        strangers += row is None
        mine = [one for one in found if one.report == report.frame.sha256]
        seen = {(one.gpu, one.capability, one.ncu, str(len(mine))) for one in mine}
        if row and seen != {(row["gpu"], row["cc"], row["ncu"], row["launches"])}:
            wrong.append(f"{report.path}: shows {sorted(seen)}, but {LISTED.name} says {row}")
    return wrong, strangers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="update the document instead of printing")
    options = parser.parse_args()
    try:
        reports, failures = open_reports([options.folder])
    except UsageError as error:
        parser.error(str(error))
    found = [launch for report in reports for launch in launches_of(report)]
    wrong, strangers = contradictions(reports, found)
    wrong += [f"{failure.path}: {failure.error}" for failure in failures]
    wrong += [f"{one.report}: no counters named" for one in found if not one.names_counters]
    repositories, suspicious = doubtful(reports)
    wrong += suspicious
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    blocks = {
        "summary": summary(found, strangers),
        "versions": versions(found),
        "gaps": gaps(),
    }
    if options.write and not wrong:
        DOCUMENT.write_text(fill(DOCUMENT.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    elif not options.write:
        shown = blocks | {"repositories": repositories}
        print(*(f"{name}\n\n{block}\n" for name, block in shown.items()), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
