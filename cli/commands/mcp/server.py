"""``ncubble mcp``: a server of the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble import __version__
from ncubble.errors import NcubbleError, UsageError
from ncubble.profiling.runs import require_paths
from ncubble.text.remedies import extras_command
from ncubble.text.values import finite

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from ncubble.cli.commands.mcp.measuring import AgentRuns
    from ncubble.cli.commands.mcp.tools import Tools

INSTRUCTIONS = (
    "Verdicts of GPU kernels from Nsight Compute reports. Begin with list_launches, then ask "
    "for the verdict of the launch that loses most. Percentages are of elapsed SM cycles. "
    "`how` is estimated, or measured (by ablation)."
)
READING = ("list_launches", "verdict", "explain", "source_hot_lines", "compare", "advise", "measured", "check", "query")
WRITING = ("profile", "ablate")
LONGEST_ERROR = 1000
"""Characters of an error: at most 4 bytes each, they fit in an answer with the prefix of the SDK."""


def mcp(
    roots: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="Runs, reports, datasets, or folders of them; nothing else can be read."),
    ],
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
) -> None:
    """Answer an agent's questions about recorded launches (Model Context Protocol, on stdin and stdout).

    Read-only; answers have at most 4 KB. --allow-profile adds two measuring tools, for machines
    with a GPU.
    """
    from ncubble.cli.commands.mcp.measuring import AgentRuns, named_commands
    from ncubble.cli.commands.mcp.roots import Roots
    from ncubble.cli.commands.mcp.tools import Tools

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

    server = MCPServer("ncubble", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")
    for name in READING:
        reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        server.tool(name, annotations=reads, structured_output=False)(_answering(getattr(tools, name)))
    for name in WRITING if measuring else ():
        writes = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
        server.tool(name, annotations=writes, structured_output=False)(_answering(getattr(measuring, name)))
    return server


def _answering(function: Callable[..., dict[str, Any]]) -> Callable[..., str]:
    """The answer as one line of JSON. NcubbleError becomes an error of the tool, with its remedy;
    so does any other exception, whose reason the SDK would hide from the client."""
    import json

    from mcp.server.mcpserver.exceptions import ToolError

    @functools.wraps(function)
    def asked(*arguments: Any, **named: Any) -> str:
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
