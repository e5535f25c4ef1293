"""How a sweep scales: on the GPUs of one host, and with more workers than any host has GPUs.

    python -m benchmarks.sweeps.scaling gpus [--counts 1,2,4] [--jobs 24] [--repeats 5] [--out DIR] [--json]
    python -m benchmarks.sweeps.scaling simulate [--workers 1000] [--jobs 3000] [--seconds 30] [--hosts 4] [--json]

``gpus`` profiles the same list of jobs with 1, 2, 4 GPUs and gives jobs per second from the first
job's start to the last one's end (``rate``), and with the start of the cluster (``rate_in_all``).
Then it profiles one job ``repeats`` times on the first GPU, alone and while all others are busy,
and compares tensor utilization by the gate's noise model.

``simulate`` runs this package's sweep, unchanged, over that many Dask workers, whose jobs sleep and
come back with the report of a real run. The scheduler is a process of its own, the workers share a
few: whole Dask workers with their own connections, but without the profilers and system monitors
that on a real cluster run on the workers' hosts. Given is the CPU time per job of scheduler,
workers and sweep (client and store), of which nothing but the sleeping is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.harness.command import module
from ncubble.api.sweep_child import CHILD
from ncubble.api.sweeping import plan_sweep
from ncubble.profiling import provenance
from ncubble.profiling.sweeps import cluster as sweep_cluster
from ncubble.profiling.sweeps import worker as sweep_worker
from ncubble.profiling.sweeps.cluster import DaskWorkers
from ncubble.profiling.sweeps.dispatch import Dispatch, SweepSettings, plan
from ncubble.profiling.sweeps.store import Attempt, Machine, Record, Store, SweepJob
from ncubble.profiling.sweeps.worker import Reply
from ncubble.recordings import ROOT

RECORDED = ROOT / "tensor_core_gemm" / "stages2"
PLAYED = Machine("simulated", tools={"ncu": "2025.3.1", "nvcc": "13.0"}, host="simulated")
TENSOR_CV_PCT = 0.26  # the largest of 12 repeats of 11 kernels on an H200


def jobs_of(name: str, count: int, *axes: str) -> tuple[list[SweepJob], tuple[str, ...]]:
    """The first ``count`` points of a grid of a catalog kernel."""
    found = plan_sweep(name, axes)
    if len(found.jobs) < count:
        raise SystemExit(f"the grid has {len(found.jobs)} points, not {count}")
    return found.jobs[:count], found.tools


def settle(
    workers: DaskWorkers,
    folder: Path,
    jobs: Sequence[SweepJob],
    tools: Sequence[str],
    observe: Callable[[Record], None],
    **instead: Any,
) -> float:
    """Run a sweep; returns the seconds from the first order to the last record. ``instead``: what
    workers call in place of ``probe`` (``ask``) and ``run_job`` (``work``)."""
    vars(workers).update(instead)
    settings = SweepSettings(CHILD, tools, wait_s=300.0)
    with Store(folder) as store:
        dispatch = Dispatch(workers, store, settings)
        todo, _ = plan(jobs, store, dispatch.gather(), settings)
        begun = time.monotonic()
        dispatch.run(todo.values(), lambda task, record: observe(record))
        return time.monotonic() - begun


# --- GPUs of this host


def on_gpus(given: argparse.Namespace) -> dict[str, Any]:
    machine = sweep_worker.probe(CHILD)
    if machine.why_not:
        raise SystemExit(machine.why_not)
    gpus = sweep_cluster.chosen_gpus(machine.gpus, ())
    jobs, tools = jobs_of("tensor_core_gemm", given.jobs, "stages=1:6", "vec=4,16", "k=2048,4096")
    build(jobs)
    rows = []
    for count in [one for one in map(int, given.counts.split(",")) if one <= len(gpus)]:
        rows.append(throughput(gpus[:count], jobs, tools, given.out / f"gpus{count}"))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    for row in rows:
        row["speedup"] = round(row["rate"] / rows[0]["rate"], 3)
        row["speedup_in_all"] = round(row["rate_in_all"] / rows[0]["rate_in_all"], 3)
    shared = throughput(gpus[:2], jobs[:8], tools, given.out / "shared", work=one_lock) if len(gpus) > 1 else None
    print(json.dumps({"one lock for all GPUs": shared}), file=sys.stderr, flush=True)
    beside = neighbours(gpus, tools, given.repeats, given.out) if len(gpus) > 1 else None
    head = {"device": machine.device, "gpus": len(gpus), "jobs": len(jobs)}
    return {**head, "throughput": rows, "one_lock": shared, "neighbours": beside}


def build(jobs: Sequence[SweepJob]) -> None:
    """Compile everything beforehand: the cache of cubins is shared, and is warm for all but the
    first sweep."""
    from benchmarks.validation.batch import build_all, checked
    from ncubble.kernels.build import arch_for
    from ncubble.profiling.driver import describe

    major, minor = describe().capability
    build_all(checked([_entry(job) for job in jobs]), arch_for(major, minor))


def _entry(job: SweepJob) -> dict[str, Any]:
    return {"kernel": job.about["kernel"], "parameters": job.about["parameters"], "shape": job.about["shape"]}


def one_lock(order: Any, child: Any, limit_s: float, machine: Any, apart: bool, say: Any) -> Reply:
    """A job as it would be if all GPUs shared ncu's lock of the host."""
    sweep_worker.gpus_of_host = lambda: 0
    return sweep_worker.run_job(order, child, limit_s, machine, False, say)


