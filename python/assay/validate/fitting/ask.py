"""Fit the weights with which `assay ask` ranks variables, and score them on questions held out.

    python -m assay.validate.fitting.ask

Reads tests/data/questions.json. Questions at even places choose the weights: they maximize the
probability of the accepted variables under a softmax over all, with a normal prior of deviation
`SPREAD` on each weight. Questions at odd places are held out. Prints both accuracies and the
weights, which `assay.scenario.variable_search` holds.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from assay import stack
from assay.asking.variables import asked_words
from assay.scenario import built_in
from assay.scenario.variable_search import Features, VariableSearch

QUESTIONS = Path(__file__).parents[4] / "tests" / "data" / "questions.json"
SPREAD = 5.0
"""Standard deviation of a weight before any question is seen."""


def main() -> None:
    """Fit, score and print."""
    registry = stack.registry()
    search = VariableSearch(registry, [built_in.preset(name) for name in built_in.presets()])
    tables = []
    for row in json.loads(QUESTIONS.read_text("utf-8")):
        asked, groups = asked_words(row["question"])
        features = search.features(asked, groups)
        accepted = np.array([name in row["accepted"] for name in features])
        tables.append((np.array(list(features.values())), accepted))
    chosen = [table for table in tables[::2] if table[1].any()]

    def loss(weights: np.ndarray) -> float:
        total = float(weights @ weights) / (2 * SPREAD**2)
        for values, accepted in chosen:
            scores = values @ weights
            total += np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[accepted])
        return float(total)

    fitted = minimize(loss, np.zeros(len(Features._fields)), method="BFGS").x
    for title, part in (("choosing", tables[::2]), ("held out", tables[1::2])):
        right = sum(bool(accepted[(values @ fitted).argmax()]) for values, accepted in part)
        print(f"{title}: {right} of {len(part)}")
    print(Features(*(round(float(weight), 2) for weight in fitted)))


if __name__ == "__main__":
    main()
