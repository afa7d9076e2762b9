"""The rules by which figures follow from rows: each a pure function of the files of a run.

A claim names its rule and its rows; the report's writer and `assay verify-report` both call the rule,
so a figure that was not derived from rows cannot get into a report. The rules read files only: not
the objects of the loop, and no clock, network or environment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from assay.errors import InputError
from assay.improve.experiments.confidence_sequence import INDEPENDENT, Design
from assay.improve.experiments.levels import level
from assay.improve.experiments.outputs.bounds import changed_rate
from assay.improve.experiments.pairs import looks_of
from assay.improve.experiments.result import ComparedAnswers
from assay.improve.experiments.starts import start_noise
from assay.improve.journal.block_table import block_of
from assay.intervals import Interval
from assay.load.workloads.workload import Direction
from assay.report.claim import Evidence
from assay.report.energy import mean_power
from assay.report.receipt import cost_per_token, energy_per_token
from assay.report.run_files import Row, RunFiles, selected
from assay.report.waterfall import waterfall

Rule = Callable[[RunFiles, Evidence], Interval]

MEDIAN: Final = "median of blocks"
OWN_UNIT: Final = "median of blocks in the workload's unit"
FIGURE_MEDIAN: Final = "median of a figure of blocks"
RATIO: Final = "ratio of paired blocks"
EXCLUDED: Final = "slowdown that paired blocks exclude"
STARTS: Final = "spread of starts of equal settings"
COUNT: Final = "count of rows"
TERM: Final = "term of the median step"
CAUSE: Final = "cause of the diagnosis"
FIELD: Final = "field of a file"
COVERAGE: Final = "share of forecasts that hold"
FORECASTS: Final = "count of scored forecasts"
ERROR: Final = "median error of forecasts"
COST: Final = "cost per token of a median"
ENERGY: Final = "energy per token of a median"
CHANGED: Final = "bound on wrongly changed answers"
COMPARED: Final = "count of compared answers"
DIVERGENCE: Final = "median gap of answers that differ"


def looks(
    rows: Sequence[Row], better: str, alpha: float, design: Design = INDEPENDENT
) -> list[Interval]:
    """The confidence sequence of an experiment's rows, one look a pair; above 1 is better."""
    direction: Direction = "lower" if better == "lower" else "higher"
    blocks = (block_of(row) for row in rows)
    return [look.ratio for look in looks_of(blocks, direction, alpha, design)]


def ratio_of(
    rows: Sequence[Row], better: str, alpha: float, design: Design = INDEPENDENT
) -> Interval | None:
    """Treatment over control with its anytime-valid interval; None without a complete pair."""
    ratios = looks(rows, better, alpha, design)
    return ratios[-1] if ratios else None


def derive(files: RunFiles, evidence: Evidence) -> Interval:
    """The figure that a rule gives for the rows of a run."""
    if evidence.rule not in RULES:
        raise InputError(f'unknown rule "{evidence.rule}"', f"one of: {', '.join(RULES)}")
    return RULES[evidence.rule](files, evidence)


def _blocks(files: RunFiles, evidence: Evidence) -> list[Row]:
    rows = selected(files.blocks, evidence.select)
    if not rows:
        raise _nothing(evidence)
    return rows


def _nothing(evidence: Evidence) -> InputError:
    chosen = ", ".join(f"{name} {value}" for name, value in evidence.select.items())
    return InputError(f"{evidence.file}: expected rows of {chosen or 'the run'}, got none")


def _median(files: RunFiles, evidence: Evidence) -> Interval:
    rows = [row["value"] for row in _blocks(files, evidence) if not row["dropped"]]
    median = level(rows, _confidence(evidence))
    if median is None:
        raise InputError(f"{evidence.file}: expected a block that counts, got dropped ones only")
    return median


def _own_unit(files: RunFiles, evidence: Evidence) -> Interval:
    """Requests a second as the workload's own figure: nanoseconds an event, frames a second."""
    rate, scale = _median(files, evidence), float(evidence.parameters["scale"])
    if evidence.parameters["is_time"]:
        return _falling(rate, lambda requests_per_second: scale / requests_per_second)
    return Interval(scale * rate.value, scale * rate.lo, scale * rate.hi)


def _figure_median(files: RunFiles, evidence: Evidence) -> Interval:
    rows = [row["figures"] for row in _blocks(files, evidence) if not row["dropped"]]
    name = str(evidence.parameters["figure"])
    median = level([float(row[name]) for row in rows if name in row], _confidence(evidence))
    if median is None:
        raise InputError(f"{evidence.file}: expected blocks with {name}, got none")
    return median


