"""Hugging Face's transformers as a decoder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.bench.rivals.decoder import Tokens, usable_cores


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
