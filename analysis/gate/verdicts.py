"""What a check says: verdicts per metric and kernel, and the verdict of the whole gate.

A kernel is ``regressed`` if any gated metric or limit of growth is, else ``limit_broken`` if any
absolute limit is, else ``not_comparable`` or ``nothing_measured`` if any gated metric could not be
judged, else ``improved`` if any is, else ``pass``. The gate fails (exit 1) if any kernel regressed
or broke a limit. Else it could not measure (exit 3) if any kernel could not be judged, a report or
baseline was unreadable, or no kernel was checked at all. A kernel with suspicious launches
(``account.plausibility``) is not judged: a value that may be wrong neither passes nor fails. Only a
gate that judged all it was asked to judge passes (exit 0).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ncubble.analysis.gate.accounts import Move
from ncubble.analysis.gate.baseline import Baseline, BaselineMetric
from ncubble.analysis.gate.noise import NoiseTest
from ncubble.analysis.gate.repeats import Repeats, SuspiciousLaunch
from ncubble.analysis.gate.rule_verdicts import RuleVerdict
from ncubble.analysis.gate.rules import GateRules

FAILED = ("regressed", "limit_broken")
RANKS = (*FAILED, "not_comparable", "nothing_measured", "improved", "pass")
"""Verdicts, most decisive first. ``info`` marks metrics that are shown and never decide."""


def rank_of(verdict: str) -> int:
    """The place of a verdict in the order of ``RANKS``; unknown ones last."""
    return RANKS.index(verdict) if verdict in RANKS else len(RANKS)


NO_BASELINE = "no baseline for this kernel"
UNREAD = f"{NO_BASELINE} among what could be read"
"""How the reason begins of a kernel that was never recorded, and of one whose baseline may be among
damaged files."""


@dataclass(frozen=True)
class MetricVerdict:
    """One metric of one kernel. ``reason`` explains every verdict that is no number; ``comparison``
    is None then."""

    name: str
    baseline: BaselineMetric
    now: tuple[float, ...]
    verdict: str
    limit_pct: float
    reason: str = ""
    comparison: NoiseTest | None = None


@dataclass(frozen=True)
class KernelVerdict:
    """One kernel on one GPU model. Either side may be missing: launches without baseline, or the
    reverse.

    ``repeats`` holds the launches that were judged. ``limits``: absolute limits and limits of
    growth that were asked for. ``moved``: of a regression, the parts of the account that grew most,
    with their lines; empty where an account is missing on either side. ``suspicions``: a text for
    each suspicious launch.
    """

    label: str
    device: str
    verdict: str
    reason: str = ""
    baseline: Baseline | None = None
    launches: int = 0
    metrics: tuple[MetricVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    repeats: Repeats | None = None
    rules: tuple[RuleVerdict, ...] = ()
    moved: tuple[Move, ...] = ()
    suspicions: tuple[str, ...] = ()

    @property
    def suspicious(self) -> tuple[SuspiciousLaunch, ...]:
        """Launches whose values contradict each other."""
        return self.repeats.suspicious if self.repeats else ()

    @property
    def unrecorded(self) -> bool:
        """Whether all that is to be said is that it has no baseline."""
        return self.reason.startswith(NO_BASELINE) and not (self.rules or self.suspicions or self.notes)

    @property
    def unread(self) -> bool:
        """Whether its baseline may be among files that could not be read."""
        return self.reason.startswith(UNREAD)

    @classmethod
    def of_group(cls, group: Repeats, baseline: Baseline | None = None) -> KernelVerdict:
        """Nothing compared so far: the launches and their baseline."""
        label = group.key.label
        return cls(label, group.device, "not_comparable", "", baseline, group.launches, repeats=group)


@dataclass(frozen=True)
class GateResult:
    """All verdicts. ``unmeasured`` and ``unrecorded`` are labels that were allowed to be missing on
    one side."""

    kernels: tuple[KernelVerdict, ...]
    errors: tuple[tuple[str, str], ...] = ()
    unmeasured: tuple[str, ...] = ()
    unrecorded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of the gate, by the rule of this module."""
        verdicts = {kernel.verdict for kernel in self.kernels}
        if failed := [rank for rank in FAILED if rank in verdicts]:
            return failed[0]
        if self.errors or verdicts - {"pass", "improved"} or not verdicts:
            return "not_comparable" if verdicts - {"nothing_measured"} else "nothing_measured"
        return "improved" if "improved" in verdicts else "pass"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 regressed or a limit broken, 3 could not measure."""
        return 1 if self.verdict in FAILED else 0 if self.verdict in ("pass", "improved") else 3


@dataclass(frozen=True)
class CheckOptions:
    """What a check is asked for.

    ``limits``: beside the ordinary ones. ``same_gpu``: what does not say on which GPU it ran, ran
    on the baseline's. ``exact=False`` (one baseline file was named): launches of the same kernel
    with other parameters are compared with it, if none has its very key. ``require_all``: a
    baseline of a GPU that ran and that has no launches is an error. ``allow_new``: launches without
    any baseline are listed and not an error. ``allow_suspicious``: launches whose values contradict
    each other are judged like others. ``kernel``: regular expression; baselines of kernels that it
    does not match are not missed.
    """

    rules: GateRules = field(default_factory=GateRules)
    exact: bool = True
    require_all: bool = False
    allow_new: bool = False
    same_gpu: bool = False
    kernel: str = ""
    allow_suspicious: bool = False
