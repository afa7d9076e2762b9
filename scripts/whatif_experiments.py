"""What-if predictions, committed before they are measured: record, calibrate, predict, ...

    python scripts/whatif_experiments.py record --device cpu --model FILE --trace FOLDER
    python scripts/whatif_experiments.py calibrate --device cpu --model FILE --trace FOLDER
    python scripts/whatif_experiments.py predict --device cpu     # then commit the predictions
    python scripts/whatif_experiments.py measure --device cpu --model FILE
    python scripts/whatif_experiments.py score --device cpu

Files are bench/results/whatif-{calibration,predictions,outcomes}-NAME.json.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay import json_records
from assay.errors import AssayError
from whatif_cases import Case, cases

STAGES = ("record", "calibrate", "refine", "predict", "measure", "score")
RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--name", help="the set of cases: cpu to cpu-5, or h200")
    parser.add_argument("--model", help="a GGUF file, or llama-3-8b-shape")
    parser.add_argument("--from", dest="source", help="refine the calibration of this set")
    parser.add_argument("--trace", type=Path, help="the folder of a recording")
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument("--blocks", type=int, default=12, help="samples of each subject")
    parser.add_argument("--only", help="measure cases whose name holds this text")
    parser.add_argument("--skip", action="append", default=[], help="leave out such cases")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop measuring after these")
    options = parser.parse_args(arguments)
    name = options.name or ("cpu" if options.device == "cpu" else "h200")
    options.name = name
    paths = {
        stage: options.folder / f"whatif-{stage}-{name}.json"
        for stage in ("calibration", "predictions", "outcomes")
    }
    if options.stage == "record":
        from whatif_recording import record

        record(_opened(options.model), options.device, options.trace)
    elif options.stage == "calibrate":
        _write(paths["calibration"], _calibrate(options))
    elif options.stage == "refine":
        _write(paths["calibration"], _refined(options))
    elif options.stage == "predict":
        known = paths["calibration"]
        calibration = _read(known) if known.exists() else {"model": "llama-3-8b-shape"}
        _write(paths["predictions"], _predict(calibration, options))
    elif options.stage == "measure":
        _measure(options, paths["outcomes"])
    else:
        print(json.dumps(score(_read(paths["predictions"]), _read(paths["outcomes"])), indent=1))


def _read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json_records.dumps(data, 2) + "\n", encoding="utf-8")
    print(f"wrote {path}")


def _machine(device: str) -> dict[str, Any]:
    from assay.runtime.fingerprint import machine
    from assay.runtime.hardware import device as device_named

    return {"format": 1, "machine": machine(device_named(device)).to_data(), "device": device}


def _opened(model: str) -> Any:
    from assay.engine.loading.opening import open_model

    files = open_model(model)
    files.prepare()
    return files


def _calibrate(options: argparse.Namespace) -> dict[str, Any]:
    import whatif_calibration
    from assay.observe.header import TraceHeader
    from assay.observe.store import HEADER
    from whatif_recording import TRACE

    path = options.trace / TRACE / HEADER
    header = TraceHeader.from_json(path.read_text(encoding="utf-8"), str(path))
    files = _opened(options.model)
    found = whatif_calibration.calibrate(files, options.device, options.trace)
    about = {"format": 1, "machine": header.hardware, "device": options.device}
    return {**about, "model": files.name, **found}


def _refined(options: argparse.Namespace) -> dict[str, Any]:
    """The calibration of another set, refined by all outcomes so far."""
    import whatif_refining

    outcomes = {
        path.stem.removeprefix("whatif-outcomes-"): _read(path)
        for path in sorted(RESULTS.glob("whatif-outcomes-cpu*.json"))
        if path.stem != f"whatif-outcomes-{options.name}"
    }
    known = _read(RESULTS / f"whatif-calibration-{options.source}.json")
    return whatif_refining.refine(known, outcomes)


def _predict(calibration: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    import whatif_model

    rows = [whatif_model.predict(case, calibration) for case in cases(options.name)]
    return {
        "format": 1,
        "device": options.device,
        "model": calibration["model"],
        "predictions": rows,
    }


def _measure(options: argparse.Namespace, path: Path) -> None:
    """Measure every case, and store what is known after each."""
    files = _opened(options.model)
    begun = time.perf_counter()
    about, rows = _machine(options.device), []
    for case in cases(options.name):
        if options.only and options.only not in case.name:
            continue
        if any(one in case.name for one in options.skip):
            continue
        if time.perf_counter() - begun > options.seconds:
            print(f"{case.name}: left out, the time is up", file=sys.stderr)
            continue
        try:
            rows.append(_measured(case, files, options.device, options.blocks))
            print(f"{case.name}: {100 * rows[-1]['change']:+.1f} %", file=sys.stderr, flush=True)
        except (AssayError, RuntimeError) as error:
            rows.append({"name": case.name, "refused": str(error)})
            print(f"{case.name}: refused: {error}", file=sys.stderr, flush=True)
        path.write_text(json_records.dumps({**about, "outcomes": rows}, 2) + "\n", encoding="utf-8")


def _measured(case: Case, files: Any, device: str, blocks: int) -> dict[str, Any]:
    """Both subjects in turns; each by a low quantile of its samples."""
    from whatif_workloads import Subject

    base, changed = Subject(files, device, case.base), Subject(files, device, case.changed)
    times: tuple[list[list[float]], list[list[float]]] = ([], [])
    for one in (base, changed):
        one.sample()
    for block in range(blocks if case.base.workload == "decode" else max(blocks // 2, 4)):
        for index in (0, 1) if block % 2 else (1, 0):
            times[index].append((base, changed)[index].sample()[case.metric])
    base.close()
    changed.close()
    before, after = (_quiet([one for block in own for one in block]) for own in times)
    ratios = [np.median(b) / np.median(a) for a, b in zip(*times, strict=True)]
    spread = float(np.std(np.log(ratios))) / math.sqrt(len(ratios))
    return {
        "name": case.name,
        "base_s": float(f"{before:.5g}"),
        "changed_s": float(f"{after:.5g}"),
        "change": round(after / before - 1, 4),
        "standard_error": round(spread, 4),
        "samples": len(ratios),
    }


def _quiet(times: list[float]) -> float:
    return float(np.percentile(times, 20))


def score(predictions: dict[str, Any], outcomes: dict[str, Any]) -> dict[str, Any]:
    """Errors of the predicted changes in points, and how many intervals hold the outcome."""
    found = {one["name"]: one for one in outcomes["outcomes"] if "refused" not in one}
    rows = [
        {
            "name": one["name"],
            "predicted": one["change"],
            "measured": found[one["name"]]["change"],
            "points": round(100 * abs(one["change"] - found[one["name"]]["change"]), 1),
            "inside": one["lo"] <= found[one["name"]]["change"] <= one["hi"],
        }
        for one in predictions["predictions"]
        if one["name"] in found
    ]
    return {
        "cases": len(rows),
        "moved_by_10_percent": sum(abs(one["measured"]) >= 0.1 for one in rows),
        "median_error_points": float(np.median([one["points"] for one in rows])),
        "coverage": round(sum(one["inside"] for one in rows) / len(rows), 3),
        "rows": rows,
    }


if __name__ == "__main__":
    main()
