"""A run folder made by the real writers: simulated blocks, journal, residuals, telemetry, report."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from assay.diagnose.terms import TERMS
from assay.improve.experiments.levels import level
from assay.improve.experiments.pairs import looks_of
from assay.improve.experiments.result import Block, ExperimentResult, GateResult
from assay.improve.experiments.verdict import decide
from assay.improve.journal.block_table import block_data, write_blocks
from assay.improve.journal.journal import Journal
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.improve.levers.lever import Candidate
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.record import RunRecord
from assay.intervals import Interval
from assay.report.price import Price
from assay.report.run import write_run

START = {"threads": 1, "graph_buckets": 0, "max_batch": 1, "speculate": 0}
THRESHOLD = 0.01
BLOCK_S = 0.5


class Simulation:
    """Blocks of a machine with slow drift, noise, and now and then a disturbance."""

    def __init__(self, journal: Journal, seed: int, better: str = "higher") -> None:
        self.journal = journal
        self.random = random.Random(seed)
        self.now = 1_760_000_000.0
        self.drift = 0.0
        self.blocks: list[Block] = []
        self.better = better

    def experiment(
        self,
        name: str,
        candidate: Candidate,
        control: Mapping[str, Any],
        rates: tuple[float, float],
        pairs: int,
        gates: tuple[GateResult, ...] = (),
        failure: str = "",
    ) -> ExperimentResult:
        """Alternating blocks, looks, verdict, and the journal's records of all of it."""
        self.journal.append("experiment", name=name, candidate=candidate)
        started = self.now
        blocks = [] if failure else self._blocks(name, candidate, control, rates, pairs)
        looks = looks_of(blocks, self.better)
        ratio = looks[-1].ratio if looks else None
        verdict, reason = "invalid", f"the trial ended by {failure}"
        if ratio is not None:
            decision = decide(ratio, THRESHOLD)
            verdict, reason = decision.verdict, decision.reason
            if verdict == "improved" and not all(one.passed for one in gates):
                verdict, reason = "invalid", "a gate did not pass"
        result = ExperimentResult(
            name, candidate, verdict, ratio, reason, tuple(blocks), tuple(looks), gates,
            self.now - started, failure,
        )  # fmt: skip
        self.journal.append(
            "verdict", experiment=name, verdict=verdict, ratio=ratio, reason=reason,
            failure=failure, gates=gates,
        )  # fmt: skip
        self.blocks += blocks
        return result

    def _blocks(self, name, candidate, control, rates, pairs):  # type: ignore[no-untyped-def]
        blocks: list[Block] = []
        for pair in range(pairs):
            order = ("control", "treatment") if pair % 2 == 0 else ("treatment", "control")
            for arm in order:
                self.drift = 0.9 * self.drift + self.random.gauss(0, 0.002)
                rate = rates[arm == "treatment"] * (1 + self.drift + self.random.gauss(0, 0.006))
                dropped = ""
                if self.random.random() < 0.03:
                    rate, dropped = 0.7 * rate, "another process took CPU time"
                settings = dict(control) | (candidate.changes if arm == "treatment" else {})
                tokens = 256
                seconds = tokens / rate
                value = rate if self.better == "higher" else 1e3 / rate
                block = Block(
                    name, len(blocks), pair, arm, round(self.now, 6), round(seconds, 6), value,
                    tokens, 4, "stable", settings, dropped, {"mean_tpot_ms": 1e3 / rate},
                )  # fmt: skip
                self.journal.append("block", **block_data(block))
                blocks.append(block)
                self.now += seconds + 0.02
        return blocks


def candidate(
    lever: str, changes: Mapping[str, Any], forecast: Interval | None, **rest: Any
) -> Candidate:
    """A candidate of one lever."""
    name = " ".join(f"{knob}={value}" for knob, value in changes.items())
    by = "what-if replay" if forecast else "no step of the trace has what it changes"
    return Candidate(
        name, (lever,), changes, rest.pop("correctness", "bitwise"), rest.pop("safety", "safe"),
        True, forecast, by, **rest,
    )  # fmt: skip


