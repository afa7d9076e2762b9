"""A vLLM engine of this process, stepped as Assay's own is: tokens are counted, not calls.

With asynchronous scheduling a step of vLLM may return nothing: it launches one step and returns the
tokens of the one before.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

from assay.engine import SamplingParams
from assay.engine.requests.outputs import Chunk, StepOutput, Summary, Timing
from assay.errors import InputError


class VllmStepper:
    """Adds requests to an `LLM` and runs its steps."""

    def __init__(self, llm: Any) -> None:
        """Drive the engine of an `LLM`, which must have no other requests."""
        self._engine = llm.llm_engine
        model = self._engine.vllm_config.model_config
        self._tokenizer = None if model.skip_tokenizer_init else llm.get_tokenizer()
        self._vocabulary = int(model.get_vocab_size())
        self._numbers = itertools.count()
        self._under_way: set[str] = set()

    def add_request(self, prompt: str, params: SamplingParams) -> str:
        """Queue a prompt; where the model has no tokenizer, a token for each word."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams as VllmParams

        request_id = f"assay-{id(self)}-{next(self._numbers)}"
        given = VllmParams(
            max_tokens=params.max_tokens,
            temperature=params.temperature,
            top_p=params.top_p,
            seed=params.seed,
            ignore_eos=params.ignore_eos,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        try:
            # Outputs carry this id, whatever the engine calls the request inside.
            self._engine.add_request(request_id, self.prompt(prompt), given)
        except ValueError as error:
            raise InputError(f"vLLM refuses the request: {str(error)[:200]}") from None
        self._under_way.add(request_id)
        return request_id

    def prompt(self, text: str) -> Any:
        """The tokens of a text, as this release takes them."""
        from vllm import inputs

        if self._tokenizer is not None:
            tokens = list(self._tokenizer.encode(text))
        else:
            tokens = [self._token(word) for word in text.split()]
        make = getattr(inputs, "tokens_input", None) or (lambda ids: {"prompt_token_ids": ids})
        return make(tokens or [1])

    def _token(self, word: str) -> int:
        digest = hashlib.sha256(word.encode()).digest()
        # The first and last thousand may be special tokens.
        room = max(self._vocabulary - 2000, 1)
        return min(1000, self._vocabulary - 1) + int.from_bytes(digest[:8], "little") % room

    def step(self) -> list[StepOutput]:
        """One step; what it added."""
        return [
            output for step in self._engine.step() if (output := self._output(step)) is not None
        ]

    def _output(self, output: Any) -> StepOutput | None:
        name = output.request_id
        if name not in self._under_way:
            return None
        chunks = [Chunk("", int(token)) for token in output.outputs[0].token_ids]
        if not output.finished:
            return StepOutput(name, tuple(chunks)) if chunks else None
        self._under_way.discard(name)
        chunks.append(Chunk("", None, finish_reason="length"))
        prompt = len(output.prompt_token_ids or ())
        cached = int(getattr(output, "num_cached_tokens", None) or 0)
        timing = Timing(0.0, 0.0, 0.0)
        return StepOutput(name, tuple(chunks), Summary(prompt, len(chunks) - 1, cached, 0, timing))

    def is_under_way(self, request_id: str) -> bool:
        """Whether a request has not ended."""
        return request_id in self._under_way

    def abort(self, request_id: str) -> None:
        """End a request, and the steps that still compute it."""
        self._under_way.discard(request_id)
        self._engine.abort_request([request_id])
        while self._engine.has_unfinished_requests():
            self._engine.step()
