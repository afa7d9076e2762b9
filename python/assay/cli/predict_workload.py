"""`assay predict-workload`: the most that a workload on arrays reaches on an accelerator."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table
from assay.cli.verdicts import violation_lines

if TYPE_CHECKING:
    from assay.workloads.planning import WorkloadFloor


def predict_workload_command(
    workload: Annotated[
        str, argument("WORKLOAD", "A workload that is no language model: perception, protein ...")
    ],
    size: Annotated[
        int | None,
        option(
            "--size N",
            "Units of work that are generated and counted. The workload's quick size if not given.",
        ),
    ] = None,
    seed: Annotated[int, option("--seed N", "Seed of the generator.")] = 1,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    fail_on_violated: options.FailOnViolated = False,
    as_json: options.Json = False,
) -> Report:
    """Predict the most that a workload reaches on a GPU.

    Its arithmetic at the clock that the power limit leaves, its bytes at the bandwidth of the memory, or its
    chain of steps that wait for each other, whichever takes longest, by the equations of the graph.
    Constraints that do not hold are printed beside it. Nothing runs: --with accelerators/NAME says where, and
    --set "gpu.power.limit=40 W/GPU" under which limit.
    """
    from assay.workloads.planning import predict_workload

    answer = predict_workload(
        workload, size=size, seed=seed, fail_on_violated=fail_on_violated, preset=preset, assign=assign,
        variant=variant, includes=includes,
    )  # fmt: skip
    return report_of(answer, lambda canvas: _text(answer, canvas), as_json)


def _text(answer: "WorkloadFloor", canvas: Canvas) -> Iterator[Line]:
    from assay.workloads.planning import in_unit

    unit = answer.unit
    flops, moved = in_unit(answer.gflop * 1e9, "FLOP"), in_unit(answer.megabytes * 1e6, "byte")
    step = "kernels" if answer.step == "kernel" else "loads in a kernel"
    yield from facts(
        [
            ("workload", f"{answer.workload}, {answer.units:,} {unit}{'s' * (answer.units > 1)}"),
            ("work", f"{flops}, {moved}"),
            ("rate", f"{answer.tflops:,.1f} TFLOP/s under {answer.power_limit_w:g} W"),
            (
                "use",
                f"tensor cores {answer.tensor_use:.0%}, memory {answer.memory_use:.0%}, "
                "at the rated power limit",
            ),
            (
                "chain",
                f"{answer.serial_steps:,.0f} {step}, one after the other; a kernel without work takes "
                f"{in_unit(answer.launch_s, 's')}",
            ),
            ("at most", f"{answer.rate}, bound by {answer.bound}"),
            (
                "energy",
                f"{answer.energy}, at the {answer.drawn_w:.3g} W that are drawn under a limit of "
                f"{answer.power_limit_w:g} W",
            ),
        ],
        canvas,
    )
    yield from violation_lines(answer.violated, canvas)
    yield ""
    cells: list[tuple[Part, ...]] = [
        ((limit.limit, styles.NAME), (in_unit(limit.seconds, "s"), styles.VALUE))
        for limit in answer.limits
    ]
    yield from table(("bound by", "at least"), cells, canvas, right=(1,))
