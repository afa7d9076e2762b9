"""Time of a layer and of the head that the clock of the tensor cores bounds."""

from __future__ import annotations

from assay.model import cited, where
from assay.stack import software, works
from assay.stack.training import attention, experts, head, layer
from assay.stack.training.experts import expert_share
from assay.stack.training.job import scope
from assay.stack.training.weights import wide_stretch

_POWER = cited(works.NVML, "clocks event reasons")

_fused = where(
    software.attention.is_("native"),
    wide_stretch * attention.mean(attention.full.clock_bound, attention.windowed.clock_bound),
    attention.fused_time,
)
layer_clock_bound = scope.declare(
    "layer.clock_bound_time, t_Lf [s as ms]: time of a layer in one pass that grows as the power limit lowers "
    "the clock",
    equals=layer.projection.clock_bound
    + layer.output.clock_bound
    + (1 - expert_share) * (layer.up.clock_bound + layer.down.clock_bound)
    + expert_share * (experts.up.clock_bound + experts.down.clock_bound)
    + where(
        software.attention.is_("unfused"),
        (2 * attention.forwards + 4) * wide_stretch * attention.score_gemm.clock_bound,
        (attention.forwards + 2.5 / attention.backward_share) * _fused,
    ),
    reference=_POWER,
)
head_clock_bound = scope.declare(
    "head.clock_bound_time, t_hf [s as ms]: time of the output projection in one pass that grows as the power "
    "limit lowers the clock",
    equals=head.logits.clock_bound,
    reference=_POWER,
)
