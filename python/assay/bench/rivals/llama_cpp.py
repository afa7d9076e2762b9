"""llama.cpp as a decoder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assay.bench.rivals.decoder import CONTEXT, Tokens, usable_cores


class LlamaCppDecoder:
    """llama.cpp through llama-cpp-python, on as many threads as there are usable_cores.

    NumPy takes the argmax of its logits, which is cheaper than its own samplers.
    """

    name = "llama.cpp"

    def __init__(self, path: Path) -> None:
        import llama_cpp

        threads = usable_cores()
        self._library = llama_cpp
        self._model: Any = llama_cpp.Llama(
            str(path), n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False
        )

    def decode(self, prompt: Tokens, count: int) -> tuple[float, list[int]]:
        """Evaluate one token after another."""
        tokens = [self._first(prompt)]
        start = time.perf_counter()
        while len(tokens) < count:
            self._model.eval(tokens[-1:])
            tokens.append(self._best())
        return (time.perf_counter() - start) / (count - 1), tokens

    def prefill(self, prompt: Tokens) -> tuple[float, int]:
        """Evaluate the prompt in one batch."""
        start = time.perf_counter()
        token = self._first(prompt)
        return time.perf_counter() - start, token

    def decode_batch(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
        """One after another: it decodes one sequence at a time."""
        start = time.perf_counter()
        tokens = [self.decode(prompt, count)[1] for prompt in prompts]
        return time.perf_counter() - start, tokens

    def _first(self, prompt: Tokens) -> int:
        self._model.reset()
        self._model.eval(list(prompt))
        return self._best()

    def _best(self) -> int:
        pointer = self._library.llama_get_logits_ith(self._model.ctx, -1)
        return int(np.ctypeslib.as_array(pointer, shape=(self._model.n_vocab(),)).argmax())
