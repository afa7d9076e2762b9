"""What plain words find first among the variables, relations and scenarios of the model."""

import pytest

import assay

QUERIES = [
    ("cost per token", "econ.cost.per_token", "econ."),
    ("price of electricity", "econ.electricity.price", ""),
    ("time to first token", "serving.step.time_to_first_token", "serving."),
    ("memory bandwidth", "gpu.memory.bandwidth", ""),
    ("power limit", "gpu.power.limit", ""),
    ("step time", "training.step_time", ""),
    ("time to train", "training.time_to_train", "training."),
    ("tokens per second", "serving.step.tokens_per_second", ""),
    ("GPU clock", "gpu.clock", "gpu."),
    ("emissions per token", "carbon.per_token", "carbon."),
]


@pytest.mark.parametrize(("text", "first", "family"), QUERIES)
def test_plain_words_find_the_family_first(text: str, first: str, family: str) -> None:
    names = [variable.name for variable in assay.list_variables(text).items]
    assert names[0] == first
    assert all(name.startswith(family) for name in names[:3])


def test_what_is_found_does_not_depend_on_the_order() -> None:
    """The same entries as contain every word, whatever comes first."""
    words = ("cost", "per", "token")
    every = assay.list_variables().items
    expected = {
        variable.name
        for variable in every
        if all(
            word in f"{variable.name} {variable.symbol} {variable.meaning}".lower()
            for word in words
        )
    }
    assert {variable.name for variable in assay.list_variables("cost per token").items} == expected


def test_relations_and_scenarios_are_ranked_too() -> None:
    assert assay.list_relations("cost per token").items[0].name == "econ.cost.per_token"
    assert assay.list_presets("llama 8b serving").items[0].name == "llama3_8b_h200_serving"


def test_without_words_the_order_is_that_of_the_model() -> None:
    by_scope = [variable.name for variable in assay.list_variables(scope="logic").items]
    model = assay.list_variables().items
    assert by_scope == [variable.name for variable in model if variable.scope == "logic"]


def test_one_name_is_no_list_of_its_letters() -> None:
    preset, target = "dense_training_cost_fixture", "econ.cost.per_token"
    assert assay.scenario_report(preset).to_json() == assay.scenario_report([preset]).to_json()
    assert assay.scenario_audit(preset).to_json() == assay.scenario_audit([preset]).to_json()
    over = {"gpu.power": "400,500 W/GPU"}
    one = assay.sweep(target, over, preset=preset).to_json()
    assert one == assay.sweep([target], over, preset=preset).to_json()
    equal = {"econ.job.dc_power": "700 kW"}
    solved = assay.solve("gpu.power", equal, preset=preset).to_json()
    assert solved == assay.solve(["gpu.power"], equal, preset=preset).to_json()
    swept = assay.sweep_steps("llama-3.1-8b", "h200", {"sequences": [1, 8]})
    assert len(swept.steps) == 2


def test_an_unknown_place_has_five_near_ones_and_where_all_are() -> None:
    with pytest.raises(assay.errors.UnknownNameError) as caught:
        assay.estimate("llama-3.1-8b", "h100_sxm", "15T", "atlantis")
    hint = str(caught.value.hint)
    assert hint.endswith("; assay catalog list tariffs lists all")
    assert hint.count(",") == 4
