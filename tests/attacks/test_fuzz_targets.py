"""A few damaged inputs of every fuzz target; `make fuzz` tries many."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from fuzz_targets import FEW, NAMES, REFUSALS, Target, targets

from assay.errors import AssayError

COUNTS = {**dict.fromkeys(NAMES, 12), "run": 3}
"""Damaged inputs of each target: about a tenth of a second in all."""


@pytest.fixture(scope="module")
def all_targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    with targets(tmp_path_factory.mktemp("fuzz"), FEW) as found:
        assert set(found) == set(NAMES)
        yield found


@pytest.mark.parametrize("name", NAMES)
def test_valid_inputs_are_accepted(all_targets: dict[str, Target], name: str) -> None:
    target = all_targets[name]
    seed, valid = next(iter(target.seeds.items()))
    target.use(seed, valid)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_inputs_are_accepted_or_refused(all_targets: dict[str, Target], name: str) -> None:
    target, chance, refused = all_targets[name], Random(name), 0
    for _ in range(COUNTS[name]):
        seed = chance.choice(sorted(target.seeds))
        damaged = target.damage(target.seeds[seed], chance)
        try:
            target.use(seed, damaged)
        except (AssayError, *REFUSALS):
            refused += 1
    assert refused, "damage is noticed"
