"""KV-cache elements per token, by kind of attention layer."""

from __future__ import annotations

from assay.model import Reference, Variable, number, where
from assay.model.language.expression import Operand
from assay.stack.architecture import parameters as p, shapes as s


def _elements(heading: str, equals: Operand, reference: Reference) -> Variable:
    return s.scope.declare(heading, equals=equals, reference=reference)


layer_elements = _elements(
    "kv.layer_elements_per_token, k_l [1/token]: KV-cache elements of one token in one attention layer",
    number("1 1/token") * (where(s.latent_width > 0, s.latent_width + s.rotary_width, p.kv_size) + s.index_size),
    s.LATENT,
)
full_elements = _elements(
    "kv.full_elements_per_token, k_f [1/token]: KV-cache elements of one token in full-attention layers",
    p.full_layers * layer_elements,
    s.GROUPED,
)
window_elements = _elements(
    "kv.window_elements_per_token, k_w [1/token]: KV-cache elements of one token in sliding-window layers, "
    "inside the window",
    p.window_layers * layer_elements,
    s.WINDOW,
)
elements_per_token = _elements(
    "kv.elements_per_token, k [1/token]: KV-cache elements of one token in all layers",
    full_elements + window_elements,
    s.GROUPED,
)
state_elements = s.scope.declare(
    "kv.state_elements, k_s: elements of the fixed states of one sequence",
    equals=p.linear_layers
    * (
        s.linear_value_heads * s.linear_key_size * s.linear_value_size
        + where(s.convolution > 1, s.convolution - 1, 0) * p.linear_channels
    ),
    reference=s.LINEAR,
)
