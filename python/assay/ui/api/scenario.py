"""The scenario of a request: a preset, catalog entries, values and variants, all by name.

The command line also reads scenarios and entries from files. Over HTTP it must not: a request could
otherwise ask what any file of this machine holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query

from assay.answers import Answer, json_text
from assay.errors import InputError, unknown_name
from assay.scenario import built_in
from assay.scenario.question import Given

ExportedAnswer = tuple[str, Callable[[], Answer]]
"""A request of an exported site, as `keyOf` of the pages writes it, and what answers it."""


def compact(answer: Answer) -> str:
    """The JSON of an answer without its spaces: a site has many such files."""
    return json.dumps(json.loads(json_text(answer)), separators=(",", ":"))


MOST_VALUES = 200
"""Values, entries or variants of a request."""

Preset = Annotated[str | None, Query(description="A built-in scenario.")]
Includes = Annotated[
    list[str] | None,
    Query(alias="with", max_length=MOST_VALUES, description="Catalog entries, GROUP/NAME."),
]
Values = Annotated[
    list[str] | None,
    Query(max_length=MOST_VALUES, description="Values, NAME=VALUE UNIT, or distributions."),
]
Variants = Annotated[
    list[str] | None, Query(max_length=MOST_VALUES, description="Relations, VARIABLE=RELATION.")
]


@dataclass(frozen=True)
class Scenario:
    """What a request gives; hashable, so that answers can be kept."""

    preset: str | None
    includes: tuple[str, ...]
    values: tuple[str, ...]
    variants: tuple[str, ...]

    @property
    def given(self) -> Given:
        """What a question takes of it."""
        return {
            "preset": self.preset,
            "assign": self.values,
            "variant": self.variants,
            "includes": self.includes,
        }


def read_scenario(
    preset: Preset = None,
    includes: Includes = None,
    assign: Values = None,
    variant: Variants = None,
) -> Scenario:
    """The scenario that the query of a request names; refuses what would read a file."""
    for entry in includes or ():
        check_entry(entry)
    return Scenario(
        check_preset(preset) if preset else None,
        tuple(includes or ()),
        tuple(assign or ()),
        tuple(variant or ()),
    )


def check_preset(name: str) -> str:
    """The name of a built-in scenario."""
    if name not in built_in.presets():
        raise unknown_name("scenario", name, built_in.presets())
    return name


def check_entry(path: str) -> None:
    """Refuse an entry that is a file."""
    if path.endswith(".json"):
        raise InputError(
            f'"{path}": expected an entry of the catalog, GROUP/NAME, got a file',
            "files can be included on the command line",
        )


ScenarioQuery = Annotated[Scenario, Depends(read_scenario)]
