"""What it would take to resolve a root."""

from __future__ import annotations

import pytest

from assay import stack
from assay.errors import InputError
from assay.scenario import built_in
from assay.scenario.roots import report_root


def test_root_names_who_gives_it_and_what_is_left() -> None:
    preset = built_in.preset("llama3_8b_h200_serving")
    found = report_root(stack.registry(), "econ.serving.load", [preset])
    [given] = found.presets
    assert (given.preset, given.kind) == (preset.name, "assumed")
    assert found.steps[0] == 'assume a value: --assign econ.serving.load="VALUE %"'
    assert f"replace the assumption of {preset.name} by a sourced value" in found.steps
    assert found.dependents == len(stack.registry().graph.downstream_relations("econ.serving.load"))


def test_root_of_a_model_and_of_a_fit() -> None:
    shape = report_root(stack.registry(), "architecture.layers", [])
    assert [group.group for group in shape.groups] == ["models"]
    assert "llama-3.1-8b" in shape.groups[0].entries
    fitted = report_root(stack.registry(), "kernels.gemm.eight_bit_share", [])
    assert "calibration" in [group.group for group in fitted.groups]


def test_computed_variable_is_no_root() -> None:
    with pytest.raises(InputError, match="expected a root"):
        report_root(stack.registry(), "econ.cost.per_token", [])
