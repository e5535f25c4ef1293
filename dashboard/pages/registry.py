"""All pages, in the order of the menu. Routes, menu, callbacks and document follow from this
list."""

from __future__ import annotations

from ncubble.dashboard.pages.checks.page import PAGE as CHECKS
from ncubble.dashboard.pages.compare.page import PAGE as COMPARE
from ncubble.dashboard.pages.kernel.page import PAGE as KERNEL
from ncubble.dashboard.pages.open.page import PAGE as OPEN
from ncubble.dashboard.pages.overview.page import PAGE as OVERVIEW
from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.ranks.page import PAGE as RANKS
from ncubble.dashboard.pages.source.page import PAGE as SOURCE
from ncubble.dashboard.pages.sweep.page import PAGE as SWEEP
from ncubble.dashboard.pages.timelines.page import PAGE as TIMELINES

PAGES: tuple[Page, ...] = (OVERVIEW, COMPARE, SWEEP, TIMELINES, RANKS, CHECKS, KERNEL, SOURCE, OPEN)
