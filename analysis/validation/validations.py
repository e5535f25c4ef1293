"""All validations: how each is scored, and how its result becomes tables, notes and plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.analysis.validation.account.score import score_account
from ncubble.analysis.validation.account.views import account_notes, account_plots, account_tables
from ncubble.analysis.validation.diagnosis.score import score_diagnosis
from ncubble.analysis.validation.diagnosis.views import diagnosis_notes, diagnosis_plots, diagnosis_tables
from ncubble.analysis.validation.page import Result, Table
from ncubble.analysis.validation.plots import Colour
from ncubble.analysis.validation.prediction.score import score_prediction
from ncubble.analysis.validation.prediction.views import prediction_notes, prediction_plots, prediction_tables
from ncubble.analysis.validation.truth.score import score_truth
from ncubble.analysis.validation.truth.views import truth_notes, truth_plots, truth_tables

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
