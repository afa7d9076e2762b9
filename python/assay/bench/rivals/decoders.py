"""Rivals of the decode suite by name."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay.bench.harness.case import Absent
from assay.bench.rivals.decoder import CONTEXT, Decoder, Tokens, usable_cores
from assay.errors import unknown_name


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


class TransformersDecoder:
    """Hugging Face's transformers on PyTorch, in single precision, on all usable_cores."""

    name = "transformers"

    def __init__(self, path: Path) -> None:
        import torch
        import transformers

        torch.set_num_threads(usable_cores())
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

    def decode_batch(self, prompts: Sequence[Tokens], count: int) -> tuple[float, list[list[int]]]:
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
"""Modules that transformers needs to read GGUF files."""


def rival(name: str, path: Path | None) -> Decoder | Absent:
    """A rival with this model loaded, or the reason why it is not measured."""
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
