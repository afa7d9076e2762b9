"""A machine that runs a decoding engine, simulated apart from the code under test.

One host thread launches kernels on one stream, copies the tokens of each step to the host on a
second stream and waits for the copy of `behind` steps before. It writes a trace with the labels of
the PyTorch profiler, which names no events and no streams of waits; run again with other times, it
is the truth that a replay of the first trace must find.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl

from assay.observe import schema
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace

KERNELS = ("attention", "gate_up_proj", "down_proj")


@dataclass
class Machine:
    """Times in nanoseconds."""

    steps: int = 12
    layers: int = 6
    kernel_ns: dict[str, int] = field(
        default_factory=lambda: {"attention": 9_000, "gate_up_proj": 30_000, "down_proj": 18_000}
    )
    launch_ns: int = 5_000
    """Duration of the launching call."""
    latency_ns: int = 8_000
    """From the start of the call to the start of the kernel on an idle device."""
    between_ns: int = 20_000
    """Host work between two launches."""
    schedule_ns: int = 60_000
    """Host work between two steps."""
    gap_ns: int = 1_000
    """Between two kernels of a busy stream."""
    return_ns: int = 5_000
    """From the end of a copy to the return of the call that waits for it."""
    behind: int = 1
    """Steps that are in flight while the host waits."""
    graph: bool = False
    """Whether one call launches the kernels of a step."""
    rows: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> Trace:
        """The trace of a run."""
        host = stream = copies = 1_000_000
        correlation = 0
        ends: list[int] = []
        starts: list[int] = []
        for step in range(self.steps):
            host += self.schedule_ns
            first = None
            for index in range(self.layers * len(KERNELS)):
                name = KERNELS[index % len(KERNELS)]
                if not self.graph or index == 0:
                    correlation += 1
                    call = host
                    api = "cudaGraphLaunch" if self.graph else "cudaLaunchKernel"
                    self._api(api, "api", call, self.launch_ns, correlation)
                    host += self.launch_ns + self.between_ns
                    begin = max(call + self.latency_ns, stream + self.gap_ns)
                else:
                    begin = stream + self.gap_ns
                first = begin if first is None else first
                stream = begin + self.kernel_ns[name]
                self._device("kernel", name, begin, stream, 7, correlation, step, index)
            starts.append(first or 0)
            self._api("cudaEventRecord", "api", host, 800, 0)
            self._api("cudaStreamWaitEvent", "sync", host + 1_000, 900, 0)
            host += 2_000
            correlation += 1
            begin = max(host + self.latency_ns, copies + self.gap_ns, stream + self.gap_ns)
            copies = begin + 2_000
            self._device("memcpy", "Memcpy DtoH (Device -> Pinned)", begin, copies, 13,
                         correlation, step, 0)  # fmt: skip
            self._api("cudaMemcpyAsync", "api", host, self.launch_ns, correlation)
            host += self.launch_ns + 3_000
            ends.append(copies)
            if step >= self.behind:
                host = self._wait(host, ends[step - self.behind])
        for end in ends[self.steps - self.behind :] if self.behind else []:
            host = self._wait(host, end)
        return self._trace(starts)

    def _wait(self, host: int, end: int) -> int:
        returned = max(host, end) + self.return_ns
        self._api("cudaEventSynchronize", "sync", host, returned - host, 0)
        return returned + 4_000

    def _api(self, name: str, kind: str, start: int, duration: int, correlation: int) -> None:
        self.rows.append(
            {"kind": kind, "name": name, "start_ns": start, "dur_ns": duration, "pid": 700,
             "tid": 700, "correlation": correlation or None}
        )  # fmt: skip

    def _device(
        self, kind: str, name: str, start: int, end: int, stream: int, correlation: int, step: int,
        index: int,
    ) -> None:  # fmt: skip
        is_kernel = kind == "kernel"
        self.rows.append(
            {"kind": kind, "name": f"{name}_kernel" if is_kernel else name, "start_ns": start,
             "dur_ns": end - start, "device": 0, "stream": stream, "pid": 0, "tid": stream,
             "correlation": correlation, "step": step, "phase": "decode",
             "op": name if is_kernel else "collect_outputs",
             "layer": index // len(KERNELS) if is_kernel else None}
        )  # fmt: skip

    def _trace(self, starts: list[int]) -> Trace:
        events = schema.complete(pl.DataFrame(self.rows, infer_schema_length=None))
        rows = [
            {"step": step, "phase": "decode", "start_ns": start, "dur_ns": 0, "device_ns": 0,
             "batch": 1, "prefill_tokens": 0, "context": 128 + step, "requests": 1,
             "source": "periodicity"}
            for step, start in enumerate(starts)
        ]  # fmt: skip
        columns = schema.step_columns()
        table = pl.DataFrame([{name: row.get(name) for name in columns} for row in rows], columns)
        return Trace(TraceHeader(source="kineto", engine="vllm"), events, table)
