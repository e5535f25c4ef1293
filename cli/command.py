"""Base class of all commands: shows readable value types in help."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from ncubble.errors import UsageError

Click = Any
"""A context or parameter of click, which typer holds in a private module."""
OF_NCU = {
    "--metric": "metrics",
    **{f"--{name}": name for name in ("section", "metrics", "replay-mode", "cache-control", "pm-sampling-interval")},
}
"""Options of ncu that `profile` passes on, by --ncu NAME=VALUE or by their own names."""
PROGRAM = "ncubble.program"
"""Key of a context's arguments after ``--``: a list, or None without ``--``."""
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
        """Parse ``args``, of ``profile`` with options of ncu by their own names."""
        return super().parse_args(ctx, [*with_options_of_ncu(args)] if self.name == "profile" else args)

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


def with_options_of_ncu(args: Sequence[str]) -> Iterator[str]:
    """``args`` with ``--ncu NAME=VALUE`` for options of ncu; what stands after ``--`` is
    unchanged."""
    cut = args.index("--") if "--" in args else len(args)
    words = iter(args[:cut])
    for word in words:
        name, equals, value = word.partition("=")
        yield f"--ncu={OF_NCU[name]}={value if equals else next(words, '')}" if name in OF_NCU else word
    yield from args[cut:]


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
    typer.Option("--without", metavar="REGEX", help="Leave out ('': none; default: kernels that wait for other GPUs)."),
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
    typer.Option("--perfetto", metavar="FILE", help="Also write a trace for ui.perfetto.dev.", callback=_viewer_file),
]
