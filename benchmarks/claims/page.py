"""docs/claims.md, from claims and measurements alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.claims.rules import (
    FALSE,
    NOT_MEASURED,
    NOT_TESTABLE,
    PARTLY,
    TRUE,
    Claim,
    Results,
    failure,
    note,
    shown,
    verdict,
)

SEEDS = {
    "000": "Asynchronous pipelines (A100/Hopper)",
    "001": "Asynchronous copy (cp.async/TMA)",
    "002": "cp.async in the FP8 SDPA Stage-C WMMA kernel",
    "003": "Inter-kernel pipelining, synchronization, stream-ordered allocation",
    "004": "TMA/async memory integration",
}
VERDICTS = (TRUE, PARTLY, FALSE, NOT_TESTABLE, NOT_MEASURED)
GROUPS = range(9)
RESIDENT = (1, 2, 4, 8)


def line(claim: Claim, results: Results) -> str:
    """One claim for the terminal."""
    found = verdict(claim, results)
    if found == NOT_TESTABLE:
        said = claim.reason
    elif found == NOT_MEASURED:
        said = failure(claim, results)
    else:
        said = shown(claim, results)
    return f"{found:12} {claim.id:30} {said}"


def page(claims: Sequence[Claim], measured: Mapping[str, Any]) -> str:
    """The whole document. ``measured``: what ``claims/__main__.py --measure`` wrote."""
    results: Results = measured["measurements"]
    parts = [
        HEAD.format(**{key: measured.get(key) or "unknown" for key in ("device", "driver", "nvcc", "ncu", "date")})
    ]
    parts.append(summary(claims, results))
    for seed, title in SEEDS.items():
        chosen = [claim for claim in claims if claim.seed == seed]
        parts.append(f"## {seed}: {title}\n\n{seed_table(chosen, results)}")
    parts.append("## The three questions of 000")
    parts += [question(results) for question in QUESTIONS]
    return "\n\n".join(parts) + "\n"


HEAD = """# Claims, measured

Every testable claim of five documents on asynchronous pipelines, in our words, with the verdict that follows from a
measurement. Measured on an {device} (driver {driver}, nvcc {nvcc}, ncu {ncu}) on {date}. This page is generated:

    python -m benchmarks.claims --measure docs/validation/claims.json   # on a machine with GPU, nvcc and ncu
    python -m benchmarks.claims --write                                 # this page, anywhere
    python -m benchmarks.claims --only 000-n-is-pending-groups          # one claim: its values and its verdict

