"""Fit the spread of the model error of loaded servers: ITL percentiles, power, energy and memory, and write it.

    python -m assay.validate.fitting.load_error [--write] [--only serving.model_error.energy]

These figures have one source each, so that a spread without the source cannot be had. It is fitted on the residuals
of all models, by constants that never saw the source, and once without each model, which `assay validate` scores that
model with.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay import catalog, json_records
from assay.files import read_json
from assay.validate.cases import published_cases, read_cases
from assay.validate.load_error import FILE, GROUPS, spreads_without_model
from assay.validate.other_makers import is_of_other_maker
from assay.validate.score import Row
from assay.validate.serving.deployments import deployment_of
from assay.validate.serving.predict import predict

MODEL_ERRORS = Path(catalog.__file__).parent / "calibration" / "model_error.json"
_Z90 = 1.645
_SHARE = 0.9
_MOST = 2.0
_ALONE = GROUPS["memory"]


@dataclass(frozen=True)
class Residual:
    """A figure's logarithm of observed over predicted, and the spread that its interval has by other causes.

    `reach` is how many times the logarithm of the error moves that of the figure: once, or more or less for memory
    that is left after others, such as the KV cache's.
    """

    variable: str
    model: str
    size: float
    spread: float
    reach: float = 1.0


def spread_of(residuals: Sequence[Residual]) -> float:
    """The further spread with which nine in ten residuals lie within their 90 % intervals.

    >>> exact = [Residual("e", "m", size, 0.0) for size in (0.1, 0.2, 0.3, 0.4)]
    >>> round(spread_of(exact) * 1.645, 3)
    0.4
    >>> left = [Residual("e", "m", size, 0.0, reach=0.5) for size in (0.1, 0.2, 0.3, 0.4)]
    >>> round(spread_of(left) * 1.645, 3)
    0.8
    """
    low, high = 0.0, _MOST
    for _ in range(40):
        middle = (low + high) / 2
        inside = sum(r.size <= _Z90 * math.hypot(r.spread, r.reach * middle) for r in residuals)
        if inside >= _SHARE * len(residuals):
            high = middle
        else:
            low = middle
    return high


def residuals(rows: Sequence[Row], models: Mapping[str, str]) -> list[Residual]:
    """Residuals of the groups that have such spreads."""
    measured = []
    for row in rows:
        variable = GROUPS.get(row.group)
        predicted = row.held_out if row.held_out is not None else row.predicted
        if variable is None or not predicted or row.observed <= 0:
            continue
        lo, hi = row.held_out_lo or row.lo, row.held_out_hi or row.hi
        spread = math.log(hi / lo) / (2 * _Z90) if lo and hi else 0.0
        # Its interval has the spread of before, if there is one.
        used = spreads_without_model(models[row.case]).get(variable, 0.0)
        # Of memory nothing else is uncertain.
        alone = variable == _ALONE and used > 0
        reach = spread / used if alone else 1.0
        spread = 0.0 if alone else math.sqrt(max(spread**2 - used**2, 0.0))
        size = abs(math.log(row.observed / predicted))
        measured.append(Residual(variable, models[row.case], size, spread, reach))
    return measured


def fitted(residuals: Sequence[Residual]) -> dict[str, float]:
    """A spread for every variable."""
    return {
        variable: float(f"{spread_of(own):.3g}")
        for variable in dict.fromkeys(GROUPS.values())
        if (own := [residual for residual in residuals if residual.variable == variable])
    }


def main() -> None:
    """Fit, print, and write with `--write`."""
    parser = argparse.ArgumentParser(description="Fit the model error of loaded servers.")
    parser.add_argument("--write", action="store_true", help="write the spreads to the catalog")
    parser.add_argument("--only", metavar="VARIABLE", help="fit one spread, and keep the others")
    options = parser.parse_args()
    cases = [
        case
        for case in read_cases(published_cases())
        if case.kind == "inference" and case.units and not is_of_other_maker(case)
    ]
    rows = predict(cases)
    predicted = {row.case for row in rows if row.predicted is not None}
    models = {case.id: deployment_of(case).model for case in cases if case.id in predicted}
    every = residuals(rows, models)
    spreads = fitted(every)
    without = {
        model: fitted([residual for residual in every if residual.model != model])
        for model in sorted({residual.model for residual in every})
    }
    if options.only:
        before = read_json("spreads of loaded servers", FILE)
        spreads = {**before["spreads"], options.only: spreads[options.only]}
        without = {
            model: {**before["without"][model], options.only: own[options.only]}
            for model, own in without.items()
            if options.only in own
        } | {model: own for model, own in before["without"].items() if model not in without}
    print(json.dumps({"all": spreads, **without}, indent=1))
    if not options.write:
        return
    provenance = {
        "kind": "fitted", "date": datetime.date.today().isoformat(),
        "command": "python -m assay.validate.fitting.load_error --write",
        "method": "nine in ten figures of a group inside their interval, one model left out",
    }  # fmt: skip
    FILE.write_text(
        json_records.dumps({"provenance": provenance, "spreads": spreads, "without": without}, 2)
        + "\n",
        encoding="utf-8",
    )
    document = json.loads(MODEL_ERRORS.read_text(encoding="utf-8"))
    for name, spread in spreads.items():
        document["constants"][name] = {
            "value": 1.0, "unit": "1", "kind": "model error", "log_standard_error": spread,
        }  # fmt: skip
    MODEL_ERRORS.write_text(json_records.dumps(document, 3) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
