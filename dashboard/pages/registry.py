"""All pages, in the order of the menu. Routes, menu, callbacks and document follow from this
list."""

from __future__ import annotations

from ncubble.dashboard.pages.checks.layout import PAGE as CHECKS
from ncubble.dashboard.pages.compare.layout import PAGE as COMPARE
from ncubble.dashboard.pages.kernel.layout import PAGE as KERNEL
from ncubble.dashboard.pages.open import PAGE as OPEN
from ncubble.dashboard.pages.overview.layout import PAGE as OVERVIEW
from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.program.layout import PAGE as PROGRAM
from ncubble.dashboard.pages.source.layout import PAGE as SOURCE
from ncubble.dashboard.pages.sweep.layout import PAGE as SWEEP
from ncubble.dashboard.pages.timelines.layout import PAGE as TIMELINES

PAGES: tuple[Page, ...] = (OVERVIEW, COMPARE, SWEEP, PROGRAM, TIMELINES, CHECKS, KERNEL, SOURCE, OPEN)