def _ratio(files: RunFiles, evidence: Evidence) -> Interval:
    rows = _blocks(files, evidence)
    design = design_of(files, rows[0]["experiment"])
    ratio = ratio_of(rows, str(evidence.parameters["better"]), 1 - _confidence(evidence), design)
    if ratio is None:
        raise InputError(f"{evidence.file}: expected a complete pair of blocks, got none")
    return ratio


def _excluded(files: RunFiles, evidence: Evidence) -> Interval:
    """The share by which the treatment is slower at most; 0 where it is faster."""
    return _exactly(max(1.0 - _ratio(files, evidence).lo, 0.0))


def _starts(files: RunFiles, evidence: Evidence) -> Interval:
    """Over the experiments whose every change was a restart."""
    names = dict.fromkeys(row["experiment"] for row in _blocks(files, evidence))
    noise = start_noise(
        [block_of(row) for row in selected(files.blocks, {"experiment": name})]
        for name in names
        if design_of(files, name).shares_starts
    )
    if not noise.freedom:
        raise InputError(f"{evidence.file}: expected settings that were started twice, got none")
    return _exactly(noise.sd)


def design_of(files: RunFiles, experiment: str) -> Design:
    """What was known of an experiment's pairs before, as the journal's verdict has it."""
    for record in reversed(files.journal):
        if (
            record["kind"] in ("verdict", "noise")
            and record["data"].get("experiment") == experiment
        ):
            return Design(**record["data"].get("design") or {})
    return INDEPENDENT


def _confidence(evidence: Evidence) -> float:
    return float(evidence.parameters["confidence"])


def _count(files: RunFiles, evidence: Evidence) -> Interval:
    if evidence.file == "journal.jsonl":
        rows = [{"kind": record["kind"], **record["data"]} for record in files.journal]
        return _exactly(len(selected(rows, evidence.select)))
    kept = selected(files.blocks, evidence.select)
    if "is_dropped" in evidence.parameters:
        wanted = bool(evidence.parameters["is_dropped"])
        kept = [row for row in kept if bool(row["dropped"]) == wanted]
    return _exactly(len(kept))


def _exactly(value: float) -> Interval:
    return Interval(float(value), float(value), float(value))


def _term(files: RunFiles, evidence: Evidence) -> Interval:
    terms = dict(waterfall(files.steps))
    name = str(evidence.parameters["term"])
    if name not in terms:
        raise InputError(f"{evidence.file}: expected the term {name}, got {', '.join(terms)}")
    return terms[name]


def _field(files: RunFiles, evidence: Evidence) -> Interval:
    """A figure that a file states: {value, lo, hi}, or a number."""
    place: Any = files.plan if evidence.file == "plan.json" else None
    for name in str(evidence.parameters["path"]).split("/"):
        place = _inside(place, name)
    if isinstance(place, (int, float)) and not isinstance(place, bool):
        return _exactly(place)
    if isinstance(place, Mapping) and {"value", "lo", "hi"} <= set(place):
        return Interval(float(place["value"]), float(place["lo"]), float(place["hi"]))
    raise InputError(f"{evidence.file}: expected a figure at {evidence.parameters['path']}")


def _inside(place: Any, name: str) -> Any:
    """A member of an object, or of a list by its number."""
    if isinstance(place, Mapping):
        return place.get(name)
    if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
        return place[int(name)]
    return None


def _cause(files: RunFiles, evidence: Evidence) -> Interval:
    """A cause of plan.json, in microseconds for each token."""
    name = evidence.parameters["cause"]
    for cause in files.plan.get("causes") or ():
        if cause.get("name") == name:
            return Interval(*(float(cause[key]) / 1e3 for key in ("ns_per_token", "lo", "hi")))
    raise InputError(f"{evidence.file}: expected the cause {name}, got none of that name")


def forecasts(files: RunFiles, evidence: Evidence) -> list[tuple[str, Interval, Interval]]:
    """Name, forecast and outcome of each experiment that had both.

    Forecasts are those that the journal holds from before the experiment's first block.
    """
    better, alpha = str(evidence.parameters["better"]), 1 - _confidence(evidence)
    scored: dict[str, tuple[str, Interval, Interval]] = {}
    for record in files.journal:
        if record["kind"] != "experiment":
            continue
        data = record["data"]
        name, candidate = data.get("name"), data.get("candidate") or {}
        predicted = candidate.get("prediction")
        outcome = ratio_of(selected(files.blocks, {"experiment": name}), better, alpha)
        if predicted is None or outcome is None:
            continue
        forecast = Interval(*(float(predicted[key]) for key in ("value", "lo", "hi")))
        # A lever that is left out later is the same forecast again.
        scored.setdefault(str(candidate.get("name")), (str(name), forecast, outcome))
    return list(scored.values())


