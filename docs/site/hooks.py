"""Hooks of the documentation site (mkdocs.yml): generated pages, and links that leave docs/.

Commands are read from the typer app, Python pages from docstrings.
Files outside docs/ that a page links to become pages of the site, so that every link works without
a network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from site_commands import command_pages
from site_links import ROOT_PAGES, SourcePages, rewritten
from site_lists import NestedLists
from site_nav import complete
from site_python import python_pages

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = SourcePages(REPOSITORY)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the generated pages into the navigation, and those that mkdocs.yml does not name."""
    config.markdown_extensions.append(NestedLists())
    generated = {"=commands": list(command_pages()), "=python": list(python_pages())}
    docs = REPOSITORY / "docs"
    pages = [str(path.relative_to(docs)) for path in docs.rglob("*.md")]
    pages = [page for page in pages if not (config.not_in_nav and config.not_in_nav.match_file(page))]
    config.nav = complete(config.nav, generated, pages)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, those of the repository's root, and the sources that pages name."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in REPOSITORY.glob("*.md")}
    pages = command_pages() | python_pages()
    pages |= {page: texts[name] for name, page in ROOT_PAGES.items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    for page in [*files.documentation_pages()]:
        SOURCES.collect(page.content_string, page.src_uri)
    for path, text in SOURCES.pages().items():
        files.append(File.generated(config, path, content=text))
    icon = REPOSITORY / "dashboard" / "assets" / "icon.svg"
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(icon)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links that leave docs/ to the pages made of their targets; show the home page without
    empty columns."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    return rewritten(markdown, page.file.src_uri, REPOSITORY)
