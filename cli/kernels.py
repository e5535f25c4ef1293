"""``ncubble kernels`` lists the catalog, ``verify`` and ``bench`` run one of its kernels."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncubble.chips import Version, chip_of
from ncubble.cli.command import Catalog, Json, Name, OptionalName, Parameters, Seed
from ncubble.cli.terminal import TIED, emit_json, printable, recording, tied
from ncubble.errors import UsageError
from ncubble.records import JsonObject

if TYPE_CHECKING:
    from rich.text import Text

    from ncubble.kernels.run.compiling import CompileCheck
    from ncubble.kernels.run.session import KernelOutcome, KernelRequest
    from ncubble.kernels.spec.spec import KernelSpec, Parameter, Value
    from ncubble.kernels.spec.spec import Parameters as Settings

INDENT = "  "
WIDEST = 120  # columns; longer lines are hard to read
OLDEST = 80  # Ampere: what every kernel needs, so that it is not said
PEERS = {"matmul": "cuBLAS", "sdpa": "cuDNN", "softmax": "torch.softmax", "copy": "a device copy"}


def list_kernels(catalog: Catalog = None, as_json: Json = False) -> None:
    """List the catalog's kernels: default shape, idea, and parameters with allowed values and
    defaults."""
    from ncubble.kernels.catalog.registry import catalog as load

    specs = sorted(load(catalog).values(), key=lambda spec: catalog is None or spec.folder != catalog.resolve())
    if as_json:
        emit_json({"schema": 1, "kernels": [_spec_json(spec) for spec in specs]})
        return
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    for line in kernel_lines(specs, console.width):
        console.print(line)


def verify(
    name: OptionalName = None,
    parameters: Parameters = None,
    seed: Annotated[
        str,
        typer.Option("--seed", metavar="N", help="Seed of the random inputs (default: a fresh one); --gates: 0,1,2."),
    ] = "",
    catalog: Catalog = None,
    gates: Annotated[
        bool, typer.Option("--gates", help="Check both paths of the spec's gates: results, resources, times.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the results of --gates, or the SASS of --compile-only."),
    ] = None,
    compile_only: Annotated[
        bool, typer.Option("--compile-only", help="Only build, no GPU needed; without NAME all kernels of --catalog.")
    ] = False,
    arch: Annotated[
        str, typer.Option("--arch", metavar="ARCH", help="With --compile-only: sm_80, sm_90a, … (default sm_90a).")
    ] = "",
    debug: Annotated[
        bool, typer.Option("--debug", help="Build for the debugger, with the kernel's debug prints and checks, if any.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a kernel on random inputs and compare it with the float64 reference. Exit code 4 if it is
    wrong. With --gates: 4 if a path is wrong, 1 if a path exceeds its resources, saves too little
    time, or moves a counter the wrong way, 3 if only the counters cannot be read. Sizes or names of
    shapes in -p and --seed replace those of the spec. Compare two --out folders with ncubble compare.
    """
    from ncubble.api import kernels as api
    from ncubble.kernels.build import DEBUG_HEADER, includes
    from ncubble.kernels.catalog.registry import find_spec
    from ncubble.kernels.run.gates import compare_markdown
    from ncubble.kernels.run.session import KernelRequest, named_shapes

    if compile_only:
        if gates or debug or seed:
            raise UsageError("--compile-only launches nothing", "leave out --gates, --debug and --seed")
        show = (lambda check: None) if as_json else _show_check
        built = api.compile_kernels(name, parameters or (), catalog, arch, show, out)
        if as_json:
            emit_json(built.to_json())
        else:
            for tool, remedy in built.missing:
                typer.echo(f"missing: {tool}\n  remedy: {remedy}", err=True)
        built.require()
        return
    if name is None or arch:
        what = "--arch needs --compile-only" if name else "no kernel named"
        raise UsageError(what, "see `ncubble kernels`, or build all with --compile-only")
    seeds = _seeds(seed)
    if gates:
        if debug:
            raise UsageError("--debug cannot be combined with --gates", "debug code has meaningless times")
        names, rest = named_shapes(find_spec(name, catalog), parameters or ())
        request = KernelRequest.parse(name, rest, catalog)
        if names and request.shape:
            raise UsageError(f"-p {names[0]} and sizes are two shapes", "use names of shapes, or sizes")
        found = api.verify_gates(
            name, request.parameters, names or request.shape, seeds, catalog=catalog, out=out, observing=recording
        )
        if as_json:
            emit_json({"schema": 1, **found.to_json()})
        else:
            typer.echo(compare_markdown(found), nl=False)
        found.require()
        return
    request = KernelRequest.parse(name, parameters, catalog)
    if len(seeds) > 1:
        raise UsageError(f"--seed {seed} are several", "use one, or add --gates")
    if out is not None:
        raise UsageError("--out needs --gates or --compile-only", "omit it, or add one")
    if debug and as_json:
        raise UsageError("--debug cannot be combined with --json", "the kernel's prints would corrupt the JSON")
    if debug and not includes(request.case(), DEBUG_HEADER):
        what = "has no debug prints or checks (debug.cuh): the debug build only serves cuda-gdb and compute-sanitizer"
        typer.echo(f"note: {name} {what}", err=True)
    _show(api.verify(name, **_chosen(request), seed=seeds[0] if seeds else None, debug=debug), as_json)


