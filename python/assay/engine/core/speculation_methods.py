"""The methods of speculative decoding by name, and the proposer of each for an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from assay.engine.core import gpu_limits
from assay.engine.core.knobs import AS_STORED, Settings
from assay.engine.loading import ModelFiles, open_model
from assay.engine.models.model import Model
from assay.engine.models.registry import build_model
from assay.engine.runner.kv_memory import KvMemory
from assay.engine.runner.model_runner import KvCache, ModelRunner
from assay.engine.speculation.draft_model import DraftModelProposer
from assay.engine.speculation.layer_skip import KvLayers, LayerSkipProposer, kept_layers, skipping
from assay.engine.speculation.lookahead import LookaheadProposer
from assay.engine.speculation.ngram import NgramProposer
from assay.engine.speculation.paying import PayingProposer
from assay.engine.speculation.proposer import Proposer
from assay.errors import InputError, UnsupportedError
from assay.runtime import Device, Stream

_COMPARED_TOKENS: Final = 512
"""Tokens whose texts are compared, spread over the vocabulary."""


class Target(NamedTuple):
    """The engine that draft tokens are for."""

    device: Device
    settings: Settings
    model: Model
    kv: KvMemory
    max_model_len: int
    prefix_caching: bool
    draft: Model | None
    """The draft model, where the method has one."""
    capture_stream: Stream
    """What steps of a draft are captured on."""


def draft_model(files: ModelFiles, device: Device, settings: Settings) -> Model | None:
    """The weights of the draft model; None where the method needs none."""
    if not settings.speculation_depth or settings.speculation_method != "draft_model":
        return None
    source = files
    if settings.draft_model:
        source = open_model(settings.draft_model)
        _check_tokens(files, source)
    format = settings.draft_weight_format
    if format == AS_STORED and source is files:
        # The same weights in the same format share memory with the model.
        format = settings.weight_format
    model = build_model(source, device, None if format == AS_STORED else format)
    gpu_limits.check_shape(device, model.shape)
    return model


def proposer(target: Target) -> Proposer:
    """What proposes draft tokens for an engine with these settings."""
    chosen = _METHODS[target.settings.speculation_method](target)
    return PayingProposer(chosen) if target.settings.draft_policy == "paying" else chosen


def _ngram(_: Target) -> Proposer:
    return NgramProposer()


def _lookahead(_: Target) -> Proposer:
    return LookaheadProposer()


def _draft_model(target: Target) -> Proposer:
    draft, settings = target.draft, target.settings
    assert draft is not None
    if draft.shape.state is not None:
        raise UnsupportedError(
            f"draft_model: expected a model with a KV cache, got {draft.architecture}",
            "the states of state-space layers cannot take tokens back",
        )
    counts = target.kv.block_manager.statistics()
    kv = KvMemory(
        target.device,
        draft.shape,
        blocks=counts["blocks"],
        block_tokens=counts["block_tokens"],
        format=settings.kv_format,
        prefix_caching=target.prefix_caching,
        owner=lambda: ("draft",),
    )
    context = min(target.max_model_len, draft.shape.context)
    runner = _runner(target, draft, kv, settings.token_budget, context)
    return DraftModelProposer(runner, kv, target.model.shape.vocabulary, context)


def _layer_skip(target: Target) -> Proposer:
    model, kv = target.model, target.kv
    if model.layer_stream is not None:
        raise InputError(
            "speculation_method: expected one beside offload_layers, got layer_skip",
            "a draft would copy the layers again: draft with ngram, lookahead or draft_model",
        )
    layers = model.shape.layers
    count = target.settings.draft_layers or max(layers // 2, 1)
    if count > layers:
        raise InputError(
            f"draft_layers: expected at most the model's {layers}, got {count}",
            "0 drafts with half of them",
        )
    kept = kept_layers(layers, count)
    view = KvLayers(
        tuple(kv.keys[layer] for layer in kept),
        # Latent attention has no values.
        tuple(kv.values[layer] for layer in kept if kv.values),
        kv.block_manager,
    )
    runner = _runner(
        target, skipping(model, kept), view, target.settings.max_batch, target.max_model_len
    )
    vocabulary = model.shape.vocabulary
    return LayerSkipProposer(runner, kv.block_manager, kv.copy_block, vocabulary)


_METHODS: Final[dict[str, Callable[[Target], Proposer]]] = {
    "ngram": _ngram,
    "lookahead": _lookahead,
    "draft_model": _draft_model,
    "layer_skip": _layer_skip,
}


def _runner(
    target: Target, model: Model, kv: KvCache, max_num_tokens: int, max_model_len: int
) -> ModelRunner:
    settings = target.settings
    return ModelRunner(
        model,
        target.device,
        kv,
        max_num_tokens=max_num_tokens,
        max_num_seqs=settings.max_batch,
        max_num_samples=settings.max_batch,
        max_model_len=max_model_len,
        # Draft tokens may depend on the batch: the model verifies them.
        batch_invariant=False,
        graph_buckets=settings.graph_buckets,
        num_splits=settings.attention_split,
        capture_stream=target.capture_stream,
    )


def _check_tokens(target: ModelFiles, draft: ModelFiles) -> None:
    """Refuse a draft model whose tokens mean other texts."""
    size = min(target.tokenizer.vocab_size, draft.tokenizer.vocab_size)
    for token in range(0, size, max(size // _COMPARED_TOKENS, 1)):
        expected, got = target.tokenizer.text_of(token), draft.tokenizer.text_of(token)
        if expected != got:
            raise InputError(
                f"draft_model: expected the tokens of {target.name}, got another vocabulary: "
                f"token {token} is {got!r}, not {expected!r}",
                "draft with a model of the same family",
            )
