"""Compare closed-form latencies of random servers and traffics with replays of them, request by request.

Prints the spread of each percentile's logarithm, and how many lie within each other's 90 % intervals:

    python scripts/compare_queue_models.py --servers 500
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import Any

import numpy as np

from assay.errors import EvaluationError
from assay.model.language.distributions import Z90
from assay.planner.capacity.candidates import Candidate, candidates
from assay.planner.capacity.objective import Objective
from assay.planner.capacity.option import QUEUE_LOG_ERRORS
from assay.planner.capacity.replay import replay
from assay.planner.capacity.served import Sample, Served, highest_rate, sample_of, serve
from assay.planner.sources import hardware_spec, model_spec
from assay.planner.specs import BatchConfig

MODELS = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-30b-a3b", "mistral-7b", "qwen3-8b")
GPUS = ("h100", "h200", "b200", "a100", "l40s")
FIGURES = ("first_token", "output_token", "end_to_end")
LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
REQUESTS = 6000
ENDS = (0.0, -Z90, Z90)


def drawn_server(generator: np.random.Generator) -> tuple[Candidate, Sample] | None:
    """A random server and the requests that come to it; None where they do not fit it."""
    centers, spreads = generator.uniform((4.5, 3.0), (8.5, 6.5)), generator.uniform(0, (1.2, 1.0))
    prompts, outputs = (
        np.clip(np.rint(np.exp(generator.normal(center, spread, 3000))), 1, most)
        for center, spread, most in zip(centers, spreads, (20_000, 4000), strict=True)
    )
    sample = sample_of(prompts, prompts, outputs)
    fitting, _ = candidates(
        model_spec(str(generator.choice(MODELS))), hardware_spec(str(generator.choice(GPUS))),
        BatchConfig(), sample, longest=float((prompts + outputs).max()),
    )  # fmt: skip
    return (fitting[generator.integers(len(fitting))], sample) if fitting else None


def compared(server: Candidate, sample: Sample, part: float, generator: Any) -> dict[Any, Any]:
    """By figure and level: the logarithm of closed form over replay, and whether both agree."""
    highest = highest_rate(server.table, sample, server.limits, Objective(share=0.01))
    rate = part * highest
    arrivals = np.cumsum(generator.exponential(1 / rate, REQUESTS))
    picked = generator.integers(0, len(sample.prompts), REQUESTS)
    prompts, outputs = sample.prompts[picked], sample.outputs[picked]
    replayed = []
    closed: list[Served | None] = []
    for deviations in ENDS:
        table = server.table.slower(deviations)
        replayed.append(replay(table, server.limits, arrivals, prompts, prompts, outputs))
        try:
            closed.append(serve(table, sample, rate, server.limits, Objective()))
        except EvaluationError:
            closed.append(None)
    rows = {}
    for figure in FIGURES if sample.outputs.max() > 1 else ("first_token", "end_to_end"):
        for level, share in LEVELS.items():
            seen = [
                float(np.nanquantile(getattr(run, figure)[REQUESTS // 10 :], share))
                for run in replayed
            ]
            own = [
                math.inf if end is None else float(getattr(getattr(end, figure), level))
                for end in closed
            ]
            error = math.log(own[0] / seen[0])
            wider = Z90 * QUEUE_LOG_ERRORS[level]
            low, high = (
                math.hypot(abs(math.log(end / own[0])), wider) if math.isfinite(end) else math.inf
                for end in own[1:]
            )
            agrees = -high <= error <= low and min(seen) <= own[0] <= max(seen)
            rows[figure, level] = (error, agrees)
    return rows


def main() -> None:
    """Draw servers, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--least", type=float, help="share of percentiles that must agree")
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    errors, agreeing = defaultdict(list), defaultdict(list)
    whole: list[bool] = []
    while len(whole) < options.servers:
        drawn = drawn_server(generator)
        if drawn is None:
            continue
        rows = compared(*drawn, generator.uniform(0.05, 0.85), generator)
        for key, (error, agrees) in rows.items():
            errors[key].append(error)
            agreeing[key].append(agrees)
        whole.append(all(agrees for _, agrees in rows.values()))
    for (figure, level), values in errors.items():
        print(
            f"{figure:13} {level}  median {np.median(values):+.3f}  spread {np.std(values):.3f}  "
            f"agree {np.mean(agreeing[figure, level]):.1%}"
        )
    shares = [agrees for values in agreeing.values() for agrees in values]
    print(f"percentiles that agree {np.mean(shares):.1%} of {len(shares):,}")
    print(f"servers of which all agree {np.mean(whole):.1%} of {len(whole):,}")
    if options.least is not None and np.mean(shares) < options.least:
        raise SystemExit(f"fewer percentiles agree than {options.least:.0%}")


if __name__ == "__main__":
    main()
