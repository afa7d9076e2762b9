"""Speed of the kernels beside the read ceiling and PyTorch, cold; prints JSON lines.

    python scripts/measure_kernels.py [linear] [decode] [prefill] [rows] [sample] > figures.jsonl

Weights and caches are rotated past the L2 cache, inputs are random, every figure is the median of
replays of a graph, and the ceiling is measured in the same run. Where a kernel has several
launch shapes, the fastest one is printed; --all prints every one.
"""

# ruff: noqa: B023 (every closure here runs in the iteration of the loop that creates it)

import ctypes
import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

import kernel_packing as packing
from kernel_harness import Kernel, milliseconds, prefill
from kernel_variants import E4M3, FLOAT16, INT8, UINT4

SHAPES = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)]
BITS = {FLOAT16: 16, INT8: 8, E4M3: 8, UINT4: 4}
ROTATED_BYTES = 1.5e9  # rotated through, many times the L2 cache
Work = Callable[[], object]


def enumerator(value: str) -> str:
    """A weight format without its type."""
    return value.rpartition(":")[2]


def print_figures(**figures: object) -> None:
    """One line of the result."""
    print(json.dumps(figures), flush=True)


def sm_count() -> int:
    """The number of SMs."""
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
    """Random numbers in bf16."""
    return (torch.randn(*shape, device="cuda") * scale).bfloat16()


def microseconds(work: Work, times: int) -> tuple[float, tuple[float, float]]:
    """The median time of one of `times` equal parts, and the spread around it."""
    median, least, most = milliseconds(work)
    return median / times * 1e3, (round(least / median, 3), round(most / median, 3))


def report_best(results: Sequence[dict[str, Any]]) -> None:
    """Prints the fastest of several launch shapes."""
    ordered = sorted(results, key=lambda figures: figures["us"])
    for figures in ordered if "--all" in sys.argv else ordered[:1]:
        print_figures(**figures)


def read_ceiling() -> float:
    """Bytes per second of reading 8 GiB once."""
    data = torch.randn(1 << 31, device="cuda")
    partials = torch.empty(8 * sm_count(), dtype=torch.float64, device="cuda")
    finished_ctas = torch.zeros(1, dtype=torch.int32, device="cuda")
    out = torch.empty(1, device="cuda")
    kernel = Kernel("stream_read.cu")
    count = ctypes.c_ulonglong(data.numel())
    best = 0.0
    for ctas_per_sm in (2, 4, 8):
        grid = sm_count() * ctas_per_sm

        def work(grid: int = grid) -> None:
            kernel(grid, 512, data, count, partials, finished_ctas, out)

        us, spread = microseconds(work, 1)
        best = max(best, data.numel() * 4 / us * 1e6)
        print_figures(
            kind="ceiling",
            ctas_per_sm=ctas_per_sm,
            tb_per_s=data.numel() * 4 / us / 1e6,
            spread=spread,
        )
    return best


def copies_of(make: Callable[[], Any], nbytes: float) -> list[Any]:
    """Enough copies to exceed the L2 cache."""
    return [make() for _ in range(max(2, min(48, math.ceil(ROTATED_BYTES / nbytes))))]


