"""`assay causal-profile`: which operations of a decode step the step waits for, by delaying them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, sampling, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table, working
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.diagnose.delays import DelayProfile

_STYLES = {
    "critical": styles.GOOD,
    "hidden": styles.FAINT,
    "partly hidden": styles.WARN,
    "undecided": "",
}


def causal_profile_command(
    model: sampling.Model,
    batch: Annotated[int, option("--batch COUNT", "Requests at once.")] = 1,
    context: Annotated[int, option("--context TOKENS", "Prompt tokens of each request.")] = 128,
    node: Annotated[
        list[str] | None,
        option(
            "--node PATTERN",
            "Delay only these nodes or operations, such as attention or 'host.*'. May be repeated.",
        ),
    ] = None,
    dose: Annotated[
        list[float] | None,
        option(
            "--dose MICROSECONDS",
            "Delay of a step. May be repeated; 5 % and 10 % of a step if not given.",
        ),
    ] = None,
    steps: Annotated[int, option("--steps COUNT", "Timed steps of a run.")] = 8,
    budget: Annotated[
        float, option("--budget SECONDS", "How long the experiments may take.")
    ] = 60.0,
    seed: Annotated[int, option("--seed NUMBER", "Random seed of the order of runs.")] = 0,
    device: sampling.Device = None,
    kv_tokens: sampling.KvTokens = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> Report:
    """Find what a decode step waits for, by delaying parts.

    Parts of a step are its operations and the sections of the host.

    Delays of known length go before nodes of the step's graph and to the end of host sections, in
    random order and beside runs without one. The slope of step time on delay is 1 for what the step
    waits for (critical), and 0 for what other work hides. Operations come first; those in between
    are split into their nodes.
    """
    if budget <= 0:
        raise InputError(f"--budget: expected more than 0 seconds, got {budget:g}")
    from assay.diagnose.delays.engine_profile import profile_engine

    with (
        sampling.load(model, device, kv_tokens, knob) as engine,
        working(f"profiling {engine.files.name}", log=True) as progress,
    ):
        sampling.show_notes(engine)
        answer = profile_engine(
            engine, batch=batch, context=context, steps=steps, nodes=node, doses_us=dose,
            budget_s=budget, seed=seed, progress=progress,
        )  # fmt: skip
    delays = answer.delays

    def text(canvas: Canvas) -> Iterator[Line]:
        yield from facts(
            (
                ("step", f"{delays.step_ns / 1e3:,.1f} us"),
                ("with idle delays", f"{delays.control_ns / 1e3:,.1f} us ({delays.overhead:+.1%})"),
                ("experiments", f"{delays.seconds:.1f} s, intervals of {delays.confidence:.0%}"),
            ),
            canvas,
        )
        yield ""
        yield from _rows(delays, canvas)

    # In JSON they are `degradations`.
    return report_of(answer, text, as_json, text_notes=delays.degradations)


def _rows(delays: "DelayProfile", canvas: Canvas) -> Iterator[Line]:
    titles = ("delayed", "nodes", "slope", "interval", "verdict", "runs")
    cells: list[tuple[Part, ...]] = [
        (
            (delay.name, styles.NAME),
            str(len(delay.nodes)),
            (f"{delay.slope:.2f}", styles.VALUE),
            f"{delay.lo:.2f} to {delay.hi:.2f}",
            (delay.verdict, _STYLES[delay.verdict]),
            f"{delay.runs}",
        )
        for delay in delays
    ]
    yield from table(titles, cells, canvas, right=(1, 2, 3, 5))
