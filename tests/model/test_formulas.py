"""Formulas that relations share: tapes of a stored registry against the relations' own expressions."""

from __future__ import annotations

import pytest

from assay import stack
from assay.model.declaration_records import from_bytes, to_bytes
from assay.model.language.encoding import evaluate_entries
from assay.model.registry import Registry
from assay.model.tapes.formulas import Formula
from assay.scenario import built_in


@pytest.fixture(scope="module")
def stored() -> Registry:
    declared = stack.registry()
    records, key = from_bytes(to_bytes(declared.to_data(), declared.key))
    assert key == declared.key
    return Registry(records)


def test_a_stored_registry_has_the_same_declarations(stored: Registry) -> None:
    assert stored.to_data() == stack.registry().to_data()
    assert stored.targets == stack.registry().targets
    for name, relation in stack.registry().relations.items():
        assert stored.relations[name].inputs == relation.inputs


def test_shared_formulas_compute_what_the_expressions_say(stored: Registry) -> None:
    """Every relation with a formula, at the point of a training and of a serving scenario."""
    compared = 0
    for preset in ("llama3_8b_8_h100_training", "llama3_8b_h200_serving"):
        scenario = built_in.preset(preset)
        values = dict(scenario.inputs.values)
        for _, target in scenario.targets:
            values |= scenario.registry.resolve(
                target, scenario.inputs, scenario.variants, intervals=False
            ).values
        for name, record in stored.records.relations.items():
            relation = stored.relations[name]
            if record.formula is None or not set(relation.inputs) <= values.keys():
                continue
            exact = evaluate_entries(relation.entries("expression"), values)
            assert relation.evaluate_rhs(values) == pytest.approx(exact, rel=1e-13), name
            compared += 1
    assert compared > 100


def test_formulas_are_stored_once(stored: Registry) -> None:
    used = [r.formula for r in stored.records.relations.values() if isinstance(r.formula, Formula)]
    assert len(used) > 2 * len(set(map(id, used))) > 0


def test_a_formula_without_a_finite_value_names_the_operation(stored: Registry) -> None:
    name = next(n for n, r in stored.records.relations.items() if r.formula is not None)
    relation = stored.relations[name]
    with pytest.raises(Exception, match="has no finite value"):
        relation.evaluate_rhs(dict.fromkeys(relation.inputs, float("nan")))


def test_a_value_alone_is_that_of_its_account() -> None:
    scenario = built_in.preset("dense_training_cost_fixture")
    for _, target in scenario.targets:
        account = scenario.registry.resolve(target, scenario.inputs, scenario.variants)
        assert scenario.registry.value(target, scenario.inputs, scenario.variants) == account.value
    assert stack.registry().value("econ.cost.per_token") is None
