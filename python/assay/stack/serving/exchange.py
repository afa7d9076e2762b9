"""Exchange of tokens between expert ranks: dispatch to the experts, combine of their outputs."""

from __future__ import annotations

from assay.model import Expression, cited, maximum, minimum, number, where
from assay.stack import alpha_beta, interconnect, works
from assay.stack.alpha_beta import Medium, Span
from assay.stack.architecture import shapes as model
from assay.stack.collectives.spans import LINKS
from assay.stack.serving import deployment as d
from assay.stack.serving.deployment import scope
from assay.stack.serving.load import BYTE, BYTES_16_BIT, Step

_KERNELS = cited(
    "DeepSeek-AI 2025, DeepEP, docs/legacy.md", "low-latency kernels: 39 GB/s of 50 GB/s from 128 ranks on"
)
_DISPATCH = cited(works.DEEPSEEK_V3, "sec. 3.2.2 and 3.4.2")

share = scope.declare(
    "exchange.share, eta_x: share of the adapters' line rate that dispatch and combine kernels reach",
    bounds=("positive", 1),
    equals=number("0.78"),
    reference=_KERNELS,
)
_RAILS = Medium(interconnect.nic_latency, share * interconnect.bisection_bandwidth * number("1 GPU"))
_local = minimum(d.expert, interconnect.node_ranks)
_nodes = maximum(d.expert / interconnect.node_ranks, 1)
_span = Span(_local, d.expert / _local, LINKS, _RAILS)
# In prefill one copy of a token is sent to each node that has some of its experts, and forwarded
# inside. In decode every expert is sent a copy of its own, which saves the forwarding.
copies = scope.declare(
    "exchange.forwarded_copies, n_c: nodes that have some of the experts of a token, mean",
    equals=_nodes * (1 - (1 - 1 / _nodes) ** model.experts_per_token),
    reference=_DISPATCH,
)


def declare(step: Step) -> Expression:
    """Declare the time of dispatch and combine in a layer, for one micro-batch of a step."""
    has_prompts = step.load.prompt_tokens is not None
    sent: Expression = copies if has_prompts else model.experts_per_token
    if step.load.optional:
        sent = where(step.prompt_tokens > 0, copies, model.experts_per_token)
    elements = step.own * sent * model.hidden
    narrow = maximum(d.expert_bits / 8, 1) * BYTE
    times = [
        step.declare(
            f"exchange.{name}_time, t_x [s as ms]: {name} of tokens in a layer of {step.what}",
            alpha_beta.spanning_all_to_all(elements * element, _span),
            _DISPATCH,
        )
        for name, element in (("dispatch", narrow), ("combine", BYTES_16_BIT))
    ]
    return times[0] + times[1]
