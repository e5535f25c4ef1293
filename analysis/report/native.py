"""The worker process that reads reports: it may crash, hang or run out of memory (see ``reading``).

``python -m ncubble.analysis.report.native`` reads one JSON object per line from stdin: {"path",
"parts": [name], "announced": how many launches the container announces, "first", "last": those
wanted, "series": pattern of the names of series, "listings": directory of machine code that was
read before, "out": directory, "time_limit_s": after which the process ends itself, should nobody be
left to end it}. It writes the raw tables of each part (``tables.TABLES``) as drafts into
``out/PART`` and answers with one JSON object per line: {"ok": true}, {"error": text} where the
report is at fault, {"disk": text} where ``out`` could not be
written, or {"broken": text} where the native reader itself is not there. With "spent": true the
process has grown so much that the next report had better be read by a fresh one.

It imports little: whoever asks waits for its start. The binding, ``ncu_report``, has no call for
many values at once. What it costs per value is one call into C: names, times and values of
instances are taken by ``map`` over those calls, without Python code in between.
"""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ncubble.analysis.report.listings import Listings
from ncubble.analysis.report.tables import MEASURED, TABLES, Column, add_row, new_table, write_draft
from ncubble.profiling.processes import answer_requests, limit_memory, resident_b

Tables = dict[str, dict[str, Column]]
Native = Any
"""An object of NVIDIA's binding (its module, a launch, a metric), which has no types."""
Message = dict[str, Any]
"""A request or an answer, as JSON."""
STALLED = "smsp__pcsamp_warps_issue_stalled_"
LARGEST = 1e18
"""The largest value of the reports below is a peak rate of 1.7e16 operations per second."""
LEAST_PCT = -0.5
"""Percent: ncu derives the work of some pipes from that of others, -0.16 at worst."""
_QUOTIENT = re.compile(r"_rate\b|\.ratio$")
"""What ncu divides by a count that may be 0, which makes it infinite in a whole report."""
_ONLY_GROWS = re.compile(r"(?:launch|sm|smsp|gpc|gpu|dram)__")
"""Counters that are read, not derived: ncu computes some of L1 and L2 as differences of two passes,
which are negative in whole reports."""
_OF_ONE_RUN = re.compile(
    r"(?:gpu__time_duration|(?:sm|smsp|gpc)__cycles_\w+|smsp?__(?:inst|pipe|warps)\w*)\.(?!.*peak_sustained$).*"
)
FAMILIES: dict[float | None, set[tuple[float | None, ...]]] = {
    **{320: {(7, 0), (7, 2)}, 352: {(7, 5)}, 368: {(8, 0), (8, 6), (8, 7)}, 384: {(9, 0)}, 400: {(8, 9)}},
    **{416: {(10, 0), (10, 1), (10, 3)}, 432: {(12, 0), (12, 1)}},
}
"""Compute capabilities by the architecture that the driver names."""
_CHIP = ("architecture", "compute_capability_major", "compute_capability_minor")
FIRST_MAJOR, LAST_MAJOR = 5, 19
MEMORY_LIMIT_B = 8 << 30
SPENT_B = 1 << 30


def extract(
    path: str, parts: Sequence[str], announced: int, first: int, last: int, series: str, listings: str
) -> Tables:
    """Raw tables of launches ``first`` to ``last`` (exclusive; at ``announced``: to the end) of the
    report at ``path``.

    Those of ``scalars`` always, those of ``details`` where ``parts`` has it. ``announced`` is how
    many launches the container announces, ``series`` a pattern of what the names of PM-sampling
    series begin with, ``listings`` a folder of machine code that was read before. Raises ValueError
    for a report that contradicts itself. Each launch is taken once: what the binding parses it
    keeps until the process ends, even if everything is deleted and even if it parses it again.
    """
    import ncu_report

    tables = {name: new_table(TABLES[part][name]) for part in {"scalars", *parts} for name in TABLES[part]}
    reader = _RawReader(ncu_report, tables, re.compile(series), Listings(path, Path(listings), _release(ncu_report)))
    context = ncu_report.load_report(path)
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    places = [(part, number) for part in ranges for number in range(part.num_actions())]
    if len(places) < announced:
        raise ValueError(f"has {len(places)} of the {announced} announced launches: the file is damaged")
    if not places:
        raise ValueError("has no launches: the profiler recorded nothing, or the file is damaged")
    for launch, (part, number) in enumerate(places[first : last if last < announced else None], first):
        reader.read(part.action_by_idx(number), launch)
    reader.listings.keep()
    return tables


