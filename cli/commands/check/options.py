"""The options by which ``ncubble check`` measures, beside its own; ``measurable`` joins them to the command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from ncubble.cli.command import PROGRAM
from ncubble.errors import UsageError

NOW, OTHER = "Measure now", "Measure against another revision"
REPEATS, ROUNDS = 5, 3
QUICK = ("tensor", "dram")


def _now(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=NOW, **more)


def _other(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=OTHER, **more)


@dataclass(frozen=True)
class Measuring:
    """What is to be measured. ``program`` is what followed ``--``; ``rounds`` and ``repeat`` are None if not given."""

    profile: Annotated[bool, _now("--profile", help="PATHS are kernels of the catalog: measure them.")] = False
    profile_all: Annotated[
        bool, _now("--profile-all", help="Measure all kernels that have a baseline on this GPU.")
    ] = False
    parameters: Annotated[list[str], _now("-p", metavar="KEY=VALUE", help="Parameter of the kernel, repeatable.")] = (
        field(default_factory=list)
    )
    shape: Annotated[
        list[str], _now("--shape", metavar="KEY=VALUE", help="Size of the kernel, repeatable, or m=4096,n=4096 in one.")
    ] = field(default_factory=list)
    catalog: Annotated[Path | None, _now("--catalog", metavar="DIR", help="Folder with kernels of your own.")] = None
    repeat: Annotated[int | None, _now("--repeat", min=1, help="Launches of a kernel per process (5).")] = None
    rounds: Annotated[int | None, _now("--rounds", min=1, help="Processes (1; 3 a side of --against).")] = None
    sets: Annotated[list[str], _now("--set", metavar="SET", help="Metric set, repeatable (else the default ones).")] = (
        field(default_factory=list)
    )
    quick: Annotated[bool, _now("--quick", help="Collect only tensor and dram: fewer passes, no causes.")] = False
    nvtx: Annotated[
        str, _now("--nvtx", metavar="RANGE", help="Only launches in this NVTX range, as ncu writes it.")
    ] = ""
    skip: Annotated[int, _now("--skip", min=0, help="Matching launches to skip first.")] = 0
    count: Annotated[int | None, _now("--count", min=1, help="Matching launches to profile.")] = None
    out: Annotated[
        Path | None, _now("--out", metavar="DIR", help="Folder for the runs (else a new one in ./runs).")
    ] = None
    timeout: Annotated[float | None, _now("--timeout", metavar="S", help="Stop a process after S seconds.")] = None
    against: Annotated[
        str | None, _other("--against", metavar="REV", help="Compare the working tree with REV, in turns.")
    ] = None
    build: Annotated[str, _other("--build", metavar="CMD", help="Run in each tree first, without a shell.")] = ""
    skip_same: Annotated[bool, _other("--skip-same", help="Measure no kernel whose machine code is that of REV.")] = (
        False
    )
    program: list[str] | None = None
    store_named: bool = False

    @property
    def reads(self) -> bool:
        """Whether nothing is measured: runs are given."""
        chosen = self.profile or self.profile_all or self.against is not None
        return not (chosen or self.program is not None)

    @property
    def launches(self) -> int:
        """Launches of a catalog kernel per process."""
        return self.repeat or REPEATS

    @property
    def metric_sets(self) -> tuple[str, ...]:
        """Names of the metric sets: those given, or the default, from which a cause can be named."""
        from ncubble.profiling.metrics.metrics import DEFAULT_SETS

        return tuple(self.sets) or (QUICK if self.quick else tuple(DEFAULT_SETS))

    def check(self, names: Sequence[Path]) -> None:
        """Raise UsageError where options contradict each other, or ``names`` do not go with them."""
        if self.reads:
            self._check_reading(names)
            return
        ways = {"--profile": self.profile, "--profile-all": self.profile_all, "--against": self.against is not None}
        given = [option for option, chosen in ways.items() if chosen]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)}: each says what to measure", "give one of them")
        if self.quick and self.sets:
            raise UsageError("--quick and --set both name metric sets", "give one of them")
        if self.against is None:
            _refuse({"--build": self.build, "--skip-same": self.skip_same}, "is for --against REV", "add that")
        elif self.store_named:
            raise UsageError(f"{given[0]} and --baseline both say what to compare with", "give one of them")
        if self.profile_all:
            self._check_all()
        else:
            self._check_subject(names)

    def _of_catalog(self) -> dict[str, object]:
        return {"-p": self.parameters, "--shape": self.shape, "--catalog": self.catalog, "--repeat": self.repeat}

    def _of_launches(self) -> dict[str, object]:
        return {"--nvtx": self.nvtx, "--skip": self.skip, "--count": self.count}

    def _check_reading(self, names: Sequence[Path]) -> None:
        more = {"--rounds": self.rounds, "--set": self.sets, "--quick": self.quick, "--build": self.build}
        last = {"--skip-same": self.skip_same, "--out": self.out, "--timeout": self.timeout}
        _refuse(
            {**self._of_catalog(), **self._of_launches(), **more, **last},
            "is for what is measured now, but runs are read here",
            "to measure: `ncubble check --profile KERNEL`, `ncubble check -- CMD`, or --against REV",
        )
        if not names:
            raise UsageError("nothing to check", "name runs or reports, or measure: --profile KERNEL, or -- CMD")

    def _check_all(self) -> None:
        single = {"-p": self.parameters, "--shape": self.shape, "a program after --": self.program is not None}
        _refuse({**single, **self._of_launches()}, "does not go with --profile-all", "baselines say what to measure")

    def _check_subject(self, names: Sequence[Path]) -> None:
        if bool(names) == (self.program is not None):
            raise UsageError("name either kernels of the catalog or a program after --", "see `ncubble check --help`")
        if self.program is not None:
            _refuse(self._of_catalog(), "is for kernels of the catalog", "pass it to the program, after --")
        elif len(names) > 1:
            of_one_kernel = {"-p": self.parameters, "--shape": self.shape}
            _refuse(of_one_kernel, f"is for one kernel, and {len(names)} are named", "check them one by one")
        if names and self.build:
            raise UsageError("--build is for programs after --", "kernels of the catalog are built by ncubble")


def _refuse(options: Mapping[str, object], why: str, remedy: str) -> None:
    for option, value in options.items():
        if value:
            raise UsageError(f"{option} {why}", remedy)


def measurable(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of ``Measuring`` beside its own; it gets them as the argument ``measuring``."""
    hints = {**get_type_hints(command, include_extras=True), **get_type_hints(Measuring, include_extras=True)}
    own = list(inspect.signature(command).parameters.values())
    options = [item for item in fields(Measuring) if get_origin(hints[item.name]) is Annotated]

    def run(ctx: typer.Context, **given: Any) -> None:
        chosen = {item.name: value for item in options if (value := given.pop(item.name)) is not None}
        source = ctx.get_parameter_source("baseline")
        named = source is not None and source.name != "DEFAULT"
        command(measuring=Measuring(**chosen, program=ctx.meta[PROGRAM], store_named=named), **given)

    joined = {item.name: item.default for item in own if item.name != "measuring"}
    joined |= {item.name: None if item.default is MISSING else item.default for item in options}
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=default, annotation=hints[name]) for name, default in joined.items()
    ]
    context = inspect.Parameter("ctx", keyword, annotation=typer.Context)
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {"ctx": typer.Context, **{name: hints[name] for name in joined}}
    run.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    return run
