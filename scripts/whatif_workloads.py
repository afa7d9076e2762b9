"""Runs the workloads of the what-if experiments on the engine, in samples that may alternate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay.engine import Engine, SamplingParams
from assay.engine.loading.model_files import ModelFiles
from whatif_cases import Setup

STEPS: Final = 8
"""Decode steps of a sample."""
OUTPUT: Final = 160
"""Tokens of a decoding sequence before its batch starts again."""


def clock_of(device: str) -> Callable[[], float]:
    """CPU seconds of this process where the CPU computes, which other processes do not change."""
    return time.process_time if device == "cpu" else time.perf_counter


class Subject:
    """An engine with a workload; `sample` returns seconds by metric."""

    def __init__(self, files: ModelFiles, device: str, setup: Setup) -> None:
        """Load the engine; weights are shared with other engines over the same files."""
        self.setup = setup
        self.clock = clock_of(device)
        most = max(setup.batch, int(setup.knobs.get("max_batch", 16)), 1)
        knobs = {"max_batch": most, **setup.knobs}
        knobs.setdefault("token_budget", max(512, most))
        lengths = (setup.prompt, *setup.mixed_prompts)
        running = setup.batch if setup.workload == "decode" else most
        # A cache that grows on the way computes the running requests again.
        tokens = running * (max(lengths) + max(OUTPUT, setup.output) + int(knobs["token_budget"]))
        self.engine = Engine.load(
            files, device, kv_tokens=tokens, prefix_caching=setup.prefix_caching, **knobs
        )
        self.left = 0
        self._names: list[str] = []
        self._number = 0

    def sample(self) -> dict[str, list[float]]:
        """Measure once."""
        return {
            "decode": self._decode,
            "first_token": self._first_token,
            "closed": self._closed,
        }[self.setup.workload]()

    def close(self) -> None:
        """Free the engine."""
        self._stop()
        self.engine.close()

    def _prompt(self, length: int, shared: int = 0) -> list[int]:
        self._number += 1
        vocabulary = self.engine.model.shape.vocabulary
        source = np.random.default_rng(self._number)
        # Prompts of one sample share their head; the cache does not know it from the last one.
        common = np.random.default_rng(-(-self._number // max(self.setup.requests, 1)) + 10**6)
        head: list[int] = common.integers(0, vocabulary, shared).tolist()
        tail: list[int] = source.integers(0, vocabulary, length - shared).tolist()
        return head + tail

    def _params(self, tokens: int) -> SamplingParams:
        chosen: dict[str, Any] = {"temperature": 0.0, **self.setup.sampling}
        return SamplingParams(max_tokens=tokens, ignore_eos=True, seed=1, **chosen)

    def _decode(self) -> dict[str, list[float]]:
        if self.left < STEPS + 2:
            self._stop()
            params = self._params(OUTPUT)
            self._names = [
                self.engine.add_request(self._prompt(self.setup.prompt), params)
                for _ in range(self.setup.batch)
            ]
            first: set[str] = set()
            while len(first) < self.setup.batch:
                first |= {one.request_id for one in self.engine.step() if one.chunks}
            for _ in range(2):
                self.engine.step()
            self.left = OUTPUT - 3
        # The device is idle after the other subject: this step refills the pipeline.
        self.engine.step()
        times = []
        for _ in range(STEPS):
            begun = self.clock()
            outputs = self.engine.step()
            spent = self.clock() - begun
            if len(outputs) != self.setup.batch:
                raise RuntimeError(
                    f"decode: expected {self.setup.batch} sequences in a step, got {len(outputs)}"
                )
            times.append(spent)
        self.left -= STEPS + 1
        tokens = [one / self.setup.batch for one in times]
        return {"seconds_per_step": times, "seconds_per_token": tokens}

    def _stop(self) -> None:
        for name in self._names:
            if self.engine.is_under_way(name):
                self.engine.abort(name)
        while self.engine.has_work:
            self.engine.step()
        self._names = []

    def _first_token(self) -> dict[str, list[float]]:
        prompt, params = self._prompt(self.setup.prompt), self._params(1)
        begun = self.clock()
        self.engine.add_request(prompt, params)
        while self.engine.has_work:
            self.engine.step()
        return {"ttft": [self.clock() - begun]}

    def _closed(self) -> dict[str, list[float]]:
        setup = self.setup
        lengths = setup.mixed_prompts or (setup.prompt,)
        prompts = [
            self._prompt(lengths[index % len(lengths)], setup.shared_prefix)
            for index in range(setup.requests)
        ]
        params = self._params(setup.output)
        begun = self.clock()
        for prompt in prompts:
            self.engine.add_request(prompt, params)
        first: dict[str, float] = {}
        while self.engine.has_work:
            for one in self.engine.step():
                if one.chunks:
                    first.setdefault(one.request_id, self.clock() - begun)
        return {
            "makespan": [self.clock() - begun],
            "mean_ttft": [sum(first.values()) / len(first)],
        }
