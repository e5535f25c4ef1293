"""All validations: how each is scored, and how its result becomes tables, notes and plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncubble.analysis.validation.account.plots import account_plots
from ncubble.analysis.validation.account.score import score_account
from ncubble.analysis.validation.account.tables import account_notes, account_tables
from ncubble.analysis.validation.diagnosis.plots import diagnosis_plots
from ncubble.analysis.validation.diagnosis.score import score_diagnosis
from ncubble.analysis.validation.diagnosis.tables import diagnosis_notes, diagnosis_tables
from ncubble.analysis.validation.plots import Colour
from ncubble.analysis.validation.prediction.plots import prediction_plots
from ncubble.analysis.validation.prediction.rows import score_prediction
from ncubble.analysis.validation.prediction.tables import prediction_notes, prediction_tables
from ncubble.analysis.validation.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Result = Mapping[str, Any]


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
}
