"""A launch whose report is at hand: what the sections of one page share, so that each does not ask for it anew."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from ncubble.dashboard.data.readings import Launch


class Opened:
    """One launch while a page of it is made. A report that cannot be opened is tried again by the next section."""

    def __init__(self, entry: Launch, account: Callable[[], Any] | None = None) -> None:
        self._entry, self._account = entry, account
        self.launch = entry.launch
        self.row = entry.row

    @cached_property
    def report(self) -> Any:
        """The report; raises NcubbleError where it cannot be opened."""
        return self._entry.report

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """The verdict of the launch; raises NcubbleError as ``report`` does."""
        return self._entry.verdict

    @cached_property
    def advice(self) -> dict[str, Any]:
        """What ``ncubble advise`` says of the launch: a prediction, which takes a tenth of a second."""
        if self._account is not None:
            from ncubble.dashboard.pages.kernel.advised import advice_of

            return advice_of(self.report.launch(self.launch), self._account())
        from ncubble.analysis.diagnosis.advise import advise

        return advise(self.report.launch(self.launch))

    @cached_property
    def source(self) -> Any:
        """The instructions of the launch, numbered from 0."""
        return self.report.launch(self.launch).source

    @cached_property
    def timeline(self) -> Any:
        """The PM samples of the launch."""
        return self.report.launch(self.launch).timeline
