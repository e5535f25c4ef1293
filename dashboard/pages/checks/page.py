"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.checks.address import ChecksAddress
from ncubble.dashboard.pages.checks.callbacks import register
from ncubble.dashboard.pages.checks.layout import layout
from ncubble.dashboard.pages.page import Page

PAGE = Page("Checks", ChecksAddress, of_store=layout, register=register)
