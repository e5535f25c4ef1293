"""What all panels of the page of one launch are made from, each read once and only where a panel
asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.account.account import BubbleAccount, judged_account
from ncubble.analysis.diagnosis import words
from ncubble.analysis.diagnosis.measured import as_measured
from ncubble.analysis.diagnosis.verdict import LaunchVerdict
from ncubble.analysis.model.depths import Depths, depths_of
from ncubble.analysis.report.report import Launch
from ncubble.dashboard.data.readings import Entry
from ncubble.dashboard.data.store import ReportStore
from ncubble.dashboard.pages.addresses import WHOLE, KernelAddress
from ncubble.dashboard.pages.page import launch_at


@dataclass
class LaunchView:
    """A launch of the store at an address of its page."""

    store: ReportStore
    entry: Entry
    address: KernelAddress = WHOLE

    @property
    def id(self) -> str:
        """``KEY/LAUNCH``."""
        return str(self.row["id"])

    @property
    def row(self) -> Mapping[str, Any]:
        """Its row of the table of launches."""
        return self.entry.row

    @cached_property
    def launch(self) -> Launch:
        """Its frames."""
        launch: Launch = self.entry.launch
        return launch

    @property
    def verdict(self) -> LaunchVerdict:
        """The verdict, as estimated."""
        return self.entry.verdict

    @cached_property
    def ablation(self) -> Ablation | None:
        """What was measured of it; None where nothing was, or the file is damaged."""
        return self.entry.ablation

    @property
    def judged(self) -> LaunchVerdict:
        """The verdict, by what was measured where it was."""
        return as_measured(self.verdict, self.ablation)

    @property
    def unit(self) -> str:
        """The unit that the account counts, in words."""
        return words.unit_words(self.verdict.unit)

    @cached_property
    def account(self) -> BubbleAccount | None:
        """Its account as the verdict has it, without weights."""
        return judged_account(self.launch, self.verdict.account, weighed=False)

    @property
    def weighed(self) -> BubbleAccount | None:
        """The same, with the weights of its samples."""
        return judged_account(self.launch, self.verdict.account, weighed=True)

    @cached_property
    def depths(self) -> Depths:
        """Predictions of other depths, which take a tenth of a second."""
        return depths_of(self.launch)

    @property
    def pinned(self) -> Entry | None:
        """The launch that the address holds this one against."""
        return launch_at(self.store, self.address.against) if self.address.against else None
