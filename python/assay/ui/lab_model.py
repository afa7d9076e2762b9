"""The model as the page of the lab reads it: one tape, and what its inputs and outputs mean."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from assay.model.language.distributions import Z90
from assay.model.language.normal import normal_quantile
from assay.model.tapes.draws import ASSIGNED, INPUTS, KIND_NUMBERS, draw_tape
from assay.model.tapes.portable import portable_variables
from assay.model.tapes.whole import WholeTape, whole_tape
from assay.scenario.refusals import refusals
from assay.ui import assets

if TYPE_CHECKING:
    from assay.model.registry import Registry

MACHINE: Final = assets.FOLDER / "assay_tape.wasm"
"""The crate assay-tape, built for WebAssembly."""
POINTS: Final = 512
"""Points that the page draws for an interval; `assay resolve` draws more."""


def model_tape(registry: Registry) -> WholeTape:
    """The whole model with the refusals of scenarios as one tape."""
    rules = [part for refusal in refusals() for part in (refusal.condition, *refusal.numbers)]
    return whole_tape(registry, rules)


def model_facts(registry: Registry) -> dict[str, Any]:
    """Variables, units and conditions, and the names of the tape's inputs and outputs."""
    import numpy as np

    whole = model_tape(registry)
    portable = portable_variables(registry)
    variables = portable["variables"]
    position = {variable["name"]: place for place, variable in enumerate(variables)}
    for variable in variables:
        variable["relation"] = _preferred(registry, variable["name"])
        if registry.variables[variable["name"]].is_root:
            # Alternatives to a value that is given are not on the tape.
            variable |= {"relations": [], "relation": -1}
    cells = (np.arange(POINTS) + 0.5) / POINTS
    return {
        "variables": variables,
        "units": portable["units"],
        "inputs": {section: len(part) for section, part in whole.inputs.items()},
        "outputs": {section: len(part) for section, part in whole.outputs.items()},
        # Sections that are not about every variable name theirs by position.
        "computed": [position[name] for name in whole.outputs["computed"]],
        "several": [position[name] for name in whole.outputs["relation"]],
        "exact": [position[name] for name in whole.inputs["exact"]],
        "constraints": [
            {"name": c.name, "text": c.text, "meaning": c.meaning}
            for c in registry.constraints.values()
        ],
        "validity": [
            {"name": name, "text": str(registry.relations[name].validity)}
            for name in whole.outputs["validity"]
        ],
        "refusals": [
            {"text": refusal.text, "numbers": len(refusal.numbers)} for refusal in refusals()
        ],
        "draw": {
            "tape": base64.b64encode(draw_tape().to_bytes()).decode(),
            "inputs": list(INPUTS),
            "assigned": KIND_NUMBERS[ASSIGNED],
            "scores": normal_quantile(cells).tolist(),
            "end": Z90,
        },
    }


def _preferred(registry: Registry, name: str) -> int:
    """The number of the relation that defines a variable where no variant is chosen; -1 of none."""
    relations = list(registry.variables[name].defining_equations)
    identities = [n for n, relation in enumerate(relations) if relation.is_identity]
    preferred = identities or list(range(len(relations)))
    return preferred[0] if len(preferred) == 1 else -1