def launches(weight: str, group: int, rows: int, inputs: int) -> list[tuple[int, int, int]]:
    """Launch shapes of gemv.cu: weight rows per CTA, threads, CTAs per SM."""
    chunks = packing.row_chunks(BITS[weight], inputs, group)
    rows_factor = 2 if rows <= 2 else 1
    if weight == FLOAT16:
        short = [(4 * rows_factor, 256, 2), (4 * rows_factor, 512, 1), (4, 128, 2)]
        return (
            short
            if chunks <= 512
            else [(2 * rows_factor, 448, 1), (2 * rows_factor, 512, 1), (rows_factor, 256, 2)]
        )
    if chunks <= 256:
        threads = 256 if chunks > 128 else 128
        return [(rows_per_cta * rows_factor, threads, 512 // threads) for rows_per_cta in (2, 4, 8)]
    return [
        (2 * rows_factor, 448, 1),
        (2 * rows_factor, 512, 1),
        (4 * rows_factor, 512, 1),
        (4 * rows_factor, 448, 1),
    ]


def packed_weights(
    weight: str, group: int, dense: list[torch.Tensor]
) -> tuple[list[Any], list[Any]]:
    """Every matrix in the kernel's layout, and its scales; quantized ones are listed twice."""
    if weight == FLOAT16:
        return dense, [None] * len(dense)
    if weight == UINT4:
        both = [packing.quantize_groups(matrix, group, 4)[:2] for matrix in dense]
    else:
        quantize = packing.quantize_rows if weight == INT8 else packing.quantize_e4m3
        both = [quantize(matrix)[:2] for matrix in dense]
    return [pair[0] for pair in both] * 2, [pair[1] for pair in both] * 2


def measure_torch_linear(dense: list[torch.Tensor], rows: int, ceiling: float) -> None:
    """PyTorch's linear of the same rows."""
    outputs, inputs = dense[0].shape
    x = normal(rows, inputs)

    def work() -> None:
        for matrix in dense:
            torch.nn.functional.linear(x, matrix)

    us, spread = microseconds(work, len(dense))
    print_figures(kind="linear", who="torch", weight=enumerator(FLOAT16), rows=rows, outputs=outputs, inputs=inputs,
        us=us, share=outputs * inputs * 2 / us * 1e6 / ceiling, spread=spread)  # fmt: skip


def measure_one_linear(
    matrices: list[Any], scales: list[Any], shape: tuple[int, int], ceiling: float,
    weight: str, group: int, rows: int, norm: int = 0, gated: int = 0,
) -> None:  # fmt: skip
    """One weight format at one shape, with every launch shape."""
    outputs, inputs = shape
    x, gain = normal(rows, inputs), normal(inputs)
    y = torch.empty(rows, outputs // 2 if gated else outputs, device="cuda").bfloat16()
    weight_bytes = matrices[0].numel() * matrices[0].element_size()
    weight_bytes += 0 if scales[0] is None else scales[0].numel() * scales[0].element_size()
    row_chunks = packing.row_chunks(BITS[weight], inputs, group)
    results = []
    for rows_per_cta, threads, ctas_per_sm in launches(weight, group, rows, inputs):
        if gated and rows_per_cta < 2:
            continue
        options: dict[str, Any] = {
            "MAX_ROWS": next(most for most in (1, 2, 4, 8) if most >= rows), "ROWS_PER_CTA": rows_per_cta,
            "NO_TAIL": int(outputs % rows_per_cta == 0),
            "THREADS": threads, "CTAS_PER_SM": ctas_per_sm, "INPUTS": inputs, "WEIGHT_FORMAT": weight,
            "GROUP_SIZE": group, "NORM": norm,
            "GATED": gated, "CHUNKS_PER_THREAD": math.ceil(row_chunks / threads),
        }  # fmt: skip
        kernel = Kernel("gemv.cu", ELEMENT="bf16", OUTPUT="bf16", **options)
        grid = min(math.ceil(outputs / rows_per_cta), sm_count() * ctas_per_sm)

        def work(kernel: Kernel = kernel, grid: int = grid, threads: int = threads) -> None:
            for matrix, row_scales in zip(matrices, scales, strict=True):
                kernel(
                    grid, threads, matrix, row_scales, x, gain, None, None, y, rows, outputs, 1e-5,
                    overlap=True,
                )  # fmt: skip

        us, spread = microseconds(work, len(matrices))
        results.append(
            {"kind": "linear", "who": "assay", "weight": enumerator(weight), "rows": rows,
             "outputs": outputs, "inputs": inputs, "us": us, "spread": spread,
             "share": weight_bytes / us * 1e6 / ceiling, "grid": grid, **options,
             "registers": kernel.attribute(4), "local": kernel.attribute(3)}
        )  # fmt: skip
    report_best(results)


def measure_linear(ceiling: float) -> None:
    """Linear of one to eight rows, in bf16, 8 bits and 4 bits."""
    for outputs, inputs in SHAPES:
        scale = inputs**-0.5

        def make(
            outputs: int = outputs, inputs: int = inputs, scale: float = scale
        ) -> torch.Tensor:
            return normal(outputs, inputs, scale=scale)

        dense = copies_of(make, outputs * inputs * 2)
        shape = (outputs, inputs)
        for rows in (1, 2, 4, 8):
            measure_torch_linear(dense, rows, ceiling)
            if inputs <= 4096 or rows <= 4:
                measure_one_linear(dense, [None] * len(dense), shape, ceiling, FLOAT16, 0, rows)
        measure_one_linear(
            dense, [None] * len(dense), shape, ceiling, FLOAT16, 0, 1, norm=1, gated=1
        )
        for weight, group in ((INT8, 0), (E4M3, 0), (UINT4, 128), (UINT4, 32)):
            matrices, scales = packed_weights(weight, group, dense)
            measure_one_linear(matrices, scales, shape, ceiling, weight, group, 1)
            del matrices, scales


def measure_decode(ceiling: float) -> None:
    """Paged decode attention, 32/8 heads of 128, blocks of 32 tokens, bf16."""
    heads, kv_heads, head, block = 32, 8, 128, 32
    for batch, context in [(64, 4096), (8, 12000), (1, 200), (1, 8192), (64, 200), (256, 200)]:
        blocks_per_sequence = math.ceil(context / block)
        kv_bytes = batch * context * kv_heads * head * 2 * 2

        def make(
            batch: int = batch, blocks_per_sequence: int = blocks_per_sequence
        ) -> torch.Tensor:
            return normal(2, batch * blocks_per_sequence, kv_heads, block, head)

        caches = copies_of(make, kv_bytes)
        tables = (
            torch.randperm(batch * blocks_per_sequence, device="cuda")
            .int()
            .view(batch, blocks_per_sequence)
        )
        seq_lens = torch.full((batch,), context, dtype=torch.int32, device="cuda")
        q = normal(batch, heads * head)
        out = torch.empty_like(q)
        counters = torch.zeros(batch * kv_heads, dtype=torch.int32, device="cuda")
        results = []
        for warps, ctas_per_sm in [(4, 3), (4, 4), (8, 1)]:
            for cluster in (0, 1):
                kernel = Kernel(
                    "attention_decode.cu", ELEMENT="bf16", HEAD_DIM=head, HEAD_TILES=1, WARPS=warps,
                    CTAS_PER_SM=ctas_per_sm, CLUSTER=cluster,
                )  # fmt: skip
                for splits in (1, 2, 4, 8) if cluster else (1, 2, 4, 8, 16):
                    if batch * splits * kv_heads > 8192:
                        continue
                    partials = torch.empty(
                        batch * kv_heads * splits * 8 * (head + 2), device="cuda"
                    )
                    grid = (splits, kv_heads, batch)
                    arguments = (
                        tables, seq_lens, None, out, partials, counters, heads, kv_heads, block, blocks_per_sequence,
                        ctypes.c_longlong(kv_heads * block * head), block * head, head, head**-0.5,
                    )  # fmt: skip

                    def work(
                        kernel: Kernel = kernel, grid: tuple[int, ...] = grid, warps: int = warps,
                        arguments: tuple[Any, ...] = arguments, caches: list[Any] = caches,
                        cluster_size: int = grid[0] if cluster else 0, q: torch.Tensor = q,
                    ) -> None:  # fmt: skip
                        for keys, values in caches:
                            kernel(
                                grid,
                                warps * 32,
                                q,
                                keys,
                                values,
                                *arguments,
                                overlap=True,
                                cluster=cluster_size,
                            )

                    us, spread = microseconds(work, len(caches))
                    results.append(
                        {"kind": "decode", "batch": batch, "context": context, "us": us,
                         "share": kv_bytes / us * 1e6 / ceiling, "splits": splits, "cluster": cluster,
                         "warps": warps, "ctas_per_sm": ctas_per_sm, "spread": spread,
                         "registers": kernel.attribute(4), "local": kernel.attribute(3)}
                    )  # fmt: skip
        report_best(results)


def measure_prefill() -> None:
    """Causal attention of whole prompts, 32/8 heads of 128, dense bf16, beside PyTorch."""
    heads, kv_heads, head = 32, 8, 128
    for tokens in (1024, 2048, 8192, 16384):
        q, out = (
            normal(tokens, heads, head),
            torch.empty(tokens, heads, head, device="cuda").bfloat16(),
        )
        keys, values = normal(tokens, kv_heads, head), normal(tokens, kv_heads, head)
        flops = 4 * heads * head * tokens * (tokens + 1) / 2
        k, v = (tensor.transpose(0, 1)[None] for tensor in (keys, values))
        for hopper in (True, False):
            work = prefill(q, k, v, out, tokens, hopper=hopper)
            us, spread = microseconds(work, 1)
            print_figures(
                kind="prefill",
                who="hopper" if hopper else "anywhere",
                tokens=tokens,
                us=us,
                tflops=flops / us / 1e6,
                spread=spread,
            )
        batched = [q.transpose(0, 1)[None], k, v]

        def torch_attention() -> None:
            torch.nn.functional.scaled_dot_product_attention(
                *batched, is_causal=True, enable_gqa=True
            )

        us, spread = microseconds(torch_attention, 1)
        print_figures(
            kind="prefill",
            who="torch",
            tokens=tokens,
            us=us,
            tflops=flops / us / 1e6,
            spread=spread,
        )


def measure_rows(ceiling: float) -> None:
    """Row-wise passes beside PyTorch; share is bytes read and written over the read ceiling."""
    functional = torch.nn.functional
    for rows, width in [(8192, 4096), (64, 4096), (1, 4096), (4096, 32768)]:

        def make(rows: int = rows, width: int = width) -> tuple[torch.Tensor, torch.Tensor]:
            x = normal(rows, width)
            return x, torch.empty_like(x)

        pairs = copies_of(make, rows * width * 4)
        weight = normal(width)
        threads = 256 if width <= 4096 else 1024
        chunks = width // (8 * threads)
        norm, layer = (
            Kernel(
                "normalize.cu",
                ELEMENT="bf16",
                LAYER_NORM=kind,
                CHUNKS_PER_THREAD=chunks,
                VECTOR=8,
                THREADS=threads,
            )
            for kind in (0, 1)
        )
        soft = Kernel(
            "softmax.cu",
            ELEMENT="bf16",
            LOG_SOFTMAX=0,
            CHUNKS_PER_THREAD=chunks,
            VECTOR=8,
            THREADS=threads,
        )
        glu = Kernel("swiglu.cu", ELEMENT="bf16", VECTOR=8)
        half = width // 2
        Ours = Callable[[torch.Tensor, torch.Tensor], object]
        cases: dict[str, tuple[Ours, Ours, float]] = {
            "rms_norm": (
                lambda x, y: norm(rows, threads, x, None, weight, None, y, width, 1e-5),
                lambda x, y: functional.rms_norm(x, [width], weight, 1e-5),
                2,
            ),
            "layer_norm": (
                lambda x, y: layer(rows, threads, x, None, weight, weight, y, width, 1e-5),
                lambda x, y: functional.layer_norm(x, [width], weight, weight, 1e-5),
                2,
            ),
            "softmax": (
                lambda x, y: soft(rows, threads, x, y, width),
                lambda x, y: torch.softmax(x, -1),
                2,
            ),
            "swiglu": (
                lambda x, y: glu((math.ceil(half / 8 / 256), rows), 256, x, y, half),
                lambda x, y: functional.silu(x[:, :half]) * x[:, half:],
                1.5,
            ),
            "copy": (lambda x, y: y.copy_(x), lambda x, y: y.copy_(x), 2),
        }  # fmt: skip
        for name, (ours, reference, passes) in cases.items():
            us, spread = microseconds(lambda: [ours(x, y) for x, y in pairs], len(pairs))
            other, _ = microseconds(lambda: [reference(x, y) for x, y in pairs], len(pairs))
            print_figures(kind="rows", name=name, rows=rows, width=width, us=us, torch_us=other, ratio=other / us,
                share=rows * width * 2 * passes / us * 1e6 / ceiling, spread=spread)  # fmt: skip


def measure_sample() -> None:
    """Sampling from 128,256 logits."""
    vocabulary = 128256
    for rows in (1, 64, 256):
        # As peaked as a language model's: few tokens hold nearly all probability.
        logits = torch.randn(rows, vocabulary, device="cuda") * 2
        logits[:, ::997] += 8
        probabilities = torch.empty_like(logits)
        tokens = torch.empty(rows, dtype=torch.int32, device="cuda")
        seeds = torch.arange(rows, device="cuda")
        for name, (temperature, k, p) in {
            "greedy": (0.0, 0, 1.0), "temperature": (1.0, 0, 1.0), "top_k_top_p": (1.0, 50, 0.9),
        }.items():  # fmt: skip
            filled = (
                torch.full((rows,), temperature, device="cuda"),
                torch.full((rows,), k, device="cuda", dtype=torch.int32),
                torch.full((rows,), p, device="cuda"),
                torch.zeros(rows, device="cuda"),
            )
            results = []
            for cluster, threads in [(1, 512), (1, 1024), (4, 512), (8, 512)]:
                kernel = Kernel(
                    "sample.cu", ELEMENT="float", VECTOR=4, THREADS=threads, CLUSTER_SIZE=cluster
                )

                def work(
                    kernel: Kernel = kernel, cluster: int = cluster, threads: int = threads,
                    filled: tuple[torch.Tensor, ...] = filled, rows: int = rows,
                ) -> None:  # fmt: skip
                    kernel(
                        rows * cluster, threads, logits, *filled, seeds, seeds, tokens, None,
                        probabilities, vocabulary, cluster=cluster if cluster > 1 else 0,
                    )  # fmt: skip

                us, spread = microseconds(work, 1)
                results.append({"kind": "sample", "name": name, "rows": rows, "cluster": cluster,
                              "threads": threads, "us": us, "spread": spread})  # fmt: skip
            report_best(results)
        us, _ = microseconds(lambda: logits.argmax(-1), 1)
        print_figures(kind="sample", name="torch argmax", rows=rows, us=us)


def main() -> None:
    """Measures the named groups, or all of them."""
    torch.manual_seed(0)
    properties = torch.cuda.get_device_properties(0)
    print_figures(kind="machine", gpu=properties.name, torch=torch.__version__)
    ceiling = read_ceiling()
    named = [name for name in sys.argv[1:] if not name.startswith("-")]
    wanted = named or ["linear", "decode", "prefill", "rows", "sample"]
    if "linear" in wanted:
        measure_linear(ceiling)
    if "decode" in wanted:
        measure_decode(ceiling)
    if "prefill" in wanted:
        measure_prefill()
    if "rows" in wanted:
        measure_rows(ceiling)
    if "sample" in wanted:
        measure_sample()


if __name__ == "__main__":
    main()