class _RawReader:
    """Appends one action after the other to the tables that there are."""

    def __init__(self, binding: Native, tables: Tables, series: re.Pattern[str], listings: Listings) -> None:
        self.binding, self.tables, self.series, self.listings = binding, tables, series, listings
        self.files: set[str] = set()
        self.units: dict[str, str] = {}  # per metric name: the same in all launches
        calls = ("as_double", "as_uint64", "kind", "has_value")
        self._as_double, self._as_uint64, self._kind, self._has_value = (_c_call(binding, name) for name in calls)

    def read(self, action: Native, launch: int) -> None:
        name, names = action.name(), action.metric_names()
        if name is None:  # the native reader's result for a launch that it cannot parse
            raise ValueError(f"launch {launch} has no name: the file is damaged")
        demangled = action.name(action.NameBase_DEMANGLED) or name
        mangled = action.name(action.NameBase_MANGLED) or name
        workload = int(action.workload_type())
        add_row(self.tables["actions"], launch, name, demangled, mangled, _nvtx(action), workload)
        self._read_scalars(action, launch, names)
        if "code" in self.tables:
            self._read_timeline(action, launch, names)
            self._read_code(action, launch, mangled, set(names))
            self._read_rules(action, launch)
            self._read_files(action)

    def _read_scalars(self, action: Native, launch: int, names: Iterable[str]) -> None:
        """Append every metric that has a value of its own; a series has none, or its average. One
        that is measured and has neither value nor series becomes an empty text."""
        kinds = self.binding.IMetric
        integers = kinds.ValueKind_UINT32, kinds.ValueKind_UINT64
        doubles = kinds.ValueKind_DOUBLE, kinds.ValueKind_FLOAT
        table, by_name = self.tables["metrics"], action.metric_by_name
        known, values, units = table["metric"], table["value"], table["unit"]
        numbers: dict[str, float] = {}
        for name in names:
            metric = by_name(name)
            if metric is None or not self._has_value(metric):
                if MEASURED.match(name) and (metric is None or not metric.num_instances()):
                    add_row(self.tables["texts"], launch, name, "")
                continue
            kind = self._kind(metric)
            if kind in doubles:
                value = self._as_double(metric)
            elif kind in integers:
                value = self._as_uint64(metric)
            else:
                if kind == kinds.ValueKind_STRING and (text := metric.as_string()):
                    add_row(self.tables["texts"], launch, name, text)
                continue
            numbers[name] = value
            known.append(name)
            values.append(value)
            if name not in self.units:
                self.units[name] = metric.unit()
            units.append(self.units[name])
        table["launch"].repeat(launch, len(numbers))
        if why := impossible(numbers):
            raise ValueError(f"launch {launch}: {why}: the file is damaged")

    def _read_timeline(self, action: Native, launch: int, names: Iterable[str]) -> None:
        series = [action.metric_by_name(name) for name in names if self.series.match(name)]
        series = [metric for metric in series if metric is not None and metric.has_correlation_ids()]
        timelines = action.timelines() if series else None
        if timelines is None:
            return
        table = self.tables["timeline"]
        for metric in series:
            aligned = timelines.aligned_metric(metric)
            count = aligned.num_instances() if aligned is not None else 0
            if count:
                table["launch"].repeat(launch, count)
                table["t_ns"].extend(self._integers(aligned.correlation_ids(), count))
                table["metric"].repeat(metric.name(), count)
                table["value"].extend(self._doubles(aligned, count))
                table["unit"].repeat(aligned.unit(), count)

    def _read_code(self, action: Native, launch: int, function: str, names: set[str]) -> None:
        """Samples and executions per instruction, and the instructions themselves, by their offset
        from the first."""
        wanted = [name for name in sorted(names) if name.startswith(STALLED) and not name.endswith("_not_issued")]
        wanted += [name for name in ("smsp__pcsamp_sample_count", "inst_executed") if name in names]
        series: list[tuple[str, list[int], list[float]]] = []
        for name in wanted:
            metric = action.metric_by_name(name)
            if metric is not None and metric.has_correlation_ids():  # otherwise only the total was kept
                count = metric.num_instances()
                pcs = self._integers(metric.correlation_ids(), count)
                series.append((name, pcs, self._doubles(metric, count)))
        addresses = sorted({pc for _, pcs, _ in series for pc in pcs if pc})
        if not addresses:
            return
        table, base = self.tables["code"], addresses[0]
        table["launch"].repeat(launch, len(addresses))
        table["pc"].extend([pc - base for pc in addresses])
        with _on_one_cpu():
            texts = self.listings.texts(function, addresses, lambda pc: (action.sass_by_pc(pc) or "").strip())
        for text in texts:
            table["sass"].append(text)
        for info in map(action.source_info, addresses):
            table["file"].append(info.file_name() if info else "")
            table["line"].append(int(info.line()) if info else 0)
        table = self.tables["samples"]
        for name, pcs, values in series:
            values = [value for pc, value in zip(pcs, values, strict=True) if pc]
            table["launch"].repeat(launch, len(values))
            table["pc"].extend([pc - base for pc in pcs if pc])
            table["metric"].repeat(name, len(values))
            table["value"].extend(values)

    def _read_rules(self, action: Native, launch: int) -> None:
        kinds = {1: "ok", 2: "optimization", 3: "warning", 4: "error"}
        scopes = {1: "local", 2: "global"}
        for rule in action.rule_results_as_dicts():
            text = rule.get("rule_message") or {}
            gain = rule.get("speedup_estimation") or {}
            add_row(
                self.tables["rules"],
                launch,
                rule.get("section_identifier", ""),
                rule.get("rule_identifier", ""),
                text.get("title") or rule.get("name", ""),
                text.get("message", ""),
                kinds.get(text.get("type", 0), ""),
                float(gain["speedup"]) if "speedup" in gain else None,
                scopes.get(gain.get("type", 0), ""),
            )

    def _read_files(self, action: Native) -> None:
        for name, text in action.source_files().items():
            if text and name not in self.files:
                self.files.add(name)
                add_row(self.tables["files"], name, text)

    def _integers(self, metric: Native, count: int) -> list[int]:
        return list(map(self._as_uint64, [metric] * count, range(count)))

    def _doubles(self, metric: Native, count: int) -> list[float]:
        return list(map(self._as_double, [metric] * count, range(count)))


