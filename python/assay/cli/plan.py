"""`assay plan`: how many GPUs a traffic needs, which, how laid out, at what cost, and how sure."""

from typing import Annotated

from assay.cli import options
from assay.cli.declaring import argument, option
from assay.cli.output import Report, report_of, working
from assay.errors import InputError

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
            "requests: llama-3.1-8b=0.7,llama-3.1-70b=0.3, or without where the recording has a "
            "column model.",
        ),
    ] = None,
    slo: Annotated[
        str | None,
        option(
            "--slo LIMITS",
            "Limits, and the share of requests that keep all of them: ttft=1s,tpot=50ms,p=99%; "
            "those of MLPerf's server scenario of Llama 2 70B if not given.",
        ),
    ] = None,
    rate: Annotated[
        str | None,
        option(
            "--rate RATE",
            "Requests per second, in place of the times of a recording; max is the most that the "
            "budgets allow.",
        ),
    ] = None,
    users: Annotated[
        float | None, option("--users N", "Users who send a request each --every TIME.")
    ] = None,
    every: Annotated[
        str | None, option("--every TIME", "How often each of --users asks, such as 5m.")
    ] = None,
    input_tokens: Annotated[
        str | None,
        option("--input-tokens LENGTHS", "128, 64-256, lognormal:180,0.8 or a file; 1024."),
    ] = None,
    output_tokens: Annotated[
        str | None, option("--output-tokens LENGTHS", "As --input-tokens; 128.")
    ] = None,
    prefix_hits: Annotated[
        float, option("--prefix-hits SHARE", "Share of input tokens in the prefix cache.")
    ] = 0.0,
    bin: Annotated[
        str, option("--bin TIME", "How long replicas stay as many: the periods of a schedule.")
    ] = "1h",
    columns: Annotated[
        str | None,
        option(
            "--columns NAMES",
            "Columns of a CSV file or JSON lines by other names: time=created,in=prompt,out=answer.",
        ),
    ] = None,
    growth: Annotated[
        str | None,
        option(
            "--growth SHARE", "Also plan for traffic that grows by so much a month, such as 5%."
        ),
    ] = None,
    months: Annotated[int, option("--months N", "Months of --growth.")] = 12,
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
    offer: Annotated[
        str | None,
        option(
            "--offer OFFERS",
            "Rent GPUs at these providers of the catalog, at the cheapest of them by accelerator: "
            "aws, nebius:spot, aws:reserved.",
        ),
    ] = None,
    start_time: Annotated[
        str | None,
        option("--start-time TIME", "How long a replica is paid for before it serves, such as 5m."),
    ] = None,
    site: Annotated[str, option("--site SITE", "A site of the catalog, for its PUE.")] = "average",
    grid: Annotated[str, option("--grid GRID", "A grid of the catalog, for its CO2e.")] = "world",
    place: Annotated[
        str | None,
        option(
            "--place PLACES",
            "Where replicas may stand, by the catalog's grid and tariff, with the kW that each has: "
            "finland:200,us_texas:500.",
        ),
    ] = None,
    place_by: Annotated[
        str,
        option(
            "--place-by",
            "What is least of the places that replicas stand in.",
            metavar="electricity|carbon",
        ),
    ] = "electricity",
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
        option(
            "--max-power KW", "A budget of power at the meter, by what servers can draw, in kW."
        ),
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
    spare: Annotated[
        int, option("--spare N", "Replicas beyond those that the SLO needs: N+1 is --spare 1.")
    ] = 0,
    disaggregated: Annotated[
        bool, option("--disaggregated", "Also look at prefill and decode workers, and their ratio.")
    ] = False,
    mixed: Annotated[
        bool, option("--mixed", "A fleet of several kinds of servers, where it is cheaper.")
    ] = False,
    by_slo: Annotated[
        bool, option("--by-slo", "What limits of TTFT and TPOT cost, in place of one --slo.")
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
    csv: Annotated[
        str | None,
        option("--csv", "Print a table for a spreadsheet.", metavar="options|schedule|growth"),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Plan how few GPUs a traffic needs, and what they cost.

    Looks at every accelerator, layout and format, and prints the floor, the best plan and the next best, latencies
    with intervals, replicas by hour, money, energy and carbon, and what binds. Nothing runs: no GPU is needed.
    """
    if train is not None:
        return _training(train, tokens, days, gpu, where, offer, repair, as_json)
    from assay.cli.plan_text import by_limits_text, fleet_text, plan_text
    from assay.load.capacity import plan_by_limits, plan_capacity
    from assay.load.workloads.spec import parse_duration, parse_share

    if model is None:
        raise InputError(
            "plan: expected --model, got none",
            "assay plan --model llama-3.1-8b --rate 20 --slo ttft=1s,tpot=50ms,p=99%",
        )
    if routing not in ("any", "prefix"):
        raise InputError(f'--routing: expected any or prefix, got "{routing[:40]}"')
    if csv is not None and (as_json or by_slo):
        raise InputError("--csv: expected it without --json and --by-slo, got both")
    if by_slo:
        if trace is not None or rate is None or simulate or mixed or slo is not None:
            raise InputError(
                "--by-slo: expected --rate without a recording, --slo, --mixed and --simulate",
                "assay plan --model llama-3.1-8b --rate 20 --by-slo",
            )
        with working("planning") as progress:
            rates = plan_by_limits(
                model=model, rate=rate, input_tokens=input_tokens, output_tokens=output_tokens,
                prefix_hits=prefix_hits, gpus=_words(gpu), dtypes=_words(dtype or ""),
                engines=_words(engine), kv_dtype=kv_dtype, tensor=_numbers("--tensor", tensor),
                offer=offer, site=site, grid=grid, risk=parse_share("--risk", risk),
                apart=disaggregated, progress=progress,
            )  # fmt: skip
        return report_of(rates, lambda canvas: by_limits_text(rates, canvas), as_json)
    with working("planning") as progress:
        answer = plan_capacity(
            trace, model=model, slo=slo, rate=rate, users=users, every=every,
            input_tokens=input_tokens, output_tokens=output_tokens, prefix_hits=prefix_hits, bin=bin, gpus=_words(gpu),
            dtypes=_words(dtype or ""), engines=_words(engine), kv_dtype=kv_dtype,
            tensor=_numbers("--tensor", tensor), offer=offer, site=site, grid=grid,
            risk=parse_share("--risk", risk), minimize=minimize, max_gpus=max_gpus,
            max_watts=None if max_power is None else 1e3 * max_power, max_usd_per_hour=max_cost,
            routes_by_prefix=routing == "prefix", apart=disaggregated, mixed=mixed,
            start_seconds=0.0 if start_time is None else parse_duration("--start-time", start_time),
            simulate=simulate, places=place, places_by=place_by, columns=columns, growth=growth,
            months=months, spare=spare, progress=progress,
        )  # fmt: skip
    from assay.cli.plan_csv import fleet_csv, plan_csv
    from assay.planner.capacity.fleet_plan import FleetPlan

    if isinstance(answer, FleetPlan):
        raw = None if csv is None else fleet_csv(answer, csv)
        return report_of(answer, lambda canvas: fleet_text(answer, canvas), as_json, raw=raw)
    raw = None if csv is None else plan_csv(answer, csv)
    return report_of(answer, lambda canvas: plan_text(answer, canvas), as_json, raw=raw)


def _training(
    model: str, tokens: str | None, days: float | None, gpu: str, where: str, offer: str | None,
    repair: float | None, as_json: bool,
) -> Report:  # fmt: skip
    """The plan of a training run."""
    from assay.cli.plan_training_text import training_text
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
    return report_of(answer, lambda canvas: training_text(answer, canvas), as_json)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(what: str, text: str) -> list[int]:
    words = _words(text)
    if not words or not all(word.isdecimal() and 0 < int(word) <= 1024 for word in words):
        raise InputError(f'{what}: expected numbers such as 1,2,4,8, got "{text[:40]}"')
    return [int(word) for word in words]
