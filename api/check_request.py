"""What is asked of a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ncubble.analysis.gate.baseline import Baseline
from ncubble.analysis.gate.baseline_file import load_store
from ncubble.analysis.gate.settings import STORE, GateSettings
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.errors import UsageError
from ncubble.text.values import expression


@dataclass(frozen=True)
class CheckRequest:
    """What is checked.

    ``paths`` are runs, reports, or folders of them; with ``profile`` or ``against`` (a revision)
    they are kernels of the catalog, which are measured first, as ``program`` (an argv) is.
    ``settings`` are those of the project with the rules of this call. ``baseline``: a folder or
    file (None: the project's). ``kernel``: regular expression. ``require_all``: every baseline of
    this GPU must have been measured; with ``profile`` these are measured, and ``paths`` are runs of
    others. ``allow_new``: kernels may have no baseline. ``out``: folder for the runs.
    """

    paths: tuple[Path, ...] = ()
    settings: GateSettings = field(default_factory=GateSettings)
    baseline: Path | None = None
    kernel: str = ""
    require_all: bool = False
    allow_new: bool = False
    profile: bool = False
    program: tuple[str, ...] | None = None
    against: str = ""
    of_kernel: tuple[str, ...] = ()
    out: Path | None = None

    @property
    def measures(self) -> bool:
        """Whether something is measured now."""
        return self.profile or bool(self.against) or self.program is not None

    @property
    def store(self) -> Path:
        """Folder of baselines, or a file of one."""
        return self.baseline or self.settings.baselines or STORE

    @property
    def options(self) -> CheckOptions:
        """The options by which launches are judged."""
        settings = self.settings
        return CheckOptions(
            settings.rules,
            self.store.is_dir(),
            self.require_all,
            self.allow_new,
            settings.same_gpu,
            self.kernel,
            settings.allow_suspicious,
        )

    def validate(self) -> None:
        """Raise UsageError where the request contradicts itself, before anything is read or
        measured."""
        expression(self.kernel, f"--kernel {self.kernel!r}")
        of_kernel = {"-p": self.of_kernel}
        if not self.measures:
            _refuse(
                {**of_kernel, "--out": self.out},
                "is for what is measured now, but runs are read here",
                "to measure: `ncubble check --profile KERNEL`, `ncubble check -- CMD`, or --against REV",
            )
            if not self.paths:
                raise UsageError("nothing to check", "name runs or reports, or measure: --profile KERNEL, or -- CMD")
            _refuse_kernel_names(self.paths)
            return
        if self.against and self.baseline is not None:
            raise UsageError("--against and --baseline both say what to compare with", "give one of them")
        if self.profile and self.require_all and not self.against:
            given = {**of_kernel, "a program after --": self.program is not None}
            _refuse(given, "does not go with --profile --all", "baselines say what to measure")
        elif bool(self.paths) == (self.program is not None):
            raise UsageError("name either kernels of the catalog or a program after --", "see `ncubble check --help`")
        elif self.program is not None:
            _refuse(of_kernel, "is for kernels of the catalog", "pass it to the program, after --")
        elif len(self.paths) > 1:
            _refuse(of_kernel, f"is for one kernel, and {len(self.paths)} are named", "check them one by one")

    def stored(self) -> tuple[list[Baseline], list[tuple[str, str]]]:
        """The baselines, and (file, error) of those that are unreadable. Raises UsageError if there
        is no such place, unless absolute limits may be all there is."""
        if self.allow_new and self.baseline is None and not self.store.exists():
            return [], []
        baselines, broken = load_store(self.store)
        return baselines, [(str(self.store), f"{error.message} ({error.remedy})") for error in broken]


def _refuse(options: Mapping[str, object], why: str, remedy: str) -> None:
    for option, value in options.items():
        if value:
            raise UsageError(f"{option} {why}", remedy)


def _refuse_kernel_names(paths: Sequence[Path]) -> None:
    """Of a name that is no path but a kernel, say how it is measured."""
    for path in paths:
        if len(path.parts) == 1 and not path.suffix and not path.exists():
            from ncubble.kernels.catalog.registry import catalog

            if str(path) in catalog():
                raise UsageError(
                    f"{path}: no such file or directory, but a kernel of the catalog",
                    f"to measure it now: `ncubble check --profile {path}`",
                )
