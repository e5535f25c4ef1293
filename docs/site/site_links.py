"""Links of the docs that leave docs/: to the files of the root, to sources, to folders.

On a code host they lead to the file itself. In the site they lead to a page with its content.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"^ *(```|~~~)", re.MULTILINE)
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LANGUAGES = {".py": "python", ".cu": "cuda", ".cuh": "cuda", ".cpp": "cpp", ".toml": "toml", ".yml": "yaml"}


def in_repository(page: str) -> str:
    """The file of the repository that a page of the site is made of."""
    names = {made: name for name, made in ROOT_PAGES.items()}
    return names.get(page) or f"docs/{page}"


def site_page(target: str, repository: Path) -> str | None:
    """The page of the site for ``target``, a path in the repository; None where there is none."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if target in ROOT_PAGES:
        return ROOT_PAGES[target]
    if target == "README.md":
        return "README.md"
    path = repository / target
    if path.is_dir():
        return f"source/{target}/index.md"
    return f"source/{target}.md" if path.is_file() else None


def rewritten(markdown: str, page: str, repository: Path) -> str:
    """``markdown`` with every link that leaves docs/ led to a page of the site. A link that leads
    nowhere is left as it is, and the build reports it."""

    def led(match: re.Match[str]) -> str:
        target = _target(match[1], page)
        made = site_page(target, repository)
        if made is None or (target.startswith("docs/") and page not in ROOT_PAGES.values()):
            return match[0]
        return posixpath.relpath(made, posixpath.dirname(page) or ".") + (match[2] or "")

    return _outside_code(markdown, lambda text: LINK.sub(led, text))


class SourcePages:
    """Pages made of the sources that other pages link to."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._targets: set[str] = set()

    def collect(self, markdown: str, page: str) -> None:
        """Note which sources ``page`` links to."""
        if not page.startswith("source/"):
            targets = {_target(match[1], page) for match in LINK.finditer(markdown)}
            self._targets |= {target for target in targets if self._is_source(target)}

    def pages(self) -> dict[str, str]:
        """Markdown by the address of each page."""
        made = {site_page(target, self._repository) or "": self._text(target) for target in sorted(self._targets)}
        return {page: f"---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n{text}" for page, text in made.items()}

    def _is_source(self, target: str) -> bool:
        return (site_page(target, self._repository) or "").startswith("source/")

    def _text(self, target: str) -> str:
        path = self._repository / target
        if path.is_dir():
            names = sorted(child.name + "/" * child.is_dir() for child in path.iterdir() if child.name[0] not in "._")
            return "\n".join(
                [f"# {target}/", "", "A folder of the repository:", "", *(f"- `{name}`" for name in names)]
            )
        text = path.read_text(encoding="utf-8")
        parts = _cells(text) if path.suffix == ".ipynb" else [_code(text, LANGUAGES.get(path.suffix, "text"))]
        return "\n\n".join([f"# {target}", *parts, ""])


def _code(text: str, language: str) -> str:
    return f"~~~~~~ {language}\n{text.rstrip()}\n~~~~~~"


def _cells(notebook: str) -> list[str]:
    """Texts and code of a notebook, without what it printed."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook)["cells"]]
    return [_code(text, "python") if kind == "code" else text for kind, text in cells]


def _target(link: str, page: str) -> str:
    """The path in the repository that a link of a page names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(page)), link))


def _outside_code(markdown: str, change: Callable[[str], str]) -> str:
    return "".join(text if code else change(text) for text, code in _split(markdown))


def _split(markdown: str) -> Iterator[tuple[str, bool]]:
    """Stretches of ``markdown``, and whether each is a fenced block."""
    fenced = False
    for line in markdown.splitlines(keepends=True):
        fence = bool(FENCE.match(line))
        yield line, fenced or fence
        fenced ^= fence
