"""Embedding, output projection, softmax and loss of one pass."""

from __future__ import annotations

from assay.model import cited, number, where
from assay.stack import software, works
from assay.stack.architecture import shapes
from assay.stack.kernels import passes
from assay.stack.training.job import scope
from assay.stack.training.weights import declare_weight, tensor, tokens

_HEAD = cited(works.MEGATRON_CLUSTERS, "appendix, floating-point operations")

_vocabulary = shapes.vocabulary / tensor
logits = declare_weight("logits", _vocabulary, shapes.hidden, number("16"), "the output projection", is_repeated=False)
loss = passes.declare(
    scope,
    "loss.",
    tokens * _vocabulary * where(software.fused_passes, number("20 byte"), number("30 byte"))
    + tokens * shapes.hidden * number("12 byte"),
    12,
    what="softmax, loss and embedding, both directions",
)
head_time = scope.declare(
    "head.time, t_h [s as ms]: embedding, output projection and loss of one pass, both directions",
    equals=logits.forward + logits.backward + loss.time,
    reference=_HEAD,
)