def throughput(
    gpus: Sequence[str], jobs: Sequence[SweepJob], tools: Sequence[str], folder: Path, **instead: Any
) -> dict[str, Any]:
    records: list[Record] = []
    begun = time.monotonic()
    with sweep_cluster.local(gpus) as client:
        took = settle(client, folder, jobs, tools, records.append, **instead)
    in_all = time.monotonic() - begun
    seconds = [record.attempts[-1].seconds for record in records]
    return {
        "gpus": len(gpus),
        "ok": sum(record.state == "ok" for record in records),
        "seconds": round(took, 2),
        "seconds_in_all": round(in_all, 2),
        "rate": round(len(records) / took, 4),
        "rate_in_all": round(len(records) / in_all, 4),
        "job_mean_s": round(sum(seconds) / len(seconds), 3),
        "errors": sorted({record.error[:200] for record in records if record.error}),
    }


def neighbours(gpus: Sequence[str], tools: Sequence[str], repeats: int, folder: Path) -> dict[str, Any]:
    """Tensor utilization of one job on the first GPU, alone and while the others profile other
    jobs."""
    from ncubble.analysis.gate.noise import compare

    (job,), _ = jobs_of("tensor_core_gemm", 1, "stages=3")
    with sweep_cluster.local(gpus[:1]) as client:
        alone = [measured(client, job, tools, folder / f"alone{number}") for number in range(repeats)]
    others, _ = jobs_of("gemm_mma_swizzled", 18, "stages=2:4", "tile_n=128,256", "m=4096,6144,8192")
    build(others)
    with (
        sweep_cluster.local(gpus[1:]) as busy,
        sweep_cluster.local(gpus[:1]) as client,
        _beside(busy, others, tools, folder),
    ):
        crowded = [measured(client, job, tools, folder / f"beside{number}") for number in range(repeats)]
    found: dict[str, Any] = {"alone": alone, "beside": crowded}
    for name in ("tensor_elapsed_pct", "duration_ns"):
        before, after = ([one[name] for one in side] for side in (alone, crowded))
        verdict = compare(before, after, better="higher", limit_pct=1.0, cv_pct=TENSOR_CV_PCT)
        found[name] = {
            "outcome": verdict.outcome,
            "change_pct": verdict.change_pct,
            "decision_pct": verdict.decision_pct,
        }
    return found


@contextmanager
def _beside(client: Any, jobs: Sequence[SweepJob], tools: Sequence[str], folder: Path) -> Any:
    """Keep the workers of ``client`` busy meanwhile."""
    import threading

    done = threading.Event()

    def work() -> None:
        number = 0
        while not done.is_set():
            with suppress(Exception):  # the cluster is closed in the end
                settle(client, folder / f"busy{number}", jobs, tools, lambda record: None)
            number += 1

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(4.0)
    try:
        yield
    finally:
        done.set()


def measured(client: Any, job: SweepJob, tools: Sequence[str], folder: Path) -> dict[str, float]:
    from ncubble.analysis.diagnosis.results import judge_all
    from ncubble.analysis.report.report import open_reports

    settle(client, folder, [job], tools, lambda record: None)
    (launch,) = judge_all(*open_reports([folder])).to_json()["launches"]
    return {name: launch[name] for name in ("tensor_elapsed_pct", "duration_ns")}


# --- a thousand workers


def played(seconds: float, files: dict[str, bytes]) -> Callable[..., Any]:
    """A job that only takes time. As a coroutine it needs no thread of its own in the worker."""

    async def work(order: Any, child: Any, limit_s: float, machine: Any, apart: bool, say: Any) -> Reply:
        started = provenance.utc_now()
        await asyncio.sleep(seconds)
        return Reply(Attempt("ok", started, provenance.utc_now(), seconds), files=files)

    return work


