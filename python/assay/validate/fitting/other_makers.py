"""Fit the error of transfer on accelerators of other makers than NVIDIA, and write it.

    python -m assay.validate.fitting.other_makers [--write]

Constants of kernels, links and engines are NVIDIA's there: how far off that is, only figures of other makers say. One
source has one accelerator and one software, so that sources count, not figures: the spread is the root mean square of
the sources' own, made larger by Student's factor for so few. It is fitted once on all sources, and once without each,
which `assay validate` scores that source with.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from scipy.stats import t as student

from assay import catalog, json_records
from assay.model.language.distributions import Z90
from assay.validate.cases import published_cases, read_cases
from assay.validate.other_makers import FILE, TRANSFER, is_of_other_maker
from assay.validate.score import Row
from assay.validate.serving.predict import predict
from assay.validate.sources import source_of

CONSTANTS = Path(catalog.__file__).parent / "calibration" / "other_makers.json"
COMMAND = "python -m assay.validate.fitting.other_makers --write"


def spread_of(sizes: Sequence[float]) -> float:
    """The spread of a further source, where the root mean squares of some sources are known.

    >>> round(spread_of([0.3, 0.4]), 2)
    0.63
    """
    scale = math.sqrt(math.fsum(size**2 for size in sizes) / len(sizes))
    return float(scale * student.ppf(0.95, len(sizes)) / Z90)


def sizes_by_source(rows: Sequence[Row], sources: Mapping[str, str]) -> dict[str, float]:
    """The root mean square of the logarithms of observed over predicted, by source."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        if row.predicted is not None and row.group:
            logs.setdefault(sources[row.case], []).append(math.log(row.observed / row.predicted))
    return {
        source: math.sqrt(math.fsum(log**2 for log in own) / len(own))
        for source, own in sorted(logs.items())
    }


def main() -> None:
    """Fit, print, and write with `--write`."""
    parser = argparse.ArgumentParser(description="Fit the error of transfer of other makers.")
    parser.add_argument("--write", action="store_true", help="write the spreads to the catalog")
    options = parser.parse_args()
    cases = [case for case in read_cases(published_cases()) if is_of_other_maker(case)]
    sizes = sizes_by_source(predict(cases), {case.id: source_of(case) for case in cases})
    spread = float(f"{spread_of(list(sizes.values())):.3g}")
    without = {
        source: float(
            f"{spread_of([size for other, size in sizes.items() if other != source]):.3g}"
        )
        for source in sizes
    }
    print(json.dumps({"sizes": sizes, "spread": spread, "without": without}, indent=1))
    if not options.write:
        return
    provenance = {
        "kind": "fitted", "date": datetime.date.today().isoformat(), "command": COMMAND,
        "method": "root mean square over sources of what their figures are missed by, by Student's t",
    }  # fmt: skip
    held_out = {"provenance": provenance, "spread": spread, "without": without}
    FILE.write_text(json_records.dumps(held_out, 2) + "\n", encoding="utf-8")
    error = {"value": 1.0, "unit": "1", "kind": "model error", "log_standard_error": spread}
    document = {
        "system": "other_makers", "provenance": provenance, "constants": {TRANSFER: error},
    }  # fmt: skip
    CONSTANTS.write_text(json_records.dumps(document, 3) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
