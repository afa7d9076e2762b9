"""Mixtures of experts whose matrices are stored one by one."""

from __future__ import annotations

from assay.engine.architectures.decoder import Experts, Linear, Mlp, Routing
from assay.engine.architectures.schema import GATED, Config, activation


def experts(
    config: Config,
    routing: Routing,
    base: str,
    inner: int,
    *,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
    router: str = "gate",
    shared: Mlp | None = None,
    shared_gate: Linear | None = None,
) -> Experts:
    """Gate and up of an expert, then of the next; `names` are those of gate, up and down."""
    hidden, count = config["hidden_size"], routing.experts
    gate, up, down = names
    each = [f"{base}.experts.{expert}" for expert in range(count)]
    return Experts(
        routing=routing,
        router=Linear((f"{base}.{router}",), (count,), hidden),
        up=Linear(
            tuple(f"{one}.{name}" for one in each for name in (gate, up)),
            (inner,) * (2 * count),
            hidden,
        ),
        down=Linear(tuple(f"{one}.{down}" for one in each), (hidden,) * count, inner),
        inner=inner,
        activation=activation(config, "hidden_act", GATED),
        shared=shared,
        shared_gate=shared_gate,
    )
