"""Measure board power of an NVIDIA GPU under the kernels of a language model.

    python -m assay.validate.fitting.measure_power power.json

Needs PyTorch, and the right to lock clocks (nvidia-smi -lgc). Every load runs back to back; power
is the difference of NVML's energy counter over the second part of the run, and clock and
temperature are medians of samples over the same part. Weights and keys are cold: a pass over them
touches more than the L2 cache holds. Operands are random.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.lazy_import import LazyModule

torch: Any = LazyModule("torch", globals(), "torch")

WARM_UP_S, MEASURED_S = 1.0, 2.0
LAYERS = 32
SHAPES = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
"""Linear layers of a Llama-3-8B shape: features out and in."""

VOCABULARY = (128256, 4096)
LOCKED = (900, 1410, 1980)
SM_CLOCK, GPU_TEMPERATURE = 1, 0


class Meter:
    """NVML's energy counter, SM clock and temperature of GPU 0."""

    def __init__(self) -> None:
        """Open NVML."""
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlInit_v2()
        self.device = ctypes.c_void_p()
        self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def joules(self) -> float:
        """Energy since the driver was loaded."""
        energy = ctypes.c_ulonglong()
        self.library.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(energy))
        return energy.value / 1e3

    def megahertz(self) -> int:
        """Clock of the SMs."""
        clock = ctypes.c_uint()
        self.library.nvmlDeviceGetClockInfo(self.device, SM_CLOCK, ctypes.byref(clock))
        return clock.value

    def celsius(self) -> int:
        """Temperature of the die."""
        kelvin = ctypes.c_uint()
        self.library.nvmlDeviceGetTemperature(self.device, GPU_TEMPERATURE, ctypes.byref(kelvin))
        return kelvin.value

    def edge(self) -> tuple[float, float]:
        """Time and energy where the counter next changes."""
        last = self.joules()
        while (now := self.joules()) == last:
            time.sleep(0.0005)
        return time.perf_counter(), now


def captured(body: Callable[[], Any]) -> Callable[[], Any]:
    """The work as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        body()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()

    # The graph holds addresses only: keeping the body keeps its tensors.
    def replay(_kept: Callable[[], Any] = body) -> None:
        graph.replay()

    return replay


def measure(meter: Meter, step: Callable[[], Any] | None) -> dict[str, float]:
    """Power, clock, temperature and time of a step that runs back to back."""
    count, done = 0, False

    def drive() -> None:
        nonlocal count
        while not done:
            if step is None:
                time.sleep(0.01)
                continue
            step()
            torch.cuda.synchronize()
            count += 1

    thread = threading.Thread(target=drive)
    thread.start()
    time.sleep(WARM_UP_S)
    start, first = meter.edge()
    begun = count
    clocks, temperatures = [], []
    while time.perf_counter() < start + MEASURED_S:
        clocks.append(meter.megahertz())
        temperatures.append(meter.celsius())
        time.sleep(0.05)
    end, last = meter.edge()
    finished = count
    done = True
    thread.join()
    return {
        "watts": round((last - first) / (end - start), 1),
        "megahertz": statistics.median(clocks),
        "celsius": statistics.median(temperatures),
        "milliseconds": round(1e3 * (end - start) / max(finished - begun, 1), 4),
    }


def random(*shape: int) -> Any:
    """Small random numbers, as weights are."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


