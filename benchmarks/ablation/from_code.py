"""Parts that are read off the code alone, as ``ncubble ablate`` does without counters, against those
that execution counts of a profile tell: of every launch of the recorded truth.

    python -m benchmarks.ablation.from_code [FOLDER]      (default: recordings/validation/truth)

Reports name branch targets by address. The base of the code is the multiple of 128 by which most
branches lead where their kind says: BSSY behind BSYNC, a repeated wait to the wait. A launch without a
clear one is left out and counted. No GPU is needed; it takes a minute.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pandas as pd

from benchmarks.harness.command import REPOSITORY
from benchmarks.validation.truth.store import SPLITS, stored
from ncubble.analysis.ablation.code import parts_of
from ncubble.analysis.ablation.listing import estimated_counts, unit_of
from ncubble.analysis.account.account import account

TRUTH = REPOSITORY / "recordings" / "validation" / "truth"
_GOES = r"\b(?:BRA|BSSY|CALL|RET|WARPSYNC)"
_ADDRESS = re.compile(r"\b0x([0-9a-f]{9,})\b")
_WAIT = "SYNCS.PHASECHK"


def relative(source: pd.DataFrame) -> pd.DataFrame | None:
    """``source`` with branch targets relative to its begin; None where the base is not clear."""
    texts, opcodes = source["sass"].tolist(), source["opcode"].tolist()
    rows = {int(pc): row for row, pc in enumerate(source["pc"])}
    going = source["sass"].str.contains(_GOES).tolist()
    targets = [
        (row, int(match[1], 16)) for row, text in enumerate(texts) if going[row] and (match := _ADDRESS.search(text))
    ]
    if not targets:
        return source
    size, addresses = max(rows) + 16, [address for _, address in targets]

    def fits(base: int) -> int:
        score = 0
        for row, address in targets:
            at = rows.get(address - base)
            if at is None:
                score -= 1
                continue
            score += 3 * ("BSSY" in texts[row] and opcodes[at - 1].startswith("BSYNC"))
            score += 2 * (row > 0 and opcodes[row - 1].startswith(_WAIT) and opcodes[at].startswith(_WAIT))
            score += at == row
        return score

    first = -(-max(max(addresses) - size, 0) // 128) * 128
    base = max(range(first, min(addresses) + 1, 128), key=fits, default=None)
    if base is None or fits(base) <= 0:
        return None
    moved = [
        _ADDRESS.sub(lambda match: f"{int(match[1], 16) - base:#x}", text) if goes else text
        for text, goes in zip(texts, going, strict=True)
    ]
    return source.assign(sass=moved)


def same_parts(source: pd.DataFrame, unit: str) -> bool | None:
    """Whether both ways find the same instructions of every part; None where the base is not
    clear."""
    known = relative(source)
    if known is None:
        return None
    alone = known.assign(executed=0.0)
    alone["executed"] = estimated_counts(alone)
    return dict(parts_of(source, unit).rows) == dict(parts_of(alone, unit_of(alone)).rows)


def main(arguments: list[str]) -> None:
    """Print how many launches of each kind agree."""
    folder = Path(arguments[0]) if arguments else TRUTH
    same: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    unclear = 0
    for one in (each for split in SPLITS for each in stored(folder, split)):
        bubbles = account(one.launch)
        if bubbles is None or one.launch.source.empty:
            continue
        agrees = same_parts(one.launch.source, bubbles.unit)
        unclear += agrees is None
        compared[one.kind] += agrees is not None
        same[one.kind] += bool(agrees)
    sys.stdout.write("| kind | launches | same parts |\n| --- | ---: | ---: |\n")
    for kind in sorted(compared):
        sys.stdout.write(f"| {kind} | {compared[kind]} | {same[kind]} |\n")
    sys.stdout.write(f"| all | {compared.total()} | {same.total()} |\n")
    sys.stdout.write(f"{unclear} launches are left out: the base of their code is not clear\n")


if __name__ == "__main__":
    main(sys.argv[1:])
