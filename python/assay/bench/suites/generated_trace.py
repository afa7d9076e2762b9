"""Kineto traces of a decoding language model, generated: as large as asked, each time the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from assay.bench.harness.seeding import shifted

LAYERS: Final = 32

_ELEMENTWISE: Final = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}Functor<c10::BFloat16>, "
    "std::array<char*, 2ul> >(int, at::native::{0}Functor<c10::BFloat16>, std::array<char*, 2ul>)"
)
_NORM: Final = (
    "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long, c10::BFloat16*, "
    "c10::BFloat16 const*, float, int, int)"
)
_GEMM: Final = "nvjet_sm90_tst_{0}x{1}_64x{2}_2x1_v_bz_splitK_TNT"
_LAYER: Final = (
    ("vllm::fused_add_rms_norm", _NORM),
    ("aten::mm", _GEMM.format(64, 16, 6)),
    (
        "_C::rotary_embedding",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, "
        "c10::BFloat16*, c10::BFloat16 const*, int, long, long, int, int, int, long, long)",
    ),
    (
        "_C_cache_ops::reshape_and_cache_flash",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, "
        "(vllm::Fp8KVCacheDataType)0>(__nv_bfloat16 const*, __nv_bfloat16 const*, __nv_bfloat16*, "
        "__nv_bfloat16*, long const*, long, long, long, long, long, int, int, int, float const*)",
    ),
    (
        "_vllm_fa3_C::fwd",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
        "CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, "
        "cute::tuple<cute::C<64>, cute::C<128>, cute::C<128> >, 128, cutlass::bfloat16_t, float, "
        "cutlass::arch::Sm90, true, false, false, true> > > >(flash::Params)",
    ),
    ("aten::mm", _GEMM.format(64, 8, 8)),
    ("vllm::fused_add_rms_norm", _NORM),
    ("aten::mm", _GEMM.format(128, 16, 5)),
    (
        "_C::silu_and_mul",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<"
        "c10::BFloat16>(c10::BFloat16 const&)), true>(c10::BFloat16*, c10::BFloat16 const*, int)",
    ),
    ("aten::mm", _GEMM.format(64, 16, 10)),
)
"""The operations of a layer, and the kernels they launch."""
_SHAPES: Final = (
    '"Concrete Inputs": ["", "", "[4096, 14336]", "1.", "False"], "Input type": ["c10::BFloat16", '
    '"c10::BFloat16", "ScalarList", "Scalar", "Scalar"], "Input Strides": [[4096, 1], [1, 4096], '
    '[], [], []], "Input Dims": [[1, 4096], [4096, 14336], [], [], []]'
)
"""What the profiler says of operands with record_shapes."""
_STEP: Final = (
    ("aten::embedding", _ELEMENTWISE.format("Gather")),
    *(_LAYER * LAYERS),
    ("vllm::fused_add_rms_norm", _NORM),
    ("aten::mm", _GEMM.format(192, 8, 4)),
    ("aten::argmax", _ELEMENTWISE.format("ArgMax")),
)


class Written(NamedTuple):
    """What a generated file holds, by the generator's own count."""

    events: int
    kernels: int
    kernel_ns: int
    copies: int
    copy_ns: int
    steps: int
    nbytes: int


def write(path: Path, events: int, seed: int = 1) -> Written:
    """Write a trace of at least so many events, whole steps of decoding."""
    source = random.Random(shifted(seed))
    counts = dict.fromkeys(("events", "kernels", "kernel_ns", "copies", "copy_ns", "steps"), 0)
    with path.open("w", encoding="ascii", buffering=1 << 20) as file:
        file.write(_head())
        while counts["events"] < events:
            file.write(",\n".join(_step(counts, source)))
            file.write(",\n")
        file.write('  {"ph": "M", "name": "process_name", "pid": 700, "tid": 0, "ts": 0.000,\n')
        file.write('    "args": {"name": "python3"}}\n  ],\n  "traceName": "generated"\n}\n')
        counts["events"] += 1
    return Written(**counts, nbytes=path.stat().st_size)


def _head() -> str:
    described = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1790857026000000000,
    }
    return json.dumps(described)[:-1] + ',\n  "traceEvents": [\n'


def _time(nanoseconds: int) -> str:
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _step(counts: dict[str, int], source: random.Random) -> Iterator[str]:
    """The events of a step: each operation on the host launches a kernel."""
    number = counts["steps"]
    begin = 3_845_985_000_000_000 + number * 20_000_000
    host = begin
    device = begin + 40_000
    for name, kernel in _STEP:
        correlation = counts["kernels"] + counts["copies"] + 1
        external = counts["events"]
        launch, duration = host + 3_000, source.randrange(1_200, 24_000)
        device = max(device, launch + 6_000)
        yield (
            f'  {{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 700, "tid": 700,\n'
            f'    "ts": {_time(host)}, "dur": 14.250,\n'
            f'    "args": {{"External id": {external}, "Record function id": 0,'
            f' "Ev Idx": {external},\n      {_SHAPES}}}}}'
        )
        yield (
            f'  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 700,'
            f' "tid": 700,\n    "ts": {_time(launch)}, "dur": 5.125,\n'
            f'    "args": {{"External id": {external}, "cbid": 211,'
            f' "correlation": {correlation}}}}}'
        )
        yield (
            f'  {{"ph": "s", "id": {correlation}, "pid": 700, "tid": 700, "ts": {_time(launch)},\n'
            '    "cat": "ac2g", "name": "ac2g"}'
        )
        yield (
            f'  {{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7,\n'
            f'    "ts": {_time(device)}, "dur": {_time(duration)},\n'
            f'    "args": {{"External id": {external}, "queued": 0, "device": 0, "context": 1,\n'
            f'      "stream": 7, "correlation": {correlation},\n'
            '      "registers per thread": 32, "shared memory": 0, "blocks per SM": 0.242424,\n'
            '      "warps per SM": 1.939394, "grid": [32, 1, 1], "block": [256, 1, 1],\n'
            '      "est. achieved occupancy %": 3}}'
        )
        yield (
            f'  {{"ph": "f", "id": {correlation}, "pid": 0, "tid": 7, "ts": {_time(device)},\n'
            '    "cat": "ac2g", "name": "ac2g", "bp": "e"}'
        )
        counts["events"] += 5
        counts["kernels"] += 1
        counts["kernel_ns"] += duration
        host += 18_000
        device += duration + 700
    copy = source.randrange(900, 1_400)
    correlation = counts["kernels"] + counts["copies"] + 1
    yield (
        '  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 0,'
        f' "tid": 7,\n    "ts": {_time(device)}, "dur": {_time(copy)},\n'
        f'    "args": {{"device": 0, "context": 1, "stream": 7, "correlation": {correlation},'
        ' "bytes": 4, "memory bandwidth (GB/s)": 0.003}}'
    )
    yield (
        f'  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 700,'
        f' "tid": 700,\n    "ts": {_time(host)}, "dur": 4.000,\n'
        f'    "args": {{"cbid": 41, "correlation": {correlation}}}}}'
    )
    yield (
        '  {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 700,'
        f' "tid": 700,\n    "ts": {_time(host + 5_000)},'
        f' "dur": {_time(max(1_000, device + copy - host))},\n'
        f'    "args": {{"cbid": 131, "correlation": 0}}}}'
    )
    yield (
        f'  {{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", "pid": 700,'
        f' "tid": 700,\n    "ts": {_time(begin)}, "dur": {_time(device + copy - begin)}}}'
    )
    counts["events"] += 4
    counts["copies"] += 1
    counts["copy_ns"] += copy
    counts["steps"] += 1
