"""Attention: decode over a paged KV cache by context length, and prefill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from assay.bench.calibration.sampling import Limit, Measurement, threads_text
from assay.bench.harness.case import Case, Settings, Size
from assay.bench.suites import attention as suite
from assay.runtime.hardware import Device

SIZES: Final[tuple[Size, ...]] = ((1, 128), (1, 4096), (256,))
"""Sequences by context, short and long; tokens of a prompt."""
DTYPES: Final = ("f32", "bf16")
"""Formats of the KV cache on a CPU."""
GPU_SIZES: Final[tuple[Size, ...]] = ((1, 1024), (64, 4096), (4096,))


def measurements(
    device: Device, threads: Sequence[int | None], limited: Limit
) -> Iterator[Measurement]:
    """Every format of the KV cache, at each size."""
    on_gpu = device.capabilities.is_gpu
    settings = Settings(
        device, sizes=GPU_SIZES if on_gpu else SIZES, dtypes=("bf16",) if on_gpu else DTYPES
    )
    for count in threads:
        for case in suite.cases(settings):
            yield _measurement(device, case, count, limited)


def _measurement(device: Device, case: Case, threads: int | None, limited: Limit) -> Measurement:
    size, heads = case.parameters["size"], suite.heads_of(device)
    is_decode = len(size) == 2
    sequences, tokens = size if is_decode else (1, size[0])
    parameters: dict[str, Any] = {
        "operation": "decode attention" if is_decode else "prefill attention",
        "dtype": case.parameters["dtype"],
        "sequences": sequences,
        "tokens": tokens,
        "heads": heads.queries,
        "kv_heads": heads.keys,
        "head_size": heads.width,
    }
    name = f"{parameters['operation']} {parameters['dtype']} {sequences}x{tokens}"
    return Measurement(
        f"{name}{threads_text(threads)}",
        case.unit,
        parameters if threads is None else {**parameters, "threads": threads},
        case.prepare,
        lambda: limited(threads),
    )
