"""The macros that every kernel of this repository is compiled with: at least one variant of each kind.

Macros that only change a size have one value or two.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from assay._native import FORMATS, cuda_layout_macros
from assay.runtime.ufuncs import BINARY, UNARY

Options = Mapping[str, object]

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
HALF = ("bf16", "fp16")
FLOATS = (*HALF, "float")
FLOAT16, INT8, E4M3, UINT4 = (
    f"WeightFormat::{name}" for name in ("Float16", "Int8", "E4m3", "Uint4")
)
QUANTIZED = ((INT8, 0), (INT8, 32), (INT8, 64), (E4M3, 0), (UINT4, 32), (UINT4, 64), (UINT4, 128))
QUANTIZED_CACHES = ("e4m3", "int8")
GGML_BLOCKS = (
    "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "mxfp4", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs",
)  # fmt: skip
KINDS = {"bool": "bool", "int": "i64", "uint": "u8", "float": "float"}
ELEMENTWISE = ("none", "silu", "gelu", "gelu_tanh", "relu")
GATED = ("swiglu", "geglu_tanh", "geglu", "swiglu_clamped")
INTEGERS = ("i8", "i16", "int", "i64", "u8", "u16", "u32", "u64")


def layout(format: str) -> dict[str, object]:
    """The macros of a format of quantized weights, such as `q4_k`."""
    return dict(cuda_layout_macros(FORMATS[format]) or ())


def activation(name: str) -> str:
    """The value of ACTIVATION for a name such as `gelu_tanh`."""
    return "Activation::" + name.title().replace("_", "")


def gemv() -> Iterator[Options]:
    """Every weight format with every prologue and epilogue."""
    for element in HALF:
        shape: dict[str, object] = {
            "ELEMENT": element,
            "INPUTS": 4096,
            "MAX_ROWS": 1,
            "ROWS_PER_CTA": 4,
            "THREADS": 256,
            "CHUNKS_PER_THREAD": 2,
            "CTAS_PER_SM": 1,
        }
        for weight, group in ((FLOAT16, 0), *QUANTIZED):
            kind = shape | {"WEIGHT_FORMAT": weight, "GROUP_SIZE": group}
            yield kind | {"OUTPUT": element, "NO_TAIL": 1}
            yield kind | {"OUTPUT": "float", "NORM": 1}
            yield kind | {"OUTPUT": element, "NORM": 1, "GATED": 1}
        for name in ELEMENTWISE[1:]:
            yield shape | {
                "WEIGHT_FORMAT": FLOAT16,
                "OUTPUT": element,
                "ACTIVATION": activation(name),
            }
        for rows in (2, 4, 8):
            yield shape | {"WEIGHT_FORMAT": FLOAT16, "OUTPUT": element, "MAX_ROWS": rows}
            kind = {
                "WEIGHT_FORMAT": E4M3,
                "OUTPUT": element,
                "MAX_ROWS": rows,
                "GATED": int(rows == 2),
            }
            yield shape | kind | {"LORA_RANK": 64}
        gated = {"WEIGHT_FORMAT": FLOAT16, "OUTPUT": element, "GATED": 1}
        for name in GATED[1:]:
            grouped = int(name == "swiglu_clamped")
            yield shape | gated | {"ACTIVATION": activation(name), "GROUPED": grouped}
        for weight, group in ((FLOAT16, 0), *QUANTIZED):
            kind = {"WEIGHT_FORMAT": weight, "GROUP_SIZE": group, "OUTPUT": element}
            yield shape | kind | {"GROUPED": 1}
        for block_format in GGML_BLOCKS:
            kind = shape | layout(block_format)
            yield kind | {"OUTPUT": element, "NO_TAIL": 1, "GROUPED": int(element == "bf16")}
            yield kind | {"OUTPUT": "float", "NORM": 1, "GATED": 1, "MAX_ROWS": 4}
        reload = {"OUTPUT": element, "ROWS_PER_CTA": 8, "RELOAD_ROWS": 4}
        yield shape | layout("q4_k") | reload


def small_m_gemm() -> Iterator[Options]:
    """K in one pass and in several."""
    for element, inputs in product(HALF, (4096, 14336)):
        shape: dict[str, object] = {
            "ELEMENT": element,
            "M_TILES": 1,
            "INPUTS": inputs,
            "SLICE_K": 256 if inputs == 4096 else 128,
            "SLICES_PER_PASS": 2 if inputs == 4096 else 4,
            "STAGES": 3 if inputs == 4096 else 5,
            "MAX_TILES": 2,
            "WARPS": 8 if inputs == 4096 else 7,
            "CTAS_PER_SM": 1,
        }
        yield shape | {"OUTPUT": element}
        yield shape | {"OUTPUT": "float", "NORM": 1}
        yield shape | {"OUTPUT": element, "NORM": 1, "GATED": 1, "ACTIVATION": activation("silu")}
        yield shape | {"OUTPUT": element, "NORM": 1, "GATED": 1, "LORA_RANK": 64}


def elementwise() -> Iterator[Options]:
    """Every expression in its compute types."""

    def of(expression: str, inputs: int, kind: str) -> Options:
        return {"EXPRESSION": expression, "INPUTS": inputs, "COMPUTE_TYPE": kind, "INDEX": "u32"}

    for inputs, rules in ((1, UNARY), (2, BINARY)):
        for rule in rules.values():
            kinds = [kind for kind in rule.kinds if kind in KINDS and rule.expression]
            yield from (of(rule.expression, inputs, KINDS[kind]) for kind in kinds)
    for name, kind in product(("silu_", "gelu", "gelu_tanh", "relu"), ("float", "double")):
        yield of(f"{name}(a0)", 1, kind)
    for kind in INTEGERS:
        yield of("add(a0,a1)", 2, kind)
    for kind in ("u8", "u16", "u32", "u64", "uint4"):
        yield {"EXPRESSION": "a0", "INPUTS": 1, "TYPE0": kind, "COMPUTE_TYPE": kind, "RESULT": kind, "INDEX": "u64",
               "SCALAR_INPUTS": 0, "CONTIGUOUS": 0, "BROADCAST_INPUTS": 0, "VECTOR": 1}  # fmt: skip
    for kind in ("double", "i64", "u8"):
        yield of("ramp(index,a0,a1)", 2, kind)
        yield of("where(a0,a1,a2)", 3, kind)
    contiguous: dict[str, object] = {
        "INDEX": "u32",
        "BROADCAST_INPUTS": 0,
        "CONTIGUOUS": 1,
        "VECTOR": 4,
        "SCALAR_INPUTS": 4,
        "TYPE1": "float",
        "TYPE2": "float",
    }
    for element in HALF:
        vectorized: dict[str, object] = {
            "TYPE0": element,
            "COMPUTE_TYPE": "float",
            "RESULT": element,
            "INPUTS": 3,
        }
        yield contiguous | vectorized | {"EXPRESSION": "multiply(add(a0,a1),a2)"}
        yield (
            contiguous
            | vectorized
            | {"EXPRESSION": "add(a0,a1)", "CONTIGUOUS": 0, "BROADCAST_INPUTS": 2}
        )


def variants(file: str, architecture: str) -> Iterator[Options]:
    """The macros of one file; none where the file does not support the architecture."""
    clusters = (0, 1) if architecture != "sm_80" else (0,)
    match file:
        case "gemv.cu":
            yield from gemv()
        case "gemv_hopper.cu":
            layouts = [layout(block_format) for block_format in GGML_BLOCKS]
            nested = [macros for macros in layouts if "Nested" in str(macros["SCALE_FORMAT"])]
            for macros, gated in product(nested if architecture == "sm_90a" else [], (0, 1)):
                yield macros | {
                    "ELEMENT": "bf16", "OUTPUT": "bf16", "INPUTS": 4096, "MAX_ROWS": 1, "ROWS_PER_CTA": 4,
                    "THREADS": 128, "CHUNKS_PER_THREAD": 1, "CTAS_PER_SM": 4, "STAGES": 4,
                    "NORM": gated, "GATED": gated, "NO_TAIL": gated,
                }  # fmt: skip
        case "small_m_gemm.cu":
            yield from small_m_gemm()
        case "elementwise.cu":
            yield from elementwise()
        case "attention_decode.cu":
            for element, cluster, (head, tiles) in product(
                HALF, clusters, ((64, 1), (128, 1), (128, 2), (192, 1), (256, 1))
            ):
                yield {
                    "ELEMENT": element, "HEAD_DIM": head, "HEAD_TILES": tiles, "CTAS_PER_SM": 1, "CLUSTER": cluster,
                    "WARPS": 2 if head * tiles > 128 else 4, "METADATA_READY": cluster,
                    "FUSED_ROPE": cluster, "INTERLEAVED": int(element == "fp16"),
                }  # fmt: skip
            for head, score_options, fused in product((64, 256), (1, 2, 3, 5, 8, 15), clusters):
                yield {
                    "ELEMENT": "bf16", "HEAD_DIM": head, "HEAD_TILES": 1, "CTAS_PER_SM": 1, "CLUSTER": 0,
                    "WARPS": 4, "METADATA_READY": 1, "FUSED_ROPE": fused, "INTERLEAVED": 0,
                    "SCORE_OPTIONS": score_options,
                }  # fmt: skip
            for cache, head, cluster in product(QUANTIZED_CACHES, (64, 128, 192, 256), clusters):
                yield {
                    "ELEMENT": "bf16", "CACHE_ELEMENT": cache, "HEAD_DIM": head, "HEAD_TILES": 1,
                    "CTAS_PER_SM": 2 if head <= 128 else 1, "CLUSTER": cluster,
                    "WARPS": 8 if head <= 128 else 2, "METADATA_READY": 1,
                    "FUSED_ROPE": int(cache == "e4m3" and head != 192), "SCORE_OPTIONS": 15 * cluster,
                }  # fmt: skip
        case "attention_decode_hopper.cu":
            for cache, (head, tiles), cluster, fused in product(
                QUANTIZED_CACHES, ((64, 1), (64, 2), (128, 1)), clusters, (0, 1)
            ):
                if architecture == "sm_90a" and not (fused and cache == "int8"):
                    yield {
                        "ELEMENT": "bf16", "CACHE_ELEMENT": cache, "HEAD_DIM": head, "HEAD_TILES": tiles,
                        "CTAS_PER_SM": 1, "CLUSTER": cluster, "WARPS": 8, "RING_STAGES": 4,
                        "METADATA_READY": 1, "FUSED_ROPE": fused, "INTERLEAVED": cluster,
                        "SCORE_OPTIONS": 15 * cluster,
                    }  # fmt: skip
        case "attention_prefill.cu":
            for element, head, causal in product(HALF, (64, 128, 192, 256), (0, 1)):
                yield {"ELEMENT": element, "HEAD_DIM": head, "CAUSAL": causal}
            for head, score_options in product((64, 256), (1, 2, 3, 5, 8, 15)):
                yield {
                    "ELEMENT": "bf16",
                    "HEAD_DIM": head,
                    "CAUSAL": 1,
                    "SCORE_OPTIONS": score_options,
                }
            for cache, head, score_options in product(QUANTIZED_CACHES, (64, 256), (0, 15)):
                yield {
                    "ELEMENT": "bf16", "CACHE_ELEMENT": cache, "HEAD_DIM": head, "CAUSAL": 1,
                    "SCORE_OPTIONS": score_options,
                }  # fmt: skip
        case "attention_prefill_hopper.cu":
            for element, head, causal, (box_tokens, heads_per_tile) in product(
                HALF, (64, 128), (0, 1), ((16, 4), (128, 1))
            ):
                if architecture == "sm_90a":
                    yield {"ELEMENT": element, "HEAD_DIM": head, "HEADS_PER_TILE": heads_per_tile, "CAUSAL": causal,
                           "BOX_TOKENS": box_tokens}  # fmt: skip
        case "normalize.cu" | "softmax.cu":
            for element, flag, chunks in product(FLOATS, (0, 1), (0, 4)):
                if chunks == 0 and file == "normalize.cu":
                    continue
                for vector in (4 if element == "float" else 8, 1):
                    yield {"ELEMENT": element, "LAYER_NORM": flag, "LOG_SOFTMAX": flag, "CHUNKS_PER_THREAD": chunks,
                           "VECTOR": vector, "THREADS": 128}  # fmt: skip
        case "activate.cu":
            for element, name in product(FLOATS, ELEMENTWISE):
                vector = 4 if element == "float" else 8
                yield {"ELEMENT": element, "VECTOR": vector, "ACTIVATION": activation(name)}
        case "swiglu.cu":
            for element, name in product(FLOATS, GATED):
                yield from (
                    {"ELEMENT": element, "VECTOR": v, "ACTIVATION": activation(name)}
                    for v in (4 if element == "float" else 8, 1)
                )
        case "scale.cu" | "combine_experts.cu":
            for element, softcap in product(FLOATS, (0, 1)):
                yield from (
                    {"ELEMENT": element, "SOFTCAP": softcap, "VECTOR": v}
                    for v in (4 if element == "float" else 8, 1)
                )
        case "add_residual.cu" | "norm_columns.cu":
            for element, norm in product(FLOATS, (0, 1)):
                yield from (
                    {"ELEMENT": element, "NORM": norm, "THREADS": 128, "CHUNKS_PER_THREAD": 2, "VECTOR": v}
                    for v in (4 if element == "float" else 8, 1)
                )  # fmt: skip
        case "route.cu":
            for sigmoid, normalize, top_two in product((0, 1), (0, 1), (0, 1)):
                yield {"SIGMOID": sigmoid, "NORMALIZE": normalize, "TOP_TWO_GROUPS": top_two}
        case "router.cu":
            routers = ((2048, 8, 8), (2880, 9, 2), (4096, 8, 1))
            for element, (inputs, warps, cluster) in product(HALF, routers):
                yield {
                    "ELEMENT": element, "INPUTS": inputs, "WARPS": warps,
                    "CLUSTER_SIZE": cluster if clusters[-1] else 1,
                    "SIGMOID": int(element == "fp16"), "NORMALIZE": 1, "TOP_TWO_GROUPS": int(cluster == 1),
                }  # fmt: skip
        case "combine_gemv.cu":
            # Qwen3-30B-A3B, gpt-oss, Mixtral.
            downs = ((768, 8, 1, 3, 4, 2), (2880, 4, 3, 4, 4, 1), (14336, 2, 14, 4, 2, 1))
            for element, (inputs, top_k, warps, chunks, rows, ctas) in product(HALF, downs):
                yield {
                    "ELEMENT": element, "INPUTS": inputs, "TOP_K": top_k, "WARPS_PER_EXPERT": warps,
                    "CHUNKS_PER_THREAD": chunks, "ROWS_PER_CTA": rows, "CTAS_PER_SM": ctas,
                    "EXPERTS_READY": int(element == "bf16"),
                }  # fmt: skip
        case "grouped_small_m_gemm.cu":
            experts = (
                (2048, 2, 8, 5, 1, "none"), (2048, 2, 8, 5, 1, "swiglu_clamped"),
                (768, 1, 6, 6, 0, "none"),
            )  # fmt: skip
            for element, (inputs, slices, warps, stages, gated, name) in product(HALF, experts):
                yield {
                    "ELEMENT": element, "GATED": gated, "ACTIVATION": activation(name), "INPUTS": inputs,
                    "SLICE_K": 128,
                    "SLICES": slices, "STAGES": stages, "WARPS": warps, "EXPERTS": 128, "MAX_ASSIGNMENTS": 1024,
                }  # fmt: skip
        case "grouped_small_m_gemm_hopper.cu":
            # Qwen3-30B-A3B's gate and up, and its down; gpt-oss.
            layers = ((2048, 2, 8, 3, 1), (768, 1, 4, 1, 2), (2880, 3, 10, 3, 1))
            for element, (inputs, parts, warps, stages, ctas) in product(HALF, layers):
                gated = int(inputs > 768)
                name = "swiglu_clamped" if parts == 3 else "none"
                if architecture == "sm_90a":
                    yield {
                        "ELEMENT": element, "GATED": gated, "ACTIVATION": activation(name),
                        "M_TILES": 1, "INPUTS": inputs, "PARTS": parts, "STAGES": stages, "WARPS": warps,
                        "EXPERTS": 128, "MAX_ASSIGNMENTS": 1024, "CHUNK": ctas, "ROW_BLOCKS": 2,
                        "CTAS_PER_SM": ctas, "EXPERTS_READY": 1 - gated,
                    }  # fmt: skip
        case "fourier.cu":
            # Forms: complex, real, half a spectrum, pairs of real rows and of halves.
            forms = (
                (0, 0, 0, 0), (3, 4, 0, 0), (4, 3, 0, 0), (0, 0, 1, 1), (0, 0, 2, 0), (1, 0, 1, 1), (2, 0, 1, 1),
                (0, 1, 2, 0), (0, 2, 2, 0),
            )  # fmt: skip
            lengths = (
                (400, 2020, 8, 160),
                (8192, 16080808, 1, 512),
                (441, 2121, 8, 192),
                (1, 1, 32, 64),
            )
            for (length, radices, transforms, threads), form in product(lengths, forms):
                load, store, across, rotate = form
                swap = int(load in (2, 4) or store == 1)
                yield {
                    "LENGTH": length, "RADICES": radices, "TRANSFORMS": transforms, "THREADS": threads,
                    "CTAS_PER_SM": max(800 // threads, 1),
                    "LOAD": load, "STORE": store, "SWAP_LOAD": swap, "SWAP_STORE": swap,
                    "ACROSS": across, "ROTATE": rotate,
                }  # fmt: skip
        case "stft.cu":
            for (length, radices, transforms, threads), reflect, value in product(
                ((400, 2020, 16, 320), (2048, 161608, 2, 256)), (0, 1), (0, 1, 2)
            ):
                yield {
                    "LENGTH": length, "RADICES": radices, "TRANSFORMS": transforms, "THREADS": threads,
                    "CTAS_PER_SM": max(800 // threads, 1),
                    "REFLECT": reflect, "VALUE": value,
                }  # fmt: skip
        case "stft_step.cu":
            for part, reflect, value in product((0, 1), (0, 1), (0, 1, 2)):
                yield {"PART": part, "REFLECT": reflect, "VALUE": value}
        case "chirp.cu":
            for part, stored, swap in product(range(4), range(3), (0, 1)):
                yield {"PART": part, "LOAD": stored, "STORE": stored, "SWAP": swap}
        case "recursive_filter.cu":
            yield from ({"ORDER": order, "THREADS": 256} for order in (1, 2, 8))
        case "group_norm.cu":
            yield {"THREADS": 512}
        case "lstm_cluster.cu":
            # Kokoro, Silero.
            for hidden, threads, batch in ((256, 512, 1), (256, 512, 4), (128, 512, 8)):
                if architecture != "sm_80":
                    yield {"HIDDEN": hidden, "CLUSTER_SIZE": 8, "THREADS": threads, "BATCH": batch}
        case "convolution.cu":
            for (element, tensor_cores), (filters, positions), transposed in product(
                (("float", 0), ("float", 1), ("float", 3), ("bf16", 1), ("fp16", 1)),
                ((64, 64), (64, 128), (128, 128)),
                (0, 1),
            ):
                yield {
                    "ELEMENT": element, "TENSOR_CORES": tensor_cores, "TILE_FILTERS": filters,
                    "TILE_POSITIONS": positions, "TRANSPOSED": transposed, "ACTIVATION": activation("gelu"),
                }  # fmt: skip
        case "convolution_tf32.cu":
            for products, filters in product((3, 1), (64, 32)):
                yield {"PRODUCTS": products, "TILE_FILTERS": filters, "STAGES": 3, "CTAS_PER_SM": 3,
                       "ACTIVATION": activation("relu")}  # fmt: skip
        case "direct_convolution.cu":
            for element, transposed in product(FLOATS, (0, 1)):
                yield {
                    "ELEMENT": element,
                    "TRANSPOSED": transposed,
                    "ACTIVATION": activation("none"),
                }
        case "group_assignments.cu":
            yield {"TILE_ROWS": 64}
        case "grouped_gemm.cu":
            epilogues = (
                (0, "none"), (1, "none"), (1, "geglu_tanh"), (1, "swiglu_clamped"), (0, "gelu_tanh"),
            )  # fmt: skip
            for element, (gated, name) in product(HALF, epilogues):
                yield {"ELEMENT": element, "GATED": gated, "ACTIVATION": activation(name)}
            for element, gated in product(HALF, (0, 1)):
                chosen = activation("swiglu_clamped" if gated else "none")
                yield {"ELEMENT": element, "GATED": gated, "ACTIVATION": chosen, **layout("mxfp4")}
        case "grouped_gemm_hopper.cu":
            if architecture == "sm_90a":
                for element, (gated, name) in product(
                    HALF, ((0, "none"), (1, "none"), (1, "swiglu_clamped"))
                ):
                    yield {"ELEMENT": element, "GATED": gated, "ACTIVATION": activation(name)}
        case "lora_shrink.cu":
            # Inputs of 4096 and 14336, as an 8B model has them.
            for element, (inputs, chunks, norm) in product(HALF, ((4096, 2, 1), (14336, 7, 0))):
                yield {
                    "ELEMENT": element, "INPUTS": inputs, "RANK": 64, "RANKS_PER_CTA": 4, "THREADS": 256,
                    "CHUNKS_PER_THREAD": chunks, "NORM": norm, "ADAPTERS_READY": int(element == "bf16"),
                }  # fmt: skip
        case "lora_expand.cu":
            expanded = ((0, "none"), (1, "none"), (0, "gelu_tanh"))
            for element, (gated, name), rank in product(HALF, expanded, (64, 128)):
                yield {
                    "ELEMENT": element, "RANK": rank, "ROWS_PER_CTA": 4, "THREADS": 128, "GATED": gated,
                    "ACTIVATION": activation(name), "ADAPTERS_READY": int(element == "bf16"),
                }  # fmt: skip
        case "rope_write.cu":
            for element, interleaved in product(FLOATS, (0, 1)):
                for vector, lanes in ((4 if element == "float" else 8, 8), (1, 32)):
                    yield {"ELEMENT": element, "CACHE_ELEMENT": element, "INTERLEAVED": interleaved, "VECTOR": vector,
                           "LANES_PER_HEAD": lanes, "THREADS": 128, "METADATA_READY": interleaved}  # fmt: skip
            for cache, (vector, lanes) in product(QUANTIZED_CACHES, ((8, 8), (1, 32))):
                yield {"ELEMENT": "bf16", "CACHE_ELEMENT": cache, "INTERLEAVED": 0, "VECTOR": vector,
                       "LANES_PER_HEAD": lanes, "THREADS": 128, "METADATA_READY": 1}  # fmt: skip
        case "latent_write.cu":
            for element, interleaved in product(HALF, (1, 0)):
                yield {"ELEMENT": element, "INTERLEAVED": interleaved, "THREADS": 256}
        case "latent_attention.cu":
            shapes = ((64, 2, 2), (32, 4, 2), (16, 4, 2), (32, 4, 1), (16, 4, 1))
            for element, split, (queries, warps, stages) in product(HALF, (0, 1), shapes):
                yield {"ELEMENT": element, "RANK": 512, "ROTARY": 64, "QUERIES": queries, "N_WARPS": warps,
                       "TILE_TOKENS": 32, "STAGES": stages, "SPLIT": split}  # fmt: skip
        case "latent_combine.cu":
            yield from ({"ELEMENT": element, "THREADS": 128} for element in HALF)
        case "causal_convolution.cu":
            for element, taps in product(FLOATS, (4, 2)):
                yield {"ELEMENT": element, "KERNEL_TAPS": taps, "THREADS": 128, "CHUNK_ROWS": 64}
        case "selective_scan.cu":
            for element, (head, state, lanes) in product(FLOATS, ((64, 128, 8), (16, 16, 4))):
                yield {"ELEMENT": element, "HEAD_DIM": head, "ELEMENTS": min(head, 32), "STATE_SIZE": state,
                       "ELEMENTS_PER_LANE": 2 if head == 64 else 1, "LANES_PER_ELEMENT": lanes,
                       "CHUNK_ROWS": 16}  # fmt: skip
        case "chunked_scan.cu":
            yield from ({"ELEMENT": "bf16", "STATE_SIZE": size} for size in (64, 128))
        case "gather_rows.cu":
            yield from ({"ACCESS_BYTES": access_bytes} for access_bytes in (16, 4, 2, 1))
        case "gather.cu":
            yield from (
                {"ACCESS_BYTES": access_bytes, "ALONG_AXIS": items}
                for access_bytes, items in product((16, 8, 4, 2, 1), (0, 1))
            )
        case "sample.cu":
            for element, cluster in product(FLOATS, (1, 8) if architecture != "sm_80" else (1,)):
                vector = 4 if element == "float" else 8
                yield {
                    "ELEMENT": element,
                    "VECTOR": vector,
                    "THREADS": 512,
                    "CLUSTER_SIZE": cluster,
                }
                yield {
                    "ELEMENT": element,
                    "VECTOR": 1,
                    "THREADS": 128,
                    "CLUSTER_SIZE": cluster,
                    "SEED": "int",
                    "STEP": "int",
                }
        case "penalize.cu" | "mask_logits.cu":
            yield from ({"ELEMENT": element} for element in FLOATS)
        case "dequantize.cu" | "quantize.cu":
            for (weight, group), element in product(QUANTIZED, FLOATS):
                yield {
                    "WEIGHT_FORMAT": weight,
                    "GROUP_SIZE": group,
                    "OUTPUT": element,
                    "TYPE": element,
                    "THREADS": 256,
                }
            if file == "dequantize.cu":
                yield from (layout(format) | {"OUTPUT": "bf16"} for format in GGML_BLOCKS)
        case "dequantize_blocks.cu":
            for block_format, element in product(GGML_BLOCKS, FLOATS):
                yield layout(block_format) | {"OUTPUT": element}
        case "quantize_blocks.cu":
            for block_format, element in product(("q8_0", "q4_0", "q4_1"), FLOATS):
                yield layout(block_format) | {"TYPE": element}
        case "channel_projection.cu":
            # Pairs of 128 and 768 channels: the public shapes of triangle multiplication.
            for element, (inputs, tile), gated in product(HALF, ((128, 128), (768, 64)), (0, 1)):
                yield {"ELEMENT": element, "INPUTS": inputs, "TILE_PLACES": tile, "STAGES": 3, "GATED": gated,
                       "TRANSPOSED": gated, "CTAS_PER_SM": tile // 64}  # fmt: skip
        case "triangle_update.cu":
            for element, (channels, tile), residual in product(
                HALF, ((128, 128), (768, 64)), (0, 1)
            ):
                yield {"ELEMENT": element, "HIDDEN": 128, "CHANNELS": channels, "TILE_PLACES": tile, "STAGES": 2,
                       "RESIDUAL": residual, "CTAS_PER_SM": tile // 64}  # fmt: skip
        case "channel_projection_hopper.cu":
            if architecture == "sm_90a":
                # Shapes and stages as pairs.rs chooses them for pairs of 128, 384 and 768 channels.
                planes = ((128, 128, 2, 4), (384, 128, 1, 4), (768, 64, 1, 4), (256, 128, 2, 3))
                for element, (inputs, tile, groups, stages), gated in product(HALF, planes, (0, 1)):
                    yield {"ELEMENT": element, "INPUTS": inputs, "TILE_PLACES": tile, "GROUPS": groups,
                           "STAGES": stages, "GATED": gated, "TRANSPOSED": gated, "CTAS_PER_SM": groups}  # fmt: skip
        case "triangle_update_hopper.cu":
            if architecture == "sm_90a":
                updates = ((128, 128, 2, 2), (384, 128, 4, 1), (768, 64, 4, 1))
                for element, (channels, tile, stages, ctas), residual in product(
                    HALF, updates, (0, 1)
                ):
                    yield {"ELEMENT": element, "HIDDEN": 128, "CHANNELS": channels, "TILE_PLACES": tile,
                           "STAGES": stages, "RESIDUAL": residual, "CTAS_PER_SM": ctas}  # fmt: skip
        case "channel_projection_persistent.cu":
            if architecture == "sm_90a":
                # Trunks of 128 channels with as many hidden ones.
                projections = ((128, 256, 1), (64, 256, 1), (128, 128, 0))
                for element, (inputs, outputs, gated), transposed in product(
                    HALF, projections, (0, 1)
                ):
                    yield {"ELEMENT": element, "INPUTS": inputs, "OUTPUTS": outputs, "GATED": gated,
                           "TRANSPOSED": transposed}  # fmt: skip
        case "triangle_update_persistent.cu":
            if architecture == "sm_90a":
                for element, residual in product(HALF, (0, 1)):
                    yield {"ELEMENT": element, "RESIDUAL": residual}
        case "matmul.cu":
            for element, epilogue in product(FLOATS, range(3)):
                yield {"TYPE": element, "OUTPUT": element, "EPILOGUE": epilogue}
                yield {"TYPE": element, "OUTPUT": "float", "EPILOGUE": epilogue}
        case "convert.cu":
            for element, other in product(FLOATS, FLOATS):
                yield {"TYPE": element, "OUTPUT": other}
        case "pack_blocks.cu":
            yield from map(layout, GGML_BLOCKS)
        case "reduce.cu":
            for kind, (rows, register_vectors) in product(
                ("float", "double", "i64"), ((0, 0), (1, 0), (1, 4))
            ):
                yield {"TYPE": kind, "TRANSFORM_TYPE": kind, "COMPUTE_TYPE": kind, "OUTPUT": kind, "CENTERED": 1 + rows,
                       "TRANSFORM": "square(subtract(a0,a1))",
                       "COMBINE": "add", "EPILOGUE": "divide(a0,a1)", "CONTIGUOUS_AXIS": rows,
                       "REGISTER_VECTORS": register_vectors, "VECTOR": 1 + rows}  # fmt: skip
            for kind, operator in product(
                ("i16", "u64", "bool"), ("maximum", "minimum", "logical_and")
            ):
                yield {"TYPE": kind, "TRANSFORM_TYPE": kind, "COMPUTE_TYPE": kind, "OUTPUT": kind, "TRANSFORM": "a0",
                       "CENTERED": 0, "COMBINE": operator, "EPILOGUE": "a0", "CONTIGUOUS_AXIS": 1,
                       "REGISTER_VECTORS": 0, "VECTOR": 1}  # fmt: skip
        case "argreduce.cu":
            for (kind, compute_type), rows in product((("bf16", "float"), ("u64", "u64")), (0, 1)):
                yield {
                    "TYPE": kind,
                    "COMPUTE_TYPE": compute_type,
                    "LARGEST": rows,
                    "CONTIGUOUS_AXIS": rows,
                    "VECTOR": 1 + rows,
                }
        case "scan.cu":
            for kind, exclusive in product(("float", "double", "i64"), (0, 1)):
                yield {"TYPE": kind, "COMPUTE_TYPE": kind, "OUTPUT": kind, "COMBINE": "add", "EXCLUSIVE": exclusive,
                       "VECTOR": 1 + exclusive, "THREADS": 256}  # fmt: skip
        case "sort.cu":
            kinds = (("u32", 0, "0x7f800000"), ("u16", 0, "0x7c00"), ("u64", 0, "0x7ff0000000000000"),
                     ("u32", 1, 0), ("u64", 1, 0), ("u8", 0, 0))  # fmt: skip
            for (key, signed, infinity), with_indices in product(kinds, (0, 1)):
                sizes = ((256, 4), (512, 8), (512, 16))
                for threads, items in sizes[: 2 if key == "u64" else 3]:
                    yield {"KEY": key, "SIGNED": signed, "INFINITY_BITS": infinity, "WITH_INDICES": with_indices,
                           "THREADS": threads, "ITEMS_PER_THREAD": items}  # fmt: skip
        case "compact.cu" | "pillarize.cu" | "pillar_features.cu":
            yield {"THREADS": 256}
        case "scatter.cu":
            yield from ({"ACCESS_BYTES": access_bytes} for access_bytes in (16, 8, 4, 2, 1))
        case "searchsorted.cu":
            for kind, right in product(("bf16", "double", "u64", "bool"), (0, 1)):
                compute_type = "float" if kind == "bf16" else kind
                yield {"TYPE": kind, "COMPUTE_TYPE": compute_type, "RIGHT": right}
        case _:
            yield {}
