"""What a deployment cannot exceed: formats of its tensor cores, context of its model."""

from __future__ import annotations

from assay.model import below, by_definition, cited
from assay.stack import works
from assay.stack.architecture import shapes as model
from assay.stack.kernels import device
from assay.stack.serving import deployment as d
from assay.stack.serving.deployment import scope

_H100 = cited(works.H100, "Table 3")

scope.inequality(
    "format_exists",
    device.format_exists(d.compute_bits) & (below(model.experts, 1) | device.format_exists(d.expert_bits)),
    "the GPU has tensor cores for the formats of operands",
    reference=_H100,
)
scope.inequality(
    "in_context",
    d.prompt + d.output <= model.context,
    "the tokens of a request are within the model's context",
    reference=by_definition("the model's configuration file"),
)
