"""``ncubble mcp``: a server of the Model Context Protocol on stdin and stdout, which answers questions
of agents about recorded launches. Answers are plain data of at most 4 KB."""

from __future__ import annotations

import functools
import inspect
import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import ncubble
from ncubble.analysis.diagnosis.results import Unread
from ncubble.api.launch import MOST_STAGES, ReportLaunch
from ncubble.api.reporting import Selection, chosen
from ncubble.api.reports import ReportSet, read
from ncubble.api.subjects import as_pairs, catalog_subject
from ncubble.cli.terminal import fitted
from ncubble.errors import NcubbleError, UsageError
from ncubble.profiling.runs import find_runs, require_paths
from ncubble.profiling.subject import Subject
from ncubble.records import JsonObject
from ncubble.text.remedies import extras_command
from ncubble.text.values import finite

if TYPE_CHECKING:
    from mcp.server import MCPServer

INSTRUCTIONS = (
    "Verdicts of GPU kernels from Nsight Compute reports. Begin with list_launches, then ask "
    "for the verdict of the launch that loses most. Shares are in percent of elapsed SM cycles, gains of time. "
    "`how` is estimated, or measured (by ablation)."
)
READING = ("list_launches", "verdict", "explain", "source_hot_lines", "compare", "measured", "check", "query")
WRITING = ("profile", "ablate")
LONGEST_ERROR = 1000
"""Characters of an error: at most 4 bytes each, they fit in an answer with the prefix of the SDK."""
TIMEOUT_S = 600.0
"""Of each run of a program."""
MOST_ROWS, SQL_SECONDS = 200, 20.0
Order = Literal["time", "lost", "busy", "dram", "read"]


def mcp(
    roots: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH…", help="Runs, reports, datasets, or folders of them; nothing else can be read."),
    ] = None,
    allow_profile: Annotated[
        Path | None,
        typer.Option("--allow-profile", metavar="DIR", help="Also allow measuring catalog kernels; runs go to DIR."),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Option(
            "--command", metavar="NAME=CMD", help="With --allow-profile: a program that may be measured, repeatable."
        ),
    ] = None,
    skill: Annotated[
        bool, typer.Option("--skill", help="Print instructions for agents (SKILL.md): which question to ask when.")
    ] = False,
) -> None:
    """Answer an agent's questions about recorded launches (Model Context Protocol, on stdin and stdout).

    Read-only; answers have at most 4 KB. --allow-profile adds two measuring tools, for machines
    with a GPU.
    """
    if skill:
        typer.echo(files("ncubble.cli").joinpath("SKILL.md").read_text(encoding="utf-8"), nl=False)
        return
    if not roots:
        raise UsageError("no path", "name the folders that may be read: ncubble mcp PATH…")
    require_paths(roots)
    if command and allow_profile is None:
        raise UsageError("--command without --allow-profile", "add --allow-profile DIR, the folder for runs")
    shown = Roots((*roots, *([allow_profile] if allow_profile else [])))
    measuring = None
    if allow_profile is not None:
        allow_profile.mkdir(parents=True, exist_ok=True)
        measuring = AgentRuns(shown, allow_profile, named_commands(command or []))
    server_of(Tools(shown), measuring).run("stdio")


def server_of(tools: Tools, measuring: AgentRuns | None = None) -> MCPServer:
    """A server with the tools of ``tools`` and, if given, of ``measuring``."""
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise UsageError("the SDK of the Model Context Protocol is not installed", extras_command("mcp")) from error

    server = MCPServer("ncubble", version=ncubble.__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    writes = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    for name in READING:
        server.tool(name, annotations=reads, structured_output=False)(_answering(getattr(tools, name)))
    for name in WRITING if measuring else ():
        server.tool(name, annotations=writes, structured_output=False)(_answering(getattr(measuring, name)))
    return server


def _answering(function: Callable[..., JsonObject]) -> Callable[..., str]:
    """The answer as one line of JSON. NcubbleError becomes an error of the tool, with its remedy;
    so does any other exception, whose reason the SDK would hide from the client."""
    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(function)
    def asked(*arguments: object, **named: object) -> str:
        try:
            return json.dumps(finite(function(*arguments, **named)), ensure_ascii=False, default=str)
        except NcubbleError as error:
            raise ToolError(f"{error.message[: LONGEST_ERROR // 2]}. {error.remedy}"[:LONGEST_ERROR]) from error
        except Exception as error:
            raise ToolError(f"{type(error).__name__}: {error}"[:LONGEST_ERROR]) from error

    signature = inspect.signature(function, eval_str=True)
    asked.__signature__ = signature.replace(return_annotation=str)  # type: ignore[attr-defined]
    asked.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()} | {"return": str}
    return asked


