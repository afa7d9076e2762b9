"""One iteration of an engine: decoding requests, each with one token, and tokens of prompts.

An iteration is declared once for every load that a latency needs; what is multiplied, attended
to, passed over and reduced are instances of the kernels' and the collectives' templates.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.model import (
    Expression,
    Reference,
    Variable,
    by_definition,
    cited,
    maximum,
    minimum,
    number,
    where,
)
from assay.model.language.expression import Operand
from assay.stack import architecture as model
from assay.stack import collectives, interconnect
from assay.stack.kernels import (
    attention_decode,
    attention_prefill,
    device,
    experts,
    gemm,
    passes,
    product,
)
from assay.stack.serving import deployment as d
from assay.stack.serving import engine
from assay.stack.serving.deployment import ONE_TOKEN, scope

_MEGATRON = cited(
    "Shoeybi et al. 2019, Megatron-LM: Training Multi-Billion Parameter Language Models Using "
    "Model Parallelism",
    "sec. 3",
)
_ORCA = cited(
    "Yu et al. 2022, Orca: A Distributed Serving System for Transformer-Based Generative Models",
    "sec. 4",
)
_LATENT = cited(
    "DeepSeek-AI 2024, DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts "
    "Language Model",
    "sec. 2.1",
)
_SUM = by_definition("kernels of one stream run one after the other")

_NONE = number("0")
_WIDE_BITS = number("16")
_WIDE = number("2 byte")
_BYTE = number("1 byte")
# Everything an iteration touches lies between two uses of a weight: it is never in the cache.
_COLD = number("1 TB")


@dataclass(frozen=True)
class Load:
    """What an iteration carries, over all attention replicas; None where there is nothing."""

    decoding: Expression | None
    context: Expression
    prompt_tokens: Expression | None
    prompt: Expression


@dataclass(frozen=True)
class Iteration:
    """Time of an iteration and its parts."""

    time: Variable
    projections: Variable
    attention: Variable
    feed_forward: Variable
    passes: Variable
    reductions: Variable
    head: Variable


def declare(prefix: str, what: str, load: Load) -> Iteration:
    """Declare the time of one iteration under a prefix."""
    return _Declaration(prefix, what, load).iteration()


class _Declaration:
    """The parts of one iteration, in the order of a layer."""

    def __init__(self, prefix: str, what: str, load: Load) -> None:
        self.prefix, self.what, self.load = prefix, what, load
        self.decoding = _NONE if load.decoding is None else load.decoding
        self.prompt_tokens = _NONE if load.prompt_tokens is None else load.prompt_tokens
        self.tokens = self._variable(
            "tokens", "n", "1", f"tokens of {what}", self.decoding + self.prompt_tokens, _ORCA
        )
        # One prompt is not cut over replicas: the replica that has it sets the pace.
        self.own_prompts = maximum(
            self.prompt_tokens / d.attention_replicas,
            minimum(self.prompt_tokens, load.prompt / ONE_TOKEN),
        )
        self.own_decoding = self.decoding / d.attention_replicas
        self.own = self._variable(
            "replica_tokens", "n_r", "1", f"tokens of {what} on the busiest attention replica",
            self.own_decoding + self.own_prompts, _ORCA,
        )  # fmt: skip

    def _variable(
        self, name: str, symbol: str, unit: str, meaning: str, equals: Operand, reference: Reference
    ) -> Variable:
        return scope.variable(
            f"{self.prefix}{name}", symbol, unit, meaning, equals=equals, reference=reference,
            display="ms" if unit == "s" else None,
        )  # fmt: skip

    def _product(
        self, name: str, what: str, rows: Operand, columns: Operand, depth: Operand,
        wide: bool = False,
    ) -> Variable:  # fmt: skip
        bits = _WIDE_BITS if wide else d.compute_bits
        element = _WIDE if wide else d.weight_bytes
        shape = product.ProductShape(
            rows=maximum(rows, 1), columns=maximum(columns, 1), depth=maximum(depth, 1),
            bits=bits, weight_element=element, activation_element=bits / 8 * _BYTE,
            output_element=_WIDE, weight_footprint=_COLD,
            activation_footprint=maximum(rows, 1) * maximum(depth, 1) * _WIDE, toggling=number("1"),
        )  # fmt: skip
        made = product.declare(scope, f"{self.prefix}{name}.", shape, what=f"{what} in {self.what}")
        return made.time

    def projections(self) -> Variable:
        """Products around the attention of all layers."""
        ranks = d.attention_ranks
        heads = model.heads / ranks
        kv_heads = maximum(model.kv_heads / ranks, 1)
        is_latent = model.latent_width > 0
        query = where(model.query_width > 0, model.query_width, heads * model.head_size)
        grouped = (1 + model.attention_gate) * heads * model.head_size + kv_heads * (
            model.head_size + model.value_size
        )
        into = self._product(
            "qkv", "queries, keys and values", self.own,
            where(is_latent, query + model.latent_width + model.rotary_width, grouped),
            model.hidden,
        )  # fmt: skip
        queries = self._product(
            "latent_query", "queries from their latent", self.own, heads * model.head_size,
            model.query_width,
        )  # fmt: skip
        expanded = self._product(
            "latent_values", "keys and values from their latent", self.own,
            heads * (model.head_size - model.rotary_width + model.value_size), model.latent_width,
            wide=True,
        )  # fmt: skip
        out = self._product(
            "out", "attention outputs", self.own, model.hidden, heads * model.value_size
        )
        latent = where(
            is_latent,
            expanded + where(model.query_width > 0, queries, number("0 s")),
            number("0 s"),
        )
        # Layers with a fixed state have products of other shapes; their time goes by their weights.
        linear = model.linear_layers * model.linear_matrices / model.attention_matrices
        return self._variable(
            "projection_time", "t_p", "s", f"products around attention in {self.what}",
            model.attention_layers * (into + latent + out) + linear * (into + out), _LATENT,
        )  # fmt: skip

    def attention(self) -> Variable:
        """Attention of all layers, decoding and prompts."""
        total: Expression = number("0 s")
        for layers, name, reach in (
            (model.full_layers, "full", model.index_tokens),
            (model.window_layers, "window", model.window),
        ):
            if self.load.decoding is not None:
                total = total + layers * self._decode_attention(name, reach)
            if self.load.prompt_tokens is not None:
                total = total + layers * self._prompt_attention(name, reach)
        state = passes.declare(
            scope, f"{self.prefix}state.",
            size=2 * self.own * model.state_elements / maximum(model.linear_layers, 1)
            / d.attention_ranks * d.kv_bytes,
            kernels=number("3"), what=f"fixed states in {self.what}",
        )  # fmt: skip
        return self._variable(
            "attention_time", "t_a", "s", f"attention in {self.what}",
            total + model.linear_layers * state.time, _ORCA,
        )  # fmt: skip

    def _decode_attention(self, name: str, reach: Expression) -> Expression:
        is_latent = model.latent_width > 0
        heads = model.heads / d.attention_ranks
        grouped = maximum(
            maximum(model.kv_heads / d.attention_ranks, 1), heads / engine.group_limit
        )
        width = where(is_latent, model.latent_width + model.rotary_width, model.head_size)
        value = where(is_latent, model.latent_width, model.value_size)
        shape = attention_decode.DecodeShape(
            batch=maximum(self.own_decoding, 1), context=self.load.context / ONE_TOKEN,
            window=reach, heads=maximum(heads, 1), kv_heads=where(is_latent, 1, grouped),
            width=width, value_width=value,
            element=_WIDE, kv_element=d.kv_bytes, footprint=_COLD,
        )  # fmt: skip
        made = attention_decode.declare(
            scope, f"{self.prefix}decode_{name}.", shape,
            what=f"attention of new tokens in {self.what}",
        )  # fmt: skip
        # The template is fitted on 16-bit keys; whether narrow ones are faster is the engine's.
        is_narrow = d.kv_bytes < _WIDE
        time = engine.decode_slowdown * where(is_narrow, engine.narrow_key_time, 1) * made.time
        stream = gemm.read_share * device.memory_bandwidth
        return maximum(time, made.size * (d.kv_bytes / _WIDE) / stream)

    def _prompt_attention(self, name: str, reach: Expression) -> Expression:
        is_latent = model.latent_width > 0
        heads = model.heads / d.attention_ranks
        whole = self.load.prompt / ONE_TOKEN
        length = minimum(whole, self.own_prompts)
        shape = attention_prefill.PrefillShape(
            batch=maximum(self.own_prompts / length, 1), length=length,
            keys=(whole + length) / 2, window=reach, heads=maximum(heads, 1),
            kv_heads=where(is_latent, maximum(heads, 1), maximum(model.kv_heads / d.attention_ranks, 1)),
            width=model.head_size, value_width=model.value_size, element=_WIDE, kv_element=_WIDE,
        )  # fmt: skip
        made = attention_prefill.declare(
            scope, f"{self.prefix}prompt_{name}.", shape,
            what=f"attention of prompts in {self.what}",
        )  # fmt: skip
        return made.time

    def feed_forward(self) -> Variable:
        """Dense feed-forwards, shared experts and routed experts of all layers."""
        has_shared = (model.experts > 0) & (model.shared_experts > 0)
        shared = model.shared_experts * model.expert_ffn
        width = where(has_shared, shared, model.ffn) / d.tensor
        # A dense layer among layers of experts counts by its width.
        layers = where(
            has_shared,
            model.expert_layers + model.plain_layers * model.ffn / maximum(shared, 1),
            model.plain_layers,
        )
        gates = model.ffn_matrices - 1
        up = self._product("ffn_up", "feed-forwards, up", self.tokens, gates * width, model.hidden)
        down = self._product("ffn_down", "feed-forwards, down", self.tokens, model.hidden, width)
        return self._variable(
            "feed_forward_time", "t_f", "s", f"feed-forwards in {self.what}",
            layers * (up + down) + model.expert_layers * self._experts(), _MEGATRON,
        )  # fmt: skip

    def _experts(self) -> Expression:
        here = maximum(model.experts / d.expert, 1)
        width = maximum(model.expert_ffn * d.expert / d.tensor, 1)

        def one(name: str, columns: Expression, depth: Expression) -> Expression:
            shape = experts.ExpertsShape(
                tokens=maximum(self.tokens, 1), experts=here,
                chosen=where(model.experts > 0, model.experts_per_token / d.expert, 1),
                columns=columns, depth=depth, bits=d.expert_bits, weight_element=d.expert_bytes,
                activation_element=maximum(d.expert_bits / 8, 1) * _BYTE,
            )  # fmt: skip
            return experts.declare(
                scope, f"{self.prefix}{name}.", shape, what=f"experts in {self.what}"
            ).time

        up = one("experts_up", (model.ffn_matrices - 1) * width, model.hidden)
        down = one("experts_down", model.hidden, width)
        return engine.expert_slowdown * (up + down)

    def small(self) -> Variable:
        """Norms, rotations, activations, casts; routing and gathering of experts."""
        ranks = d.attention_ranks
        attended = (model.query_size + model.kv_size) / ranks
        size = _WIDE * (
            self.own * (6 * model.hidden + 2 * attended) + 3 * self.tokens * model.ffn / d.tensor
        )
        layer = passes.declare(
            scope, f"{self.prefix}layer_passes.", size=size, kernels=engine.layer_kernels,
            what=f"passes of a layer in {self.what}",
        )  # fmt: skip
        chosen = model.experts_per_token / d.expert
        routed = (
            _WIDE
            * self.tokens
            * chosen
            * (3 * model.hidden + 3 * model.expert_ffn * d.expert / d.tensor)
        )
        routing = passes.declare(
            scope, f"{self.prefix}routing.", size=routed, kernels=engine.expert_kernels,
            what=f"routing of a layer in {self.what}",
        )  # fmt: skip
        return self._variable(
            "pass_time", "t_e", "s", f"passes over activations in {self.what}",
            model.layers * layer.time + model.expert_layers * routing.time, _SUM,
        )  # fmt: skip

    def reductions(self) -> Variable:
        """Sums over GPUs after attention and after the feed-forward of all layers."""
        # With replicas, gathering all tokens and scattering the sums costs what one sum does.
        attended = self._reduction("attention_sum", self.own, d.attention_ranks)
        mixed = self._reduction("feed_forward_sum", self.tokens, d.tensor)
        return self._variable(
            "reduction_time", "t_r", "s", f"sums over GPUs in {self.what}",
            model.layers * (attended + mixed), _MEGATRON,
        )  # fmt: skip

    def _reduction(self, name: str, tokens: Expression, ranks: Expression) -> Expression:
        local = minimum(ranks, interconnect.node_ranks)
        size = tokens * model.hidden * _WIDE
        inside = collectives.node_all_reduce(
            scope, f"{self.prefix}{name}.", size=size, ranks=local, direct=number("1")
        )
        across = collectives.all_reduce(
            scope, f"{self.prefix}{name}.across.", size=size / local, ranks=ranks / local,
            latency=interconnect.nic_latency, bandwidth=interconnect.nic_rate,
        )  # fmt: skip
        waiting = where(ranks > 1, engine.reduction_wait, number("0 s"))
        return waiting + inside + where(ranks > local, across, number("0 s"))

    def head(self) -> Variable:
        """Logits of the tokens that are sampled: one a request, one a finished prompt."""
        prompts = self.prompt_tokens / maximum(self.load.prompt / ONE_TOKEN, 1)
        return self._product(
            "logits", "logits", self.decoding + prompts, model.vocabulary / d.tensor, model.hidden,
            wide=True,
        )  # fmt: skip

    def iteration(self) -> Iteration:
        """Everything, and the sum."""
        projections, attention = self.projections(), self.attention()
        feed_forward, small = self.feed_forward(), self.small()
        reductions, head = self.reductions(), self.head()
        host = engine.host_time + engine.host_sequence_time * self.decoding
        sends = (d.pipeline - 1) * interconnect.link_latency
        time = self._variable(
            "time", "t", "s", f"time of {self.what}",
            projections + attention + feed_forward + small + reductions + head + host + sends,
            _SUM,
        )  # fmt: skip
        return Iteration(time, projections, attention, feed_forward, small, reductions, head)