def loads() -> dict[str, tuple[Callable[[], Any], dict[str, float]]]:
    """Steps by name, with the FLOPs and bytes of each."""
    weights = [random(*shape) for _ in range(LAYERS) for shape in SHAPES] + [random(*VOCABULARY)]
    size = sum(weight.numel() for weight in weights)
    steps: dict[str, tuple[Callable[[], Any], dict[str, float]]] = {}
    for rows in (1, 8, 16, 32, 64, 128, 256, 512, 2048):
        inputs = {depth: random(rows, depth) for depth in (4096, 14336)}

        def linears(inputs: dict[int, Any] = inputs) -> None:
            for weight in weights:
                torch.nn.functional.linear(inputs[weight.shape[1]], weight)

        moved = 2.0 * size + 2 * rows * sum(sum(weight.shape) for weight in weights)
        steps[f"linear {rows}"] = captured(linears), {"flops": 2.0 * rows * size, "bytes": moved}
    heads, group, width = 8, 4, 128
    for batch, context in ((32, 4176), (8, 12080)):
        keys = [random(batch * heads, context, width) for _ in range(8)]
        values = [random(batch * heads, context, width) for _ in range(8)]
        queries = random(batch * heads, group, width)

        def attention(
            keys: list[Any] = keys, values: list[Any] = values,
            queries: Any = queries,
        ) -> None:  # fmt: skip
            for key, value in zip(keys, values, strict=True):
                scores = torch.bmm(queries, key.transpose(1, 2))
                torch.bmm(torch.softmax(scores, dim=-1), value)

        pairs = 8.0 * batch * heads * context * width
        steps[f"decode attention {batch} x {context}"] = (
            captured(attention), {"flops": 4 * pairs * group, "bytes": 4 * pairs},
        )  # fmt: skip
    query = random(4, 32, 8192, 128)
    steps["prefill attention"] = (
        captured(
            lambda: torch.nn.functional.scaled_dot_product_attention(
                query, query, query, is_causal=True
            )
        ),
        {"flops": 2.0 * 4 * 32 * 8192**2 * 128, "bytes": 8.0 * query.numel()},
    )
    left, right = random(8192, 8192), random(8192, 8192)
    out = torch.empty_like(left)
    steps["square"] = (
        captured(lambda: [torch.mm(left, right, out=out) for _ in range(10)]),
        {"flops": 20.0 * 8192**3, "bytes": 60.0 * 8192**2},
    )
    low = [x.to(torch.float8_e4m3fn) for x in (left, right)]
    unit_scale = torch.ones((), device="cuda")
    steps["square 8-bit"] = (
        captured(
            lambda: [
                torch._scaled_mm(
                    low[0],
                    low[1].t(),
                    scale_a=unit_scale,
                    scale_b=unit_scale,
                    out_dtype=torch.bfloat16,
                )
                for _ in range(10)
            ]
        ),
        {"flops": 20.0 * 8192**3, "bytes": 40.0 * 8192**2},
    )
    big = random(2**30)
    other = random(2**30)
    steps["copies"] = captured(lambda: other.copy_(big)), {"flops": 0.0, "bytes": 4.0 * 2**30}
    steps["sums"] = captured(lambda: other.add_(big)), {"flops": 0.0, "bytes": 6.0 * 2**30}
    steps["reads"] = (
        captured(lambda: big.view(-1, 2**15).sum(1)),
        {"flops": 0.0, "bytes": 2.0 * 2**30},
    )
    return steps


def main() -> None:
    """Measure all loads at free and at locked clocks and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    meter = Meter()
    torch.cuda.init()
    rows: list[dict[str, Any]] = [{"load": "idle", "locked": 0, **measure(meter, None)}]
    steps = loads()
    rows.append({"load": "idle", "locked": 0, **measure(meter, None)})
    for clock in (0, *LOCKED):
        if clock:
            subprocess.run(["nvidia-smi", f"-lgc={clock},{clock}"], check=True)
        for name, (step, work) in steps.items():
            if clock and name in ("linear 16", "linear 32", "linear 128", "linear 512"):
                continue
            rows.append({"load": name, "locked": clock, **work, **measure(meter, step)})
            print(json.dumps(rows[-1]), flush=True)
            out.write_text(json.dumps(rows, indent=1))
    subprocess.run(["nvidia-smi", "-rgc"], check=True)
    rows.append({"load": "idle", "locked": 0, **measure(meter, None)})
    out.write_text(json.dumps(rows, indent=1))
    print(
        subprocess.run(
            ["nvidia-smi", "-q", "-d", "POWER,CLOCK"], capture_output=True, text=True
        ).stdout
    )


if __name__ == "__main__":
    main()
