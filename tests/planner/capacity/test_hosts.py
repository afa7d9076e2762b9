"""Power of servers beside their boards."""

from __future__ import annotations

import pytest

from assay.planner.capacity.hosts import host_of


@pytest.mark.parametrize(
    ("accelerator", "board", "node"),
    [("h100_sxm", 700.0, 10_200.0), ("b200_sxm", 1000.0, 14_300.0), ("a100_sxm", 400.0, 6500.0)],
)
def test_a_node_needs_more_than_its_boards_and_no_more_than_its_data_sheet(
    accelerator: str, board: float, node: float
) -> None:
    """The most that NVIDIA states for DGX H100, B200 and A100 (data sheets: maximum power)."""
    host = host_of(accelerator)
    assert host is not None
    assert 0.75 * node <= 8 * host.most(board) <= node
    assert board < host.drawn(board) < host.most(board)


def test_an_accelerator_without_a_node_has_no_host() -> None:
    assert host_of("l40s") is None
    assert host_of("not of the catalog") is None