Claims, and the rules from which verdicts are computed, are data: [claims.toml](../benchmarks/claims/claims.toml). A
verdict is *true* if all rules of a claim hold, *false* if none does, *partly* if some do. *Hidden*, *no* and *same*
mean within 5 %, *faster* and *better* by at least 2 %, *about* within a quarter; *overlap* means that at least half of
what could be hidden is. A target that is exceeded is reached. A gain of 10 % is a tenth more speed (old time over
new). Rows without their own command are measured by `--only` and the id in the last column. All times are from this
GPU, unless a row names another one; claims about an A100 were tested on it, too."""


def summary(claims: Sequence[Claim], results: Results) -> str:
    """Verdicts by document."""
    used = [name for name in VERDICTS if any(verdict(claim, results) == name for claim in claims)]
    rows = []
    for seed, title in SEEDS.items():
        counted = Counter(verdict(claim, results) for claim in claims if claim.seed == seed)
        rows.append([f"{seed}: {title}", *(str(counted[name]) for name in used), str(sum(counted.values()))])
    whole = Counter(verdict(claim, results) for claim in claims)
    rows.append(["all", *(str(whole[name]) for name in used), str(len(claims))])
    return table(["document", *used, "claims"], rows, right=True)


def seed_table(claims: Sequence[Claim], results: Results) -> str:
    """The claims of one document."""
    return table(["claim", "verdict", "measured", "command or id"], [_row(claim, results) for claim in claims])


def _row(claim: Claim, results: Results) -> list[str]:
    found = verdict(claim, results)
    command = f"`{claim.command or claim.id}`"
    if found == NOT_TESTABLE:
        return [claim.claim, found, claim.reason, "–"]
    if found == NOT_MEASURED:
        return [claim.claim, found, failure(claim, results), command]
    further = note(claim, results)
    told = shown(claim, results) + (f". *{_sentence(further)}*" if further else "")
    return [claim.claim, f"**{found}**", told + _elsewhere(claim, results), command]


def _elsewhere(claim: Claim, results: Results) -> str:
    """Which measurements of a claim were taken on another GPU than the rest of the page."""
    devices = {name: results[name].get("device") for name in sorted(claim.measurements)}
    taken = [f"`{name}`: {device}" for name, device in devices.items() if device]
    return f" ({', '.join(taken)})" if taken else ""


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: bool = False) -> str:
    """A Markdown table; ``right`` aligns all columns but the first."""
    rule = ["---", *("---:" if right else "---" for _ in header[1:])]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *cells))


def _values(results: Results, name: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = results.get(name, {}).get("values")
    return found


def waiting(results: Results) -> str:
    """What N is."""
    head = "### What does N in `cp.async.wait_group N` stand for?\n\n"
    groups, scope = _values(results, "wait_group"), _values(results, "wait_group_scope")
    if groups is None or scope is None:
        return head + "Not measured."
    text = (
        "The number of the calling thread's *newest* commit groups that may still be in flight. All older ones are "
        "complete when the "
        "wait ends; the newest N may or may not be. One warp commits 8 groups of 8 KB each, waits, and looks into "
        "shared memory, which "
        "was poisoned before, newest group first:\n\n"
    )
    rows = [
        [
            str(pending),
            f"{groups[f'cycles_{pending}']:.0f}",
            f"{groups[f'guaranteed_{pending}']:.0f}",
            f"{groups[f'landed_{pending}']:.0f}",
        ]
        for pending in GROUPS
    ]
    text += table(["N", "cycles in the wait", "oldest groups, all complete", "groups found complete"], rows, right=True)
    text += (
        "\n\nSo a ring of S stages, with one group committed per tile (an empty one past the last), waits with N = "
        "S - 2 for the tile that "
        "it is about to use, if it starts the next copy after the wait (two buffers: N = 0), and with N = S - 1 if "
        "before (two buffers: N = 1). Two things that the document leaves out:\n\n"
        "- The wait covers the caller's own copies. A warp that read what another warp had copied, without "
        "`__syncthreads()`, found stale "
        f"data in {scope['stale_launches_pct']:.0f} % of the launches (median {scope['stale_pieces']:.0f} of 512 "
        "pieces); with it, "
        f"{scope['stale_with_barrier']} in all.\n"
        "- Groups are counted, not tiles. If nothing is committed behind the last tile, N = 1 does not wait for it: "
        "it was still on its way "
        f"in {scope['last_tile_in_flight_pct']:.0f} % of the launches.\n\n"
        "`python -m benchmarks.claims --only wait_group wait_group_scope`"
    )
    return head + text


def occupying(results: Results) -> str:
    """Why lower occupancy suffices."""
    head = "### Why does `cp.async` allow lower occupancy?\n\n"
    lone, reads, products = (_values(results, name) for name in ("overlap", "residency", "matmul_copies"))
    if lone is None or reads is None or products is None:
        return head + "Not measured."
    text = (
        "What hides latency is bytes in flight: latency times bandwidth. Warps are one way to have them in flight, "
        "loads of one warp that "
        "do not wait for each other are another. One warp alone on its SM, 4 KB from DRAM and 200 dependent FMAs "
        "per tile, in cycles:\n\n"
    )
    rows = [
        ["`cp.async`", lone["async_copy"], lone["math"], lone["async_serial"], lone["async_both"]],
        ["plain loads", lone["plain_copy"], lone["math"], lone["plain_after_use"], lone["plain_before_use"]],
    ]
    cells = [[row[0], *(f"{value:.0f}" for value in row[1:])] for row in rows]
    text += table(["", "copy", "FMAs", "FMAs after the copy", "FMAs while it is under way"], cells, right=True)
    text += (
        "\n\nBoth overlap within the warp; the warp need not be switched. The difference is where the data waits. "
        "Plain loads hold registers "
        "until they land, and whoever reads one waits; cp.async holds shared memory, so copies may run many tiles "
        "ahead. Reading 256 "
        "MiB, GB/s by resident warps per SM (of 64; further CTAs are kept out by shared memory):\n\n"
    )
    kinds = {
        "registers1": "plain loads, 1 in flight per thread",
        "registers8": "plain loads, 8, then all are used",
        "cp_async8": "`cp.async`, always 8",
    }
    rows = [[label, *(f"{reads[f'{kind}_{ctas}']:.0f}" for ctas in RESIDENT)] for kind, label in kinds.items()]
    text += table(["16 bytes each", *(f"{4 * ctas} warps" for ctas in RESIDENT)], rows, right=True)
    text += "\n\nIn a whole kernel, the fp32 product of 4096 cubed:\n\n"
    rows = [
        ["`tiled_matmul`", f"{products['plain_warps']}", f"{products['plain_us']:.0f} µs"],
        ["`async_pipeline -p stages=3`", f"{products['async_warps']}", f"{products['async_us']:.0f} µs"],
        ["`async_pipeline -p stages=3 -p threads=128`", f"{products['half_warps']}", f"{products['half_us']:.0f} µs"],
    ]
    text += table(["", "resident warps per SM", "time"], rows, right=True)
    return head + text + "\n\n`python -m benchmarks.claims --only overlap residency matmul_copies`"


def feeding(results: Results) -> str:
    """Where operands come from."""
    head = "### Where may tensor-core operands come from?\n\n"
    times, built = _values(results, "operands"), _values(results, "snippets")
    if times is None or built is None:
        return head + "Not measured."

    def taken(name: str) -> str:
        return "yes" if built[name] else "refused"

    text = (
        "It depends on the instruction. `mma.sync`, to which WMMA compiles, takes registers; how they were filled "
        "is nobody's "
        "concern. `load_matrix_sync` reads global memory as well as shared memory: `wmma_operands` gives the right "
        "product either way, in "
        f"{times['shared_us']:.0f} µs with tiles in shared memory and in {times['global_us']:.0f} µs straight from "
        "global memory (2048 cubed), "
        f"{times['slower_ratio']:.1f} times as long: every warp then loads what its neighbours load, too, in pieces "
        "that suit the fragment and "
        "not the memory. Hopper's `wgmma` reads shared memory by itself. What ptxas takes for sm_90a:\n\n"
    )
    rows = [
        ["A from shared memory", taken("wgmma_shared_shared"), taken("wgmma_shared_registers")],
        ["A from registers", taken("wgmma_registers_shared"), taken("wgmma_registers_registers")],
    ]
    text += table(["`wgmma`", "B from shared memory", "B from registers"], rows)
    return head + text + "\n\n`python -m benchmarks.claims --only operands snippets`"


QUESTIONS: tuple[Callable[[Results], str], ...] = (waiting, occupying, feeding)
NEEDED = {"wait_group", "wait_group_scope", "overlap", "residency", "matmul_copies", "operands", "snippets"}
