"""Cut a run directory down to what is read of it: of the modules in its report, the machine code of
functions that were not profiled becomes zeros.

    python -m benchmarks.program.cut RUN

A report embeds the whole module of every launch. Those of PyTorch hold thousands of functions, so
that 33 launches of a training step take 56 MB. Counters, samples and the code of the profiled
functions stay as they are.
"""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import ncu_report
from elftools.elf.elffile import ELFFile

from benchmarks.reports.compose import (
    MAGIC,
    NUM_SOURCES,
    Block,
    parse,
    plain_bytes,
    read_blocks,
    replaced,
    serialize,
    value_of,
    write_block,
)
from ncubble.profiling.provenance import sha256
from ncubble.profiling.recorders.ncu import compress
from ncubble.profiling.runs import Run

CUBIN = 4  # field of a module
SECTIONS = (".text.", ".nv.", ".debug", ".rel")


def cut(folder: Path) -> None:
    """Rewrite the report of a run directory, and its manifest's size and hash."""
    run = Run.load(folder)
    data = plain_bytes(run.report)
    raw = run.report.with_suffix(".ncu-rep")
    raw.write_bytes(data)
    launches = ncu_report.load_report(str(raw)).range_by_idx(0)
    mangled = ncu_report.IAction.NameBase_MANGLED
    names = {launches.action_by_idx(index).name(mangled) for index in range(launches.num_actions())}
    head, blocks = read_blocks(data)
    written = [write_block(_without_others(block, tuple(names))) for block in blocks]
    raw.write_bytes(MAGIC + len(head).to_bytes(4, "little") + head + b"".join(written))
    stored = compress(raw)
    report = {**run.manifest.report, "bytes": stored.stat().st_size, "sha256": sha256(stored)}
    replace(run.manifest, report=report).save(folder)


def _without_others(block: Block, names: tuple[str, ...]) -> Block:
    modules = int(value_of(block.header, NUM_SOURCES))
    return Block(block.header, [_smaller(one, names) for one in block.messages[:modules]] + block.messages[modules:])


def _smaller(module: bytes, names: tuple[str, ...]) -> bytes:
    fields = parse(module)
    cubin = value_of(fields, CUBIN)
    if not isinstance(cubin, bytes):
        return module
    code = bytearray(cubin)
    for section in ELFFile(io.BytesIO(cubin)).iter_sections():
        if (
            section.name.startswith(SECTIONS)
            and not section.name.endswith(names)
            and section["sh_type"] != "SHT_NOBITS"
        ):
            start, size = section["sh_offset"], section["sh_size"]
            code[start : start + size] = bytes(size)
    return serialize(replaced(fields, {CUBIN: bytes(code)}))


if __name__ == "__main__":
    cut(Path(sys.argv[1]))