@dataclass(frozen=True)
class Roots:
    """The folders named at start-up, as given (reports, runs, or folders of them), and access to
    nothing outside them."""

    folders: tuple[Path, ...]

    def path(self, text: str) -> Path:
        """The path ``text`` if it is below a root, with links resolved. Raises UsageError."""
        named = Path(text)
        candidates = [named, *(root / named for root in self.folders)] if text else []
        try:
            inside = [path for path in candidates if path.exists() and self._below(path)]
        except (OSError, ValueError) as error:  # a name that no file can have, or a folder that may not be read
            raise UsageError(f"{text[:100]}: {error.args[-1]}", "list_launches lists what can be read") from error
        if not inside:
            there = ", ".join(str(root) for root in self.folders)
            raise UsageError(f"{text}: outside the folders of this server", f"choose a path below {there}")
        return inside[0]

    def tree(self, text: str) -> Path:
        """``path`` of a folder to read completely. Raises UsageError if a link in it leads
        outside."""
        path = self.path(text)
        if not self._holds(path):
            raise UsageError(f"{text}: a link in it leads out of the folders of this server", "name another folder")
        return path

    def read(self, texts: Sequence[str]) -> ReportSet:
        """Launches below the paths ``texts`` (none: the roots); links that lead outside are among
        the unread."""
        found = list(find_runs([self.path(text) for text in texts] or self.folders))
        inside = [path for path in found if self._holds(path)]
        launches = read(inside) if inside else ReportSet(())
        outside = [
            Unread(str(path), "a link that leads out of the folders of this server")
            for path in found
            if path not in inside
        ]
        return ReportSet(launches.members, (*launches.unread, *outside))

    def launches(self, name: str) -> tuple[ReportSet, list[ReportLaunch]]:
        """The launches of the report in ``REPORT#NUMBER`` or ``REPORT``, and of them those that the
        name means. Paths may contain ``#``, too."""
        report, mark, number = name.rpartition("#")
        whole = not mark or self._is_there(name)
        if whole and not (mark and number.isdigit() and self._is_there(report)):
            report, number = name, ""
        known = self.read([report])
        return known, [launch for launch in known.judgeable if not number or str(launch.number) == number]

    def launch(self, name: str) -> ReportLaunch:
        """The one launch that ``name`` means. Raises UsageError for several or none."""
        known, meant = self.launches(name)
        if not known.judgeable:
            why = known.errors[0].error if known.errors else "no launch"
            raise UsageError(f"{name}: {why}", "list_launches lists the launches that can be read")
        if len(meant) != 1:
            there = ", ".join(launch.address for launch in known.judgeable[:8])
            raise UsageError(f"{name}: {len(known.judgeable)} launches match", f"use one of {there}")
        return meant[0]

    def _is_there(self, text: str) -> bool:
        try:
            return self.path(text).exists()
        except (UsageError, OSError):
            return False

    def _holds(self, path: Path) -> bool:
        """Whether ``path`` and all its content, at any depth, are below a root."""
        return self._below(path) and all(self._below(inner) for inner in path.rglob("*"))

    def _below(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        roots = [Path(os.path.realpath(root)) for root in self.folders]
        return any(real == root or root in real.parents for root in roots)


@dataclass(frozen=True)
class Tools:
    """The questions, on the folders of ``roots``. All raise NcubbleError if they cannot be
    answered."""

    roots: Roots

    def list_launches(
        self, path: str = "", kernel: str = "", sort: Order = "lost", limit: int = 12, skip: int = 0
    ) -> JsonObject:
        """Kernels by lost time, those of the tensor pipe first: each with its longest launch of the main cause,
        launches, share of the time, busy share of its bounding unit and cause. path: a report or folder (default: all).
        kernel: regular expression. sort: time, lost, busy, dram, read."""
        _within("skip", skip, 0)
        limit = min(_within("limit", limit), MOST_ROWS)
        found = chosen(self.roots.read([path] if path else []), Selection(kernel, sort))
        groups = found.groups
        total = sum(group.time_ns for group in groups)
        rows = [
            {
                "launch": group.verdict.address,
                "kernel": group.verdict.label or group.verdict.kernel,
                "launches": len(group.launches),
                "time_pct": round(100.0 * group.time_ns / total, 1) if total else None,
                "unit": group.verdict.unit,
                "busy_pct": None if group.busy_pct is None else round(group.busy_pct, 1),
                "verdict": group.verdict.cause,
            }
            for group in groups[skip : skip + limit]
        ]
        answer = {
            "kernels": len(groups),
            "launches": len(found.launches),
            "time_us": round(total / 1e3, 1),
            "from": skip,
            "rows": rows,
            "unreadable": [error._asdict() for error in found.errors],
        }
        return fitted(answer, "repeat with skip, a path or a kernel to get the missing rows")

    def verdict(self, launch: str, stages: int = 0) -> JsonObject:
        """Verdict of one launch: account, what to change with gain (expected, least and most), hottest
        lines, other depths of its pipeline, and what was not measured. launch: REPORT#NUMBER, as
        list_launches gives it. stages: the present depth, if the report does not show it."""
        _within("stages", stages, 0, MOST_STAGES)
        found = self.roots.launch(launch)
        answer = found.brief(found.predict_depths(stages or None))
        return fitted(answer, "explain shows the parts, source_hot_lines the lines")

    def explain(self, launch: str, part: str = "") -> JsonObject:
        """Inputs of an account part: counters, timeline, classes of instructions. part: a name of
        account_pct (default: all, in short)."""
        found = self.roots.launch(launch).explain()
        known = {one.part: one for one in found.parts}
        if part and part not in known:
            raise UsageError(f"{part}: not a part of this account", f"use one of {', '.join(known)}")
        if part:
            answer = {"launch": launch, **asdict(known[part])}
            return fitted(answer, "the lists were cut: ncubble report --explain shows all")
        parts = [{"part": one.part, "pct": round(one.pct, 1), "how": one.formula} for one in found.parts if one.pct]
        answer = {"launch": launch, "parts": parts, "missing": list(found.missing)}
        return fitted(answer, "ask for one part by its name")

    def source_hot_lines(self, launch: str, limit: int = 10) -> JsonObject:
        """The source lines (instructions without line information) with most warp samples, each with its share, its
        hottest instruction and main stall reason."""
        rows, lacking = self.roots.launch(launch).hot_lines(min(_within("limit", limit), MOST_ROWS))
        return fitted({"launch": launch, "rows": rows, "missing": lacking}, "not all rows fit: use a smaller limit")

    def compare(self, first: str, second: str) -> JsonObject:
        """Changes from the launches of one path to those of another: time, cycles, account, stalls,
        code."""
        from ncubble.analysis.compare.words import summaries

        sides = (ReportSet(tuple(self.roots.launches(name)[1])) for name in (first, second))
        compared = ncubble.compare(*sides).result.comparisons
        kernels = [
            {"kernel": title, "changes": words, "notes": list(one.notes)}
            for one, (title, words) in zip(compared, summaries(compared), strict=True)
        ]
        return fitted({"kernels": kernels}, "compare single launches: REPORT#NUMBER")

    def measured(self, launch: str) -> JsonObject:
        """Ablation of a launch: time saved by removing each part, with standard errors, and whether
        that agrees with the estimate."""
        from ncubble.analysis.diagnosis.words import finding

        found = self.roots.launch(launch)
        if (ablation := found.ablation) is None:
            return {"launch": launch, "measured": None, "how_to": "ncubble ablate, on a machine with a GPU"}
        parts = [
            {"part": one.part, "estimated_pct": one.estimated, "measured_pct": round(one.measured, 1), "se": one.se}
            for one in sorted(ablation.parts, key=lambda one: -one.measured)
        ]
        answer = {
            "launch": launch,
            "finding": finding(found.estimate, ablation),
            "rounds": ablation.rounds,
            "parts": parts,
            "lines": [vars(line) for line in ablation.lines],
            "notes": ablation.notes,
        }
        return fitted(answer, "ablation.json beside the report has everything")

    def check(self, paths: list[str], baseline: str) -> JsonObject:
        """Whether launches are slower than their baselines: verdict of each kernel, with what
        changed and where. baseline: a folder or file below the folders of this server."""
        from ncubble.analysis.gate.annotations import annotations_of

        store, reports = self.roots.tree(baseline), self.roots.read(paths)
        found = ncubble.check(reports, baseline=store, allow_new=True, config=False).result
        kinds = {kernel.label: kernel.verdict for kernel in found.kernels}
        marks = [{"kind": one.kind, "message": one.message} for one in annotations_of(found)]
        answer = {"verdict": found.verdict, "exit_code": found.exit_code, "kernels": kinds, "annotations": marks}
        return fitted(answer, "check fewer paths at a time")

    def query(self, dataset: str, sql: str, limit: int = 20) -> JsonObject:
        """Rows of one SELECT over a dataset that `ncubble ingest` wrote (tables launches, reports, metrics, errors)."""
        from ncubble.analysis.datasets.dataset import Dataset, plain_rows

        most = min(_within("limit", limit), MOST_ROWS)
        rows = Dataset.open(self.roots.tree(dataset)).select(sql, most, SQL_SECONDS)
        listed = [list(row.values()) for row in plain_rows(rows)]
        return fitted({"columns": rows.schema.names, "rows": listed}, "select fewer columns or rows")


def _within(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """``value``; raises UsageError below ``least`` or above ``most``."""
    if value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise UsageError(f"{name} {value}: out of range", f"use a number of at least {least}{upper}")
    return value


def named_commands(texts: Sequence[str]) -> dict[str, list[str]]:
    """``NAME=PROGRAM ARGUMENTS…`` by name. Raises UsageError for any other form."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, _, command = text.partition("=")
        words = shlex.split(command)
        if not name.isidentifier() or not words or name in found:
            remedy = "for example --command 'train=python train.py'"
            raise UsageError(f"--command {text}: not NAME=PROGRAM ARGUMENTS…", remedy)
        found[name] = words
    return found


@dataclass(frozen=True)
class AgentRuns:
    """Measurements that an agent may start if allowed: of catalog kernels, and of ``commands`` (argv
    by name) named at start-up. No shell is involved, and nothing else is ever started. ``folder``:
    folder for runs, below a root."""

    roots: Roots
    folder: Path
    commands: Mapping[str, list[str]]

    def profile(self, target: str, run: str, parameters: dict[str, str | int] | None = None) -> JsonObject:
        """Profile a catalog kernel (with parameters), or a command named at start-up, into the run
        directory RUN. Needs a GPU and ncu; takes half a minute or more."""
        from ncubble.api.profiling import record_profile

        record_profile(self._subject(target, parameters or {}), out=self._out(run), timeout_s=TIMEOUT_S)
        return self._answer(run)

    def ablate(self, target: str, run: str, parameters: dict[str, str | int] | None = None) -> JsonObject:
        """Measure the cost of each part of a kernel by removing it from the machine code. Needs a
        GPU; without permission for counters (or without ncu) it measures time instead of cycles."""
        from ncubble.api.ablating import ablate

        ablate(self._subject(target, parameters or {}), out=self._out(run), timeout_s=TIMEOUT_S)
        return self._answer(run)

    def _answer(self, run: str) -> JsonObject:
        from ncubble.analysis.ablation.result import Ablation

        written = str(self.folder / run)
        ablation = Ablation.load(self.folder / run)
        if ablation and ablation.timed:  # without counters, and so without a report
            parts = [
                {"part": one.part, "pct_of_time": one.measured, "interval": one.interval} for one in ablation.parts
            ]
            how = {"measure": "time, not cycles: no counters were read", "time_ns": ablation.time_ns, "parts": parts}
            return fitted({"run": written, **how}, "ncubble ablate RUN --json prints everything")
        launches = [launch.address for launch in self.roots.read([written]).judgeable]
        return fitted({"run": written, "launches": launches}, "list_launches lists the others")

    def _out(self, run: str) -> Path:
        if not run.replace("-", "_").isidentifier():
            raise UsageError(f"run {run!r}: not a name", "use letters, digits, - and _")
        if (self.folder / run).exists():
            raise UsageError(f"{self.folder / run}: exists", "choose another name")
        return self.folder / run

    def _subject(self, target: str, parameters: Mapping[str, str | int]) -> Subject:
        if target not in self.commands:
            return catalog_subject(target, as_pairs(parameters))  # raises for what is neither, naming what is near
        if parameters:
            raise UsageError(f"{target}: a command takes no kernel parameters", "name a kernel, or omit them")
        return Subject.of_program(self.commands[target])
