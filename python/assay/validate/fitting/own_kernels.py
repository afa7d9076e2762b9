"""Fit the constants of the engine's own kernels on an H200 to stored benchmark results.

    python -m assay.validate.fitting.own_kernels            prints the constants and how well they fit

GEMV and decode attention are fitted on their own benchmarks; host time on whole decode steps, whose
kernels the equations give. `assay.planner.own_kernels` reads what is printed from
`catalog/calibration/engines.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from assay.catalog import engines
from assay.planner import BatchConfig, hardware_spec, model_spec, predict_graph
from assay.stack import registry

RESULTS = Path(__file__).parents[4] / "bench" / "results"
BANDWIDTH = 4.8e12
KEY_TIME = 8e-9
"""Half of vLLM's: long contexts are then bound by reading, as the benchmarks say they are."""


def figures(suite: str) -> list[dict[str, Any]]:
    """Figures of a stored run."""
    stored: list[dict[str, Any]] = json.loads((RESULTS / f"{suite}-h200.json").read_text())[
        "figures"
    ]
    return stored


def gemv(formats: tuple[str, ...]) -> dict[str, float]:
    """Launch time and share of the bandwidth: time is affine in bytes."""
    points = []
    for figure in figures("gemv"):
        parameters = figure["parameters"]
        if parameters["dtype"] in formats and parameters["rows"] == 1:
            element = 2.0 if parameters["dtype"] in ("bf16", "f16") else 1.0
            size = parameters["outputs"] * parameters["inputs"] * element
            points.append((size, size / (figure["value"] * 1e9)))
    size, time = np.array(points).T
    # Relative errors count alike for short and long layers.
    design = np.stack([1 / time, size / time], axis=1)
    (launch, per_byte), *_ = np.linalg.lstsq(design, np.ones(len(time)), rcond=None)
    error = np.abs((launch + per_byte * size) / time - 1)
    print(f"gemv {formats}: {len(time)} layers, worst {error.max():.1%}")
    return {
        "kernels.gemm.launch_time": float(launch),
        "kernels.gemm.read_share": float(1 / per_byte / BANDWIDTH),
    }


def attention() -> dict[str, float]:
    """Constants of decode attention by the stack's own equation."""
    points = [
        (*figure["parameters"]["size"], figure["value"])
        for figure in figures("attention")
        if figure["name"].startswith("paged")
    ]
    measured = [(b, c, b * c * 2 * 8 * 128 * 2 / (rate * 1e9)) for b, c, rate in points]
    for row in json.loads((RESULTS / "kernels-h200.json").read_text())["figures"]:
        if row.get("kind") == "decode" and (row["batch"], row["context"]) == (1, 200):
            measured.append((1, 200, row["us"] * 1e-6))
    known = hardware_spec("h200").given
    fixed = {
        **{name: value for name, value in known.items() if name.startswith(("kernels.", "gpu.", "hbm."))},
        "kernels.decode.key_time": KEY_TIME, "kernels.decode.ramp": 0.0,
        "kernels.decode.regroup_time": 0.0,
        "kernels.decode.window": 0.0, "kernels.decode.heads": 32.0, "kernels.decode.kv_heads": 8.0,
        "kernels.decode.width": 128.0, "kernels.decode.value_width": 128.0,
        "kernels.decode.element": 2.0, "kernels.decode.kv_element": 2.0,
        "kernels.decode.footprint": 1e12,
    }  # fmt: skip
    free = ("launch_time", "tile_time", "rise_share", "split_time")
    start = np.log([2e-6, 1e-6, 0.89, 1e-6])
    names = sorted(
        {
            *fixed,
            "kernels.decode.batch",
            "kernels.decode.context",
            *(f"kernels.decode.{n}" for n in free),
        }
    )
    function = registry().compile(inputs=names, outputs=["kernels.decode.time"])

    def residuals(x: np.ndarray[Any, Any]) -> list[float]:
        values = {
            **fixed,
            **{f"kernels.decode.{n}": float(v) for n, v in zip(free, np.exp(x), strict=True)},
        }
        values["kernels.decode.single_time"] = values["kernels.decode.tile_time"]
        errors = []
        for batch, context, time in measured:
            values |= {
                "kernels.decode.batch": float(batch),
                "kernels.decode.context": float(context),
            }
            errors.append(float(np.log(function(*(values[n] for n in names))[0] / time)))
        # Weak priors: four points determine four constants barely.
        return [*errors, *(0.02 * (x - start))]

    fit = least_squares(residuals, start)
    print(
        "attention:",
        [f"{b} x {c}: {e:+.1%}" for (b, c, _), e in zip(measured, fit.fun, strict=False)],
    )
    constants = {f"kernels.decode.{n}": float(v) for n, v in zip(free, np.exp(fit.x), strict=True)}
    return {
        **constants, "kernels.decode.single_time": constants["kernels.decode.tile_time"],
        "kernels.decode.key_time": KEY_TIME, "kernels.decode.ramp": 0.0,
        "kernels.decode.regroup_time": 0.0,
    }  # fmt: skip


