"""`assay predict-workload`: the most that a workload on arrays reaches on an accelerator."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from assay.cli import options, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table

if TYPE_CHECKING:
    from assay.workloads.planning import WorkloadFloor


def predict_workload_command(
    workload: Annotated[
        str, argument("WORKLOAD", "A workload that is no language model: perception, protein ...")
    ],
    size: Annotated[int, option("--size N", "Units of work that are generated and counted.")] = 1,
    seed: Annotated[int, option("--seed N", "Seed of the generator.")] = 1,
    preset: options.PresetName = None,
    assign: options.Assign = None,
    variant: options.Variant = None,
    includes: options.With = None,
    as_json: options.Json = False,
) -> Report:
    """Predict the most that a workload reaches on a GPU.

    Its arithmetic at the clock that the power limit leaves and its bytes at the bandwidth of the memory,
    by the equations of the graph. Nothing runs: --with accelerators/NAME says where, and
    --set "gpu.power.limit=40 W/GPU" under which limit.
    """
    from assay.workloads.planning import predict_workload

    answer = predict_workload(
        workload, size=size, seed=seed, preset=preset, assign=assign, variant=variant, includes=includes
    )  # fmt: skip
    return report_of(answer, lambda canvas: _text(answer, canvas), as_json)


def _text(answer: "WorkloadFloor", canvas: Canvas) -> Iterator[Line]:
    unit = answer.unit
    yield from facts(
        [
            ("workload", f"{answer.workload}, {answer.units} {unit}{'s' * (answer.units > 1)}"),
            ("work", f"{answer.gflop:,.1f} GFLOP, {answer.megabytes:,.1f} MB"),
            ("rate", f"{answer.tflops:,.1f} TFLOP/s under {answer.power_limit_w:g} W"),
            (
                "use",
                f"tensor cores {answer.tensor_use:.0%}, memory {answer.memory_use:.0%}, "
                "at the rated power limit",
            ),
            (
                "chain",
                f"{answer.serial_steps:,.0f} steps one after the other, not in the floor; a kernel "
                f"without work takes {answer.launch_s * 1e6:.1f} us",
            ),
            ("at most", f"{answer.units_per_second:,.1f} {unit}s/s"),
            ("energy", f"{answer.joules_per_unit:.3g} J a {unit}, at the limit"),
        ],
        canvas,
    )
    yield ""
    cells: list[tuple[Part, ...]] = [
        ((limit.limit, styles.NAME), (f"{limit.seconds * 1e3:,.3f}", styles.VALUE))
        for limit in answer.limits
    ]
    yield from table(("bound by", "ms"), cells, canvas, right=(1,))
