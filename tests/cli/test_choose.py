"""`assay solve`, `minimize` and `sweep`, each compared with `resolve` or a closed form."""

import re
from typing import Any

import pytest

PRESET = ("--preset", "dense_training_cost_fixture")
COST = "econ.cost.per_token"


def test_solve_inverts_resolve(cli: Any) -> None:
    arguments = ("--unknown", "econ.capex.rate", "--equal", f"{COST}=1e-6 USD/token")
    outcome = cli("solve", *arguments, *PRESET)
    # 1e-6 * 1e7 tokens = 10 USD, less 0.00078 USD of power, over 1.5 s.
    assert (outcome.code, outcome.out) == (0, "econ.capex.rate = $24000 per hour\n")
    data = cli("solve", *arguments, *PRESET, "--json").data
    (found,) = data["unknowns"]
    assert found["value"] == pytest.approx((10 - 0.00078) / 1.5 * 3600, rel=1e-9)
    back = cli(
        "resolve", COST, *PRESET, "--set", f"econ.capex.rate={found['value']} USD/h", "--json"
    )
    assert back.data["value"] == pytest.approx(1e-6, rel=1e-9)


def test_solve_reports_violated_constraints(cli: Any, toy: Any) -> None:
    arguments = ("--unknown", "toy.load", "--equal", "toy.share=1.5", "--set", "toy.limit=10 W")
    lenient = cli("solve", *arguments, "--constraints")
    assert lenient.code == 0
    assert lenient.out == (
        "toy.load = 15 W\n"
        "violated: toy.load.fits: toy.load <= toy.limit, but toy.load is 15 W,\n"
        "    toy.limit is 10 W\n"
        "\n"
        "status    constraint     condition\n"
        "violated  toy.load.fits  toy.load <= toy.limit\n"
    )
    strict = cli("solve", *arguments, "--fail-on-violated-constraints")
    assert strict.code == 1
    assert strict.err.endswith("error: violated: toy.load.fits\n")


def test_solve_errors_explain_the_cause(cli: Any, toy: Any) -> None:
    under = cli(
        "solve", "--unknown", "toy.load", "--unknown", "toy.limit", "--equal", "toy.share=1"
    )
    over = cli("solve", "--set", "toy.load=1 W", "--set", "toy.limit=1 W", "--equal", "toy.share=2")
    for outcome in (under, over, cli("solve")):
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith("error: ")


def test_solve_lists_missing_inputs(cli: Any) -> None:
    arguments = ("--unknown", "gpu.clock", "--equal", "gpu.peak_flops=1 PFLOP/(s*GPU)")
    outcome = cli("solve", *arguments)
    assert outcome.code == 3
    assert outcome.out == (
        "missing input        unit   meaning\n"
        "gpu.multiprocessors  1/GPU  streaming multiprocessors\n"
        "gpu.flops_per_cycle  FLOP   dense 16-bit tensor-core FLOPs per SM and cycle\n"
    )
    data = cli("solve", *arguments, "--json").data
    assert [gap["name"] for gap in data["missing"]] == [
        "gpu.multiprocessors",
        "gpu.flops_per_cycle",
    ]
    assert "gpu.peak_flops" in data["missing"][0]["needed_by"]


def test_minimize_finds_the_most_gpus_the_site_allows(cli: Any) -> None:
    outcome = cli("minimize", COST, *PRESET, "--over", "training.gpus=1:16:16 GPU")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[:4] == [
        "econ.cost.per_token = $3.00 per million tokens",
        "  training.gpus = 8 GPU",
        "by enumeration; 8 of 16 points feasible",
        "bound by econ.job.fits_site: training.gpus <= cluster.gpus",
    ]
    assert lines[-5] == "$3.36 per million tokens  training.gpus = 7 GPU"


def test_minimize_options(cli: Any) -> None:
    over = ("--over", "training.gpus=1,8,16 GPU")
    dear = cli("minimize", COST, *PRESET, *over, "--maximize", "--json").data
    assert dear["choices"] == [{"name": "training.gpus", "value": 1, "unit": "GPU"}]
    free = cli("minimize", COST, *PRESET, *over, "--ignore-constraints", "--json").data
    assert free["choices"][0]["value"] == 16
    few = cli("minimize", COST, *PRESET, *over, "--alternatives", "0", "--json").data
    assert few["alternatives"] == []


