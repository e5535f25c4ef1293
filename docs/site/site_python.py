"""The reference of Python, made of docstrings by mkdocstrings."""

from __future__ import annotations

import ncubble

FOLDER = "reference/python"
PAGES = {
    "index": (
        "Modules",
        "`import ncubble` is the stable interface: [ncubble](api.md). The other pages show the modules behind it, "
        "for kernel specs and for those who change ncubble. They may change at any time.",
        [],
    ),
    "api": (
        "ncubble",
        "What `import ncubble` offers. By example: [Python API](../../api.md).",
        [f"{getattr(ncubble, name).__module__}.{name}" for name in ncubble.__all__ if name != "NcubbleError"],
    ),
    "reports": (
        "Reports and launches",
        "A report and its frames, and one launch of it. Columns and units: [Reports](../reports.md).",
        [
            "ncubble.analysis.report.report.open_reports",
            "ncubble.analysis.report.report.Report",
            "ncubble.analysis.report.report.Launch",
            "ncubble.analysis.report.launch_key.LaunchKey",
        ],
    ),
    "accounts": (
        "Accounts and verdicts",
        "Where the cycles of a launch went, and what to change. Fields: [Verdicts](../verdicts.md).",
        [
            "ncubble.analysis.account.account.account",
            "ncubble.analysis.account.account.BubbleAccount",
            "ncubble.analysis.account.parts.Part",
            "ncubble.analysis.diagnosis.results.judge",
            "ncubble.analysis.diagnosis.results.report_json",
            "ncubble.analysis.diagnosis.verdict.LaunchVerdict",
            "ncubble.analysis.changes.change.Change",
        ],
    ),
    "kernels": (
        "Kernel specs",
        "How a kernel is declared. An example: [Your own kernel](../../own-kernels.md).",
        [
            f"ncubble.kernels.spec.spec.{name}"
            for name in ("KernelSpec", "Parameter", "Dim", "Array", "Scalar", "TensorMap", "Tolerance")
        ],
    ),
    "runs": (
        "Runs",
        "A report and the manifest that says how it was made. Files: [Runs](../runs.md).",
        [f"ncubble.profiling.runs.{name}" for name in ("find_runs", "Run", "Manifest")],
    ),
    "errors": ("Errors", "What library code raises.", ["ncubble.errors"]),
}


def python_pages() -> dict[str, str]:
    """Markdown by the address of the page."""
    return {f"{FOLDER}/{name}.md": _page(*page) for name, page in PAGES.items()}


def _page(title: str, text: str, modules: list[str]) -> str:
    return "\n\n".join([f"# {title}", text, *(f"::: {module}" for module in modules), ""])