def _coverage(files: RunFiles, evidence: Evidence) -> Interval:
    scored = forecasts(files, evidence)
    if not scored:
        raise InputError(f"{evidence.file}: expected a forecast with an outcome, got none")
    inside = sum(forecast.lo <= outcome.value <= forecast.hi for _, forecast, outcome in scored)
    return _exactly(inside / len(scored))


def _forecasts(files: RunFiles, evidence: Evidence) -> Interval:
    return _exactly(len(forecasts(files, evidence)))


def _error(files: RunFiles, evidence: Evidence) -> Interval:
    errors = [
        abs(forecast.value / after.value - 1) for _, forecast, after in forecasts(files, evidence)
    ]
    median = level(errors)
    if median is None:
        raise InputError(f"{evidence.file}: expected a forecast with an outcome, got none")
    return _exactly(median.value)


def _cost(files: RunFiles, evidence: Evidence) -> Interval:
    rate = _throughput(files, evidence)
    price = float(evidence.parameters["usd_per_hour"])
    return _falling(rate, lambda tokens_per_second: 1e6 * cost_per_token(tokens_per_second, price))


def _energy(files: RunFiles, evidence: Evidence) -> Interval:
    rate = _throughput(files, evidence)
    rows = [row for row in _blocks(files, evidence) if not row["dropped"]]
    power = mean_power(files.state, rows)
    if power is None:
        raise InputError("state.parquet: expected samples of power during the blocks, got none")
    return _falling(rate, lambda tokens_per_second: energy_per_token(tokens_per_second, power))


def _throughput(files: RunFiles, evidence: Evidence) -> Interval:
    """Output tokens a second: the blocks' own, whatever metric the experiment compared."""
    rows = [row for row in _blocks(files, evidence) if not row["dropped"] and row["seconds"] > 0]
    throughput = level(
        [row["output_tokens"] / row["seconds"] for row in rows], _confidence(evidence)
    )
    if throughput is None or throughput.lo <= 0:
        raise InputError(f"{evidence.file}: expected blocks with output tokens, got none")
    return throughput


def _falling(rate: Interval, of: Callable[[float], float]) -> Interval:
    """A figure that falls as the rate rises: the interval's ends change places."""
    return Interval(of(rate.value), of(rate.hi), of(rate.lo))


def _answers(files: RunFiles, evidence: Evidence) -> ComparedAnswers:
    """The answers that an experiment compared, as its verdict has them in the journal."""
    rows = [
        {"kind": record["kind"], **record["data"]}
        for record in files.journal
        if record["kind"] in ("verdict", "noise")
    ]
    chosen = [row for row in selected(rows, evidence.select) if row.get("answers")]
    compared = ComparedAnswers.from_data(chosen[-1]["answers"]) if chosen else None
    if compared is None or not compared.total:
        raise InputError(f"{evidence.file}: expected compared answers, got none")
    return compared


def _changed(files: RunFiles, evidence: Evidence) -> Interval:
    """Answers that nobody could judge count as wrong."""
    compared = _answers(files, evidence)
    return changed_rate(compared.unproven, compared.judged, _confidence(evidence))


def _compared(files: RunFiles, evidence: Evidence) -> Interval:
    return _exactly(_answers(files, evidence).total)


def _divergence(files: RunFiles, evidence: Evidence) -> Interval:
    gaps = sorted(
        answer.gap
        for answer in _answers(files, evidence).differing
        if answer.gap is not None and answer.kind == "near ties"
    )
    if not gaps:
        raise InputError(f"{evidence.file}: expected answers that differ, got none")
    return Interval(gaps[len(gaps) // 2], gaps[0], gaps[-1])


RULES: Final[Mapping[str, Rule]] = {
    MEDIAN: _median,
    OWN_UNIT: _own_unit,
    FIGURE_MEDIAN: _figure_median,
    RATIO: _ratio,
    EXCLUDED: _excluded,
    STARTS: _starts,
    COUNT: _count,
    TERM: _term,
    CAUSE: _cause,
    FIELD: _field,
    COVERAGE: _coverage,
    FORECASTS: _forecasts,
    ERROR: _error,
    COST: _cost,
    ENERGY: _energy,
    CHANGED: _changed,
    COMPARED: _compared,
    DIVERGENCE: _divergence,
}
"""Every rule by its name."""
