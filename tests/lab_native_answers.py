"""Answers from the tape of the whole model, as the page reads it, evaluated by the extension."""

from __future__ import annotations

from typing import Any

import numpy as np

from assay import stack
from assay.errors import AssayError
from assay.model.language.distributions import Distribution
from assay.model.selection import find_variant
from assay.model.tapes.whole import UNKNOWN, WholeTape, whole_tape
from assay.scenario.lab import chosen_scenario
from assay.scenario.refusals import refusals

STATUS = {1.0: "true", 0.0: "false", UNKNOWN: "unknown"}


class NativeAnswers:
    """Evaluates one tape at the point of each question."""

    def __init__(self) -> None:
        self.registry = stack.registry()
        rules = [part for refusal in refusals() for part in (refusal.condition, *refusal.numbers)]
        self.whole: WholeTape = whole_tape(self.registry, rules)
        self.inputs = _places(self.whole.inputs)
        self.outputs = _places(self.whole.outputs)

    def __call__(self, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.answer(question) for question in questions]

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        selection = question["selection"]
        try:
            scenario = chosen_scenario(
                self.registry, selection["preset"], selection["with"], selection["variants"]
            )
        except AssayError as error:
            return {"refused": [error.message]}
        given = {n: v for n, v in scenario.given.items() if n not in question["forget"]}
        given |= {name: a["value"] for name, a in selection["assign"].items()}
        point = self.point(given, scenario.variants)
        out = self.evaluate(point)
        relation = {r.name: r for r in self.registry.relations.values()}
        return {
            "refused": [str(n) for n, k in self.refused(out)],
            "targets": [
                self.target(point, out, target, relation) for target in question["targets"]
            ],
            "constraints": [
                [name, STATUS[out[self.outputs["constraint", name]]]]
                for name in self.whole.outputs["constraint"]
            ],
            "conflicts": sorted(
                name
                for name in self.whole.outputs["conflict"]
                if out[self.outputs["conflict", name]]
            ),
            "notes": list(scenario.notes),
        }

    def refused(self, out: Any) -> list[tuple[int, Any]]:
        place = 0
        found = []
        for refusal in refusals():
            if out[self.outputs["rule", str(place)]]:
                found.append((place, refusal))
            place += 1 + len(refusal.numbers)
        return found

    def point(self, given: dict[str, Any], variants: dict[str, str]) -> Any:
        point = np.zeros(len(self.inputs))
        for name, value in given.items():
            is_exact = not isinstance(value, Distribution)
            point[self.inputs["value", name]] = value if is_exact else value.median()
            point[self.inputs["given", name]] = 1.0
            if ("exact", name) in self.inputs:
                point[self.inputs["exact", name]] = float(is_exact)
        for name, text in variants.items():
            if ("variant", name) not in self.inputs:
                continue
            variable = self.registry.variables[name]
            number = variable.defining_equations.index(find_variant(variable, text)) + 1
            point[self.inputs["variant", name]] = number
        return point

    def evaluate(self, point: Any) -> Any:
        out = np.empty((len(self.outputs), 1))
        self.whole.tape.evaluate(point.tolist(), 1, out.data)
        return out[:, 0]

    def cone(self, point: Any, target: str) -> set[str]:
        """Names whose probe moves the target's gap."""
        seeds = np.zeros(len(self.outputs))
        seeds[self.outputs["gap", target]] = 1.0
        gradient = np.empty((len(self.inputs), 1))
        self.whole.tape.vjp(point.tolist(), 1, seeds.tolist(), gradient.data)
        return {
            name
            for name in self.whole.inputs["probe"]
            if gradient[self.inputs["probe", name], 0] != 0
        }

    def target(self, point: Any, out: Any, target: str, relation: Any) -> dict[str, Any]:
        gap = out[self.outputs["gap", target]]
        value = out[self.outputs["value", target]] if gap == 0 else None
        if np.isnan(gap):
            return {
                "value": None,
                "reason": "failed",
                "missing": [],
                "switches": [],
                "validity": [],
            }
        cone = self.cone(point, target)
        variables = self.registry.variables
        computed = [
            n for n in cone if not variables[n].is_root and not point[self.inputs["given", n]]
        ]
        used = {}
        switches = []
        for name in computed:
            relations = variables[name].defining_equations
            number = 0
            if ("relation", name) in self.outputs:
                number = int(out[self.outputs["relation", name]])
                chosen = int(point[self.inputs["variant", name]]) - 1
                first = chosen if chosen >= 0 else _default(relations)
                if number != first:
                    switches.append([name, relations[first].name, relations[number].name])
            used[name] = relations[number]
        return {
            "value": value,
            "reason": "",
            "missing": sorted(
                n
                for n in cone
                if gap > 0 and variables[n].is_root and not point[self.inputs["given", n]]
            ),
            "switches": sorted(switches),
            "validity": sorted(
                [r.name, STATUS[out[self.outputs["validity", r.name]]]]
                for r in used.values()
                if r.validity is not None
            ),
        }


def _default(relations: Any) -> int:
    identities = [n for n, relation in enumerate(relations) if relation.is_identity]
    return (identities or [0])[0]


def _places(sections: Any) -> dict[tuple[str, str], int]:
    pairs = [(section, name) for section, names in sections.items() for name in names]
    return {pair: place for place, pair in enumerate(pairs)}
