"""All validations: how each is scored, and how its result becomes tables, notes and plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.validation.account.score import score_account
from benchmarks.validation.account.views import account_notes, account_plots, account_tables
from benchmarks.validation.diagnosis.score import score_diagnosis
from benchmarks.validation.diagnosis.views import diagnosis_notes, diagnosis_plots, diagnosis_tables
from benchmarks.validation.page import Result, Table
from benchmarks.validation.plots import Colour
from benchmarks.validation.prediction.score import score_prediction
from benchmarks.validation.prediction.views import prediction_notes, prediction_plots, prediction_tables
from benchmarks.validation.truth.score import score_truth
from benchmarks.validation.truth.views import truth_notes, truth_plots, truth_tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Validation:
    """``score`` reads a folder of recordings; everything else shows what it found."""

    score: Callable[[Path], dict[str, Any]]
    tables: Callable[[Result], list[Table]]
    notes: Callable[[Result], list[str]]
    plots: Callable[[Result, Colour], dict[str, Figure]]


VALIDATIONS = {
    "account": Validation(score_account, account_tables, account_notes, account_plots),
    "diagnosis": Validation(score_diagnosis, diagnosis_tables, diagnosis_notes, diagnosis_plots),
    "prediction": Validation(score_prediction, prediction_tables, prediction_notes, prediction_plots),
    "truth": Validation(score_truth, truth_tables, truth_notes, truth_plots),
}