def grouped() -> dict[str, float]:
    """Launch time and share of the bandwidth of grouped GEMMs: time is affine in touched bytes."""
    stored = json.loads((RESULTS / "grouped-gemm-h200.json").read_text())["figures"]
    size = np.array(
        [2.0 * figure["touched"] * figure["outputs"] * figure["inputs"] for figure in stored]
    )
    time = np.array([figure["us"] * 1e-6 for figure in stored])
    design = np.stack([1 / time, size / time], axis=1)
    (launch, per_byte), *_ = np.linalg.lstsq(design, np.ones(len(time)), rcond=None)
    errors = [f"{error:+.1%}" for error in (launch + per_byte * size) / time - 1]
    print("grouped GEMM:", errors)
    return {
        "kernels.experts.launch_time": float(launch),
        "kernels.experts.read_share": float(1 / per_byte / BANDWIDTH),
    }


def expert_gemv() -> dict[str, float]:
    """Launch time of an expert's GEMV, of the share of other GEMVs, from the step of one token."""
    model, hardware = model_spec("qwen3-30b-a3b"), hardware_spec("h200")
    constants = engines.kernels("assay")["experts_gemv"]
    measured = next(
        figure for figure in figures("decode-experts") if figure["name"].startswith("batch 1,")
    )
    batch = BatchConfig(context=measured["parameters"]["prompt"] + 72, engine="assay")
    predicted = predict_graph(model, hardware, batch).totals["step"].value * 1e-9
    # A layer has two of them.
    rest = measured["value"] * 1e-3 - predicted
    launch = constants["kernels.experts.launch_time"] + rest / (2 * model.architecture["layers"])
    return {**constants, "kernels.experts.launch_time": launch}


def host() -> None:
    """Whole steps beside the time of their kernels: what is left is the host's."""
    hardware = hardware_spec("h200")
    for figure in (*figures("decode"), *figures("decode-experts")):
        parameters = figure["parameters"]
        if "requests" not in parameters or figure["name"].startswith("deterministic"):
            continue
        experts = parameters["model"] == "qwen3-30b-a3b-shape"
        if experts and parameters["weight_format"] != "file":
            continue
        model = model_spec("qwen3-30b-a3b" if experts else "llama-3-8b-shape")
        fp8 = parameters["weight_format"] == "fp8"
        batch = BatchConfig(
            sequences=parameters["requests"], context=parameters["prompt"] + 72,
            engine="assay", weight_dtype="fp8" if fp8 else "bf16",
        )  # fmt: skip
        graph = predict_graph(model, hardware, batch)
        kernels = sum(node.expected_ns for node in graph if node.stream >= 0) / 1e6
        step = graph.totals["step"]
        print(
            f"{figure['name']}: {figure['value']:.3f} ms, predicted {step.value / 1e6:.3f} "
            f"({step.value / 1e6 / figure['value'] - 1:+.1%}), kernels {kernels:.3f}, "
            f"rest {figure['value'] - kernels:.3f}"
        )


if __name__ == "__main__":
    fitted = {
        "gemv": gemv(("bf16",)),
        "decode": attention(),
        "experts": grouped(),
        "experts_gemv": expert_gemv(),
    }
    for kind, constants in fitted.items():
        rounded = {name: float(f"{value:.4g}") for name, value in constants.items()}
        print(f'"{kind}": {json.dumps(rounded)}')
    host()
