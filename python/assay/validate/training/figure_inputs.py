"""Inputs of single training figures, by constants that have not seen their source."""

from __future__ import annotations

from collections.abc import Sequence

from assay.model.inputs import Inputs
from assay.validate.cases import Case
from assay.validate.training.evaluation import STEP, figures, predict_jobs
from assay.validate.training.predict import held_out_jobs, inputs_left_out, read_jobs


def figure_inputs(
    cases: Sequence[Case], wanted: set[str]
) -> dict[tuple[str, str], tuple[Inputs, str, float]]:
    """Inputs, output and observed value of the step times of the wanted cases."""
    jobs = [job for job in read_jobs(cases)[0] if job.case.id in wanted]
    held_out = held_out_jobs(jobs)
    by_figure = {}
    for shipped in predict_jobs(jobs):
        predicted = held_out.get(shipped.job.case.id, shipped)
        for figure in figures(predicted):
            if figure.kind == "step":
                inputs = inputs_left_out(predicted.job, predicted.layout)
                by_figure[predicted.job.case.id, figure.quantity] = inputs, STEP, figure.observed
    return by_figure
