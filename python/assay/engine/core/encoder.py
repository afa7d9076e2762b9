"""The encoder: texts in, one vector each out; it generates nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, NoReturn

from assay._native import limit_kernel_threads
from assay.closing import Closing
from assay.engine.core.knobs import AS_STORED, KNOBS
from assay.engine.core.prompts import Prompt, checked_tokens
from assay.engine.loading import ModelFiles, open_model
from assay.engine.loading.encoder_files import is_encoder, pooling_of
from assay.engine.models.encoder_model import EncoderModel, build_encoder
from assay.engine.models.weights import WeightSource
from assay.errors import InputError, UnsupportedError
from assay.lazy_import import np
from assay.runtime import Device, device as device_named, transfer

if TYPE_CHECKING:
    import numpy.typing as npt

    from assay.engine.requests.outputs import StepOutput

    Vectors = npt.NDArray[np.float32]

BATCH_TOKENS: Final = 8192
"""Tokens that are computed at once: activations stay small beside the weights."""

SETTINGS: Final = ("weight_format", "threads")
"""The knobs that an encoder has, too."""

_NO_BLOCKS: Final = {
    **dict.fromkeys(("running", "waiting", "preemptions", "used", "queried_tokens"), 0),
    **dict.fromkeys(("hit_tokens", "drafts", "drafted_tokens", "accepted_tokens"), 0),
    "asleep": 0,
    "blocks": 1,
}
"""Counts of an engine that has neither requests nor a KV cache."""


class Encoder(Closing):
    """A model that embeds texts; `Encoder.load` creates one.

    It has the methods that a server's worker calls of an engine; those that generate are refused.

    >>> from assay.engine.loading.synthetic import synthetic_model
    >>> with Encoder.load(synthetic_model("bert")) as encoder:
    ...     encoder.embed_batch(["Once", "upon a time"]).shape
    (2, 256)
    """

    def __init__(self, files: ModelFiles, device: Device, settings: dict[str, Any]) -> None:
        """Serve the model of these files; see `load`."""
        if not is_encoder(files):
            raise UnsupportedError(
                f'model "{files.name}": expected an encoder, got {files.architecture}',
                "Engine.load opens models that generate text; it embeds texts, too",
            )
        if settings["threads"]:
            limit_kernel_threads(settings["threads"])
        self.files = files
        self.device = device
        self._settings = settings
        format = None if settings["weight_format"] == AS_STORED else settings["weight_format"]
        self._model: EncoderModel | None = build_encoder(WeightSource(files, device, format))
        self._pooling = pooling_of(files.config)
        self._lock = threading.Lock()

    @classmethod
    def load(
        cls, source: str | PathLike[str] | ModelFiles, device: str | Device = "cpu", **given: Any
    ) -> Encoder:
        """Load the Hugging Face folder of an encoder; options are `weight_format` and `threads`."""
        files = source if isinstance(source, ModelFiles) else open_model(source)
        for name in given:
            if name not in SETTINGS:
                raise InputError(
                    f'encoder: expected knobs {" and ".join(SETTINGS)}, got "{name}"',
                    "the others are about generating text",
                )
        settings = {name: KNOBS[name].default for name in SETTINGS}
        settings |= {name: KNOBS[name].check(value) for name, value in given.items()}
        files.prepare()
        return cls(files, device_named(device), settings)

    @property
    def model(self) -> EncoderModel:
        """The model with its weights."""
        if self._model is None:
            raise InputError("encoder: expected an open encoder, got a closed one")
        return self._model

    @property
    def context_limit(self) -> int:
        """Most tokens of a text."""
        stated = self.files.config.get("max_seq_length")
        rows = self.model.description.context
        return rows if stated is None else min(rows, stated)

    @property
    def vocabulary(self) -> int:
        """Tokens of the vocabulary."""
        return self.model.description.vocabulary

    @property
    def degradations(self) -> list[str]:
        """What the encoder does less well than configured: nothing."""
        return []

    def embed(self, text: Prompt, adapter: str | None = None) -> Vectors:
        """The embedding of a text; it is not normalized to length one."""
        if adapter is not None:
            raise InputError(f'adapter: expected none, got "{adapter}"')
        found: Vectors = self.embed_batch([text])[0]
        return found

    def embed_batch(self, texts: Sequence[Prompt]) -> Vectors:
        """The embeddings of texts, a row for each, computed together."""
        tokens = [self._tokens(text) for text in texts]
        with self._lock:
            rows = [row for batch in _batches(tokens) for row in self._pooled(batch)]
        reshape: Vectors = np.array(rows, np.float32).reshape(
            len(tokens), self.model.description.hidden
        )
        return reshape

    def hidden_states(self, text: Prompt) -> Vectors:
        """The output of the last layer for each token of a text."""
        with self._lock:
            states: Vectors = transfer.values(self.model.hidden_states([self._tokens(text)]))
            return states.astype(np.float32)

    def _tokens(self, text: Prompt) -> list[int]:
        tokens = checked_tokens(text, self.files.tokenizer.encode, self.vocabulary)
        if len(tokens) > self.context_limit:
            raise InputError(
                f"text: expected at most {self.context_limit} tokens, got {len(tokens)}",
                "split it into several texts",
            )
        return tokens

    def _pooled(self, texts: Sequence[Sequence[int]]) -> Iterator[Vectors]:
        """One vector for each text."""
        states = transfer.values(self.model.hidden_states(texts)).astype(np.float32)
        first = 0
        for text in texts:
            rows = states[first : first + len(text)]
            first += len(text)
            if self._pooling == "mean":
                yield rows.mean(axis=0, dtype=np.float64).astype(np.float32)
            elif self._pooling == "max":
                yield rows.max(axis=0)
            else:
                yield rows[0 if self._pooling == "cls" else -1]

    def describe(self) -> dict[str, Any]:
        """The model, its memory and the settings."""
        model = self.model
        return {
            "model": self.files.name,
            "weights": None if self.files.path is None else str(self.files.path),
            "architecture": self.files.architecture,
            "synthetic": self.files.synthetic,
            "device": self.device.name,
            "context_limit": self.context_limit,
            "vocabulary": self.vocabulary,
            "layers": len(model.layers),
            "pooling": self._pooling,
            "weight_format": model.weight_format,
            "weight_bytes": model.weight_bytes,
            "notes": [*self.files.notes, *model.notes],
            "degradations": self.degradations,
            "settings": dict(self._settings),
        }

    @property
    def has_work(self) -> bool:
        """An embedding is computed in the call that asks for it."""
        return False

    def add_request(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to generate."""
        raise self._no_text()

    def score(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to tell how likely tokens are."""
        raise self._no_text()

    def step(self) -> list[StepOutput]:
        """Nothing is under way."""
        return []

    def abort(self, request_id: str) -> None:
        """Refuse: there are no requests."""
        raise InputError(f'request "{request_id}": expected one under way, got none')

    def statistics(self) -> dict[str, int]:
        """Counts of requests, tokens and blocks: there are none."""
        return dict(_NO_BLOCKS)

    def reset_prefix_cache(self) -> int:
        """Nothing is cached."""
        return 0

    def load_adapter(self, name: str, folder: object) -> NoReturn:
        """Encoders have no adapters."""
        raise UnsupportedError(f'adapter "{name}": expected a model that generates, got an encoder')

    def unload_adapter(self, name: str) -> NoReturn:
        """Encoders have no adapters."""
        self.load_adapter(name, None)

    def sleep(self) -> NoReturn:
        """Encoders are small, and stay awake."""
        raise UnsupportedError("sleep: expected a model that generates, got an encoder")

    def wake_up(self) -> None:
        """It is awake."""

    def close(self) -> None:
        """Free the weights."""
        self._model = None

    def _no_text(self) -> UnsupportedError:
        return UnsupportedError(
            f'model "{self.files.name}": expected a model that generates text, got an encoder',
            "it computes embeddings only",
        )


def _batches(texts: Sequence[list[int]]) -> Iterator[list[list[int]]]:
    """Texts in order, as many at once as there is room for."""
    batch: list[list[int]] = []
    count = 0
    for text in texts:
        if batch and count + len(text) > BATCH_TOKENS:
            yield batch
            batch, count = [], 0
        batch.append(text)
        count += len(text)
    if batch:
        yield batch