def test_minimize_refines_in_a_range(cli: Any) -> None:
    data = cli("minimize", COST, *PRESET, "--over", "econ.capex.rate=5..20 USD/s", "--json").data
    assert data["choices"][0]["value"] == pytest.approx(5 * 3600)
    assert data["value"] == pytest.approx((5 * 1.5 + 0.00078) / 1e7)


def test_minimize_chooses_between_relations(cli: Any, toy: Any) -> None:
    given = ("--set", "toy.load=5 W", "--set", "toy.limit=10 W")
    data = cli(
        "minimize", "toy.cost", *given, "--over", "variant:toy.cost=cost.by_load,cost.by_limit"
    )
    assert data.code == 0
    assert "  variant:toy.cost = toy.cost.by_load\n" in data.out
    assert data.err == ""


def test_minimize_without_a_feasible_point(cli: Any) -> None:
    outcome = cli("minimize", COST, *PRESET, "--over", "training.gpus=16,32 GPU")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: none of 2 points fulfills every constraint")


def test_sweep_agrees_with_resolve_point_by_point(cli: Any) -> None:
    over = ("--over", "training.gpus=2,8 GPU", "--over", "gpu.power=400:700:2 W/GPU")
    data = cli("sweep", COST, "training.tokens_per_second", *PRESET, *over, "--json").data
    assert [(row["training.gpus"], row["gpu.power"]) for row in data["rows"]] == [
        (2, 400), (2, 700), (8, 400), (8, 700),
    ]  # fmt: skip
    for row in data["rows"]:
        point = (
            "--set", f"training.gpus={row['training.gpus']} GPU",
            "--set", f"gpu.power={row['gpu.power']} W/GPU",
        )  # fmt: skip
        for target in (COST, "training.tokens_per_second"):
            value = cli("resolve", target, *PRESET, *point, "--json").data["value"]
            assert row[target] == pytest.approx(value, rel=1e-12)


def test_sweep_as_text(cli: Any) -> None:
    over = ("--over", "training.gpus=8,16 GPU")
    assert cli("sweep", COST, *PRESET, *over).out == (
        "n: training.gpus [GPU], GPUs in the job\n"
        "c_tok: econ.cost.per_token [USD per million tokens], cost per training token\n"
        "\n"
        " n  c_tok  constraints\n"
        " 8      3  holds\n"
        "16   1.75  violated: econ.job.fits_site, bounds of econ.job.share\n"
        "violated at 1 of 2 points: econ.job.fits_site: training.gpus <= cluster.gpus\n"
        "violated at 1 of 2 points: bounds of econ.job.share: 0 <= econ.job.share <=\n"
        "    1\n"
    )
    strict = cli("sweep", COST, *PRESET, *over, "--fail-on-violated-constraints")
    assert strict.code == 1


def test_ends_of_a_summary_are_told_apart(cli: Any) -> None:
    over = ("--over", "econ.electricity.price=0.03,0.2 USD/kWh")
    said = cli("sweep", COST, *PRESET, *over, "--summary").out
    # 2.167 Wh a run of ten million tokens that costs 30 dollars beside.
    expected = [3.0 + 13 / 6 * 1e-3 * price * 0.1 for price in (0.03, 0.2)]
    shown = re.findall(r"^(?:least|most) +(\S+) ", said, re.M)
    assert [float(text) for text in shown] == pytest.approx(expected, rel=2e-6)
    assert shown[0] != shown[1]
    assert "value [USD per million tokens]" in said


def test_sweep_has_null_where_there_is_no_value(cli: Any, toy: Any) -> None:
    given = ("--set", "toy.load=5 W", "--over", "toy.limit=0,1 W")
    data = cli("sweep", "toy.share", *given, "--json").data
    assert [row["toy.share"] for row in data["rows"]] == [None, 5]
    assert "\n0  -  unknown\n" in cli("sweep", "toy.share", *given).out


