"""What a case is made of, as one hash: equal hashes, equal code, on whatever machine and at
whatever path it lies.

``cubin_sha256`` of a build says the same of machine code, but only after building. This needs no
compiler: it covers the sources with all that they include or import from this package, the
compiler's flags and what the spec derives from parameters and shape. The compiler itself is not
part of it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from ncubble.errors import UsageError
from ncubble.kernels.build.build import FLAGS, reachable, source_files
from ncubble.kernels.spec.case import Case

_PACKAGE, _FOLDER = "ncubble.kernels", Path(__file__).resolve().parents[1]
_SMS = 132  # an arbitrary number: shows changes of the rule for persistent grids


def code_digest(case: Case) -> str:
    """SHA-256 in hexadecimal; raises UsageError where a source cannot be read."""
    digest = hashlib.sha256()
    for part in (case.spec.entry, *FLAGS, *case.defines, *_rules(case)):
        digest.update(part.encode() + b"\0")
    try:
        for path in _sources(case):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    except OSError as error:
        raise UsageError(f"{case.label}: a source cannot be read: {error}", "fix its permissions") from error
    return digest.hexdigest()


def _rules(case: Case) -> Iterator[str]:
    """What the spec says of the launch, evaluated."""
    sizes = (case.grid, case.block, case.cluster, case.grid_on(_SMS), case.smem, case.launches)
    yield repr(sizes)
    yield repr([(type(value).__name__, float(value)) for value in case.scalars(0, _SMS)])
    for item in case.tensor_maps:
        box = tuple(item.box(case.shape, case.parameters))
        yield repr((item.array, item.swizzle, box, case.mapped_extent(item)))


def _sources(case: Case) -> list[Path]:
    """Every file that is compiled or driven, each once."""
    pending = [case.spec.path]
    if case.spec.program:
        pending.append(case.spec.folder / case.spec.program)
    sources: list[Path] = []
    for path in pending:
        more = reachable(path, _imported) if path.suffix == ".py" else source_files(path)
        sources += [source for source in more if source not in sources]
    return sources


def _imported(source: Path) -> Iterator[Path]:
    """What a Python file imports from beside it or from this package."""
    for name in _imports(source):
        if path := _module(name, source.parent):
            yield path


def _imports(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # running it reports the error
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _module(name: str, folder: Path) -> Path | None:
    """The file of the module ``name``, if it lies in this package or beside its importer."""
    inside = name.removeprefix(f"{_PACKAGE}.") if name.startswith(f"{_PACKAGE}.") else ""
    for root, dotted in ((_FOLDER, inside), (folder, name)):
        path = root / f"{dotted.replace('.', '/')}.py"
        if dotted and path.is_file():
            return path.resolve()
    return None
