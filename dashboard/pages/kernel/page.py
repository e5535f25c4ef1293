"""The entry of this page in the registry."""

from __future__ import annotations

from ncubble.dashboard.pages.kernel.address import KernelAddress
from ncubble.dashboard.pages.kernel.callbacks import register
from ncubble.dashboard.pages.kernel.layout import layout
from ncubble.dashboard.pages.page import Page

PAGE = Page("Kernel", KernelAddress, of_launch=layout, register=register, in_menu=False)