def test_logarithmic_grids_are_even_in_ratio(cli: Any, toy: Any) -> None:
    given = ("--set", "toy.limit=1 W", "--over", "toy.load=1:1000:4:log mW")
    rows = cli("sweep", "toy.share", *given, "--json").data["rows"]
    assert [row["toy.load"] for row in rows] == pytest.approx([1e-3, 1e-2, 1e-1, 1])


@pytest.mark.parametrize(
    ("over", "error"),
    [
        ((), "nothing to vary: --over is missing"),
        (("training.gpus",), 'malformed --over "training.gpus": expected name=values'),
        (("training.gpus=",), 'malformed --over "training.gpus=": expected name=values'),
        (("training.gpus=1:2",), 'malformed values "1:2" for training.gpus'),
        (("training.gpus=1:2:0 GPU",), "training.gpus: expected 1 to 10,000,000 values, got 0"),
        (("training.gpus=1:2:99999999999 GPU",), "training.gpus: expected 1 to 10,000,000 values"),
        (("training.gpus=1:2:3:log:4 GPU",), "malformed unit"),
        (("training.gpus=1,,2 GPU",), 'malformed value ""'),
        (("training.gpus=1,2 W",), "unit mismatch in training.gpus: expected GPU, got W"),
        (("training.gpus=1,2",), "training.gpus has no unit"),
        (("training.gpus=-1,2 GPU",), "training.gpus: expected > 0"),
        (("training.gpus=0:10:2:log GPU",), "training.gpus: expected > 0"),
        (("training.gpus=nan GPU",), 'malformed value "nan GPU"'),
        (("training.gpu=1 GPU",), 'unknown variable "training.gpu"'),
        (("training.gpus=1 GPU", "training.gpus=2 GPU"), "contradictory --over: training.gpus"),
    ],
)
@pytest.mark.parametrize("command", ["sweep", "minimize"])
def test_malformed_axis_values_are_refused(
    cli: Any, command: str, over: tuple[str, ...], error: str
) -> None:
    outcome = cli(command, COST, *PRESET, *(word for item in over for word in ("--over", item)))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert error in outcome.err.splitlines()[0]


def test_sweep_has_a_limit(cli: Any) -> None:
    million = ("--over", "training.gpus=1:1000000:1000000 GPU")
    outcome = cli("sweep", COST, *PRESET, *million, "--over", "gpu.power=1,2 W/GPU")
    assert (outcome.code, outcome.out) == (2, "")
    assert "the axes make 2000000 points, more than the limit" in outcome.err


@pytest.mark.parametrize("text", ["5..1 W", "5..5 W", "..", "1..", "..2 W"])
def test_malformed_ranges_are_refused(cli: Any, toy: Any, text: str) -> None:
    outcome = cli("minimize", "toy.share", "--set", "toy.limit=1 W", "--over", f"toy.load={text}")
    assert (outcome.code, outcome.out) == (2, "")


def test_solve_says_which_whole_values_lie_on_either_side(cli: Any) -> None:
    command = (
        "solve", "--unknown", "cluster.nodes", "--equal", "cluster.gpus=1000 GPU",
        "--set", "cluster.node.gpus=6 GPU/node",
    )  # fmt: skip
    outcome = cli(*command)
    assert outcome.code == 0
    assert "counts are whole; on either side:" in outcome.out
    assert "cluster.nodes = 166 node: cluster.gpus = 996 GPU" in outcome.out
    assert "cluster.nodes = 167 node: cluster.gpus = 1002 GPU" in outcome.out
    below, above = cli(*command, "--json").data["whole"]
    assert [side["unknowns"][0]["value"] for side in (below, above)] == [166, 167]


def test_two_presets_are_refused(cli: Any) -> None:
    outcome = cli("resolve", COST, *PRESET, "--preset", "llama3_8b_h200_serving")
    assert outcome.code == 2
    assert outcome.err.startswith(
        "error: expected one --preset, got 2: dense_training_cost_fixture, llama3_8b_h200_serving\n"
    )
    assert cli("resolve", COST, *PRESET, *PRESET).code == 0
