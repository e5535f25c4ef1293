"""Lists whose inner lines are indented by two or three spaces, as CommonMark allows and mdformat
writes them; Python-Markdown wants four."""

from __future__ import annotations

from markdown import Markdown
from markdown.extensions import Extension


class NestedLists(Extension):
    """Sets the indentation that nests a block to two spaces."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (the name is Markdown's)
        """Change the parser before it is used."""
        md.tab_length = 2
