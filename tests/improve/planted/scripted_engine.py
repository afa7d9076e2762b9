"""The scripted model behind the loop's protocol, with one planted lever, on a clock of its own."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import scripted_model as model
from planted_levers import Planted

from assay.improve.engines import following
from assay.improve.engines.probing import Position
from assay.improve.engines.protocol import (
    RESIDENT,
    Engine,
    EngineDescription,
    EngineKnob,
    EngineLostError,
    Followed,
    Given,
    ProbeAnswer,
    TrialFailedError,
    Undo,
)
from assay.load.metrics import figures
from assay.load.workloads.measurement import Measurement, RequestRecord, Setting
from assay.load.workloads.workload import PlannedRequest, ServiceLevel, Window, Workload

RATE = 600.0
"""Output tokens a second at the start."""
NOISE = 0.015
RESTART_NOISE = 0.01
RESTART_S = 4.0
OWN_NOISE = 0.003
"""Perturbation of logits in the control, which differs between three batch shapes."""
TTFT_S, TOKEN_S = 0.03, 0.004
SLO = ServiceLevel(ttft_ms=100.0, tpot_ms=8.0)


def workload(planted: Planted) -> Workload:
    """The scripted requests, as a lever wants them."""
    asked = model.wide_requests() if planted.is_wide else model.requests()
    planned = tuple(
        PlannedRequest(
            number,
            request.prompt,
            request.tokens,
            sampling={} if request.seed is None else {"temperature": 1.0, "seed": request.seed},
            fields={"stop": list(request.stop)} if request.stop else {},
        )
        for number, request in enumerate(asked)
    )
    return Workload(
        "scripted",
        "several kinds of requests",
        planned,
        concurrency=24 if planted.is_wide else 4,
        slo=SLO if planted.has_slo else ServiceLevel(),
    )


class ScriptedEngine(Engine):
    """Serves the scripted model; `planted` says what its lever does."""

    def __init__(self, planted: Planted, seed: int = 0) -> None:
        self.planted = planted
        self.now = 0.0
        self.is_on = False
        self.was_on = False
        self.answered = 0
        """Since the last change of settings."""
        self.windows = 0
        self.changed_at = 0.0
        self._asked: set[str] = set()
        """Prompts that were answered with the lever."""
        self._drawn = 0
        self._chance = random.Random(f"{planted.name} {seed}")
        self._start_factor = 1.0

    def clock(self) -> float:
        return self.now

    def describe(self) -> EngineDescription:
        restart = 0.0 if self.planted.hot else RESTART_S
        return EngineDescription(
            engine="scripted",
            release="1",
            model="hashes",
            device="cpu",
            hardware={"cpu": "scripted", "usable_cores": 2},
            capabilities=frozenset({"cpu", "logprobs"}),
            details={"start_seconds": restart} if restart else {},
        )

    def knobs(self) -> Mapping[str, EngineKnob]:
        hot = self.planted.hot
        return {
            "planted": EngineKnob("planted", "the lever", "off", hot, choices=("off", "on")),
            "other": EngineKnob("other", "nothing", 1, hot, 1, 8),
        }

    def settings(self) -> Mapping[str, Setting]:
        value = "on" if self.is_on else "off"
        says = self.planted.reports
        if says == "old":
            value = "off"
        elif says == "stays" and self.was_on:
            value = "on"
        elif says == "noise" and self.was_on:
            value = self._chance.choice(("on", "off"))
        return {"planted": value, "other": 1}

    def configure(self, changes: Mapping[str, Setting]) -> Undo:
        before = self.is_on
        wanted = changes.get("planted", "off") == "on"
        self.now += 0.05 if self.planted.hot else RESTART_S
        if wanted and self.planted.fails:
            raise TrialFailedError(
                f"did not start: {self.planted.fails}",
                failure=self.planted.fails,  # type: ignore[arg-type]
            )
        self._set(wanted)

        def undo() -> None:
            self.now += 0.05 if self.planted.hot else RESTART_S
            self._set(before)

        return undo

    def _set(self, is_on: bool) -> None:
        self.is_on = is_on
        self.was_on |= is_on
        self.answered = 0
        self.changed_at = self.now
        self._start_factor = math.exp(
            self._chance.gauss(0, 0 if self.planted.hot else RESTART_NOISE)
        )

    def measure(self, workload: Workload, window: Window) -> Measurement:
        planted, started, at, records = self.planted, self.now, 0.0, []
        self.windows += 1
        speed = RATE * self._start_factor * math.exp(self._chance.gauss(0, NOISE))
        if self.is_on:
            speed *= planted.speed
        count = window.requests or max(1, round((window.seconds or 1.0) * speed / 24))
        for place in range(count):
            number = window.offset + place
            asked = workload.requests[number % len(workload.requests)]
            if self.is_on and planted.ends is not None and self.answered >= planted.ends:
                raise EngineLostError("the server ended", failure="crash")
            factor = planted.later(self.answered) if self.is_on else 1.0
            if self.is_on and asked.prompt in self._asked:
                factor *= planted.repeated
            said = self._said(asked, started + at, place)
            fails = self.is_on and planted.failing(asked.prompt, self.answered)
            self.answered += 1
            self._asked.add(asked.prompt)
            records.append(self._record(number, asked, at, said, fails))
            tokens = max(len(said), 1) if asked.fields else asked.max_tokens
            at += tokens / (speed * factor)
        self.now += at
        return Measurement(
            workload=workload.name,
            started_at=1e9 + started,
            seconds=at,
            records=tuple(records),
            figures=figures(records, at, workload.slo),
            load_state="stable",
            settings=dict(self.settings()),
            details={RESIDENT: 1e9 + self._held() + self._chance.gauss(0, 1e4)},
        )

    def _held(self) -> float:
        if not self.is_on:
            return 0.0
        if self.planted.holds is not None:
            return self.planted.holds(self.answered)
        return self.planted.memory * self.answered

    def _said(self, asked: PlannedRequest, now: float, place: int) -> Sequence[str]:
        planted = self.planted
        said: Sequence[str] = self._right(asked)
        if not self.is_on:
            return said
        if (
            planted.garble is not None
            and planted.garbles == "streamed"
            and now - self.changed_at >= planted.after_s
            and place >= planted.crowd
        ):
            changed = planted.garble(asked.prompt, said, self.answered)
            said = said if changed is None else changed
        return said[: max(round(planted.tokens * len(said)), 1)]

    def _right(self, asked: PlannedRequest) -> tuple[str, ...]:
        prompt, tokens, ignores = asked.prompt, asked.max_tokens, self.planted.ignores
        stop = asked.fields.get("stop", ()) if not (self.is_on and ignores == "stop") else ()
        if "seed" in asked.sampling:
            self._drawn += 1
            ignored = self.is_on and ignores == "seed"
            seed = ("any", self._drawn) if ignored else asked.sampling["seed"]
            return model.sampled(prompt, tokens, seed)
        if self.is_on and self.planted.perturbation:
            said = model.answer(prompt, tokens, self.planted.perturbation, self.planted.name)
        else:
            said = model.answer(prompt, tokens, OWN_NOISE, ("batch", self.windows % 3))
        return model.stopped(said, stop)

    def _record(
        self, number: int, asked: PlannedRequest, at: float, said: Sequence[str], fails: bool
    ) -> RequestRecord:
        planted = self.planted
        first, token = TTFT_S, TOKEN_S
        if self.is_on:
            token *= planted.slow_token
            first *= planted.slow_first(asked.prompt)
            if self._chance.random() < planted.slow_share:
                first *= 10
        counted = asked.max_tokens if planted.tokens < 1 and self.is_on else len(said)
        finish = "length" if counted == asked.max_tokens else "stop"
        if self.is_on:
            counted = planted.usage(asked.prompt, counted)
            finish = (planted.finish(asked.prompt) if planted.finish else "") or finish
        text = "".join(said)
        if fails:
            return RequestRecord(number, at, None, at + first, 0, 0, error="HTTP 500")
        return RequestRecord(
            number=number,
            sent_s=at,
            first_token_s=at + first,
            end_s=at + first + token * max(counted - 1, 0),
            prompt_tokens=asked.prompt.count(" ") + 1,
            output_tokens=counted,
            itls_s=(token,) * (counted - 1),
            digest=text,
            output=text,
            finish_reason=finish,
        )

    def probe(self, prompts: Sequence[str], max_tokens: int) -> list[ProbeAnswer]:
        self.now += 0.2
        answers = []
        for prompt in prompts:
            said = self._probed(prompt, max_tokens)
            steps = self._steps(prompt, said)
            if self.is_on and self.planted.garbles == "logprobs":
                steps = [step._replace(logprobs=_flattened(step.logprobs)) for step in steps]
            answers.append(
                ProbeAnswer(
                    token_ids=(),
                    texts=tuple(said),
                    logprobs=tuple(step.logprobs[0] for step in steps),
                    margins=tuple(step.logprobs[0] - step.logprobs[1] for step in steps),
                    top_logprobs=tuple(
                        dict(zip(step.tokens, step.logprobs, strict=True)) for step in steps
                    ),
                )
            )
        return answers

    def _probed(self, prompt: str, max_tokens: int) -> Sequence[str]:
        said = self._said(PlannedRequest(0, prompt, max_tokens), self.now, 0)
        if self.is_on and self.planted.garbles == "whole" and self.planted.garble is not None:
            return self.planted.garble(prompt, said, self.answered) or said
        return said

    def _steps(self, text: str, said: Sequence[str]) -> list[model.Step]:
        steps = []
        for token in said:
            steps.append(self._step(text))
            text += token
        return steps

    def _step(self, text: str) -> model.Step:
        return model.step(model.context_of(text), OWN_NOISE, ("batch", "alone"))

    def follow(self, answers: Sequence[Given], tie: float) -> list[Followed | None]:
        """Led by text, as a server is."""
        return [
            self._scored(request.prompt, str(answer))
            if "seed" in request.sampling
            else self._along(request, str(answer), tie)
            for request, answer in answers
        ]

    def _scored(self, prompt: str, answer: str) -> Followed:
        said = [f" {word}" for word in answer.split(" ")[1:]]
        self.now += 0.01
        return Followed(logprobs=model.scored(prompt, said))

    def _along(self, request: PlannedRequest, answer: str, tie: float) -> Followed | None:
        def ask(text: str, tokens: int) -> list[Position]:
            self.now += 0.01 + tokens / (4 * RATE)
            positions = []
            for _ in range(tokens):
                step = self._step(text)
                top = dict(zip(step.tokens, step.logprobs, strict=True))
                positions.append(Position(step.tokens[0], step.logprobs[0], top))
                text += step.tokens[0]
            return positions

        return following.led(ask, request.prompt, answer, request.max_tokens, tie)

    def capture(self, workload: Workload, window: Window, folder: Path) -> Path | None:
        return None

    def launch_command(self, settings: Mapping[str, Setting]) -> str:
        return f"scripted --planted {settings['planted']}"

    def close(self) -> None:
        """Nothing to stop."""


def _flattened(logprobs: tuple[float, ...]) -> tuple[float, ...]:
    """Those of a softmax at twice the temperature."""
    total = math.log(math.fsum(math.exp(logprob / 2) for logprob in logprobs))
    return tuple(logprob / 2 - total for logprob in logprobs)
