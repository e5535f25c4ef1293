"""Base class of all commands: accepts old option names with a note, and shows readable value types
in help."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from ncubble.errors import UsageError

Click = Any
"""A context or parameter of click, which typer holds in a private module."""
_SIZES = {"--shape": "-p"}
OF_NCU = {
    "--metric": "metrics",
    **{f"--{name}": name for name in ("section", "metrics", "replay-mode", "cache-control", "pm-sampling-interval")},
}
"""Options of ncu that `profile` passes on, by --ncu NAME=VALUE or by their own names."""
OLD: dict[str, dict[str, str]] = {
    **dict.fromkeys(("streams", "trace", "ablate", "verify"), _SIZES),
    "profile": {"--repeat": "--count", **_SIZES},
    "check": {"--limit": "--rule", **_SIZES},
    "bench": {"--against": "--library", **_SIZES},
    "baseline": {"--output": "--out"},
    "sweep": {"--repeat": "--count", "--device": "--gpus", **_SIZES},
}
"""Names that options had in 0.1, by command. The next version drops them."""
_BISECT = (
    "`git bisect start BAD GOOD`, then `git bisect run ncubble check --bisect-exit --against GOOD …` (docs/gate.md)"
)
_SQL = "ncubble query DATASET 'SELECT label FROM launches WHERE tensor_elapsed_pct < 50 ORDER BY label LIMIT 9'"


def _as_settings(options: dict[str, str]) -> dict[str, str]:
    """What takes the place of options of the gate that became settings of a project."""
    place = "or write it into [tool.ncubble.gate] of pyproject.toml (docs/gate.md)"
    return {option: f"--setting {setting}, {place}" for option, setting in options.items()}


_RANGES = "below a profiler, ranges are made without it"
_GATES = "in Python: ncubble.api.kernels.verify_gates(NAME, {})"
GONE: dict[str, dict[str, str]] = {
    "report": {
        "--csv": "`ncubble.load(PATH).launches.to_csv()` of the Python API has more columns",
        "--sarif": "`ncubble check --sarif FILE`, or --markdown FILE for a table",
        "--launch": "`ncubble.load(PATH)[N].depths` in Python",
    },
    "dashboard": {
        "--browser": "open the printed address",
        "--no-browser": "no browser is opened any more",
        "--allow-upload": "--upload-limit MB",
    },
    "export": {
        "--theme": "a page follows the reader's system; `theme=` of `ncubble.export` in Python",
        "--width": "`width=` of `ncubble.export` in Python",
        "--height": "`height=` of `ncubble.export` in Python",
        "--scale": "`scale=` of `ncubble.export` in Python",
        "--json": "`ncubble.export` in Python returns what was written",
    },
    "verify": {
        **{"--iterations": _GATES.format("iterations=N"), "--no-counters": _GATES.format("counters=False")},
        "--nvtx": _RANGES,
    },
    "bench": {"--nvtx": _RANGES},
    "check": {
        "--bisect": _BISECT,
        "--profile-all": "--profile --all",
        "--metric-threshold": "write --rule 'cycles 2%'",
        "--first-parent": "`git bisect start --first-parent BAD GOOD`",
        "--nvcc": "check each compiler on its own: put it first on PATH",
        "--most-rounds": "--setting rounds=N",
        "--retry-skipped": "`git bisect reset` and search again",
        **_as_settings(
            {
                **{"--same-gpu": "same_gpu=true", "--allow-suspicious": "allow_suspicious=true"},
                **{"--no-nvtx": "nvtx=false", "--nvtx": "range=RANGE", "--skip": "skip=N", "--count": "count=N"},
                **{"--repeat": "repeats=N", "--rounds": "rounds=N", "--timeout": "timeout=S"},
                **{"--set": "sets=SET", "--quick": "sets=tensor,dram", "--catalog": "catalog=DIR"},
                **{"--build": "build=CMD", "--skip-same": "skip_same=true"},
            }
        ),
    },
    "baseline": _as_settings(
        {"--min-repeats": "min_repeats=N", "--allow-suspicious": "allow_suspicious=true", "--no-nvtx": "nvtx=false"}
    ),
    "profile": {
        "--list-sets": "docs/profile.md lists the metric sets",
        "--no-compress": "`zstd -d report.ncu-repz -o report.ncu-rep` makes the file that Nsight Compute writes",
        "--clock-control": "lock the clocks with `nvidia-smi --lock-gpu-clocks`",
    },
    "ingest": {
        "--scheduler": "ingest on one host; several may write to one dataset at once",
        "--workers": "set NCUBBLE_WORKERS=N",
        "--rejudge": "reports that another version judged are always read again",
        "--retry": "reports that could not be read are always tried again",
    },
    "query": {
        "--where": _SQL,
        "--columns": _SQL,
        "--metric": "join metrics USING (report, launch): docs/ingest.md",
        "--table": _SQL,
        "--sort": _SQL,
        "--limit": _SQL,
    },
    "streams": {
        **dict.fromkeys(("--limit", "--longest"), "the timeline shows all gaps"),
        "--repeat": "in Python: ncubble.streams(NAME, repeat=N)",
        "--most": "in Python: ncubble.streams(…, most=N)",
    },
    "trace": {
        "--list": "docs/trace.md names the kernels with a probe, and so does the error for any other",
        "--seed": "in Python: ncubble.trace(NAME, seed=N)",
        **dict.fromkeys(("--from", "--to"), "in Python: ncubble.trace(DIR, section_us=(FROM, TO), out=…)"),
    },
    "sweep": {
        "--method": "--sample N draws N points of the grid at random",
        "--seed": "--sample N draws the same points each time",
        "--wait": "a sweep waits ten minutes for a worker",
        "--clock-control": "a sweep leaves the clocks alone; lock them with `nvidia-smi --lock-gpu-clocks`",
        "--metric": "`ncubble profile --metrics NAME` collects it at one point",
        "--cache-control": "a sweep empties the caches; `ncubble profile --cache-control none` does not",
    },
}
"""Options that went, by command, each with what takes its place. The next version forgets them."""
FOLDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("baseline record", "baseline update"), ("baseline",)),
    "skill": ("mcp", "--skill"),
    "advise": ("report", "--depths"),
}
"""Commands that became a part of another, by their old names: words that take the place of the
name. The next version drops them."""
CLOSED: dict[str, str] = {
    "baseline show": "`ncubble baseline` without runs shows baselines; --out DIR those of another folder",
    "augment": "`ncubble program TRACE --report RUN --out FILE` does it",
    "tune": "`ncubble try KERNEL --repeat` searches: the best change becomes the base, until none gains",
    "validate": "in a checkout of the repository: make validate",
}
"""Commands that went, each with what takes its place. The next version forgets them."""
OUTPUTS = {"compare": "--markdown"}
"""Options that used to be flags and now take a file: without one the text goes to stdout, as
before."""
STDOUT = "-"
PROGRAM = "ncubble.program"
"""Key of a context's arguments after ``--``: a list, or None without ``--``."""
_REPORTS = (".ncu-rep", ".ncu-repz")
_WORDS = {int: "N", float: "X", Path: "PATH", str: "TEXT"}


