"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.open.address import OpenAddress
from ncubble.dashboard.pages.open.callbacks import register
from ncubble.dashboard.pages.open.layout import layout
from ncubble.dashboard.pages.page import Page

PAGE = Page("Open", OpenAddress, of_store=layout, register=register)
