"""Collectives by themselves: the printed command, what is assumed, and what cannot be.

Figures from outside are in `collective_questions.json`; here are closed forms.
"""

from __future__ import annotations

import json
import shlex

import pytest

from assay.asking.answering import ask
from assay.asking.reading import read
from assay.cli.app import run

SPELLINGS = (
    ("all-reduce", "allreduce", "AllReduce", "all reduce", "all_reduce", "ALL-REDUCE"),
    ("all-gather", "allgather", "AllGather", "all gather", "all_gather"),
    ("reduce-scatter", "reducescatter", "ReduceScatter", "reduce scatter", "reduce_scatter"),
    ("all-to-all", "alltoall", "AllToAll", "all to all", "all2all", "a2a"),
)


@pytest.mark.parametrize("names", SPELLINGS)
def test_every_spelling_asks_for_the_same(names: tuple[str, ...]) -> None:
    lines = set()
    for name in names:
        outcome = ask(f"time of a {name} of 64 MB on 8 H100").outcome
        assert outcome is not None, name
        lines.add(outcome.lines[0])
    assert len(lines) == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1 GB", 1e9), ("1GiB", 2**30), ("1g", 2**30), ("256 MB", 256e6), ("256m", 2**28), ("8 bytes", 8),
        ("8B", 8), ("512 KiB", 2**19), ("64 kB", 64e3), ("1,000,000 bytes", 1e6), ("a gigabyte", 1e9),
        ("2 megabytes", 2e6), ("0.5 GB", 5e8), ("1e6 bytes", 1e6),
    ],
)  # fmt: skip
def test_sizes_are_read_in_bytes(text: str, size: float) -> None:
    assert read(f"all-reduce of {text} on 8 H100").get("message") == size


def test_sizes_are_memory_where_nothing_is_reduced() -> None:
    reading = read("GPUs with at least 80 GB")
    assert reading.get("message") is None
    assert reading.get("memory") == 80


@pytest.mark.parametrize(
    ("operation", "factor"),
    [("all-reduce", 1.75), ("all-gather", 0.875), ("reduce-scatter", 0.875), ("all-to-all", 0.875)],
)
def test_bus_bandwidth_is_that_of_nccl_tests(operation: str, factor: float) -> None:
    """Bytes over time, by 2 (n - 1)/n or (n - 1)/n of eight ranks."""
    bus, algorithm = (
        ask(f"{kind} bandwidth of an {operation} of 1 GB on 8 H200").outcome
        for kind in ("bus", "algorithm")
    )
    assert bus is not None
    assert algorithm is not None
    assert bus.result.value == pytest.approx(factor * (algorithm.result.value or 0.0), rel=1e-9)


def test_the_printed_command_gives_the_same_number(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = ask("how long does an all-reduce of 1 GB across 64 H100 take?").outcome
    assert outcome is not None
    program, *words = shlex.split(outcome.lines[0])
    assert program == "assay"
    assert run([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["value"] == pytest.approx(outcome.result.value, rel=1e-12)


def test_adapters_between_nodes_are_assumed_and_said() -> None:
    outcome = ask("all-reduce of 1 GB across 64 H100").outcome
    assert outcome is not None
    said = "; ".join(outcome.assumed)
    assert "8 nodes of 8 GPUs" in said
    assert "1 adapter of 400 Gbit/s for each GPU" in said
    one = ask("all-reduce of 1 GB across 8 H100").outcome
    assert one is not None
    assert "adapter" not in "; ".join(one.assumed)


@pytest.mark.parametrize(
    ("question", "ranks", "per_node"),
    [
        ("all-reduce of 1 GB across 8 nodes of H100", 64, None),
        ("all-reduce of 1 GB across 4 nodes of 8 H100", 32, None),
        ("all-reduce of 1 GB on 16 H100 in 4 nodes", 16, 4),
        ("all-reduce of 1 GB on 4 nodes with 4 H100 each", 16, 4),
        ("all-reduce of 1 GB on a DGX H100", 8, None),
        ("all-reduce of 1 GB on 2 ranks of H100", 2, None),
    ],
)
def test_ranks_and_nodes(question: str, ranks: int, per_node: int | None) -> None:
    outcome = ask(question).outcome
    assert outcome is not None
    line = outcome.lines[0]
    assert f"--set collectives.ranks={ranks}" in line
    assert ("interconnect.node_ranks" in line) == (per_node is not None)
    if per_node is not None:
        assert f"--set interconnect.node_ranks={per_node}" in line


def test_a_message_beyond_the_fit_is_said() -> None:
    assert not ask("all-reduce of 1 GB on 8 H100").notes
    (note,) = ask("all-reduce of 2 GB on 8 H100").notes
    assert "512 bytes to 1 GiB" in note


def test_answers_in_other_units() -> None:
    outcome = ask("all-reduce of 1 GB on 8 H100 in microseconds").outcome
    assert outcome is not None
    value, unit = outcome.number
    assert unit == "us"
    assert value == pytest.approx(3850, rel=0.02)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("all-reduce of 1 GB on 9 nodes with 10 H100 each", "10 GPUs in a node"),
        ("all-reduce of 1 GB on 10 H100 in 4 nodes", "do not divide into 4 nodes"),
        ("all-reduce of 1 GB on one H100", "nothing to send"),
        ("all-reduce of 0 bytes on 8 H100", "no bytes"),
        ("all-reduce of 1 GB on 8 GPUs", "on which GPUs"),
        ("all-reduce of 1 GB on 8 H100 with 3 wizards", "wizards"),
        ("what does an all-reduce of 1 GB cost on 8 H100", "cost"),
    ],
)
def test_what_cannot_be_is_refused(question: str, reason: str) -> None:
    answer = ask(question)
    assert answer.outcome is None
    assert reason in str(answer.problem)
