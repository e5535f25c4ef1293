"""Which programs ``ncubble ablate`` works on: a table of what was measured, what failed, and whether
the program's results stay as they are.

    python -m benchmarks.ablation.reach OUT [--only REGEX]     # measures, on a GPU
    python -m benchmarks.ablation.reach OUT --show             # what OUT holds

Runs that exist in OUT are kept. A program that prints a hash of its results is run without and with
``ablate``, and both hashes are compared.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness.command import NCUBBLE, REPOSITORY
from ncubble.analysis.ablation.result import Ablation

HASH = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True)
class Subject:
    """A program: a kernel of the catalog (``words`` of the command line), or a launch of
    ``programs`` with a pattern for its kernel."""

    name: str
    words: tuple[str, ...]
    program: tuple[str, ...] = ()


def _program(name: str, kernel: str, skip: int = 1) -> Subject:
    words = ("--kernel", kernel, "--skip", str(skip))
    return Subject(name, words, (sys.executable, "-m", "benchmarks.ablation.programs", name))


def _kernel(name: str, *parameters: str) -> Subject:
    options = tuple(word for parameter in parameters for word in ("-p", parameter))
    return Subject("-".join((name, *parameters)).replace("=", ""), (name, *options))


SUBJECTS = (
    *(
        _kernel(name)
        for name in (
            *("async_copy_coop", "async_copy_manual", "async_copy_pipeline", "async_copy_tma", "async_pipeline"),
            *("attention_fwd", "cluster_dsmem", "gemm_mma_swizzled", "gemm_tma", "gemm_ws", "persistent"),
            *("sdpa_fp8_stage_c_wmma", "softmax_online", "tensor_core_gemm", "tiled_matmul", "warp_specialized"),
            *("stream_pipeline", "numba_async_pipeline", "numba_softmax_online", "numba_tiled_matmul"),
        )
    ),
    _kernel("attention_fwd", "path=cp_async"),
    *(_program(name, "^foreign_") for name in ("gemm_s3_bf16", "gemm_mma_sync", "dequant_s3", "attention_d128")),
    *(_program(name, "^foreign_") for name in ("softmax", "layernorm")),
    _program("matmul_4096_fp16", "nvjet|gemm"),
    _program("sdpa_cudnn_d128", "sdpa"),
    _program("sdpa_flash_d128", "flash"),
    _program("compiled", "triton_"),
)


@dataclass(frozen=True)
class Attempt:
    """What came of one: seconds of the whole command, hashes of the program's result without and
    with ``ablate`` (empty: it prints none), and why nothing was measured."""

    name: str
    seconds: float
    plain: str
    ablated: str
    error: str


def attempt(subject: Subject, out: Path) -> Attempt:
    """Run one subject without and with ``ablate``."""
    plain = _hash(_run(subject.program)) if subject.program else ""
    tail = ("--", *subject.program) if subject.program else ()
    begin = time.monotonic()
    done = _run((*NCUBBLE, "ablate", "--out", str(out / subject.name), *subject.words, *tail))
    error = "" if done.returncode == 0 else " ".join(done.stderr.strip().splitlines()[-2:])
    return Attempt(subject.name, time.monotonic() - begin, plain, _hash(done), error)


def _run(argv: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=REPOSITORY)


def _hash(done: subprocess.CompletedProcess[str]) -> str:
    found = HASH.search(done.stdout + done.stderr)
    return found[0] if found else ""


def row(tried: Attempt, ablation: Ablation | None) -> str:
    """One line of the table."""
    same = "" if not tried.plain else "identical" if tried.plain == tried.ablated else "DIFFER"
    if ablation is None:
        return f"| {tried.name} | – | – | {same} | – | {tried.error} |"
    ran = [variant for variant in ablation.variants if variant.status == "ok"]
    failed = ", ".join(f"{variant.name} {variant.status}" for variant in ablation.variants if variant.status != "ok")
    faithful = {True: "yes", False: "no", None: "?"}[ablation.faithful]
    took = ablation.seconds.get("ablate", 0.0)
    return f"| {tried.name} | {len(ran)} of {len(ablation.variants)} | {faithful} | {same} | {took:.1f} | {failed} |"


def main() -> int:
    """Measure what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="subjects whose name matches")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    log = options.out / "attempts.json"
    tried = {entry["name"]: Attempt(**entry) for entry in json.loads(log.read_text())} if log.is_file() else {}
    for subject in SUBJECTS:
        if options.show or subject.name in tried or not re.search(options.only, subject.name):
            continue
        tried[subject.name] = attempt(subject, options.out)
        log.write_text(json.dumps([asdict(entry) for entry in tried.values()], indent=1) + "\n", encoding="utf-8")
    sys.stdout.write("| program | variants | replay is faithful | program's result | ablate, s | not measured |\n")
    sys.stdout.write("| --- | --- | --- | --- | ---: | --- |\n")
    for entry in tried.values():
        sys.stdout.write(row(entry, Ablation.load(options.out / entry.name)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