def impossible(numbers: Mapping[str, float]) -> str:
    """Which of a launch's metrics has a value that no launch has, in words; empty where none does.

    These laws hold in 434 reports of ncu 2020.2 to 2026.2, whole ones that were ended early
    included: there nothing has a value but the profiler's own metrics.
    """
    for name, value in numbers.items():
        if abs(value) > LARGEST and not (math.isinf(value) and _QUOTIENT.search(name)):
            return f"{name} is {value:g}, more than any GPU counts"
        if value < (LEAST_PCT if ".pct" in name else 0) and _ONLY_GROWS.match(name):
            return f"{name} is {value:g}, but a count is never negative"
    known = [(name, value) for name, value in numbers.items() if _OF_ONE_RUN.fullmatch(name)]
    lost = [name for name, value in known if value != value]
    if lost and len(lost) < len(known):
        return f"{lost[0]} is NaN, while other counters of the launch have values"
    family, *capability = (numbers.get(f"device__attribute_{name}") for name in _CHIP)
    if None not in capability and tuple(capability) not in FAMILIES.get(family, {tuple(capability)}):
        return f"the compute capability {capability[0]:g}.{capability[1]:g} is not one of this GPU's architecture"
    if capability[0] is not None and not FIRST_MAJOR <= capability[0] <= LAST_MAJOR:
        return f"the compute capability {capability[0]:g} does not exist"
    return ""


def _c_call(binding: Native, name: str) -> Native:
    """The C function beneath a method of ``IMetric``, where this release of the binding shows it,
    else the method."""
    return getattr(getattr(binding, "_ncu_report", None), f"IMetric_{name}", getattr(binding.IMetric, name))


