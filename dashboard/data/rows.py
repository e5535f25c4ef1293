"""One row of the overview's table per launch. Pure: a report, a launch number and a verdict in, a
flat dict out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ncubble.analysis.account.palette import GOOD_CAUSES
from ncubble.analysis.account.parts import PARTS, WORK, part_label
from ncubble.analysis.compare.shapes import telling_dims
from ncubble.analysis.diagnosis.diseases import disease_words
from ncubble.analysis.diagnosis.words import biggest_bubble, bubble_pct, unit_short
from ncubble.analysis.model.roofs import Subject, speeds
from ncubble.text.gpus import short_gpu
from ncubble.text.values import number


def launch_row(report: Any, launch: int, verdict: dict[str, Any]) -> dict[str, Any]:
    """JSON-ready row: text or None, finite floats or None; ``parameters`` and ``dims`` of the run
    by name.

    Durations in ns, shares in percent of elapsed time. ``recoverable_ns`` is the idle time of the
    counted unit, by which the table is ordered: zero for a launch that is saturated or
    memory-bound, None where the account or the duration is not collected.
    """
    account = {name: number(value) for name, value in (verdict.get("account") or {}).items()}
    largest = biggest_bubble(account)
    cause = str(verdict.get("cause") or "unknown")
    kernel = str(verdict.get("kernel") or "")
    subject = report.launch(launch)
    known, facts = subject.identity, facts_of(report, launch, kernel)
    label, shape = kernel_label(known, facts)
    demangled = str(known.get("demangled") or "") or kernel
    return {
        "id": f"{report.key[:16]}/{launch}",
        "kernel": kernel,
        "name": telling_name(kernel, demangled),
        "demangled": demangled,
        "label": label,
        "shape": shape,
        "launch": launch,
        "device": verdict.get("device") or None,
        "gpu": short_gpu(verdict.get("device")),
        "duration_ns": _rounded(verdict.get("duration_ns"), 1),
        "unit": unit_short(verdict.get("unit")) or None,
        "busy": _rounded(_busy_pct(account)),
        "tensor": _rounded(verdict.get("tensor_elapsed_pct")),
        "dram": _rounded(verdict.get("dram_pct")),
        "account": [[name, _rounded(account.get(name))] for name in PARTS if account.get(name)],
        "cause": part_label(cause),
        "cause_key": cause,
        "disease": disease_words(verdict.get("disease")) or _next_cause(verdict) or None,
        "cause_pct": _cause_pct(verdict, cause),
        "bubble": part_label(largest[0]) if largest else None,
        "bubble_key": largest[0] if largest else None,
        "bubble_pct": _rounded(largest[1]) if largest else None,
        "recoverable_ns": recoverable_ns(verdict),
        "cycles": _rounded(verdict.get("cycles"), 0),
        "parameters": dict(facts.get("parameters") or {}),
        "dims": dict(facts.get("shape") or {}),
        **_launch_facts(known, subject.scalars),
        **speeds(_subject(known, subject.scalars, verdict, facts)),
        "report": report.run.label_of(int(verdict["launch"])),
        "path": str(report.run.path),
    }


def _launch_facts(known: Mapping[str, Any], scalars: Mapping[str, float]) -> dict[str, Any]:
    """Geometry, resources and provenance of the launch: text or None, finite floats or None."""
    shared = [number(known.get(name)) for name in ("smem_static_B", "smem_dynamic_B")]
    clock = number(known.get("sm_clock_hz"))
    texts = {name: known.get(name) for name in ("grid", "block", "compute_capability", "ncu_version", "nvtx")}
    return {
        **{name: str(value) if isinstance(value, str) and value else None for name, value in texts.items()},
        "clock_ghz": None if clock is None else round(clock / 1e9, 4),
        "registers": number(known.get("registers")),
        "smem_B": None if None in shared else sum(value or 0.0 for value in shared),
        "ctas": number(scalars.get("launch__grid_size")),
        "waves": _rounded(scalars.get("launch__waves_per_multiprocessor")),
        "occupancy": _rounded(scalars.get("sm__warps_active.avg.pct_of_peak_sustained_active")),
        "occupancy_limit": _rounded(scalars.get("sm__maximum_warps_per_active_cycle_pct")),
    }


def _subject(
    known: Mapping[str, Any], scalars: Mapping[str, float], verdict: Mapping[str, Any], facts: Mapping[str, Any]
) -> Subject:
    """The launch as the roofline sees it."""
    return Subject(
        scalars,
        number(verdict.get("duration_ns")),
        number(known.get("sm_clock_hz")),
        number(facts.get("flops")),
        str(facts.get("dtype") or ""),
        number(verdict.get("tensor_elapsed_pct")),
        str(known.get("compute_capability") or ""),
    )


def labels(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The label of each row, and behind it the dimensions in which rows of the same name and label
    differ."""
    names = [(row["name"], row["label"]) for row in rows]
    dims = telling_dims(names, [row["shape"].split() for row in rows])
    return [f"{row['label']} {words}".rstrip() for row, words in zip(rows, dims, strict=True)]


