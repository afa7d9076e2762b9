"""What clients are told of a model, and how its texts become tokens and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from assay.engine.loading.encoder_files import is_encoder
from assay.engine.server import reasoning, tools
from assay.engine.server.reasoning import ReasoningFormat
from assay.engine.server.tools import Family
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.engine.core.encoder import Encoder
    from assay.engine.core.engine import Engine
    from assay.engine.loading import ModelFiles

AUTO: Final = "auto"
NONE: Final = "none"


@dataclass(frozen=True)
class ServedModel:
    """The served model: its name, limits, tokenizer and chat template."""

    name: str
    context_limit: int
    vocabulary: int
    encode: Callable[[str], Sequence[int]]
    """Tokenizes a prompt; a BOS token is added where the model's files ask for it."""
    encode_rendered: Callable[[str], Sequence[int]]
    """Tokenizes a rendered chat template, which spells special tokens out."""
    token_bytes: Callable[[int], bytes]
    decode: Callable[[Sequence[int]], str]
    render_chat: Callable[..., str] | None
    """Renders messages with the chat template; None if the model has none."""
    renders_tools: bool = False
    """Whether the chat template shows tools to the model."""
    tool_family: Family | None = None
    """The format of the model's tool calls, where it is known."""
    reasoning: ReasoningFormat | None = None
    """The markers around the model's reasoning, if it has any."""
    special_tokens: frozenset[str] = frozenset()
    """Texts of special tokens, which outputs leave out."""
    chat_template: str | None = None
    """The text of the chat template."""
    special_names: Mapping[str, str] = field(default_factory=dict)
    """The texts of the BOS and EOS tokens, as `bos_token` and `eos_token`."""
    sampling: Mapping[str, float] = field(default_factory=dict)
    """The sampling parameters of the checkpoint, for requests that do not give their own."""
    by_priority: bool = False
    """Whether the engine schedules by priority."""
    stop_ids: frozenset[int] = frozenset()
    """The tokens that end an output."""
    template_variables: frozenset[str] = frozenset()
    """What the chat template reads."""
    can_constrain: bool = False
    """Whether the engine can constrain what an output looks like."""
    adapter: str | None = None
    """The LoRA adapter that its requests use."""
    parent: str | None = None
    """The model that the adapter belongs to."""
    is_encoder: bool = False
    """Whether it embeds texts and generates none."""
    created: int = field(default_factory=lambda: int(time.time()))


class ModelFacts(NamedTuple):
    """What only a loaded engine knows."""

    context_limit: int
    vocabulary: int
    adapters: Sequence[str] = ()
    by_priority: bool = False


def bounded_context(limit: int, max_model_len: int | None) -> int:
    """The tokens of a request at most: the engine's own limit, or less."""
    if max_model_len is not None and max_model_len > limit:
        raise InputError(
            f"max_model_len: expected at most {limit}, the limit of model and KV cache, got "
            f"{max_model_len}"
        )
    return max_model_len or limit


def served_model(
    engine: Engine,
    name: str,
    *,
    tool_call_parser: str = AUTO,
    reasoning_parser: str = AUTO,
    max_model_len: int | None = None,
) -> ServedModel:
    """An engine's model, under the name that clients use.

    `max_model_len` bounds a request below the engine's own limit.
    """
    return model_of_files(
        engine.files,
        name,
        bounded_context(engine.context_limit, max_model_len),
        engine.model.shape.vocabulary,
        tool_call_parser=tool_call_parser,
        reasoning_parser=reasoning_parser,
        by_priority=engine.settings.policy == "priority",
    )


def served_encoder(encoder: Encoder, name: str) -> ServedModel:
    """An encoder, under the name that clients use."""
    return model_of_files(encoder.files, name, encoder.context_limit, encoder.vocabulary)


def model_of_files(
    files: ModelFiles,
    name: str,
    context_limit: int,
    vocabulary: int,
    *,
    tool_call_parser: str = AUTO,
    reasoning_parser: str = AUTO,
    by_priority: bool = False,
) -> ServedModel:
    """The model of these files, under the name that clients use.

    The parsers of tool calls and reasoning are those that the chat template tells, those of the
    given names, or none.
    """
    tokenizer = files.tokenizer
    # Built now, so that the first prompt does not wait for it.
    tokenizer.build()
    is_encoder_ = is_encoder(files)
    template = None if is_encoder_ else files.chat_template
    text = "" if template is None else template.text
    family = tools.recognized(text)
    if tool_call_parser != AUTO:
        family = None if tool_call_parser == NONE else tools.family_named(tool_call_parser)
    split = reasoning.recognized(text)
    if reasoning_parser != AUTO:
        split = None if reasoning_parser == NONE else reasoning.format_named(reasoning_parser)
    return ServedModel(
        name=name,
        context_limit=context_limit,
        vocabulary=vocabulary,
        encode=tokenizer.encode,
        encode_rendered=partial(tokenizer.encode, add_special=False),
        token_bytes=tokenizer.piece,
        decode=tokenizer.decode,
        render_chat=None if template is None else template.render,
        renders_tools=template is not None and "tools" in template.variables,
        tool_family=family,
        reasoning=split,
        special_tokens=tokenizer.special_tokens,
        chat_template=None if template is None else template.text,
        special_names=tokenizer.special_texts,
        sampling={} if is_encoder_ else files.sampling,
        by_priority=by_priority,
        stop_ids=tokenizer.stop_ids,
        template_variables=frozenset() if template is None else template.variables,
        can_constrain=not is_encoder_,
        is_encoder=is_encoder_,
    )
