"""Programs that decode a language model, each asked for the same things."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from assay.bench.case import Absent
from assay.errors import unknown_name

if TYPE_CHECKING:
    from assay.engine import Engine

Tokens = Sequence[int]
CONTEXT: Final = 1024


class Decoder(Protocol):
    """A model that is loaded; every continuation is greedy and does not stop by itself."""

    name: str

    def decode(self, prompt: Tokens, count: int) -> tuple[float, list[int]]:
        """Seconds of each token after the first, and the tokens."""

    def prefill(self, prompt: Tokens) -> tuple[float, int]:
        """Seconds until the first token, and the token."""

    def together(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
        """Seconds for all continuations, the best way it has, and their tokens."""


class OwnDecoder:
    """Our engine."""

    name = "assay"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def decode(self, prompt: Tokens, count: int) -> tuple[float, list[int]]:
        """Step one request, from its first token on."""
        tokens = self._start([prompt], count)
        while not tokens[0]:
            self._step(tokens)
        start, begun = time.perf_counter(), len(tokens[0])
        self._finish(tokens)
        return (time.perf_counter() - start) / (count - begun), tokens[0]

    def prefill(self, prompt: Tokens) -> tuple[float, int]:
        """Step one request to its first token."""
        start = time.perf_counter()
        tokens = self._start([prompt], 1)
        self._finish(tokens)
        return time.perf_counter() - start, tokens[0][0]

    def together(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
        """Step all requests side by side."""
        start = time.perf_counter()
        tokens = self._start(prompts, count)
        self._finish(tokens)
        return time.perf_counter() - start, tokens

    def _start(self, prompts: Sequence[Tokens], count: int) -> list[list[int]]:
        from assay.engine import SamplingParams

        params = SamplingParams(max_tokens=count, temperature=0.0, ignore_eos=True)
        names = [self._engine.add_request(prompt, params) for prompt in prompts]
        self._place = {name: index for index, name in enumerate(names)}
        return [[] for _ in prompts]

    def _step(self, tokens: list[list[int]]) -> None:
        for output in self._engine.step():
            tokens[self._place[output.request_id]] += output.token_ids

    def _finish(self, tokens: list[list[int]]) -> None:
        while self._engine.has_work:
            self._step(tokens)


class LlamaCppDecoder:
    """llama.cpp through llama-cpp-python, on as many threads as there are cores.

    Tokens are chosen by NumPy from its logits, which is less work than its own samplers are.
    """

    name = "llama.cpp"

    def __init__(self, path: Path) -> None:
        import llama_cpp

        threads = cores()
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

    def together(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
        """One after another: it takes one sequence at a time."""
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


class TransformersDecoder:
    """Hugging Face's transformers on PyTorch, in single precision, on all cores."""

    name = "transformers"

    def __init__(self, path: Path) -> None:
        import torch
        import transformers

        torch.set_num_threads(cores())
        self._torch = torch
        kind = transformers.AutoModelForCausalLM
        if path.is_file():
            loaded = kind.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
        else:
            loaded = kind.from_pretrained(path, dtype=torch.float32)
        self._model: Any = loaded.eval()

    def decode(self, prompt: Tokens, count: int) -> tuple[float, list[int]]:
        """Forward passes with its own cache."""
        with self._torch.inference_mode():
            output = self._model(self._torch.tensor([list(prompt)]), use_cache=True)
            tokens = [int(output.logits[0, -1].argmax())]
            start = time.perf_counter()
            while len(tokens) < count:
                output = self._model(
                    self._torch.tensor([tokens[-1:]]),
                    past_key_values=output.past_key_values,
                    use_cache=True,
                )
                tokens.append(int(output.logits[0, -1].argmax()))
            return (time.perf_counter() - start) / (count - 1), tokens

    def prefill(self, prompt: Tokens) -> tuple[float, int]:
        """One forward pass, with logits of the last token only."""
        with self._torch.inference_mode():
            start = time.perf_counter()
            batch = self._torch.tensor([list(prompt)])
            output = self._model(batch, use_cache=True, logits_to_keep=1)
            token = int(output.logits[0, -1].argmax())
            return time.perf_counter() - start, token

    def together(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
        """One after another."""
        start = time.perf_counter()
        tokens = [self.decode(prompt, count)[1] for prompt in prompts]
        return time.perf_counter() - start, tokens


RIVALS: Final[dict[str, tuple[type[Any], tuple[str, ...]]]] = {
    "llama.cpp": (LlamaCppDecoder, ("llama_cpp",)),
    "transformers": (TransformersDecoder, ("transformers", "torch")),
}
"""Rivals by name, and the modules that each needs."""

_GGUF_MODULES: Final = ("gguf", "accelerate")
"""What transformers reads GGUF files with."""


def rival(name: str, path: Path | None) -> Decoder | Absent:
    """A rival with this model loaded, or the reason why it takes no part."""
    if name not in RIVALS:
        raise unknown_name("rival", name, RIVALS)
    make, modules = RIVALS[name]
    if path is None:
        return Absent(name, "the model has no file that it could load")
    if name == "transformers" and path.is_file():
        modules = (*modules, *_GGUF_MODULES)
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        return Absent(name, f"{' and '.join(missing)} not installed")
    if name == "llama.cpp" and path.suffix != ".gguf":
        return Absent(name, "it reads GGUF files only")
    made: Decoder = make(path)
    return made


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