@contextmanager
def _on_one_cpu() -> Iterator[None]:
    """Keep the threads of this process on the CPU where it is. The reader disassembles in a thread
    of its own, to which each instruction is handed: from one idle CPU to another that takes a
    quarter longer. Only for one launch at a time, so that processes do not stay on the same CPU."""
    free: set[int] = set()
    with suppress(OSError, ValueError, AttributeError):  # not Linux, or not allowed
        stat = Path("/proc/thread-self/stat").read_text(encoding="utf-8")
        free = os.sched_getaffinity(0)
        _bind({int(stat.rpartition(")")[2].split()[36])})
    try:
        yield
    finally:
        if free:
            _bind(free)


def _bind(cpus: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(int(thread.name), cpus)


def _release(binding: Native) -> str:
    """What tells this release of the binding from any other."""
    library: Native = getattr(binding, "_ncu_report", binding)
    status = Path(library.__file__).stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _nvtx(action: Native) -> str:
    """All NVTX ranges that were open at the launch, as ``domain:a/b`` joined by ``;``. The state
    may be None."""
    state = action.nvtx_state()
    if state is None:
        return ""
    domains = []
    for identifier in state.domains():
        domain = state.domain_by_id(identifier)
        ranges = [*domain.push_pop_ranges(), *domain.start_end_ranges()]
        if ranges:
            domains.append(f"{domain.name()}:{'/'.join(ranges)}")
    return ";".join(domains)


@contextmanager
def readable(path: Path, out: Path) -> Iterator[str]:
    """``path`` as the native reader can open it: by a name in UTF-8, and uncompressed.

    The reader itself unpacks ``.ncu-repz`` into /tmp and, where that is full, returns launches
    without names.
    """
    plain = out / "input.ncu-rep"
    try:
        if path.suffix == ".ncu-repz":
            import zstandard

            with _opened(path) as source, plain.open("wb") as sink:
                zstandard.ZstdDecompressor().copy_stream(source, sink)
        else:
            plain.symlink_to(path.absolute())
            _opened(plain).close()
        yield str(plain)
    finally:
        plain.unlink(missing_ok=True)


def _opened(path: Path) -> BinaryIO:
    """The report, open; ValueError where it has vanished since it was checked: that is no fault of
    ``out``."""
    try:
        return path.open("rb")
    except OSError as error:
        raise ValueError(f"can no longer be read ({error.strerror})") from error


def _serve(request: Message) -> Message:
    """The answer to one request; ``out`` is made if need be."""
    out = Path(request["out"])
    try:
        out.mkdir(parents=True, exist_ok=True)
        with readable(Path(request["path"]), out) as plain:
            wanted = (request[name] for name in ("parts", "announced", "first", "last", "series", "listings"))
            tables = extract(plain, *wanted)
        for part in request["parts"]:
            (out / part).mkdir()
            for name in TABLES[part]:
                write_draft(tables[name], out / part / f"{name}.draft")
    except OSError as error:
        return {"disk": error.strerror or str(error)}
    except (TypeError, UnicodeError) as error:  # what the reader's binding raises for names that are not UTF-8
        return {"error": f"contains text that is not UTF-8: the file is damaged ({error})"}
    except OverflowError:
        return {"error": "contains numbers out of range: the file is damaged"}
    except MemoryError:
        return {"error": f"needs more than {MEMORY_LIMIT_B >> 30} GiB of memory to read: probably damaged"}
    except Exception as error:
        return {"error": f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"}
    return {"ok": True}


def main() -> None:
    """Serve requests from stdin until it closes."""
    broken = ""
    try:
        import ncu_report  # noqa: F401
    except ImportError as error:  # no fault of any report
        broken = str(error)
    limit_memory(MEMORY_LIMIT_B)

    def answer(request: Message, progress: Callable[[], None]) -> Message:
        signal.setitimer(signal.ITIMER_REAL, request["time_limit_s"])  # no handler: it also ends native code
        reply = {"broken": broken} if broken else _serve(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return {**reply, "spent": resident_b() > SPENT_B}

    answer_requests(answer)


if __name__ == "__main__":
    main()
