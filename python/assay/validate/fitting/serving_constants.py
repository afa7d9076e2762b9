"""Constants of serving engines that are fitted, with their priors.

Each constant has a value for all engines and a deviation of every engine's own, so that an engine
of which little is known is close to the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ENGINES = ("trtllm", "vllm", "sglang")
SERVER = ("inferencex", "closed_loop", "open_loop")
CLIENTS = {"": (*SERVER, "offline"), "server": SERVER, "interactive": ("closed_loop", "open_loop")}
"""Groups of clients that share a constant: all, those with a streaming server, and those among
them that read tokens as they come."""


@dataclass(frozen=True)
class Free:
    """A constant to fit, with a hierarchical prior.

    `value` and `spread` are the prior of all engines together, `own_spread` that of one engine's
    deviation; all spreads are of logarithms. `client` restricts it, `most` bounds it.
    """

    name: str
    value: float
    spread: float
    own_spread: float
    unit: str
    client: str = ""
    most: float = math.inf

    @property
    def clients(self) -> tuple[str, ...]:
        """The clients that it holds for."""
        return CLIENTS.get(self.client, (self.client,))


SHARED = (
    Free("host_time", 2e-4, 0.8, 0.6, "s"),
    Free("host_sequence_time", 4e-6, 0.8, 0.5, "s", "server"),
    Free("host_sequence_time", 2e-6, 1.0, 0.5, "s", "offline"),
    # HTTP, tokenizer, scheduler and detokenizer of a server that is not busy.
    Free("request_time", 0.005, 0.5, 0.4, "s", "interactive"),
    Free("request_time", 0.012, 0.7, 0.7, "s", "inferencex"),
    Free("layer_kernels", 5.0, 0.3, 0.08, "1"),
    Free("expert_kernels", 4.0, 0.4, 0.1, "1"),
    Free("reduction_wait", 4e-6, 0.3, 0.2, "s"),
    # Kernels in a stream against kernels in a graph, NVIDIA's launch benchmarks: 1 to 3 us.
    Free("kernel_gap", 2e-6, 0.4, 0.1, "s"),
    # vLLM's blog on 0.6: a third of the time of an 8B model on an H100 in the API server.
    Free("stream_time", 4e-5, 0.4, 0.1, "s", "server"),
    # Tables time kernels launched one by one; vLLM's decode steps of Qwen3-30B-A3B on an H200, in
    # CUDA graphs, take 0.8 of the time above the roofline.
    Free("expert_slowdown", 0.8, 0.2, 0.1, "1"),
    # Uneven routing and untuned tiles only slow them.
    Free("prompt_expert_slowdown", 1.15, 0.1, 0.1, "1"),
    Free("decode_slowdown", 1.0, 0.1, 0.1, "1"),
    Free("casting", 0.4, 0.5, 0.2, "1", most=1.0),
    Free("queue_factor", 0.3, 0.7, 0.3, "1"),
    Free("burst_share", 0.15, 0.5, 0.5, "1", "closed_loop", 1.0),
    Free("step_share", 0.1, 0.7, 0.3, "1", "closed_loop", 1.0),
    # Engines hand out the tokens of an iteration when they have launched the next.
    Free("first_iterations", 1.0, 0.2, 0.15, "1", "interactive"),
    # InferenceX sets TensorRT-LLM's stream_interval to 10 or 20.
    Free("first_iterations", 2.0, 0.7, 0.7, "1", "inferencex"),
)
"""Constants of every engine, each with a deviation."""

OWN = {
    # Times over 8-bit keys as the decode tables of the three engines have them.
    "vllm": (Free("narrow_key_time", 0.97, 0.05, 0.0, "1"),),
    "sglang": (Free("narrow_key_time", 0.88, 0.05, 0.0, "1"),),
    "trtllm": (Free("narrow_key_time", 0.55, 0.05, 0.0, "1"),),
}
"""Constants of one engine only."""
