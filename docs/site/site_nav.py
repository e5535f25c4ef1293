"""The navigation of the site: that of mkdocs.yml, with generated pages in it, and pages that it
does not name at the end of the section of their folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

SECTIONS = {"validation": "Method and validation", "reference": "Reference", "tutorial": "Tutorial", "": "User guide"}


def complete(nav: Any, generated: Mapping[str, list[str]], pages: Iterable[str]) -> Any:
    """``nav`` with the lists of ``generated`` in place of their names, and every one of ``pages``
    (addresses below docs/) that it lacks."""
    filled = _filled(nav, generated)
    named = set(_named(filled))
    for page in sorted(set(pages) - named):
        folder = page.rpartition("/")[0].partition("/")[0]
        section = SECTIONS.get(folder, SECTIONS[""])
        next(part[section] for part in filled if section in part).append(page)
    return filled


def _filled(nav: Any, generated: Mapping[str, list[str]]) -> Any:
    if isinstance(nav, list):
        return [_filled(item, generated) for item in nav]
    if isinstance(nav, dict):
        return {title: _filled(item, generated) for title, item in nav.items()}
    return generated.get(nav, nav)


def _named(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for item in nav.values() if isinstance(nav, dict) else nav:
            yield from _named(item)