def simulate(given: argparse.Namespace) -> dict[str, Any]:
    jobs, tools = jobs_of("tensor_core_gemm", given.jobs, f"m=128:{128 * given.jobs}:128")
    files = {path.name: path.read_bytes() for path in RECORDED.iterdir()}
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    begun = time.monotonic()
    with processes(given.workers, given.hosts) as (address, pids), sweep_cluster.running(address) as client:
        client.client.wait_for_workers(given.workers, timeout=600)
        print(f"{given.workers} workers after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        started, ends = time.monotonic() - begun, list[float]()
        before = {name: sum(map(cpu_s, some)) for name, some in pids.items()}
        took = settle(
            client,
            given.out / "simulated",
            jobs,
            tools,
            lambda record: ends.append(time.monotonic()),
            work=played(given.seconds, files),
            ask=lambda child: PLAYED,
        )
        cpu = {name: sum(map(cpu_s, some)) - before[name] for name, some in pids.items()}
    ideal = -(-given.jobs // given.workers) * given.seconds
    return {
        "workers": given.workers,
        "hosts": given.hosts,
        "jobs": given.jobs,
        "job_s": given.seconds,
        "report_bytes": sum(map(len, files.values())),
        "settled": len(ends),
        "start_s": round(started, 1),
        "seconds": round(took, 2),
        "ideal_s": ideal,
        "busy_pct": round(100 * ideal / took, 1),
        **{f"{name}_ms_per_job": round(1e3 * value / given.jobs, 2) for name, value in cpu.items()},
        "peak_MB": {name: round(max(map(peak_mb, some))) for name, some in pids.items() if name == "sweep"},
    }


@contextmanager
def processes(workers: int, hosts: int) -> Any:
    """The address of a scheduler in a process of its own, and process ids by what they are.
    ``hosts`` further processes hold the workers, each of which is a whole Dask worker with its own
    connections."""
    me, quiet = module("sweeps.scaling"), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as folder:
        address = Path(folder) / "scheduler.json"
        line = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(address), "--port", "0"]
        started = [
            subprocess.Popen(
                [*line, "--no-dashboard", "--dashboard-address", "127.0.0.1:0", "--host", "127.0.0.1"], **quiet
            )
        ]
        try:
            while not address.exists():
                time.sleep(0.1)
            shares = [workers // hosts + (number < workers % hosts) for number in range(hosts)]
            started += [subprocess.Popen([*me, "host", str(address), str(share)], **quiet) for share in shares]
            pids = {"scheduler": [started[0].pid], "workers": [one.pid for one in started[1:]], "sweep": [os.getpid()]}
            yield str(address), pids
        finally:
            for process in started:
                process.kill()
                process.wait()


async def host(address: str, count: int) -> None:
    """Be ``count`` workers until killed."""
    from distributed import Worker

    quiet = {
        "distributed.worker.profile.enabled": False,
        "distributed.admin.system-monitor.interval": "1h",
        "distributed.admin.tick.limit": "1h",
        "distributed.worker.memory.monitor-interval": "1h",
    }
    import dask

    with dask.config.set(quiet):
        workers = [Worker(scheduler_file=address, nthreads=1, memory_limit=0, dashboard=False) for _ in range(count)]
        for worker in workers:
            await worker
        await asyncio.sleep(3600)


def cpu_s(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    """Largest resident memory so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how a sweep scales")
    modes = parser.add_subparsers(dest="mode", required=True)
    real, many = modes.add_parser("gpus"), modes.add_parser("simulate")
    real.add_argument("--counts", default="1,2,4")
    real.add_argument("--jobs", type=int, default=24)
    real.add_argument("--repeats", type=int, default=5)
    many.add_argument("--workers", type=int, default=1000)
    many.add_argument("--jobs", type=int, default=3000)
    many.add_argument("--seconds", type=float, default=30.0)
    many.add_argument("--hosts", type=int, default=4, help="processes that hold the workers")
    hosting = modes.add_parser("host")
    hosting.add_argument("address")
    hosting.add_argument("count", type=int)
    for mode in (real, many):
        mode.add_argument("--out", type=Path, help="where the stores go (default: a folder that is removed)")
        mode.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.mode == "host":
        asyncio.run(host(given.address, given.count))
        return 0
    keep, given.out = given.out, given.out or Path(tempfile.mkdtemp(prefix="ncubble-scaling-"))
    try:
        found = on_gpus(given) if given.mode == "gpus" else simulate(given)
    finally:
        if keep is None:
            shutil.rmtree(given.out, ignore_errors=True)
    print(
        json.dumps(found, indent=1) if given.json else "\n".join(f"{name:16} {value}" for name, value in found.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
