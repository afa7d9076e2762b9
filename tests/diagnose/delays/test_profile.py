"""Causal profiles of graphs whose critical branch is known."""

import random
from collections.abc import Mapping

import pytest

from assay.diagnose.delays import GraphTarget, Run, TargetNode, profile
from assay.diagnose.delays.design import Group, block, groups
from assay.diagnose.delays.graph_target import chains
from assay.errors import InputError
from assay.runtime import Device
from assay.runtime.graphs import capture_graph
from branch_graphs import BranchGraph, branch_graph, random_durations


@pytest.fixture(scope="module")
def sim() -> Device:
    return Device("sim")


@pytest.mark.parametrize("seed", range(4))
def test_simulated_branches_have_slopes_of_exactly_one_and_zero(sim: Device, seed: int) -> None:
    source = random.Random(seed)
    case = branch_graph(sim, random_durations(source, 2_000_000))
    found = profile(case.graph, nodes=["branch*"], budget=30, seed=seed)
    for branch in range(len(case.durations_ns)):
        for name in case.names(branch):
            one = found.of(name)
            expected = 1.0 if branch == case.critical else 0.0
            assert one.slope == pytest.approx(expected, abs=1e-9), name
            assert one.verdict == ("critical" if branch == case.critical else "hidden")
            assert one.doses_ns == pytest.approx(one.requested_ns, abs=3)
    assert {node for one in found.critical for node in one.nodes} == set(case.names(case.critical))
    assert found.degradations == ()


def test_a_delay_past_the_slack_is_partly_hidden(sim: Device) -> None:
    case = branch_graph(sim, [[5_000_000], [4_800_000]])
    found = profile(case.graph, nodes=["branch*"], doses=[300_000, 400_000])
    one = found.of("branch1.0")
    assert one.verdict == "partly hidden"
    # The slack is the difference of the branches, but for the copies and fills of a few us.
    assert one.absorbed_ns == pytest.approx(200_000, rel=0.05)
    assert one.effects_ns == pytest.approx((100_000, 200_000), rel=0.1)
    assert found.of("branch0.0").verdict == "critical"


def test_nodes_between_two_waits_are_one_chain(sim: Device) -> None:
    case = branch_graph(sim, [[2_000_000, 1_000_000], [1_500_000]])
    labels = [node.label for node in case.graph.nodes]
    chain_of = dict(zip(labels, chains(case.graph.nodes), strict=True))
    assert chain_of["branch0.0"] == chain_of["fill0.0"] == chain_of["branch0.1"]
    assert chain_of["start1"] == chain_of["branch1.0"] == chain_of["fill1.0"]
    assert len({chain_of["root"], chain_of["branch0.0"], chain_of["branch1.0"]}) == 3
    found = profile(case.graph, nodes=["branch*"])
    assert [one.name for one in found] == ["branch0.0..branch0.1", "branch1.0"]
    one_stream = capture_graph(lambda: case.work.queue(0), device=sim)
    assert chains(one_stream.nodes) == ["0"]


def test_a_group_of_critical_and_hidden_nodes_is_split() -> None:
    nodes = [f"layers.{layer}.mlp" for layer in range(5)]
    target = Synthetic({name: float(name == "layers.3.mlp") for name in nodes}, noise=0.5)
    target.nodes = tuple(TargetNode(name, "mlp") for name in nodes)
    found = profile(target, budget=30)
    assert found.of("layers.3.mlp").nodes == ("layers.3.mlp",)
    assert [one.name for one in found.critical] == ["layers.3.mlp"]
    hidden = {node for one in found if one.verdict == "hidden" for node in one.nodes}
    assert hidden == set(nodes) - {"layers.3.mlp"}


class Synthetic:
    """A target of known slopes and noise, which takes no time."""

    least_delay_ns = 1

    def __init__(self, slopes: Mapping[str, float], noise: float) -> None:
        self.slopes = slopes
        self.noise = noise
        self.source = random.Random(1)
        self.nodes = tuple(TargetNode(name, name) for name in slopes)

    def plain(self) -> float:
        return 950.0

    def run(self, delays_ns: Mapping[str, int]) -> Run:
        added = sum(self.slopes[name] * delay for name, delay in delays_ns.items())
        disturbed = self.source.expovariate(1 / 500) if self.source.random() < 0.05 else 0.0
        step = 1000.0 + added + self.source.gauss(0, self.noise) + disturbed
        return Run(step, float(sum(delays_ns.values())))


