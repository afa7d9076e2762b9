"""Racing: candidates side by side, where a restart takes longer than a trial.

Servers of several candidates are started at once and stay. Each gets a little time; those that are
proven worse, refused or dominated are out, the others get twice as much, the best first, and so on. What is
left undecided would have to be started again: before the next servers, a wave may take as long as they
take to start. The intervals hold at every look, so that a candidate may be dropped or kept at any of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from assay.improve.engines.protocol import Residents, Room
from assay.improve.experiments.noise import NoiseFloor
from assay.improve.experiments.result import Block, ExperimentResult
from assay.improve.experiments.settings import ExperimentSettings
from assay.improve.experiments.verdict import percent
from assay.improve.levers.lever import Candidate, joined
from assay.improve.loop import start_noise
from assay.improve.loop.allotment import Allotment
from assay.improve.loop.finishing import leaves_room
from assay.improve.loop.joint import SEARCHED, JointSearch
from assay.improve.loop.phases.experiments import (
    is_over,
    noise_floor,
    out_of_time,
    pointless,
    target_met,
)
from assay.improve.loop.phases.soak import MOST_OVERRUN, REPORT_S, confirmation_s
from assay.improve.loop.state import RunState, Trial
from assay.improve.loop.trials import (
    adopt,
    bring_to,
    current,
    keep,
    measured,
    name_of,
    on_top,
    record,
)
from assay.load.workloads.measurement import Setting
from assay.load.workloads.ramp import RAMP, SPAN

LEAST_RESTART_S: Final = 10.0
"""A restart from which on servers are kept running in place of being restarted."""
NOISE_SHARE: Final = 0.06
"""Part of the time for experiments that the noise of one start takes."""
TWIN_ROOM: Final = 4
"""Servers from which on one place is spent on a second start of the control."""
FIRST_PAIRS: Final = 2
WARMUP_BLOCKS: Final = 1
OVERHEAD: Final = 1.25
"""Time of a first trial over that of its blocks: probes, answers that are followed."""
GROWTH: Final = 2.0
"""Time of a round over that of the one before."""


def racing(state: RunState) -> Race | None:
    """The race of a run; None where its engine is tuned live, restarts quickly or has no room."""
    residents = state.engine.residents()
    if residents is None or not state.chosen.candidates:
        return None
    if not state.restart_s:
        state.progress.say("asking how long a start takes")
        state.restart_s = residents.start_seconds()
        bring_to(state, state.start)
    if state.restart_s < LEAST_RESTART_S:
        return None
    room = residents.room(_context_tokens(state))
    state.notes.append(room.sentence)
    state.progress.result(room.sentence)
    if room.servers < 2:
        return None
    state.journal.append("degradation", text=room.sentence)
    return Race(state, residents, room)


def _context_tokens(state: RunState) -> float:
    """Tokens that are in the KV cache at once: requests in flight, each with prompt and answer."""
    known, workload = state.chosen.known, state.workload
    if known is None:
        lengths = [
            (request.prompt_tokens or len(request.prompt) / 4) + request.max_tokens
            for request in workload.requests
        ]
        longest = max(lengths, default=0.0)
        return longest * (workload.concurrency or len(workload.requests))
    in_flight = float(known.at_once(None))
    latency_ms = known.figure("mean_e2el_ms")
    if workload.rate is not None and latency_ms is not None:
        # Little's law; a ramp ends at a higher rate than its middle one.
        most = workload.rate * (SPAN if workload.arrival == RAMP else 1.0)
        in_flight = max(most * latency_ms / 1e3, 1.0)
    return in_flight * (known.mean_prompt() + known.mean_output())


@dataclass(slots=True)
class Race:
    """A race under way."""

    state: RunState
    residents: Residents
    room: Room
    start_s: float = 0.0
    """Seconds of the last start of several servers."""
    levels: list[float] = field(default_factory=list)
    """Of starts of equal settings."""
    settings: ExperimentSettings = field(default_factory=ExperimentSettings)
    """Of trials."""
    floor: NoiseFloor | None = None
    slower: float = 1.0
    """Time of first trials over what their blocks take, as seen so far."""

    def run(self) -> Allotment:
        """Wave after wave until the time is needed for the confirmation."""
        state = self.state
        state.begin("experiments")
        self.start_s = state.restart_s
        alone = noise_floor(state, NOISE_SHARE)
        self.floor = alone.floor
        noise = state.control.noise
        if noise is not None and (level := start_noise.level_of(_counted(noise))) is not None:
            self.levels.append(level)
        self.settings = replace(
            alone.settings, switch_s=0.0, least_pairs=FIRST_PAIRS, most_warmup_blocks=WARMUP_BLOCKS
        )
        search = JointSearch(state)
        pending = list(state.chosen.candidates)
        is_first = True
        while not is_over(state, len(state.trials)):
            wave = self._next_wave(search, pending, is_first)
            if not wave:
                break
            if self._left(wave) < self.start_s + len(wave) * self._first_s():
                # Fewer, where they fit.
                fitting = int((self._left(wave) - self.start_s) / self._first_s())
                pending[:0] = [
                    candidate
                    for candidate in wave[max(fitting, 0) :]
                    if candidate.predicted_by != SEARCHED
                ]
                wave = wave[: max(fitting, 0)]
                if not wave:
                    break
            self._start(wave, is_first)
            is_first = False
            more = min(len(pending), self._still_allowed() - len(wave))
            results = self._rounds(wave, search, more=max(more, 0))
            pending[:0] = self._keep_best(results)
        self._use_what_is_left(search)
        if pending and not is_over(state, len(state.trials)):
            self._say_untried(pending)
        return self._allotment()

    def _say_untried(self, pending: Sequence[Candidate]) -> None:
        """What was not tried, and whether time or room was lacking."""
        state = self.state
        if self._room_left(is_first=False):
            out_of_time(state, pending[0], len(pending) - 1)
            return
        why = f"room for {self.room.servers} servers, which the start and what is kept take"
        state.skipped += [(candidate.name, f"not tried: {why}") for candidate in pending]
        names = ", ".join(candidate.name for candidate in pending)
        state.notes.append(
            f"not tried: {names}: {why}; a run that starts from what is kept has room"
        )

    def _use_what_is_left(self, search: JointSearch) -> None:
        """Go on with undecided candidates whose servers still run; no other can be started in time."""
        state = self.state
        while not target_met(state):
            running = [
                trial
                for trial in state.trials
                if trial.before.changes == state.stack.changes
                and state.engine.is_live(trial.result.candidate.changes)
            ]
            survivors = _survivors(running, state.options.threshold)
            if not survivors:
                return
            best = survivors[0]
            seconds = self._left_late([best.result.candidate]) / min(len(survivors), 2)
            if seconds < self._first_s():
                return
            state.progress.say(f"going on with {best.result.candidate.name}")
            again = self._round(best.result.candidate, best, seconds)
            search.learn(again)
            self._keep_best([again.result])

    def proving(self, candidate: Candidate) -> Allotment:
        """Bring start and stack to where they are to be compared for good.

        With the whole memory each where that matters; else started once more where time allows, as
        the best of a race is the one whose start had most luck too; else with an interval for it.
        """
        state = self.state
        wanted: list[Mapping[str, Setting]] = [{}, candidate.changes]
        if candidate.memory and self.room.memory == "shared":
            state.progress.say("starting both once more, with the whole memory each")
            how = "each server asleep while the other was measured"
            if not self.residents.take_turns(wanted):
                self.residents.leave()
                how = "by restarts"
            state.notes.append(
                f"what is kept depends on memory: it was proven with the whole of it, {how}"
            )
            return self._allotment(comparisons=1)
        if self._left([]) >= self.start_s:
            state.progress.say("starting both once more: other starts than those of the race")
            self.residents.start(wanted, self.room, anew=True)
            return self._allotment(comparisons=1)
        return self._allotment(comparisons=max(len(state.trials), 1))

    def end(self) -> None:
        """One server again, with what is kept and the whole memory: as it is to serve from now on."""
        bring_to(self.state, current(self.state))
        self.residents.leave()

    def _may_race(self, candidate: Candidate) -> bool:
        """Whether a candidate can be compared with others beside it."""
        if not set(candidate.changes) & self.residents.alone:
            return True
        self.state.skipped.append(
            (candidate.name, "it says how much memory the server has, which is shared out here")
        )
        return False

    def _next_wave(
        self, search: JointSearch, pending: list[Candidate], is_first: bool
    ) -> list[Candidate]:
        state = self.state
        most = min(self._room_left(is_first=is_first), self._still_allowed())
        if most < 1:
            return []
        wave: list[Candidate] = []
        while pending and len(wave) < most:
            candidate = pending.pop(0)
            if reason := search.forbids(candidate) or pointless(state, candidate):
                state.skipped.append((candidate.name, reason))
            elif self._may_race(candidate):
                wave.append(candidate)
        if wave:
            return wave
        # The search learns from each trial: it is asked for one at a time.
        asked = search.next()
        if asked is None or search.forbids(asked) or pointless(state, asked):
            return []
        return [asked] if self._may_race(asked) else []

    def _room_left(self, *, is_first: bool) -> int:
        """Servers beside the start, what is kept and, the first time, a second start."""
        held = 1 + bool(self.state.stack.changes) + (is_first and self._has_twin())
        return max(self.room.servers - held, 0)

    def _still_allowed(self) -> int:
        """Candidates that may be tried by the options."""
        most = self.state.options.top_n
        return sys.maxsize if most is None else max(most - len(self.state.trials), 0)

    def _has_twin(self) -> bool:
        return self.room.servers >= TWIN_ROOM

    def _start(self, wave: Sequence[Candidate], is_first: bool) -> None:
        """Servers of the start, of what is kept and of the candidates, all at once."""
        state, kept = self.state, dict(self.state.stack.changes)
        wanted: list[Mapping[str, Setting]] = [{}]
        if is_first and self._has_twin():
            wanted.append({})
        if kept:
            wanted.append(kept)
        wanted += [{**kept, **candidate.changes} for candidate in wave]
        state.progress.say(f"starting servers of {len(wave)} candidates at once")
        begun = state.budget.clock()
        self.residents.start(wanted, self.room)
        self.start_s = max(state.budget.clock() - begun, 1.0)
        if not is_first:
            return
        bring_to(state, state.start)
        requests = self.settings.block_requests or 1
        shared = start_noise.measured_levels(state, requests, self.residents.twin({}))
        self.levels += [level for level in shared if level is not None]
        self.settings = replace(self.settings, start_half=start_noise.half_width(self.levels))
        if len(self.levels) > 1:
            most = max(self.levels) - min(self.levels)
            state.notes.append(
                f"{len(self.levels)} starts of equal settings differ by {most:.2%} at most"
                + (", the first with the whole memory" if self.room.memory == "shared" else "")
                + f"; intervals of trials are wider by {percent(1 + self.settings.start_half)}"
            )

    def _first_s(self) -> float:
        """Seconds of a first trial."""
        blocks = WARMUP_BLOCKS + 2 * FIRST_PAIRS * self.settings.batch
        return OVERHEAD * self.slower * blocks * self.settings.block_s

    def _left(self, wave: Sequence[Candidate]) -> float:
        """Seconds before what is kept, or may be by then, has to be proven."""
        state = self.state
        parts = [*wave, *(result.candidate for result in state.stack.results)]
        proven = replace(joined(parts, {}), hot=True)
        gained = max(state.stack.gained.lo, 1.0)
        needed = confirmation_s(state, self._allotment(), proven, gained)
        needs_memory = any(result.candidate.memory for result in state.stack.results)
        if needs_memory and self.room.memory == "shared":
            # Both arms are started once more, one after the other.
            needed += 2.0 * state.restart_s
        return state.budget.remaining - REPORT_S - needed

    def _left_late(self, wave: Sequence[Candidate]) -> float:
        """The same where nothing is kept: what may come of it at the very end is proven a little late.

        Mostly nothing does, and all of the time goes into saying so.
        """
        if self.state.stack.results:
            return self._left(wave)
        budget = self.state.budget
        return min(self._left(wave) + MOST_OVERRUN * budget.total_s, budget.remaining - REPORT_S)

    def _allotment(self, comparisons: int = 1) -> Allotment:
        """Times of trials between servers that run."""
        assert self.floor is not None
        half = start_noise.half_width(self.levels, comparisons)
        return Allotment(self.floor, replace(self.settings, start_half=half), 0.0)

    def _rounds(
        self, wave: Sequence[Candidate], search: JointSearch, *, more: int
    ) -> list[ExperimentResult]:
        """Rounds that double: the results of all candidates of a wave."""
        state, seconds = self.state, self._first_s()
        trials: list[Trial] = []
        for candidate in wave:
            now = on_top(state, candidate)
            if now is None:
                continue
            state.progress.say(f"trying {now.name}")
            trials.append(self._round(replace(now, hot=True), None, max(seconds, self._first_s())))
            search.learn(trials[-1])
            if trials[-1].result.ratio is None and trials[-1].result.verdict == "undecided":
                # Not even two pairs: the next ones get longer.
                self.slower *= 1.5
        survivors = _survivors(trials, state.options.threshold)
        # Those that were not tried come next: a server each, and a first trial.
        fitting = min(more, self._room_left(is_first=False))
        later = self.start_s + fitting * self._first_s() if more else 0.0
        until = state.budget.clock() + self.start_s

        def spare() -> float:
            """Seconds for this wave: what the next ones leave, or as much as a start of it anew."""
            anew = min(until - state.budget.clock(), self._left_late(wave))
            return max(self._left(wave) - later, anew)

        while survivors and spare() >= self._first_s():
            seconds *= GROWTH
            for trial in survivors:
                seconds = min(seconds, spare())
                if seconds < self._first_s():
                    break
                state.progress.say(f"going on with {trial.result.candidate.name}")
                again = self._round(trial.result.candidate, trial, seconds)
                trials[trials.index(trial)] = again
                search.learn(again)
            survivors = _survivors(trials, state.options.threshold)
        return [trial.result for trial in trials]

    def _round(self, candidate: Candidate, before: Trial | None, seconds: float) -> Trial:
        """One round of a candidate, on from the rounds before."""
        state = self.state
        bring_to(state, current(state))
        earlier = None if before is None else before.result
        name = name_of(state, candidate) if earlier is None else earlier.experiment
        settings = replace(self.settings, budget_s=seconds)
        result = measured(state, candidate, settings, name, earlier)
        if result.failure == "OOM" and self.room.memory == "shared":
            reason = f"{result.reason}; it had one of {self.room.servers} parts of the GPU's memory"
            result = replace(result, reason=f"{reason}, with the whole of it it may run")
        record(state, result)
        if before is not None:
            state.trials.remove(before)
        adopt(state, result, is_kept=False)
        return state.trials[-1]

    def _keep_best(self, results: Sequence[ExperimentResult]) -> list[Candidate]:
        """Keep the best of a wave; the others that gained, to be tried on top of it."""
        improved = [result for result in results if result.verdict == "improved"]
        if not improved:
            return []
        improved.sort(key=_gain, reverse=True)
        best, *others = improved
        keep(self.state, best, is_raced=True)
        own = set(best.candidate.changes)
        again = [result.candidate for result in others if not own & set(result.candidate.changes)]
        if not again:
            return []
        together = joined(again, {k: v for part in again for k, v in part.changes.items()})
        return [replace(together, predicted_by="joint: each gained beside the start")]


def _gain(result: ExperimentResult) -> float:
    return result.ratio.value if result.ratio is not None else 0.0


def _survivors(trials: Sequence[Trial], threshold: float) -> list[Trial]:
    """Undecided trials that may still be the best, the most promising first."""
    best = max(
        (
            trial.result.ratio.lo
            for trial in trials
            if trial.result.verdict == "improved" and trial.result.ratio is not None
        ),
        default=0.0,
    )
    may_win = [
        trial
        for trial in trials
        if trial.result.verdict == "undecided" and not trial.result.futile
        # Without two pairs there is no interval yet.
        if trial.result.ratio is None
        or (leaves_room(trial.result, threshold) and trial.result.ratio.hi > best)
    ]
    return sorted(may_win, key=lambda trial: _gain(trial.result), reverse=True)


def _counted(result: ExperimentResult) -> list[Block]:
    return [block for block in result.blocks if not block.dropped]
