"""The most that a workload reaches on an accelerator: rooflines by hand, and what power limits change."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from assay.errors import AssayError, CheckFailedError, InputError
from assay.workloads.planning import WorkloadFloor, predict_workload
from assay.workloads.registry import workload

L4 = ("accelerators/l4",)


def test_bytes_and_arithmetic_bound_a_frame() -> None:
    """By hand: bytes at the 300 GB/s of the data sheet; arithmetic below its 121 TFLOP/s, above a third of them."""
    answer = predict_workload("perception", includes=L4)
    perception = workload("perception")
    work = perception.work(perception.generate(1, 1))
    by_name = {limit.limit: limit.seconds for limit in answer.limits}
    assert by_name["memory"] == pytest.approx(work.bytes / 300e9)
    assert work.flops / 121e12 < by_name["arithmetic"] < 3 * work.flops / 121e12
    assert answer.seconds == max(by_name.values())
    assert answer.units_per_second == pytest.approx(1 / answer.seconds)
    assert answer.joules_per_unit == pytest.approx(72 * answer.seconds)
    # 16 convolutions, and six steps beside them.
    assert answer.serial_steps == 22


def test_a_chain_bounds_what_has_little_work() -> None:
    """By hand: 44 kernels of a structure, and three loads of each event of the busiest book, a cycle each."""
    structure = predict_workload("protein", includes=("accelerators/h100_sxm",))
    by_name = {limit.limit: limit.seconds for limit in structure.limits}
    assert by_name["chain"] == pytest.approx(44 * structure.launch_s)
    assert (structure.bound, structure.seconds) == ("chain", max(by_name.values()))
    market = workload("order-book")
    events = predict_workload("order-book", size=8_000, includes=L4)
    busiest = np.bincount(market.generate(1, 8_000).arrays["instrument"]).max()
    # The data sheet's boost clock of the L4: 2,040 MHz.
    assert events.seconds == pytest.approx(events.launch_s + 3 * busiest / 2.04e9)
    assert (events.bound, events.step) == ("chain", "load")
    assert "bound by chain" in events.headline()


def test_a_limit_beyond_the_boards_is_violated() -> None:
    given: dict[str, Any] = {"includes": L4, "assign": {"gpu.power.limit": "4000 W/GPU"}}
    answer = predict_workload("perception", **given)
    assert [verdict.name for verdict in answer.violated] == ["predict_workload.limit_within_rated"]
    assert "violated: predict_workload.limit_within_rated" in answer.headline()
    assert answer.problem is None
    # Energy is what is drawn at the highest clock, not 4000 W.
    assert answer.joules_per_unit == pytest.approx(answer.drawn_w * answer.seconds)
    assert answer.drawn_w < 200
    judged = predict_workload("perception", fail_on_violated=True, **given)
    assert isinstance(judged.problem, CheckFailedError)
    assert predict_workload("perception", fail_on_violated=True, includes=L4).problem is None


def test_the_size_is_the_quick_one_unless_given() -> None:
    assert predict_workload("order-book", includes=L4).units == 20_000


def test_a_lower_power_limit_lowers_the_clock_and_less_use_raises_it() -> None:
    def rate(**assign: str) -> WorkloadFloor:
        given = {name.replace("__", "."): value for name, value in assign.items()}
        return predict_workload("perception", includes=L4, assign=given)

    rated, capped = rate(), rate(gpu__power__limit="40 W/GPU")
    assert 0.3 < capped.tflops / rated.tflops < 0.8
    assert capped.limits[1] == rated.limits[1]
    # Kernels of 40 % of the peak draw less, and keep their clock longer.
    slow = rate(gpu__work__tensor_use="0.4")
    slow_capped = rate(gpu__work__tensor_use="0.4", gpu__power__limit="40 W/GPU")
    assert slow.tflops < rated.tflops
    assert slow_capped.tflops / slow.tflops > capped.tflops / rated.tflops


def test_more_units_take_as_many_times_as_long() -> None:
    one, four = (predict_workload("protein", size=size, includes=L4) for size in (1, 4))
    assert four.seconds == pytest.approx(4 * one.seconds)
    assert four.serial_steps == one.serial_steps == 2 * 21 + 2
    same = dataclasses.replace(one, notes=four.notes)
    assert same.headline() == four.headline()


def test_bad_questions_are_refused() -> None:
    with pytest.raises(InputError, match="size: expected 1 structure or more, got 0"):
        predict_workload("protein", size=0, includes=L4)
    with pytest.raises(
        InputError, match=r"gpu.work.tensor_use: expected a number above 0 .* got 0"
    ):
        predict_workload("protein", includes=L4, assign={"gpu.work.tensor_use": "0"})
    with pytest.raises(AssayError, match="protein: expected an accelerator, got none"):
        predict_workload("protein")
