"""Experts of one layer and pass: rows of each, their GEMMs, and the permutation of tokens.

Tokens are spread evenly over experts, as a balancing loss or the benchmark's routing makes them.
Each expert has a part of the rows; the GEMMs of all experts of a GPU fill waves together.
"""

from __future__ import annotations

from assay.model import at_least, by_definition, cited, fitted, number, where
from assay.stack import parallelism, software, works
from assay.stack.architecture import parameters, shapes
from assay.stack.training.job import compute_bits, scope
from assay.stack.training.weights import Group, declare_weight, tensor, tokens

_SWITCH = cited(works.SWITCH_TRANSFORMERS, "sec. 2.1")
_DISPATCH = cited(works.MEGATRON_CODE, "MoE all-to-all dispatcher")
_FITTED = fitted("docs/design/training-model.md", "published steps")
_HALF_TILE = 64
"""Rows of half a tile of 128: the last tile of an expert is half full on average."""

is_mixture = at_least(shapes.experts, 1)
expert_share = scope.declare(
    "expert_share, s_e: share of layers with experts",
    bounds=(0, 1),
    equals=parameters.expert_layers / shapes.layers,
    reference=_SWITCH,
)
rows = scope.declare(
    "expert.rows, n_r: rows of all experts of a GPU: tokens times the experts of each",
    equals=tokens * shapes.experts_per_token * parallelism.expert_tensor / tensor,
    reference=_SWITCH,
)
local = scope.declare(
    "expert.local, E_l: experts of a GPU",
    equals=where(is_mixture, shapes.experts / parallelism.expert, 1),
    reference=by_definition("experts over expert-parallel ranks"),
)
# Shared experts take every token: their FLOPs are in proportion to those of the chosen ones.
_shared = 1 + shapes.shared_experts / where(is_mixture, shapes.experts_per_token, 1)
_group = Group(rows=where(is_mixture, rows, tokens) + local * _HALF_TILE, count=local, times=_shared)
_width = where(is_mixture, shapes.expert_ffn, 1) / parallelism.expert_tensor
up = declare_weight(
    "expert_up",
    (shapes.ffn_matrices - 1) * _width,
    shapes.hidden,
    compute_bits,
    "the experts' up projection, including shared experts",
    group=_group,
)
down = declare_weight(
    "expert_down",
    shapes.hidden,
    _width,
    compute_bits,
    "the experts' down projection, including shared experts",
    group=_group,
)
separate_multiple = scope.declare(
    "expert_multiple, k_x: bytes of separate passes over tokens of experts over those of fused ones",
    bounds=("positive", None),
    reference=_FITTED,
    boundary="needs-source",
)
pass_multiple = scope.declare(
    "expert.pass_multiple, k_f: bytes of the passes over tokens of experts in this software over those of fused ones",
    equals=software.expert_fusion + (1 - software.expert_fusion) * separate_multiple,
    reference=by_definition("the mean of fused and separate passes"),
)
# A token is read once and written for each of its experts, and the outputs are read and summed. A
# rank with several experts also sorts its rows by expert after the exchange, and back before the next.
_row_bytes = number("4 byte") + where(local > 1, number("8 byte"), number("0 byte"))
permuted_size = scope.declare(
    "expert.permuted_size, S_x [byte as MB]: bytes of the permutation of tokens to experts and back in a layer, "
    "forward",
    equals=pass_multiple * shapes.hidden * (rows * _row_bytes + tokens / tensor * number("4 byte")),
    reference=_DISPATCH,
)
