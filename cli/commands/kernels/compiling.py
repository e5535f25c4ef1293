"""``ncubble verify --compile-only``: builds kernels without a GPU, and reports everything missing
or wrong at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import typer

from ncubble.cli.terminal import printable
from ncubble.errors import MeasurementError, UsageError

ARCHITECTURE = re.compile(r"sm_[1-9]\d{1,2}[af]?")
"""As nvcc names them."""


def compile_only(
    name: str | None, catalog: Path | None, parameters: Sequence[str], shape: Sequence[str], arch: str, as_json: bool
) -> None:
    """Print a line per kernel. Raises MeasurementError if anything is missing or wrong, UsageError
    for an invalid request."""
    from ncubble.cli.terminal import emit_json
    from ncubble.kernels.run.compiling import ARCH, CompileCheck, compile_checks, missing_tools

    if arch and not ARCHITECTURE.fullmatch(arch):
        raise UsageError(f"--arch {arch}: not an architecture", "write sm_80, sm_90a or such")
    if name is None and (parameters or shape):
        raise UsageError("-p and --shape need one kernel", "name it: ncubble verify NAME --compile-only")
    missing = missing_tools()
    checks: list[CompileCheck] = []
    names = [tool for tool, _ in missing]
    if names in ([], ["nvdisasm"]):
        for check in compile_checks(name, catalog, parameters, shape, arch or ARCH, promises=not names):
            checks.append(check)
            if not as_json:
                _print(check)
    if as_json:
        tools = [{"name": tool, "remedy": remedy} for tool, remedy in missing]
        emit_json({"schema": 1, "missing": tools, "kernels": [check.to_json() for check in checks]})
    else:
        for tool, remedy in missing:
            typer.echo(f"missing: {tool}\n  remedy: {remedy}", err=True)
    broken = [check.name for check in checks if check.problems]
    if broken or missing:
        what = (
            [f"{len(broken)} of {len(checks)} kernels do not build as specified: {', '.join(broken)}"] if broken else []
        )
        what += [f"missing: {', '.join(names)}"] if missing else []
        raise MeasurementError("; ".join(what), "see above")


def _print(check: object) -> None:
    from ncubble.kernels.run.compiling import CompileCheck

    assert isinstance(check, CompileCheck)  # noqa: S101 (its one caller gives no other)
    if check.skipped:
        typer.echo(f"{check.name}  not built: {check.skipped}")
        return
    used = check.resources
    if used is not None:
        sizes = f"{used['registers']} registers, {used['smem_static_B']} B static shared, {used['spill_B']} B spilled"
        typer.echo(f"{check.name} ({check.arch})  {'builds' if not check.problems else 'builds, but'}: {sizes}")
    for problem in check.problems:
        first, *more = problem.splitlines()
        typer.echo(f"{printable(check.name)}  wrong: {printable(first)}", err=True)
        for line in more:
            typer.echo(f"    {printable(line)}", err=True)