def _busy_pct(account: dict[str, float | None]) -> float | None:
    """Percent of elapsed time in which the counted unit works; None without an account."""
    known = [value for name in WORK if (value := account.get(name)) is not None]
    return sum(known) if known else None


def _cause_pct(verdict: dict[str, Any], cause: str) -> float | None:
    """What the cause in the table costs, in percent of kernel time; None for causes that are no
    part of the account."""
    wanted = (
        verdict["causes"][:1] if cause == "no_tensor_work" and verdict.get("causes") else verdict.get("causes") or []
    )
    found = (one.get("pct") for one in wanted if cause in ("no_tensor_work", one.get("cause")))
    return _rounded(next(found, None))


def _next_cause(verdict: dict[str, Any]) -> str:
    """The first bubble of a kernel without tensor work, whose cause alone would say nothing of
    it."""
    causes = verdict.get("causes") or []
    return part_label(str(causes[0].get("cause"))) if verdict.get("cause") == "no_tensor_work" and causes else ""


def recoverable_ns(verdict: dict[str, Any]) -> float | None:
    """Idle time of the counted unit in ns: duration times bubble share; 0.0 where there is nothing
    to gain."""
    if verdict.get("cause") in GOOD_CAUSES:
        return 0.0
    took, idle = number(verdict.get("duration_ns")), bubble_pct(verdict.get("account"))
    return None if took is None or idle is None else round(took * idle / 100.0, 1)


def kernel_label(known: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[str, str]:
    """Parameters and shape of the run's ``facts``; where there are none, grid and block of the
    launch, twice.

    A kernel without parameters shows its shape in their place.
    """
    geometry = f"grid {known['grid']} × block {known['block']}" if known.get("grid") else ""
    parameters, shape = (_pairs(facts.get(name)) for name in ("parameters", "shape"))
    return parameters or shape or geometry, shape or geometry


def facts_of(report: Any, launch: int, kernel: str) -> dict[str, Any]:
    """What the manifest says of this kernel; empty where it speaks of another one that the program
    launched, too."""
    facts: dict[str, Any] = report.run.manifest.kernel_of(launch)
    function = str(facts.get("function") or "")
    return facts if function and function in kernel else {}


def _pairs(values: Any) -> str:
    return " ".join(f"{key}={value}" for key, value in (values or {}).items())


_CASTS = re.compile(r"\((?:int|bool|unsigned int|long|unsigned long)\)(?=-?\d)")


def telling_name(kernel: str, demangled: str) -> str:
    """The kernel's base name; where that is a word that every library uses, the qualified name with
    its arguments.

    The demangler's casts before values are left out.
    """
    if kernel.lower().rstrip("0123456789_") not in ("kernel", "main", "device_kernel", ""):
        return kernel
    return _CASTS.sub("", demangled).removeprefix("void ").rsplit("(", 1)[0] or kernel


def _rounded(value: Any, digits: int = 4) -> float | None:
    """Short in JSON, yet so fine that what is shown of it is rounded as the verdict itself would
    be."""
    result = number(value)
    return None if result is None else round(result, digits)
