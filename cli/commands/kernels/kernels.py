"""Commands on the catalog: ``kernels`` lists it, ``verify`` and ``bench`` run one of its
kernels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ncubble.cli.command import Catalog, Json, Name, OptionalName, Parameters, Shape
from ncubble.errors import UsageError

if TYPE_CHECKING:
    from ncubble.kernels.run.session import KernelRequest
    from ncubble.kernels.spec.spec import KernelSpec

Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the random inputs (default: a fresh one, printed).")]
Nvtx = Annotated[bool, typer.Option("--nvtx", help="Put NVTX ranges around the phases: verify, warm-up, time.")]
GateIterations = Annotated[
    int | None, typer.Option("--iterations", min=1, help="With --gates: timed launches of each path.")
]
Counters = Annotated[
    bool,
    typer.Option(" /--no-counters", help="With --gates: skip gates on counters (they need ncu).", show_default=False),
]
CompileOnly = Annotated[
    bool, typer.Option("--compile-only", help="Only build, no GPU needed; without NAME all kernels of --catalog.")
]
Arch = Annotated[
    str, typer.Option("--arch", metavar="ARCH", help="With --compile-only: sm_80, sm_90a, … (default sm_90a).")
]


def list_kernels(catalog: Catalog = None, as_json: Json = False) -> None:
    """List the catalog's kernels: default shape, idea, and parameters with allowed values and
    defaults."""
    from ncubble.cli.terminal import emit_json
    from ncubble.kernels.catalog.registry import catalog as load

    specs = sorted(load(catalog).values(), key=lambda spec: catalog is None or spec.folder != catalog.resolve())
    if as_json:
        emit_json({"schema": 1, "kernels": [_spec_json(spec) for spec in specs]})
        return
    from rich.console import Console

    from ncubble.cli.commands.kernels.listing import kernel_lines

    console = Console(highlight=False, soft_wrap=True)
    for line in kernel_lines(specs, console.width):
        console.print(line)


def verify(
    name: OptionalName = None,
    parameters: Parameters = None,
    shape: Shape = None,
    seed: Seed = None,
    catalog: Catalog = None,
    gates: Annotated[
        bool, typer.Option("--gates", help="Check both paths of the spec's gates: results, resources, times.")
    ] = False,
    iterations: GateIterations = None,
    counters: Counters = True,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="With --gates: folder for the results.")
    ] = None,
    compile_only: CompileOnly = False,
    arch: Arch = "",
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Build for the debugger, with the kernel's debug prints and checks, if any."),
    ] = False,
    nvtx: Nvtx = False,
    as_json: Json = False,
) -> None:
    """Run a kernel on random inputs and compare it with the float64 reference. Exit code 4 if it is
    wrong. With --gates: 4 if a path is wrong, 1 if a path exceeds its resources, saves too little
    time, or moves a counter the wrong way, 3 if only the counters cannot be read. --shape and
    --seed replace those of the spec. Compare two --out folders with ncubble compare.
    """
    if compile_only:
        from ncubble.cli.commands.kernels.compiling import compile_only as compile_kernels

        if gates or debug or seed is not None or nvtx:
            raise UsageError("--compile-only launches nothing", "leave out --gates, --debug, --seed and --nvtx")
        compile_kernels(name, catalog, parameters or [], shape or [], arch, as_json)
        return
    if name is None or arch:
        what = "--arch needs --compile-only" if name else "no kernel named"
        raise UsageError(what, "see `ncubble kernels`, or build all with --compile-only")
    if gates:
        from ncubble.cli.commands.kernels.acceptance import verify_gates
        from ncubble.kernels.run.session import parse_shape

        if debug:
            raise UsageError("--debug cannot be combined with --gates", "debug code has meaningless times")
        if parameters:
            raise UsageError("-p cannot be combined with --gates", "the spec's gates set the parameters of both paths")
        verify_gates(name, catalog, parse_shape(shape or ()), seed, iterations, counters, nvtx, out, as_json)
        return
    for option, given in {"--out": out, "--iterations": iterations, "--no-counters": not counters or None}.items():
        if given is not None:
            raise UsageError(f"{option} needs --gates", "omit it, or add --gates")
    from ncubble.kernels.run.session import KernelRequest

    if debug and as_json:
        raise UsageError("--debug cannot be combined with --json", "the kernel's prints would corrupt the JSON")
    request = KernelRequest.parse(name, parameters, shape, catalog, seed, iterations=0, debug=debug, nvtx=nvtx)
    if debug:
        _note_silence(request)
    _run(request, as_json)


def bench(
    name: Name,
    parameters: Parameters = None,
    shape: Shape = None,
    seed: Seed = None,
    catalog: Catalog = None,
    iterations: Annotated[int, typer.Option("--iterations", help="Timed launches.", min=100)] = 100,
    library: Annotated[
        bool, typer.Option("--library", help="Also time a library call of the same operation, in turns.")
    ] = False,
    nvtx: Nvtx = False,
    as_json: Json = False,
) -> None:
    """Verify a kernel, then time it with CUDA events and compare with its roof and, with --library,
    with a library."""
    from ncubble.kernels.run.session import KernelRequest

    request = KernelRequest.parse(
        name, parameters, shape, catalog, seed, iterations=iterations, against=library, nvtx=nvtx
    )
    _run(request, as_json)


def _note_silence(request: KernelRequest) -> None:
    """Print a note if a debug build has no prints or checks."""
    from ncubble.kernels.build import prints_when_debugged

    case = request.case()
    if not prints_when_debugged(case):
        what = "has no debug prints or checks (debug.cuh): the debug build only serves cuda-gdb and compute-sanitizer"
        typer.echo(f"note: {case.spec.name} {what}", err=True)


def _run(request: KernelRequest, as_json: bool) -> None:
    """Execute ``request`` and print its outcome; raises VerificationError if the kernel is
    wrong."""
    from ncubble.cli.terminal import emit_json
    from ncubble.kernels.run.session import describe, execute

    outcome = execute(request)
    if as_json:
        emit_json({"schema": 1, **outcome.to_json()})
    else:
        typer.echo("\n".join(describe(outcome)))
    outcome.require()


def _spec_json(spec: KernelSpec) -> dict[str, Any]:
    from ncubble.cli.commands.kernels.listing import architectures

    return {
        "name": spec.name,
        "language": spec.language,
        "source": str(spec.path),
        "idea": spec.idea,
        "demonstrates": spec.demonstrates,
        "dtype": spec.dtype,
        "unit": spec.unit,
        "peer": spec.peer or None,
        "gates": spec.gates is not None,
        "needs": [asdict(need) for need in architectures(spec)],
        "parameters": [
            {
                **{"name": item.name, "default": item.default, "choices": list(item.choices), "help": item.help},
                **({} if item.elsewhere is None else {"elsewhere": item.elsewhere}),
                **{"problem": item.problem, "cures": dict(item.cures)},
            }
            for item in spec.parameters
        ],
        "shape": [
            {"name": dim.name, "default": dim.default, "multiple": dim.multiple, "maximum": dim.maximum}
            for dim in spec.dims
        ],
    }