def steps_table(seed: int = 0) -> pl.DataFrame:
    """Steps with a column for each term, which add up to the observed time."""
    chance = random.Random(seed)
    parts = {"floor": 7.2e6, "kernel_inefficiency": 4.1e6, "launch_gaps": 1.9e6,
             "host_stalls": 5.4e6, "synchronization": 0.6e6, "unknown": 0.3e6}  # fmt: skip
    rows = []
    for step in range(40):
        terms = {
            name: round(parts.get(name, 0.0) * (1 + 0.03 * chance.gauss(0, 1))) for name in TERMS
        }
        rows.append(
            {
                "step": step, "rank": None, "device": 0, "phase": "decode", "batch": 1,
                "context": 128 + step, "start_ns": step * 20_000_000,
                "observed_ns": sum(terms.values()), "is_whole": True, "is_predicted": True,
                "expected_ns": 11.0e6, "lo_ns": 10.0e6, "hi_ns": 12.4e6,
                "floor_ns": float(terms["floor"]), **terms,
            }
        )  # fmt: skip
    return pl.DataFrame(rows)


def state_table(begin: float, end: float) -> pl.DataFrame:
    """Samples of a host whose CPU packages take 30 W and whose memory takes 5 W."""
    ticks = int((end - begin) * 10) + 2
    return pl.DataFrame(
        {
            "realtime_ns": [int((begin + tick / 10) * 1e9) for tick in range(ticks)],
            "device": ["host"] * ticks,
            "host_package_energy_joules": [1000.0 + 3.0 * tick for tick in range(ticks)],
            "host_dram_energy_joules": [500.0 + 0.5 * tick for tick in range(ticks)],
        }
    )


NEAR_TIE = GateResult("correctness", True, "bitwise: 16 probes, 512 tokens equal to the baseline's")
EQUAL = GateResult("equal work", True, "output tokens and digests are equal on both sides")


def make_run(
    folder: Path, *, seed: int = 1, telemetry: bool = True, price: bool = True
) -> RunRecord:
    """Write a whole run with wins, an undecided, a regression, a failed trial, and its report."""
    run = RunFolder(folder)
    with Journal.create(folder, clock=_clock()) as journal:
        record = _run(run, journal, seed, telemetry)
        cost = Price(0.096, "given with the run") if price else None
        write_run(folder, record, journal, cost)
        journal.append("finished", verdict=record.outcome.verdict, settings=record.outcome.settings)
    return record


def _clock() -> Any:
    ticks = iter(range(10**9))
    return lambda: 1_760_000_000.0 + next(ticks) * 0.01


