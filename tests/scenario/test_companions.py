"""Price, node, network and rent follow the accelerator, or the answer says what it took."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import stack
from assay.catalog import accelerators, entries
from assay.scenario import Preset, built_in, include

SERVING = "llama3_8b_h200_serving"
TRAINING = "llama3_8b_8_h100_training"


def preset(name: str, *paths: str) -> Preset:
    registry = stack.registry()
    return built_in.preset(name).with_includes([include(path, registry) for path in paths])


@pytest.mark.parametrize("name", accelerators.names())
def test_companions_exist(name: str) -> None:
    companions = entries.read("accelerators", name).facts.get("companions", {})
    for group, companion in companions.items():
        assert companion in entries.names(group)


@pytest.mark.parametrize(
    ("accelerator", "price"), [("b200_sxm", 37500), ("a100_sxm", 15000), ("mi300x", 12500)]
)
def test_price_follows_the_accelerator(accelerator: str, price: float) -> None:
    other = preset(TRAINING, f"accelerators/{accelerator}")
    assert other.resolve("econ.gpu.price").value == pytest.approx(price)
    assert any(f"prices/{accelerator} replaces prices/h100_sxm" in note for note in other.notes)


def test_unknown_price_is_a_missing_input() -> None:
    other = preset(SERVING, "accelerators/gh200")
    found = other.resolve("econ.cost.per_output_token")
    assert found.value is None
    assert "econ.gpu.price" in {gap.variable.name for gap in found.missing}
    none = preset(SERVING, "accelerators/a30")
    assert "econ.rent.price" not in none.assignments
    assert "econ.gpu.price, econ.rent.price, carbon.gpu.embodied: prices/h200_sxm" in none.notes[0]


@pytest.mark.parametrize(
    ("accelerator", "gpus"), [("gb200", 72), ("gh200", 1), ("b200_sxm", 8), ("a100_sxm", 8)]
)
def test_node_has_the_gpus_that_the_accelerators_links_join(accelerator: str, gpus: int) -> None:
    other = preset(SERVING, f"accelerators/{accelerator}")
    assert other.resolve("cluster.node.gpus").value == gpus
    assert other.resolve("interconnect.node_ranks").value == gpus


def test_foreign_node_is_kept_with_a_note() -> None:
    other = preset(SERVING, "accelerators/l4")
    assert other.resolve("cluster.node.gpus").value == 8
    note = "nodes/dgx_h100 is used although it is not known to fit accelerators/l4"
    assert note in other.notes


def test_rented_gpu_is_rented_at_its_own_price() -> None:
    own = preset(SERVING, "finance/rented").resolve("econ.rent.price").value
    h100 = preset(TRAINING, "finance/rented").resolve("econ.rent.price").value
    assert own is not None
    assert h100 is not None
    # RunPod Secure Cloud in August 2026: 4.59 USD for an H200, 3.29 USD for an H100.
    assert own * 3600 == pytest.approx(4.59)
    assert h100 * 3600 == pytest.approx(3.29)


def test_rent_of_another_gpu_is_named_and_does_not_follow() -> None:
    named = preset(SERVING, "rents/h100_aws_2026")
    assert "rents/h100_aws_2026 is used although it is not known to fit accelerators/h200_sxm" in (
        named.notes
    )
    rented = preset(TRAINING, "rents/h100_aws_2026")
    other = rented.with_includes([include("accelerators/b200_sxm", stack.registry())])
    assert other.resolve("econ.rented").value == 1
    price = other.resolve("econ.rent.price").value
    assert price is not None
    assert price * 3600 == pytest.approx(6.79)


def test_explicit_companion_is_kept_and_named() -> None:
    other = preset(TRAINING, "accelerators/b200_sxm", "prices/h100_sxm")
    assert other.resolve("econ.gpu.price").value == pytest.approx(27500)
    assert "prices/h100_sxm is used although it is not known to fit accelerators/b200_sxm" in (
        other.notes
    )


def test_own_price_is_left_out_with_another_accelerator(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'include = ["accelerators/h100_sxm"]\n[values]\n"econ.gpu.price" = '
        '{ value = "20000 USD/GPU", source = "a quote", kind = "published" }\n'
    )
    mine = Preset.from_file(path, stack.registry())
    other = mine.with_includes([include("accelerators/a30", stack.registry())])
    assert "econ.gpu.price" not in other.assignments
    assert "econ.gpu.price: the scenario states it for accelerators/h100_sxm" in other.notes[0]


def test_same_accelerator_changes_nothing() -> None:
    same = preset(TRAINING, "accelerators/h100_sxm")
    assert same.notes == built_in.preset(TRAINING).notes
    assert same.exact_inputs.given == built_in.preset(TRAINING).exact_inputs.given


def test_slower_network_holds_the_adapters() -> None:
    other = preset(TRAINING, "networks/hdr_infiniband")
    assert other.resolve("interconnect.nic.line_rate").value == 200e9 / 8
    assert other.notes[0] == (
        "interconnect.nic.line_rate: adapters of 400 Gbit/s run at the 200 Gbit/s of "
        "networks/hdr_infiniband"
    )
    assert preset(TRAINING).notes == ()
