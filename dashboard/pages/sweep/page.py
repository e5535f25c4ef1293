"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.sweep.address import SweepAddress
from ncubble.dashboard.pages.sweep.callbacks import register
from ncubble.dashboard.pages.sweep.layout import layout

PAGE = Page("Sweep", SweepAddress, of_store=layout, register=register)