def bench(
    name: Name,
    parameters: Parameters = None,
    seed: Seed = None,
    catalog: Catalog = None,
    iterations: Annotated[int, typer.Option("--iterations", help="Timed launches.", min=100)] = 100,
    library: Annotated[
        bool, typer.Option("--library", help="Also time a library call of the same operation, in turns.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Verify a kernel, then time it with CUDA events and compare with its roof and, with --library,
    with a library."""
    from ncubble.api import kernels as api
    from ncubble.kernels.run.session import KernelRequest

    chosen = _chosen(KernelRequest.parse(name, parameters, catalog))
    _show(api.bench(name, **chosen, library=library, seed=seed, iterations=iterations), as_json)


def _seeds(text: str) -> list[int]:
    """``0,1,2`` as numbers; raises UsageError."""
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"--seed {text} is no number, nor several with commas", "for example --seed 0,1,2")
    return [int(word) for word in words]


def _chosen(request: KernelRequest) -> JsonObject:
    return {"parameters": request.parameters, "shape": request.shape, "catalog": request.catalog}


def _show(outcome: KernelOutcome, as_json: bool) -> None:
    """Print an outcome; raises VerificationError if the kernel is wrong."""
    from ncubble.kernels.run.session import describe

    if as_json:
        emit_json({"schema": 1, **outcome.to_json()})
    else:
        typer.echo("\n".join(describe(outcome)))
    outcome.require()


def _show_check(check: CompileCheck) -> None:
    if check.skipped:
        typer.echo(f"{check.name}  not built: {check.skipped}")
        return
    if (used := check.resources) is not None:
        shared = f"{used['smem_static_B']} + {used['smem_dynamic_B']} B of shared memory"
        sizes = f"{used['registers']} registers, {used['spill_B']} B spilled, {shared}"
        typer.echo(f"{check.name} ({check.arch})  {'builds' if not check.problems else 'builds, but'}: {sizes}")
        if check.opcodes:
            counts = Counter(opcode.partition(".")[0] for opcode in Counter(check.opcodes).elements())
            del counts["NOP"]  # padding
            typer.echo("  code: " + ", ".join(f"{count} {opcode}" for opcode, count in counts.most_common()))
    for warning in check.warnings:
        typer.echo(f"{printable(check.name)}  warning: {printable(warning)}", err=True)
    for problem in check.problems:
        first, *more = problem.splitlines()
        typer.echo(f"{printable(check.name)}  wrong: {printable(first)}", err=True)
        for line in more:
            typer.echo(f"    {printable(line)}", err=True)


def kernel_lines(specs: Iterable[KernelSpec], width: int) -> Iterator[Text]:
    """A block of lines per spec, at most ``width`` columns wide unless a single item is wider."""
    from rich.text import Text

    for spec in specs:
        sizes = " ".join(f"{dim.name}={dim.default}" for dim in spec.dims)
        yield Text.assemble((printable(spec.name), "bold cyan"), f"  {printable(sizes)}")
        yield from map(Text, _wrapped(printable(spec.idea), width))
        items = (f"{item.name}={item.allowed} ({_default(item)})" for item in spec.parameters)
        tied = "  ".join(_tied(printable(item), width) for item in items)
        yield from (Text(line, style="dim") for line in _wrapped(tied, width))
        remarks = f"{TIED}· ".join(_tied(printable(note), width) for note in notes(spec))
        yield from (Text(line, style="green") for line in _wrapped(remarks, width))


def _default(item: Parameter) -> str:
    """The default, and the default for GPUs that lack its requirements, if any."""
    return str(item.default) if item.elsewhere is None else f"{item.default}, elsewhere {item.elsewhere}"


def notes(spec: KernelSpec) -> list[str]:
    """Requirements beyond Ampere, the library to compare with, and whether the kernel has gates."""
    remarks = [need.words for need in architectures(spec)]
    if spec.peer:
        remarks.append(f"bench --library: {PEERS.get(spec.peer, spec.peer)}")
    if spec.gates is not None:
        remarks.append("verify --gates")
    return remarks


@dataclass(frozen=True)
class ArchitectureNeed:
    """What a kernel needs beyond Ampere: compute capability ``arch`` (90 is 9.0), or ``only`` that
    one; ``parameter`` is the one whose ``values`` need it (None: all of the kernel does)."""

    parameter: str | None
    values: tuple[Value, ...]
    arch: int
    only: bool

    @property
    def words(self) -> str:
        """For people."""
        need = f"{_architecture(self.arch)} {'only' if self.only else 'or later'}"
        return f"{self.parameter}={', '.join(map(str, self.values))}: {need}" if self.parameter else need


def architectures(spec: KernelSpec) -> list[ArchitectureNeed]:
    """GPU generations that ``spec`` needs; per value if a parameter decides, with the others at
    their defaults.

    Raises:
        UsageError: the spec's own rule fails.
    """
    defaults = {item.name: item.default for item in spec.parameters}
    needs: list[ArchitectureNeed] = []
    for item in spec.parameters:
        values: dict[tuple[int, bool], list[Value]] = {}
        for value in item.choices:
            values.setdefault(_generation(spec, defaults | {item.name: value}), []).append(value)
        if len(values) > 1:
            needs += [
                ArchitectureNeed(item.name, tuple(those), arch, only)
                for (arch, only), those in values.items()
                if only or arch > OLDEST
            ]
    arch, only = _generation(spec, defaults)
    return needs or ([ArchitectureNeed(None, (), arch, only)] if only or arch > OLDEST else [])


def _generation(spec: KernelSpec, parameters: Settings) -> tuple[int, bool]:
    """The oldest architecture that these parameters can be built for, or the only one."""
    from ncubble.kernels.spec.case import Case

    case = Case(spec, parameters, {})
    try:
        only, least = case.only_arch, case.min_arch
        return (int(least), False) if only is None else (int(only), True)
    except Exception as error:  # the spec is the user's code
        raise UsageError(f"spec of {spec.name!r}: arch_of: {type(error).__name__}: {error}", "fix the spec") from error


def _architecture(number: int) -> str:
    """``Hopper`` for 90; nvcc's name where no other is known."""
    chip = chip_of(Version(*divmod(number, 10)))
    return chip.architecture if chip and chip.architecture else f"sm_{number}"


def _tied(item: str, width: int) -> str:
    """``item`` so that it stays in one line, if it fits one."""
    return tied(item) if len(INDENT) + len(item) <= min(width, WIDEST) else item


def _wrapped(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(
        text,
        min(width, WIDEST),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(TIED, " ") for line in lines]


def _spec_json(spec: KernelSpec) -> JsonObject:
    return {
        **{"name": spec.name, "language": spec.language, "source": str(spec.path)},
        **{member: getattr(spec, member) for member in ("idea", "demonstrates", "dtype", "unit")},
        "peer": spec.peer or None,
        "gates": spec.gates is not None,
        "needs": [asdict(need) for need in architectures(spec)],
        "parameters": [
            {
                **{"name": item.name, "default": item.default, "choices": list(item.choices), "help": item.help},
                **({} if item.elsewhere is None else {"elsewhere": item.elsewhere}),
                **{"problem": item.problem, "change": item.change},
            }
            for item in spec.parameters
        ],
        "shape": [asdict(dim) for dim in spec.dims],
    }
