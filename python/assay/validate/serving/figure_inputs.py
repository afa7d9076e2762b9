"""Inputs of single serving figures, by constants that have not seen their source."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import AssayError
from assay.model.inputs import Inputs
from assay.validate.cases import Case
from assay.validate.serving.deployments import deployment_of
from assay.validate.serving.predict import PROMPT_FIGURES, inputs_left_out


def figure_inputs(
    cases: Sequence[Case], wanted: set[str]
) -> dict[tuple[str, str], tuple[Inputs, str, float]]:
    """Inputs, output and observed value of the figures of the wanted cases."""
    by_figure = {}
    for case in cases:
        if case.id not in wanted:
            continue
        try:
            deployment = deployment_of(case)
        except AssayError:
            # The row of such a case says why; there is nothing to solve for.
            continue
        for figure in deployment.figures:
            inputs = inputs_left_out(deployment, figure.variable in PROMPT_FIGURES)
            observed = figure.observed / figure.scale
            by_figure[case.id, figure.quantity] = inputs, f"serving.{figure.variable}", observed
    return by_figure
