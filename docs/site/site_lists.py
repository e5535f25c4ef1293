"""Lists whose inner blocks are indented by two or three spaces, as CommonMark allows and mdformat
writes them; Python-Markdown wants four."""

from __future__ import annotations

from markdown import Markdown
from markdown.blockprocessors import (
    CodeBlockProcessor,
    ListIndentProcessor,
    OListProcessor,
    ParagraphProcessor,
    UListProcessor,
)
from markdown.extensions import Extension


class NestedLists(Extension):
    """Sets the indentation that nests a block to two spaces."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (the name is Markdown's)
        """Replace the processors of blocks, which read the indentation when they are made."""
        md.tab_length = 2
        # Names and priorities are those of markdown.blockprocessors.build_block_parser.
        for processor, name, priority in (
            (ListIndentProcessor, "indent", 90),
            (CodeBlockProcessor, "code", 80),
            (OListProcessor, "olist", 40),
            (UListProcessor, "ulist", 30),
            (ParagraphProcessor, "paragraph", 10),
        ):
            md.parser.blockprocessors.register(processor(md.parser), name, priority)