def _run(
    run: RunFolder, journal: Journal, seed: int, telemetry: bool
) -> RunRecord:  # fmt: skip
    journal.append("started", command="assay run", budget_s=180, target=0.15, seed=seed)
    journal.append("safe", settings=START, hash=configuration_hash(START), why="start")
    machine = Simulation(journal, seed)
    same = Candidate("A/A", (), {}, "bitwise", "safe", True)
    noise = machine.experiment("noise", same, START, (48.7, 48.7), 10)
    threads = candidate("threads", {"threads": 2}, Interval(1.55, 1.38, 1.75))
    graphs = candidate(
        "graphs", {"graph_buckets": 4}, Interval(1.10, 1.03, 1.16), correctness="rounding"
    )
    batch = candidate("batch", {"max_batch": 8}, Interval(1.02, 0.97, 1.09))
    speculate = candidate("speculate", {"speculate": 4}, None)
    quantized = candidate("kv-int8", {"kv_format": "int8"}, Interval(1.06, 1.01, 1.12),
                          correctness="lossy", safety="may fail")  # fmt: skip
    gates = (NEAR_TIE, EQUAL)
    two = START | {"threads": 2}
    both = two | {"graph_buckets": 4}
    trials = (
        machine.experiment("e1-threads", threads, START, (48.7, 78.9), 6, gates),
        machine.experiment("e2-graphs", graphs, two, (78.9, 86.6), 8, gates),
        machine.experiment("e3-batch", batch, both, (86.6, 81.2), 8, gates),
        machine.experiment("e4-speculate", speculate, both, (86.6, 86.9), 16, gates),
        machine.experiment("e5-kv-int8", quantized, both, (86.6, 86.6), 0, failure="OOM"),
    )
    stack = Candidate("all kept", ("threads", "graphs"), {"threads": 2, "graph_buckets": 4},
                      "rounding", "safe", True)  # fmt: skip
    confirmation = machine.experiment("confirm", stack, START, (48.7, 86.6), 12, gates)
    without = {
        "threads": machine.experiment("without-threads", threads, START | {"graph_buckets": 4},
                                      (53.6, 86.6), 5, gates),
        "graphs": machine.experiment("without-graphs", graphs, two, (78.9, 86.6), 6, gates),
    }  # fmt: skip
    journal.append("applied", change=1, hash=configuration_hash(both), as_intended=True)
    write_blocks(run, machine.blocks)
    steps_table(seed).write_parquet(run.residuals)
    if telemetry:
        state_table(1_760_000_000.0, machine.now).write_parquet(run.state)
    run.write_json("plan.json", _plan(trials))
    run.write_degradations(DEGRADATIONS)
    arms = {arm: [one.value for one in confirmation.blocks if one.arm == arm and not one.dropped]
            for arm in ("control", "treatment")}  # fmt: skip
    outcome = Outcome(
        run.path, "improved", "output_throughput", level(arms["control"]), level(arms["treatment"]),
        confirmation.ratio, kept=trials[:2], undecided=trials[3:4], rejected=(trials[2], trials[4]),
        target=0.15, target_met=True, settings=both,
        launch_command="assay serve smollm2-135m --threads 2 --graph-buckets 4",
        notes=("KV cache reserved for 8 sequences before measuring",),
    )  # fmt: skip
    return RunRecord(
        outcome=outcome, better="higher", start=START, fingerprint=FINGERPRINT, experiments=trials,
        machine={"processor": "Example CPU", "usable_cores": 2, "device": "cpu"},
        noise=noise, confirmation=confirmation, left_out=without, skipped=SKIPPED,
        workload={"name": "decode", "description": "closed loop, 1 request at once"},
        budget_s=180.0, threshold=THRESHOLD, launch_start="assay serve smollm2-135m --threads 1",
        degradations=DEGRADATIONS, seed=seed,
    )  # fmt: skip


FINGERPRINT = {
    "model": "smollm2-135m", "engine": "assay", "release": "0.1.0", "device": "cpu, 2 cores",
    "workload": "decode",
}  # fmt: skip
SKIPPED = (
    ("tensor-parallel", "the engine has one device"),
    ("cuda-graphs", "needs capability cuda, the engine has: cpu"),
    ("kv-fp8", "lossy, and --allow-lossy was not given"),
)
DEGRADATIONS = (
    "no hardware counters: throttling is judged from clocks alone",
    "the floor is that of a calibrated machine of the same kind, not of this one",
)


def _plan(trials: tuple[ExperimentResult, ...]) -> dict[str, Any]:
    return {
        "objective": {"metric": "output_throughput", "better": "higher"},
        "prediction": {
            "floor_ns": 7.2e6, "expected_ns": 11.0e6, "lo_ns": 10.0e6, "hi_ns": 12.4e6,
        },
        "candidates": [one.candidate for one in trials],
        "causes": [
            {"name": "host launch", "ns_per_token": 5.4e6, "lo": 5.1e6, "hi": 5.7e6},
            {"name": "kernels above their floor", "ns_per_token": 4.1e6, "lo": 3.9e6, "hi": 4.3e6},
        ],
        "skipped": [{"lever": lever, "reason": reason} for lever, reason in SKIPPED],
    }  # fmt: skip
