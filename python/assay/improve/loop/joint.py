"""The joint search: after single levers, all knobs together, by what the trials taught."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from assay.improve.levers.applicability import domain
from assay.improve.levers.lever import Candidate, joined
from assay.improve.loop.state import RunState, Trial
from assay.improve.loop.trials import product
from assay.improve.policy.search import Search
from assay.load.workloads.measurement import Setting

SEARCHED: Final = "joint search over the trials so far"
"""Why a candidate of the search is tried."""
OF_THE_VALUES: Final = frozenset({"crash", "hang", "timeout"})
"""Failures of the values that were tried; memory, and what is refused, may be a matter of others in force."""


class JointSearch:
    """Drives `Search`, whose settings and ratios are relative to the start."""

    def __init__(self, state: RunState) -> None:
        """Over every knob and value of the candidates."""
        self._state = state
        self._candidates = list(state.chosen.ranked)
        self._ran = set(state.start.items())
        """Values that the engine has served with."""
        self._space = domain(self._candidates, state.start)
        predictions = {
            next(iter(candidate.changes.items())): candidate.prediction
            for candidate in self._candidates
            if candidate.prediction is not None and len(candidate.changes) == 1
        }
        self._search = Search(
            self._space,
            state.start,
            predictions=predictions,
            constraints=state.chosen.constraints,
            seed=state.options.seed,
            least_gain=state.options.threshold,
            singles=False,
        )
        for trial in state.trials:
            self.learn(trial)

    def forbids(self, candidate: Candidate) -> str | None:
        """Why an earlier failure says that a candidate would fail."""
        settings = {**self._state.start, **self._state.stack.changes, **candidate.changes}
        return self._search.constraints.forbids(settings)

    def learn(self, trial: Trial) -> None:
        """Take a trial, on top of changes that had gained something over the start."""
        result, gained = trial.result, trial.before.gained
        changes = {**trial.before.changes, **result.candidate.changes}
        known = {name: value for name, value in changes.items() if self._is_known(name, value)}
        if any(block.arm == "treatment" for block in result.blocks) and not result.failure:
            self._ran.update(changes.items())
        refused = next((gate.gate for gate in result.gates if not gate.passed), None)
        if result.failure in OF_THE_VALUES:
            blamed = self._blamed(result.candidate.changes)
            self._search.tell(
                {knob: known[knob] for knob in blamed if knob in known}, result.failure
            )
            self._say_forbidden(blamed, result.failure)
        elif result.failure:
            self._search.tell(known, result.failure)
        elif refused is not None and result.verdict != "undecided":
            # Final: what a gate refused once is not tried again, alone or with other changes.
            own = {knob: known[knob] for knob in result.candidate.changes if knob in known}
            self._search.tell(own or known, f"refused ({refused})")
        elif result.ratio is not None and result.ratio.value > 0 and result.verdict != "invalid":
            self._search.tell(known, product(result.ratio, gained))

    def next(self) -> Candidate | None:
        """The next settings to try, as a change of those in force; None where nothing is left."""
        if not self._space:
            return None
        while (asked := self._search.ask()) is not None:
            now = {**self._state.start, **self._state.stack.changes}
            wanted = {**self._state.start, **asked}
            changes = {knob: wanted[knob] for knob in self._space if wanted[knob] != now[knob]}
            if changes:
                return self._joint(changes)
            # In force already: the search must learn that, or it would ask for ever.
            self._search.tell(asked, self._state.stack.gained)
        return None

    def _joint(self, changes: Mapping[str, Setting]) -> Candidate:
        """Changes of several levers as one candidate, of the strictest classes among them."""
        owners = [
            candidate
            for candidate in self._candidates
            if any(changes.get(knob) == value for knob, value in candidate.changes.items())
        ] or self._candidates
        return replace(joined(owners, changes), predicted_by=SEARCHED)

    def _blamed(self, changes: Mapping[str, Setting]) -> Mapping[str, Setting]:
        """Of a change that failed, the values that never ran; all of it where each of them had.

        What was kept before has run: the change is not tried again on top of anything else.
        """
        never = {knob: value for knob, value in changes.items() if (knob, value) not in self._ran}
        return never or changes

    def _say_forbidden(self, changes: Mapping[str, Setting], failure: str) -> None:
        shown = ", ".join(f"{knob}={value}" for knob, value in changes.items())
        note = f"{shown}: {failure}, not tried again in this run, alone or with other changes"
        if note not in self._state.notes:
            self._state.notes.append(note)

    def _is_known(self, knob: str, value: Setting) -> bool:
        return value in self._space.get(knob, ())