class HouseCommand(TyperCommand):
    """A command with the conventions of this module."""

    def __init__(self, *args: Click, **kwargs: Click) -> None:
        super().__init__(*args, **kwargs)
        _name_values(self.params)
        self.help = unwrapped(self.help or "")
        self.short_help = re.split(r"(?<=\.)\s|\n\n", self.help, maxsplit=1)[0]

    def collect_usage_pieces(self, ctx: Click) -> list[str]:
        """``[OPTIONS] NAME [PATH…]``: capitals for all arguments, brackets for optional ones."""
        arguments = [param for param in self.params if not isinstance(param, TyperOption)]
        names = [str(one.metavar) if one.required else f"[{one.metavar}]" for one in arguments]
        return [self.options_metavar or "", *names]

    def parse_args(self, ctx: Click, args: list[str]) -> list[str]:
        """Parse ``args`` after replacing old option names, each with a note on stderr."""
        return super().parse_args(ctx, current(self.name or "", args, lambda note: typer.echo(note, err=True)))

    def get_help_option(self, ctx: Click) -> Click:
        """The help option, as a flag."""
        return _flag(super().get_help_option(ctx))


class _AsGiven:
    """Takes texts and paths as they are given. typer converts by pydantic, whose import takes 55 ms: it is asked for
    other values, and for paths that cannot be read."""

    def coerce(self, value: Click, param: Click, ctx: Click) -> Click:
        """``value`` as the parameter's type."""
        annotation = param.type_descriptor.annotation
        several = get_origin(annotation) is list
        kind = get_args(annotation)[0] if several else annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if value is param.default and isinstance(value, int | float):
            return value
        given = list(value) if several and isinstance(value, list | tuple) else [value]
        if kind is str and all(isinstance(one, str) for one in given):
            return given if several else value
        if kind is Path and all(isinstance(one, str | Path) and _readable(one) for one in given):
            return [Path(one) for one in given] if several else Path(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _readable(path: str | Path) -> bool:
    """Whether nothing is at ``path``, or something that may be read."""
    return "\0" not in str(path) and (os.access(path, os.R_OK) or not os.access(path, os.F_OK))


class WithProgram(HouseCommand):
    """A command that keeps the program after ``--`` apart from its own arguments, as ``PROGRAM`` of the context."""

    def collect_usage_pieces(self, ctx: Click) -> list[str]:
        """With ``[-- CMD…]`` at its end."""
        return [*super().collect_usage_pieces(ctx), "[-- CMD…]"]

    def parse_args(self, ctx: Click, args: list[str]) -> list[str]:
        """Parse the arguments before ``--``."""
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta[PROGRAM] = args[cut + 1 :] if cut < len(args) else None
        return super().parse_args(ctx, args[:cut])


class HouseGroup(TyperGroup):
    """The group of all commands, with the same conventions."""

    def get_params(self, ctx: Click) -> list[Click]:
        """Options, with flags shown without a value: typer adds completion options after creating
        the group."""
        _name_values(self.params)
        return super().get_params(ctx)

    def get_help_option(self, ctx: Click) -> Click:
        """The help option, as a flag."""
        return _flag(super().get_help_option(ctx))


def unwrapped(text: str) -> str:
    """``text`` of a docstring without line breaks within sentences, to be wrapped for the
    terminal."""
    return re.sub(r"(?<![.:\n])\n(?!\n)[ \t]*", " ", cleandoc(text))


def unfolded(words: Sequence[str], note: Callable[[str], None]) -> list[str]:
    """``words`` of the command line with the command that took the place of an old one, which ``note`` is told.

    Raises UsageError for a command that is gone.
    """
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in CLOSED:
            raise UsageError(f"ncubble has no command {name} any more", CLOSED[name])
        if name in FOLDED:
            now = " ".join(FOLDED[name])
            note(f"note: `ncubble {name}` is now `ncubble {now}`; the next version drops the old name")
            return [*FOLDED[name], *words[length:]]
    return list(words)


def current(command: str, args: Sequence[str], note: Callable[[str], None]) -> list[str]:
    """``args`` of ``command`` with current option names; ``note`` is called for each replacement.
    Arguments after ``--`` are unchanged."""
    cut = args.index("--") if "--" in args else len(args)
    old, own, changed = OLD.get(command, {}), OF_NCU if command == "profile" else {}, list[str]()
    words = iter(args[:cut])
    for word in words:
        name, equals, value = word.partition("=")
        if remedy := GONE.get(command, {}).get(name):
            raise UsageError(f"`ncubble {command}` has no {name} any more", remedy)
        if name in old:
            note(f"note: {name} of `ncubble {command}` is now called {old[name]}; the next version drops the old name")
            word = f"{old[name]}{equals if old[name].startswith('--') else ''}{value}"
        if name in own:
            word = f"--ncu={own[name]}={value if equals else next(words, '')}"
        changed.append(word)
    if command in OUTPUTS:
        changed = list(_with_file(changed, OUTPUTS[command], note))
    return [*changed, *args[cut:]]


def _with_file(args: Sequence[str], option: str, note: Callable[[str], None]) -> Iterator[str]:
    """``args`` in which ``option`` has a value: stdout, if none follows, or if a report follows as
    when it was a flag."""
    for index, word in enumerate(args):
        yield word
        if word != option:
            continue
        following = args[index + 1] if index + 1 < len(args) else ""
        if not following or following.startswith("--") or following.endswith(_REPORTS) or Path(following).is_dir():
            note(f"note: {option} now takes a file: `{option} FILE`, or `{option} {STDOUT}` for stdout, as here")
            yield STDOUT


def _name_values(params: Sequence[Click]) -> None:
    for param in params:
        _take_as_given(param)
        if not isinstance(param, TyperOption):
            param.display_type_rich = _nothing
            param.metavar = _argument(param)
        elif param.metavar is not None:
            continue
        elif param.is_flag:
            _flag(param)
        else:
            param.metavar = _word(param)


def _argument(param: Click) -> str:
    """The name of an argument: one of several where it can be repeated."""
    if param.metavar is not None:
        return str(param.metavar)
    name = str(param.name).upper()
    return f"{name.removesuffix('S')}…" if param.nargs != 1 else name


def _nothing(ctx: Click) -> None:
    """Empty type of an argument in help: its name suffices."""


def _word(option: Click) -> str | None:
    """N, X, PATH or TEXT by the type of an option's value; None (typer's default) for other
    types."""
    annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    inner = get_args(annotation)[0] if get_origin(annotation) is list else annotation
    return _WORDS.get(inner) if isinstance(inner, type) else None


def _flag(option: Click) -> Click:
    """``option`` without a value name."""
    if option is not None:
        option.metavar = ""
        _take_as_given(option)
    return option


def _take_as_given(param: Click) -> None:
    if getattr(param, "_runtime_param", param) is None:  # typer of 0.29 or later, which has not converted yet
        param._runtime_param = _AsGiven()


def kernel_names(incomplete: str) -> list[str]:
    """Kernels of the shipped catalog that begin with ``incomplete``, for shell completion."""
    from ncubble.kernels.catalog.registry import SPECS

    return sorted(spec.name for spec in SPECS if spec.name.startswith(incomplete))


Name = Annotated[
    str,
    typer.Argument(help="A catalog kernel (see: ncubble kernels).", show_default=False, autocompletion=kernel_names),
]
OptionalName = Annotated[
    str | None, typer.Argument(help="A catalog kernel (see: ncubble kernels).", autocompletion=kernel_names)
]
NameOrProgram = Annotated[
    str | None, typer.Argument(help="A catalog kernel; or -- CMD … for a program.", autocompletion=kernel_names)
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("-p", metavar="KEY=VALUE", help="Parameter or size of the kernel; repeatable, or with commas."),
]
Catalog = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="DIR", help="Folder with kernels of your own; its Python files are executed."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the random inputs (default: a fresh one, printed).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Kernel = Annotated[str, typer.Option("--kernel", metavar="REGEX", help="Only kernels whose name or label matches.")]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Ignore the settings in pyproject.toml or ncubble.toml.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--setting", metavar="KEY=VALUE", help="One of \\[tool.ncubble.gate], for this call (docs/gate.md)."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The run directory to write.")]
Without = Annotated[
    str | None,
    typer.Option("--without", metavar="REGEX", help="Leave these kernels out (default: those waiting for other GPUs)."),
]
Recorder = Annotated[
    str,
    typer.Option(
        "--recorder", metavar="auto|python|library", help="How to record: inside Python, or by an injected library."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is at --out.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", help="Stop each run of the program after S seconds.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="SET", help="Metric set, repeatable (see docs/profile.md).")
]


def _viewer_file(path: Path | None) -> Path | None:
    """The file of --perfetto. Raises UsageError, before anything runs, where it cannot be written."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--perfetto {path}: no file in a folder that exists", "name a file in a folder that exists")
    return path


Perfetto = Annotated[
    Path | None,
    typer.Option(
        "--perfetto", metavar="FILE", help="Also write trace events, for ui.perfetto.dev.", callback=_viewer_file
    ),
]
