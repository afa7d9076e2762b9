"""`assay plan`: how many GPUs a traffic needs, which, how laid out, at what cost, and how sure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Report, count, facts, report_of, table, working
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.intervals import Interval
    from assay.load.capacity import CapacityPlan
    from assay.planner.capacity.fleet_plan import FleetPlan
    from assay.planner.capacity.option import Option
    from assay.planner.capacity.training import TrainingOption, TrainingPlan

_LATENCIES = {"TTFT ms": "first_token", "TPOT ms": "output_token", "E2E s": "end_to_end"}
_MOST_HOURS = 24
_GPUS = "h100,h200,b200,a100"


def plan_command(
    trace: Annotated[
        str | None,
        argument("TRACE", "Recorded requests: Mooncake, Azure, BurstGPT, or JSON lines."),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "--model MODEL",
            "A model of the catalog, or its config.json; or several with their shares of the "
            "requests: llama-3.1-8b=0.7,llama-3.1-70b=0.3.",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        option(
            "--slo LIMITS",
            "Limits, and the share of requests that keep all of them: ttft=1s,tpot=50ms,p=99%.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        option("--rate RATE", "Requests per second, in place of the times of a recording."),
    ] = None,
    input_tokens: Annotated[
        str, option("--input-tokens LENGTHS", "128, 64-256, lognormal:180,0.8 or a file.")
    ] = "1024",
    output_tokens: Annotated[str, option("--output-tokens LENGTHS", "As --input-tokens.")] = "128",
    prefix_hits: Annotated[
        float, option("--prefix-hits SHARE", "Share of input tokens in the prefix cache.")
    ] = 0.0,
    bin: Annotated[
        str, option("--bin TIME", "How long replicas stay as many: the periods of a schedule.")
    ] = "1h",
    gpu: Annotated[
        str, option("--gpu GPUS", "Accelerators to choose from; h100:16 says how many there are.")
    ] = _GPUS,
    dtype: Annotated[
        str | None,
        option("--dtype FORMATS", "Formats of weights to choose from; that of the model's files."),
    ] = None,
    engine: Annotated[
        str, option("--engine ENGINES", "Engines to choose from: vllm, sglang, trtllm, assay.")
    ] = "vllm",
    kv_dtype: options.KvFormat = "bf16",
    tensor: Annotated[
        str, option("--tensor NUMBERS", "Tensor-parallel GPUs to choose from.")
    ] = "1,2,4,8",
    offer: options.Offer = None,
    site: Annotated[str, option("--site SITE", "A site of the catalog, for its PUE.")] = "average",
    grid: Annotated[str, option("--grid GRID", "A grid of the catalog, for its CO2e.")] = "world",
    risk: Annotated[
        str,
        option("--risk SHARE", "Risk that the SLO is missed, by the model error of step times."),
    ] = "10%",
    minimize: Annotated[
        str, option("--minimize", "What the best plan has least of.", metavar="cost|gpus|power")
    ] = "cost",
    max_gpus: Annotated[int | None, option("--max-gpus N", "A budget of GPUs.")] = None,
    max_power: Annotated[
        float | None,
        option("--max-power KW", "A budget of power at the meter, by what boards can draw, in kW."),
    ] = None,
    max_cost: Annotated[
        float | None, option("--max-cost USD", "A budget of dollars an hour, at the peak.")
    ] = None,
    routing: Annotated[
        str,
        option(
            "--routing",
            "Whether requests come to any replica, or to the one that has their prefix.",
            metavar="any|prefix",
        ),
    ] = "any",
    mixed: Annotated[
        bool, option("--mixed", "A fleet of several kinds of servers, where it is cheaper.")
    ] = False,
    simulate: Annotated[
        bool, option("--simulate", "Also replay the plan request by request.")
    ] = False,
    train: Annotated[
        str | None, option("--train MODEL", "Plan a training run instead, of --tokens in --days.")
    ] = None,
    tokens: Annotated[str | None, option("--tokens N", "Tokens of the run, such as 15T.")] = None,
    days: Annotated[
        float | None, option("--days DAYS", "When the run must be done, interruptions included.")
    ] = None,
    repair: Annotated[
        float | None, option("--repair HOURS", "How long a failed node is away, for spares.")
    ] = None,
    where: Annotated[
        str, option("--where PLACE", "Where a run is trained: a country or a state of the US.")
    ] = "us_virginia",
    as_json: options.Json = False,
) -> Report:
    """Plan how few GPUs a traffic needs, and what they cost.

    Looks at every accelerator, layout and format, and prints the floor, the best plan and the next best, latencies
    with intervals, replicas by hour, money, energy and carbon, and what binds. Nothing runs: no GPU is needed.
    """
    if train is not None:
        return _training(train, tokens, days, gpu, where, offer, repair, as_json)
    from assay.load.capacity import plan_capacity
    from assay.load.workloads.spec import parse_share

    if model is None or slo is None:
        missing = "--model" if model is None else "--slo"
        raise InputError(
            f"plan: expected {missing}, got none",
            "assay plan --model llama-3.1-8b --rate 20 --slo ttft=1s,tpot=50ms,p=99%",
        )
    if routing not in ("any", "prefix"):
        raise InputError(f'--routing: expected any or prefix, got "{routing[:40]}"')
    with working("planning") as progress:
        answer = plan_capacity(
            trace, model=model, slo=slo, rate=rate, input_tokens=input_tokens,
            output_tokens=output_tokens, prefix_hits=prefix_hits, bin=bin, gpus=_words(gpu),
            dtypes=_words(dtype or ""), engines=_words(engine), kv_dtype=kv_dtype,
            tensor=_numbers("--tensor", tensor), offer=offer, site=site, grid=grid,
            risk=parse_share("--risk", risk), minimize=minimize, max_gpus=max_gpus,
            max_watts=None if max_power is None else 1e3 * max_power, max_usd_per_hour=max_cost,
            routes_by_prefix=routing == "prefix", mixed=mixed, simulate=simulate, progress=progress,
        )  # fmt: skip
    from assay.planner.capacity.fleet_plan import FleetPlan

    if isinstance(answer, FleetPlan):
        return report_of(answer, lambda canvas: _fleet_text(answer, canvas), as_json)
    return report_of(answer, lambda canvas: _text(answer, canvas), as_json)


def _training(
    model: str, tokens: str | None, days: float | None, gpu: str, where: str, offer: str | None,
    repair: float | None, as_json: bool,
) -> Report:  # fmt: skip
    """The plan of a training run."""
    from assay.planner.capacity.training import GPUS, plan_training

    if tokens is None or days is None:
        missing = "--tokens" if tokens is None else "--days"
        raise InputError(
            f"plan --train: expected {missing}, got none",
            "assay plan --train llama-3.1-8b --tokens 15T --days 60",
        )
    with working("planning") as progress:
        answer = plan_training(
            model, tokens, days, gpus=GPUS if gpu == _GPUS else _words(gpu), where=where,
            offer=offer, repair_hours=repair, progress=progress,
        )  # fmt: skip
    return report_of(answer, lambda canvas: _training_text(answer, canvas), as_json)


def _training_text(plan: "TrainingPlan", canvas: Canvas) -> Iterator[Line]:
    yield from facts(
        [("model", plan.model), ("run", f"{plan.tokens} tokens in {plan.days:g} days")], canvas
    )
    for run in plan.options:
        yield ""
        figures = run.figures
        layout = ", ".join(f"{name} {value:g}" for name, value in run.layout.items())
        yield ((f"{figures['gpus']:,.0f} x {run.gpu}", styles.VALUE), f": {layout}")
        yield from facts(list(_training_facts(run)), canvas)
    for gpu, reason in plan.refused:
        yield ""
        yield f"{gpu}: {reason}"


def _training_facts(option: "TrainingOption") -> Iterator[tuple[str, str]]:
    def said(name: str, scale: float, words: str) -> str:
        value = option.figures[name]
        return f"UNKNOWN {words}" if value is None else f"{value * scale:,.4g} {words}"

    yield (
        "time",
        f"{said('seconds', 1 / 86400, 'days')}, {said('gpu_hours', 1 / 3600, 'GPU-hours')}",
    )
    yield (
        "goodput",
        (
            f"{said('goodput', 100, '% of the time')}, {said('mfu', 100, '% MFU')}, "
            f"{said('straggling', 1, 'x the median step by the slowest GPU')}"
        ),
    )
    yield (
        "failures",
        (
            f"{said('interruptions', 1, 'interruptions')}, one in {said('mtbf_seconds', 1 / 3600, 'h')}, "
            f"{said('restart_seconds', 1 / 60, 'min to restart')}"
        ),
    )
    yield (
        "checkpoints",
        (
            f"every {said('checkpoint_seconds', 1 / 60, 'min')} (Daly), each stops training for "
            f"{said('stall_seconds', 1, 's')}"
        ),
    )
    spares = option.spare_nodes
    yield (
        "spares",
        (
            f"UNKNOWN: needs {option.unknown['spare_nodes']}"
            if spares is None
            else f"{count(spares, 'node')}, enough 99 % of the time"
        ),
    )
    yield (
        "cost",
        (
            f"{said('usd', 1e-6, 'million USD')}, {said('joules', 1 / 3.6e9, 'MWh')}, "
            f"{said('kilograms', 1e-3, 't CO2e')}"
        ),
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(what: str, text: str) -> list[int]:
    words = _words(text)
    if not words or not all(word.isdecimal() and 0 < int(word) <= 1024 for word in words):
        raise InputError(f'{what}: expected numbers such as 1,2,4,8, got "{text[:40]}"')
    return [int(word) for word in words]


def _text(plan: "CapacityPlan", canvas: Canvas) -> Iterator[Line]:
    traffic, best = plan.traffic, plan.best
    heading = [
        ("model", plan.model),
        ("traffic", str(traffic["name"])),
        ("peak", f"{traffic['peak_rate']:,.4g} requests/s, {traffic['input']['mean']:,.0f} in and "
                 f"{traffic['output']['mean']:,.0f} out on average"),
        ("SLO", plan.objective),
    ]  # fmt: skip
    yield from facts(heading, canvas)
    yield ""
    yield ((f"{count(best.gpus, 'GPU')}: {_name(best)}", styles.VALUE),)
    yield from facts(list(_figures(best)), canvas)
    yield ""
    rows = [
        (name, *(_cell(best.latencies[figure][level], name) for level in ("p50", "p90", "p99")))
        for name, figure in _LATENCIES.items()
    ]
    yield from table(("", "p50", "p90", "p99"), rows, canvas, right=(1, 2, 3))
    if len(best.schedule) > 1:
        yield ""
        yield from _schedule(best, canvas)
    if plan.simulation is not None:
        yield ""
        yield from _simulation(plan, canvas)
    yield ""
    yield from _others(plan, canvas)
    yield "in brackets: 90 % intervals by the errors of step times and of the queue model"


def _name(option: "Option") -> str:
    return (
        f"{option.replicas:,} x {option.gpu} {option.layout}, {option.weight_dtype}, "
        f"{option.engine}, at most {option.max_running:,} running"
    )


def _figures(option: "Option") -> Iterator[tuple[str, str]]:
    yield "risk", f"{100 * option.risk:.2g} % that the SLO is missed; {option.binds} binds first"
    yield (
        "within SLO",
        (
            f"{100 * option.attained.value:.4g} % of requests ({100 * option.attained.lo:.4g} to "
            f"{100 * option.attained.hi:.4g})"
        ),
    )
    yield "headroom", f"{100 * option.headroom:.3g} % more requests at the likely step times"
    if option.prefix_hits > 0.0005:
        yield "prefix hits", f"{100 * option.prefix_hits:.3g} % of input tokens"
    if option.usd_per_hour is not None:
        yield (
            "cost",
            (
                f"{option.usd_per_hour:,.2f} USD/h, {option.usd_per_month:,.0f} a month, "
                f"{option.usd_per_million_input:.3g} a million input and "
                f"{option.usd_per_million_output:.3g} a million output tokens, "
                f"{option.usd_per_request:.3g} a request"
            ),
        )
    if option.watts is not None:
        yield (
            "energy",
            (
                f"{option.watts / 1e3:,.3g} kW at the meter, {option.joules_per_token:.3g} J/token, "
                f"{option.kilograms_per_hour:,.3g} kg CO2e/h"
            ),
        )
    if option.rated_watts is not None:
        yield "power", f"{option.rated_watts / 1e3:,.3g} kW at most"


def _cell(value: "Interval", name: str) -> str:
    scale = 1.0 if name.endswith(" s") else 1e3
    digits = [_digits(scale * part) for part in (value.value, value.lo, value.hi)]
    return f"{digits[0]} ({digits[1]} to {digits[2]})"


def _digits(value: float) -> str:
    """Three digits, or all before the point; no end where there is none."""
    if value > 1e9:
        return "no end"
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _schedule(option: "Option", canvas: Canvas) -> Iterator[Line]:
    hours = option.schedule[:_MOST_HOURS]
    rows = [
        (f"{hour.start / 3600:g} h", f"{hour.rate:,.3g}", f"{hour.replicas:,}",
         f"{hour.replicas * option.replica_gpus:,}")
        for hour in hours
    ]  # fmt: skip
    yield from table(("from", "requests/s", "replicas", "GPUs"), rows, canvas, right=(0, 1, 2, 3))
    if len(option.schedule) > len(hours):
        yield f"and {len(option.schedule) - len(hours):,} periods more (--json)"


def _simulation(plan: "CapacityPlan", canvas: Canvas) -> Iterator[Line]:
    assert plan.simulation is not None
    replayed = plan.simulation
    agreeing = sum(replayed.agrees.values())
    yield (
        f"replayed {replayed.requests:,} requests in {replayed.steps:,} steps: "
        f"{100 * replayed.attained.value:.4g} % within the SLO, {agreeing} of {len(replayed.agrees)} "
        "percentiles within each other's intervals"
    )
    rows = [
        (name, *(_cell(replayed.latencies[figure][level], name) for level in ("p50", "p90", "p99")))
        for name, figure in _LATENCIES.items()
    ]
    yield from table(("replay", "p50", "p90", "p99"), rows, canvas, right=(1, 2, 3))


def _others(plan: "CapacityPlan", canvas: Canvas) -> Iterator[Line]:
    floors = ", ".join(f"{floor.gpus:,.3g} {floor.gpu}" for floor in plan.floors)
    yield f"floor (no plan uses fewer at the peak): {floors}"
    if plan.second is not None:
        yield f"second best: {count(plan.second.gpus, 'GPU')}: {_name(plan.second)}"
    yield ""
    rows = [
        (f"{option.gpu} {option.layout} {option.weight_dtype}", f"{option.gpus:,}",
         "" if option.usd_per_hour is None else f"{option.usd_per_hour:,.2f}",
         _digits(1e3 * option.latencies["output_token"]["p50"].value),
         f"{100 * option.risk:.2g} %")
        for option in plan.front
    ]  # fmt: skip
    yield from table(
        ("cost against interactivity", "GPUs", "USD/h", "TPOT p50 ms", "risk"), rows, canvas,
        right=(1, 2, 3, 4),
    )  # fmt: skip


def _fleet_text(plan: "FleetPlan", canvas: Canvas) -> Iterator[Line]:
    models = ", ".join(f"{rate:,.4g} requests/s of {name}" for name, rate in plan.models.items())
    cost = "" if plan.usd_per_hour is None else f", {plan.usd_per_hour:,.2f} USD/h"
    heading = [("peak", models), ("SLO", plan.objective)]
    if plan.alone is not None:
        heading.append(("one kind each", f"{plan.alone:,.2f} USD/h without the budgets"))
    yield from facts(heading, canvas)
    yield ""
    yield ((f"{count(plan.gpus, 'GPU')} at the peak{cost}", styles.VALUE),)
    rows = [
        (f"{hour.start / 3600:.3g} h" if not index else "", servers.model,
         f"{servers.replicas:,} x {servers.gpu} {servers.layout} {servers.weight_dtype}",
         f"{servers.gpus:,}",
         "" if index or hour.usd_per_hour is None else f"{hour.usd_per_hour:,.2f}")
        for hour in plan.hours[:_MOST_HOURS]
        for index, servers in enumerate(hour.servers)
    ]  # fmt: skip
    yield from table(("from", "model", "servers", "GPUs", "USD/h"), rows, canvas, right=(0, 3, 4))
    if len(plan.hours) > _MOST_HOURS:
        yield f"and {len(plan.hours) - _MOST_HOURS:,} periods more (--json)"
    gap = max(hour.gap for hour in plan.hours)
    yield f"no fleet of these servers is cheaper by more than {100 * gap:.2g} %"
