"""What a recording of telemetry says about the causes of slow steps: claims, and what moves first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from assay.array_types import Flags, Floats
from assay.diagnose.statistics.claim import CausalClaim, make_claim
from assay.diagnose.statistics.effect import NotIdentifiedError
from assay.diagnose.statistics.lagged import Dependence, Screen, lagged_screen
from assay.diagnose.statistics.observations import UNIT, Observations
from assay.errors import InputError
from assay.lazy_import import pl

LOAD: Final = ("batch", "context", "prefill_share", "running", "prompt_tokens")
"""What the workload asks for: a common cause of the machine's state and of the outcome."""

LAGS: Final = 5


@dataclass(frozen=True, slots=True)
class State:
    """A state that may be a cause: where it is on, and what it must be adjusted for."""

    mechanism: str
    """The cause's name in `assay.diagnose.mechanisms`."""
    column: str
    above: float
    """The state is on where the column is larger."""
    also: tuple[str, ...]
    """Other states that are common causes; what the state acts through (the clock, for throttling)
    must not be adjusted for: that would remove the effect."""
    shown_by: tuple[str, ...] = ()
    """Columns that the state moves: lagged dependence on one of them speaks for it."""


STATES: Final = (
    State("throttling", "throttling", 0.5, ("neighbor", "cpu_pressure"), ("sm_clock",)),
    State("noisy neighbor", "neighbor", 0.5, ("cpu_pressure",)),
    State("host CPU starvation", "cpu_pressure", 0.1, ("neighbor",)),
    State("hypervisor steal", "steal", 0.02, ("neighbor", "cpu_load")),
    State("cgroup CPU quota", "cgroup_throttled", 0.0, ("neighbor",)),
    State("queueing", "waiting", 0.5, ()),
    State("KV cache full", "kv_usage", 0.95, ()),
    State("pre-emption", "preempted", 0.5, ()),
)


@dataclass(frozen=True, slots=True)
class TelemetryClaims:
    """Claims by mechanism, the discoveries of the lagged screen, and what could not be asked."""

    claims: Mapping[str, CausalClaim]
    screen: Screen | None
    degradations: tuple[str, ...] = ()

    def dependences(self, mechanism: str) -> list[Dependence]:
        """The surest discovery of the screen for each series that speaks for a mechanism."""
        series = {
            column
            for state in STATES
            if state.mechanism == mechanism
            for column in (state.column, *state.shown_by)
        }
        surest: dict[str, Dependence] = {}
        for dependence in self.screen or ():
            if dependence.series in series:
                surest.setdefault(dependence.series, dependence)
        return list(surest.values())


def claims_of(observed: Observations, mechanisms: Collection[str] | None = None) -> TelemetryClaims:
    """Every state of the recording that came and went, as a claim about the outcome.

    `mechanisms` are those that are asked for; each takes a second or two to attack.
    """
    table = observed.table.filter(pl.col(observed.outcome).is_not_null())
    outcome = _floats(table, observed.outcome)
    notes = list(observed.degradations)
    claims: dict[str, CausalClaim] = {}
    for state in STATES:
        if state.column not in table.columns or (mechanisms and state.mechanism not in mechanisms):
            continue
        values = _floats(table, state.column)
        known = ~np.isnan(values)
        on = values > state.above
        if not known.any() or not on[known].any():
            # Never on: examined, and no cause.
            continue
        covariates, gaps = _covariates(table, state, known)
        notes += gaps
        rows = known & ~np.isnan(outcome)
        try:
            claims[state.mechanism] = make_claim(
                state.mechanism,
                observed.outcome,
                UNIT,
                (outcome[rows], on[rows].astype(np.float64)),
                {name: column[rows] for name, column in covariates.items()},
            )
        except NotIdentifiedError as error:
            notes.append(f"{state.mechanism}: no estimate from telemetry: {error.message}")
    screen = _screen(observed, notes)
    return TelemetryClaims(claims, screen, tuple(dict.fromkeys(notes)))


def _floats(table: pl.DataFrame, name: str) -> Floats:
    result: Floats = table[name].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return result


def _covariates(
    table: pl.DataFrame, state: State, known: Flags
) -> tuple[dict[str, Floats], list[str]]:
    """Columns to adjust for that vary; a gap takes the last value known before it."""
    covariates: dict[str, Floats] = {}
    notes = []
    for name in (*LOAD, *state.also):
        if name not in table.columns or name == state.column:
            continue
        filled = table[name].cast(pl.Float64).forward_fill().backward_fill()
        if filled.null_count():
            notes.append(f"{state.mechanism}: not adjusted for {name}, which telemetry lacks")
            continue
        values = filled.to_numpy()
        if np.ptp(values[known]) > 0.0:
            covariates[name] = values
    return covariates, notes


def _screen(observed: Observations, notes: list[str]) -> Screen | None:
    """What moves before the outcome does, over every numeric column."""
    table = observed.table.drop("at").select(
        pl.col(observed.outcome), pl.exclude(observed.outcome).forward_fill()
    )
    lacking = [column for column in table.columns if table[column].count() < table.height // 2]
    table = table.drop(column for column in lacking if column != observed.outcome)
    try:
        return lagged_screen(table, observed.outcome, LAGS)
    except InputError as error:
        notes.append(f"lagged dependence not examined: {error.message}")
        return None
