"""What a window of a workload measured: a record for each request, and figures over all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Setting = int | float | str | bool | None
"""The value of a knob."""

LoadState = Literal["stable", "backlogged", "overloaded"]
"""Stable: as much left as arrived. Backlogged: a queue that does not grow. Overloaded: it grows;
latencies of such a window are never scored."""


STOPPED: Final = "stop"
"""The reason of an answer that ended by itself, before it had all tokens that it was asked for."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request; times are seconds of the monotonic clock, counted from the window's start."""

    number: int
    sent_s: float
    first_token_s: float | None
    """None where it failed before its first token."""
    end_s: float
    prompt_tokens: int
    output_tokens: int
    """Tokens, not chunks: a step of speculative decoding adds several."""
    itls_s: tuple[float, ...] = ()
    """Inter-token latencies: from one arrival of tokens to the next."""
    error: str | None = None
    scheduled_s: float | None = None
    """When an open loop meant to send it."""
    digest: str = ""
    """SHA-256 of the output's text or tokens: equal work can be told from skipped work."""
    output: str | tuple[int, ...] = ""
    """The output itself, as tokens where the engine gives them: what an answer that differs says."""
    finish_reason: str = ""
    """Why the server says that generation ended: length, stop, tool_calls; empty where it does not."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One window."""

    workload: str
    started_at: float
    """Seconds since 1970, for joining with telemetry."""
    seconds: float
    records: tuple[RequestRecord, ...]
    figures: Mapping[str, float]
    """Names as `vllm bench serve` writes them: output_throughput, mean_ttft_ms, p99_tpot_ms ..."""
    load_state: LoadState
    settings: Mapping[str, Setting]
    """Read back from the engine during the window, not what was asked for."""
    client_cpu_share: float | None = None
    """CPU seconds that the load client spent, for each second of the window."""
    disturbances: tuple[str, ...] = ()
    """Why the window should not count: throttling, other processes, dropped requests."""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def output_tokens(self) -> int:
        """Output tokens of all requests."""
        return sum(record.output_tokens for record in self.records)

    @property
    def errors(self) -> int:
        """Requests that failed."""
        return sum(record.error is not None for record in self.records)