def test_noisy_targets_need_more_blocks_and_are_decided() -> None:
    slopes = {"attention": 1.0, "mlp": 0.0, "copy": 0.5, "head": 1.0, "sampling": 0.0}
    found = profile(Synthetic(slopes, noise=25.0), budget=60)
    verdicts = {one.name: one.verdict for one in found}
    assert verdicts == {
        "attention": "critical",
        "head": "critical",
        "copy": "partly hidden",
        "mlp": "hidden",
        "sampling": "hidden",
    }
    assert max(one.blocks for one in found) > min(one.blocks for one in found) == 8
    assert all(one.lo <= slopes[one.name] <= one.hi for one in found)
    assert found.overhead == pytest.approx(50 / 950, abs=0.03)


def test_what_noise_hides_is_undecided_and_said_so() -> None:
    found = profile(Synthetic({"attention": 1.0}, noise=5_000.0), budget=60)
    [one] = found
    assert (one.verdict, one.blocks) == ("undecided", 64)
    assert one.lo < 1.0 < one.hi
    assert found.degradations == (
        "delays are 10% to 20% of a step: noise would hide smaller ones",
        "undecided: 1 of 1",
    )


def test_a_block_has_every_dose_once_and_controls_in_random_order() -> None:
    treated = [Group(name, name, (name,)) for name in ("a", "b", "c")]
    source = random.Random(7)
    blocks = [block(treated, [10, 20], source) for _ in range(50)]
    for one in blocks:
        doses = sorted((run.group.name, run.dose_ns) for run in one if run.group is not None)
        assert doses == [(name, dose) for name in "abc" for dose in (10, 20)]
        assert sum(run.group is None for run in one) == 3
    first = [one[0].group.name if one[0].group else "control" for one in blocks]
    assert set(first) == {"a", "b", "c", "control"}
    assert blocks[0] == block(treated, [10, 20], random.Random(7))


def test_bad_questions_are_named(sim: Device) -> None:
    case = branch_graph(sim, [[1_000_000], [500_000]])
    for options, message in (
        ({"nodes": ["mlp"]}, 'nodes: expected nodes or operations of the step, got "mlp"'),
        ({"doses": [2]}, "doses: expected from 3 to 1,000,000,000 ns, got 2"),
        ({"doses": []}, "doses: expected from 3 to 1,000,000,000 ns, got none"),
        ({"doses": [2e9]}, "doses: expected from 3 to 1,000,000,000 ns, got 2,000,000,000"),
        ({"budget": 0}, "budget: expected at least"),
        ({"replays": 0}, "replays: expected at least 1, got 0"),
    ):
        with pytest.raises(InputError) as raised:
            profile(case.graph, **options)
        assert raised.value.message.startswith(message)
    with GraphTarget(case.graph) as target, pytest.raises(TypeError, match="takes no options"):
        profile(target, replays=2)
    # The root, and a chain for each branch.
    assert len(groups(target.nodes)) == 3


def _is_found(case: BranchGraph, seed: int) -> bool:
    """Whether the nodes of the critical branch are called critical, and no other is."""
    found = profile(case.graph, nodes=["branch*"], budget=120, seed=seed)
    named = {node for one in found.critical for node in one.nodes}
    return named == set(case.names(case.critical))


def test_branches_on_the_cpu_hide_a_delay_or_show_it() -> None:
    """The real clock: delays that are long beside what a busy machine does to a replay."""
    case = branch_graph(Device("cpu"), [[1_000_000], [100_000_000]])
    with GraphTarget(case.graph, replays=3) as target:
        control = target.run({})
        hidden = target.run({"branch0.0": 50_000_000})
        critical = target.run({"branch1.0": 50_000_000})
    assert control.spent_ns == 0
    assert hidden.spent_ns >= 50_000_000 <= critical.spent_ns
    assert control.step_ns >= 100_000_000
    assert hidden.step_ns < 140_000_000
    assert critical.step_ns >= 150_000_000


@pytest.mark.slow
def test_the_critical_branch_is_found_in_95_of_100_cases_on_the_cpu() -> None:
    device = Device("cpu")
    source = random.Random(2024)
    found = 0
    for seed in range(100):
        case = branch_graph(device, random_durations(source, 2_000_000), fill_bytes=1 << 20)
        found += _is_found(case, seed)
        case.graph.close()
        print(f"critical branch found in {found} of {seed + 1} cases", flush=True)
    assert found >= 95
