"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.page import Page
from ncubble.dashboard.pages.source.address import SourceAddress
from ncubble.dashboard.pages.source.callbacks import register
from ncubble.dashboard.pages.source.layout import layout

PAGE = Page("Source", SourceAddress, of_launch=layout, register=register, in_menu=False)
