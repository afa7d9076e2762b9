"""Names of tensors in GGUF files, and the Hugging Face names of the same tensors."""

from __future__ import annotations

import re
from typing import Final

from assay.engine.loading.tensor_shapes import LM_HEAD, ROPE_FACTORS
from assay.errors import UnsupportedError

_LLAMA: Final = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "model.layers.{}.input_layernorm",
    "attn_q": "model.layers.{}.self_attn.q_proj",
    "attn_k": "model.layers.{}.self_attn.k_proj",
    "attn_v": "model.layers.{}.self_attn.v_proj",
    "attn_output": "model.layers.{}.self_attn.o_proj",
    "attn_q_norm": "model.layers.{}.self_attn.q_norm",
    "attn_k_norm": "model.layers.{}.self_attn.k_norm",
    "ffn_norm": "model.layers.{}.post_attention_layernorm",
    "ffn_gate": "model.layers.{}.mlp.gate_proj",
    "ffn_up": "model.layers.{}.mlp.up_proj",
    "ffn_down": "model.layers.{}.mlp.down_proj",
}
_POST_NORMS: Final = {
    "post_attention_norm": "model.layers.{}.post_attention_layernorm",
    "post_ffw_norm": "model.layers.{}.post_feedforward_layernorm",
}
_GEMMA: Final = {
    **_LLAMA,
    **_POST_NORMS,
    "ffn_norm": "model.layers.{}.pre_feedforward_layernorm",
}
_BY_ARCHITECTURE: Final[dict[str, dict[str, str]]] = {
    "gemma2": _GEMMA,
    "gemma3": _GEMMA,
    "olmo2": {**_LLAMA, **_POST_NORMS},
}
_GPT2: Final = {
    "token_embd": "transformer.wte",
    "position_embd": "transformer.wpe",
    "output_norm": "transformer.ln_f",
    "attn_norm": "transformer.h.{}.ln_1",
    "attn_qkv": "transformer.h.{}.attn.c_attn",
    "attn_output": "transformer.h.{}.attn.c_proj",
    "ffn_norm": "transformer.h.{}.ln_2",
    "ffn_up": "transformer.h.{}.mlp.c_fc",
    "ffn_down": "transformer.h.{}.mlp.c_proj",
}
_EXACT_NAMES: Final = {"output.weight": LM_HEAD, ROPE_FACTORS: ROPE_FACTORS}
_NAME_PATTERN: Final = re.compile(r"(?:blk\.(0|[1-9][0-9]{0,5})\.)?([a-z_]+)\.(weight|bias)")


def hugging_face_name(where: str, architecture: str, name: str) -> str:
    """The Hugging Face name of a tensor of a GGUF file.

    >>> hugging_face_name("a.gguf", "llama", "blk.3.attn_q.weight")
    'model.layers.3.self_attn.q_proj.weight'
    """
    if name in _EXACT_NAMES:
        return _EXACT_NAMES[name]
    if match := _NAME_PATTERN.fullmatch(name):
        layer, stem, kind = match.groups()
        names = _GPT2 if architecture == "gpt2" else _BY_ARCHITECTURE.get(architecture, _LLAMA)
        known = names.get(stem)
        if known is not None and ("{}" in known) == (layer is not None):
            return f"{known.format(layer)}.{kind}"
    raise UnsupportedError(
        f'{where}: expected only the tensors of a {architecture} model, got "{name}"'
    )
