"""Model errors of a case that use nothing of its source: neither constants nor residuals.

`assay.validate.fitting.model_error` fits the spreads once on the residuals of all sources, which every
command prints, and once without each source, which the scores of that source use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from assay.model.inputs import Inputs
from assay.model.language.distributions import Distribution
from assay.validate.cases import Case
from assay.validate.folds import fold_of

PART = ".model_error."
"""Part of the names of all model errors."""


def spreads_without_source(
    case: Case, kind: str, system: str, client: str = ""
) -> dict[str, float] | None:
    """Log spreads by variable without the source of a case; None where no residual is of it.

    `kind` is `training` or `serving`, `system` the one whose constants the case uses. Errors of
    transfer count where no other source of the fit has the system.
    """
    fold = fold_of(case, "model_error")
    if fold is None:
        return None
    spreads: dict[str, float] = {
        name: float(spread)
        for name, spread in fold.constants["spreads"].items()
        if name.startswith(f"{kind}.")
    }
    if system in fold.constants["seen"][kind]:
        spreads.pop(f"{kind}{PART}transfer", None)
    if client:
        spreads |= fold.constants["clients"].get(client, {})
    return spreads


def spreads_of(inputs: Inputs) -> dict[str, float]:
    """The spreads of the model errors that inputs have."""
    return {
        name: float(distribution.parameters[1])
        for name, distribution in inputs.distributions.items()
        if PART in name
    }


def with_spreads(inputs: Inputs, spreads: Mapping[str, float]) -> Inputs:
    """Inputs with these model errors in place of their own."""
    kept = {
        name: distribution
        for name, distribution in inputs.distributions.items()
        if PART not in name
    }
    errors = {
        name: Distribution("lognormal", (1.0, spread))
        for name, spread in spreads.items()
        if spread > 0 and name in inputs.values
    }
    pairs = {p: v for p, v in inputs.correlations.items() if set(p) <= kept.keys()}
    return replace(inputs, distributions={**kept, **errors}, correlations=pairs)


def with_constants(inputs: Inputs, constants: Mapping[str, float]) -> Inputs:
    """Inputs with other fitted constants, each as uncertain as the one it replaces."""
    changed = {name: value for name, value in constants.items() if name in inputs.values}
    distributions = dict(inputs.distributions)
    for name, value in changed.items():
        distribution = distributions.get(name)
        if distribution is not None and distribution.kind == "lognormal":
            distributions[name] = Distribution("lognormal", (value, distribution.parameters[1]))
        elif distribution is not None:
            del distributions[name]
    pairs = {p: v for p, v in inputs.correlations.items() if set(p) <= distributions.keys()}
    return Inputs({**inputs.values, **changed}, distributions, pairs)
