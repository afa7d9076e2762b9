"""The load client beside the one of `vllm bench serve`, on a server whose schedule is known.

The first figure is what a user sees: output tokens a second where the server is the limit. The others are
limits of the clients: what they cost for a token, and what they read from a server that does not pause,
which is a Python program on a core of its own and may be the limit of both.
"""

from __future__ import annotations

import functools
import math
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.harness.statistics import median, median_interval
from assay.bench.rivals.process_start import environment
from assay.bench.rivals.vllm_client import NAME, VllmClient, is_installed
from assay.load.client import LoadClient
from assay.load.workloads.workload import PlannedRequest, Window, Workload

if TYPE_CHECKING:
    from assay.bench.harness.result import Figure, Result
    from assay.load.workloads.measurement import Measurement
    from assay.runtime import Device

TTFT_S: Final = 0.1
ITL_S: Final = 0.01
AT_ONCE: Final = 16
TOKENS: Final = 64
BAR: Final = 0.01
"""How far the throughput may be from that of vLLM's client."""
ROUNDS: Final = 9
PACED: Final = f"closed loop, {AT_ONCE} at once"

_CLOCK: Final = SelfTimedClock()


class _Server:
    """The server in a process of its own; it ends with this object."""

    def __init__(self, ttft_s: float, itl_s: float) -> None:
        command = [sys.executable, "-m", "assay.bench.suites.load_server", str(ttft_s), str(itl_s)]
        process = subprocess.Popen(
            command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        self.url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        self._end = weakref.finalize(self, _end, process)


def _end(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


class _Block:
    """One closed loop against one server, by either client."""

    def __init__(
        self, server: Callable[[], _Server], requests: int, at_once: int, tokens: int
    ) -> None:
        self.server, self.requests, self.at_once, self.tokens = server, requests, at_once, tokens
        planned = tuple(PlannedRequest(i, "hello world " * 20, tokens) for i in range(requests))
        self._workload = Workload("bench", "", planned, "closed", at_once)
        self._client: LoadClient | None = None
        self.failed = 0

    def own(self, _: int) -> Measurement:
        """The window of our client, which keeps its connections."""
        if self._client is None:
            self._client = LoadClient(self.server().url)
            weakref.finalize(self, self._client.close)
        window = self._client.run_window(self._workload, Window(requests=self.requests))
        self.failed += window.errors
        return window

    def error(self, number: int) -> float:
        """How far the tokens of a window are from those that were asked for."""
        window = self.own(number)
        return abs(window.output_tokens / (self.requests * self.tokens) - 1.0)


def cases(settings: Settings) -> list[Case]:
    """Throughput beside vLLM's client, then the limits and the cost of the client."""
    share = 8 if settings.quick else 1
    paced = functools.cache(lambda: _Server(TTFT_S / share, ITL_S / share))
    fast = functools.cache(lambda: _Server(0.0, 0.0))
    rival = functools.cache(VllmClient)
    rounds = 2 if settings.quick else ROUNDS
    known = (
        (PACED, "tok/s", _Block(paced, 128 // share, AT_ONCE, TOKENS), _tokens),
        ("CPU time for each token", "us", _Block(paced, 128 // share, AT_ONCE, TOKENS), _cost),
        ("tokens without a pause", "tok/s", _Block(fast, 256 // share, 32, TOKENS), _tokens),
        ("answers of one token", "requests/s", _Block(fast, 2000 // share, 32, 1), _requests),
    )
    return [
        Case(
            name,
            unit,
            functools.partial(_prepared, block, figure, rival, share, name == PACED),
            {"requests": block.requests, "at_once": block.at_once, "tokens": block.tokens},
            rounds,
        )
        for name, unit, block, figure in known
    ]


def _tokens(measured: dict[str, float]) -> float:
    return measured["seconds"] / measured["tokens"]


def _cost(measured: dict[str, float]) -> float:
    return measured["cpu_seconds"] / measured["tokens"]


def _requests(measured: dict[str, float]) -> float:
    return measured["seconds"] / measured["requests"]


def _prepared(
    block: _Block,
    figure: Callable[[dict[str, float]], float],
    rival: Callable[[], VllmClient],
    share: int,
    has_ceiling: bool,
) -> PreparedCase:
    def own(number: int) -> float:
        window = block.own(number)
        return figure(
            {
                "seconds": window.seconds,
                "cpu_seconds": (window.client_cpu_share or math.nan) * window.seconds,
                "tokens": float(window.output_tokens),
                "requests": float(block.requests),
            }
        )

    def theirs(_: int) -> float:
        measured = rival().run(block.server().url, block.requests, block.at_once, block.tokens)
        return figure({**measured, "requests": float(block.requests)})

    # What the schedule allows: every connection always has a request.
    alone_s = (TTFT_S + (block.tokens - 1) * ITL_S) / share
    schedule = alone_s / (block.at_once * block.tokens)
    return PreparedCase(
        Subject("assay", own, _CLOCK),
        Check("the tokens that were asked for", block.error, 0.0),
        ceiling=Subject("the server's schedule", lambda _: schedule, _CLOCK)
        if has_ceiling
        else None,
        rivals=[Subject(NAME, theirs, _CLOCK) if is_installed() else Absent(NAME, "not installed")],
    )


def finish(result: Result, device: Device) -> str:
    """Whether the throughput is within the bar of vLLM's client."""
    del device
    figure = next(figure for figure in result.figures if figure.name == PACED)
    return beside(figure)


def beside(figure: Figure) -> str:
    """The throughput relative to vLLM's client, as a sentence."""
    if not figure.rivals:
        return f"throughput beside {NAME}: not measured, {NAME} is not installed"
    ratios = figure.paired(figure.rivals[0])
    middle, interval = median(ratios), median_interval(ratios)
    within = f" ({interval.low:.4f} to {interval.high:.4f})" if interval else ""
    verdict = "met" if abs(middle - 1.0) <= BAR else "MISSED"
    if middle > 1.0 + BAR:
        verdict = f"above it, {NAME} was the limit itself"
    return f"throughput beside {NAME}: {middle:.4f}{within}, bar within {BAR:.0%}: {verdict}"


SUITE: Final = Suite("load", cases, devices=("cpu",), finish=finish)
