"""The ways in which every kernel of this repository is compiled: one of each kind at least.

What compiles here compiles in use; options that only change a size are tried with one size or two.
"""

from collections.abc import Iterator, Mapping
from itertools import product

Options = Mapping[str, object]

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
HALF = ("bf16", "fp16")
NUMBERS = (*HALF, "float")
UNARY = ("abs_", "acos_", "acosh_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "cos_", "cosh_", "exp_",
         "expm1_", "floor_", "isfinite_", "isinf_", "isnan_", "log_", "log10_", "log1p_", "log2_", "negative",
         "positive", "reciprocal", "round_", "sign", "signbit_", "sin_", "sinh_", "sqrt_", "square", "tan_",
         "tanh_", "trunc_", "silu_", "gelu", "gelu_tanh", "relu")  # fmt: skip
BINARY = ("add", "atan2_", "copysign_", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot_",
          "less", "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter_", "not_equal", "pow_",
          "remainder_", "subtract")  # fmt: skip
INTEGER_BINARY = ("add", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
                  "equal", "floor_divide", "less", "maximum", "minimum", "multiply", "pow_", "remainder_",
                  "subtract")  # fmt: skip
PACKED = ((8, 0), (8, 32), (8, 64), (80, 0), (4, 32), (4, 64), (4, 128))
INTEGERS = ("i8", "i16", "int", "i64", "u8", "u16", "u32", "u64")


def linear() -> Iterator[Options]:
    """Every weight with every kind of step before and after."""
    for number in HALF:
        shape: dict[str, object] = {
            "ACTIVATION": number,
            "ROWS": 1,
            "TAKEN": 4,
            "THREADS": 256,
            "CHUNKS": 2,
            "BLOCKS": 1,
        }
        for weight, group in (
            (16, 0),
            (8, 0),
            (8, 32),
            (8, 64),
            (80, 0),
            (4, 32),
            (4, 64),
            (4, 128),
        ):
            kind = shape | {"WEIGHT": weight, "GROUP": group}
            yield kind | {"OUTPUT": number}
            yield kind | {"OUTPUT": "float", "NORM": 1}
            yield kind | {"OUTPUT": number, "NORM": 1, "PAIRED": 1}
        for activate in range(1, 5):
            yield shape | {"WEIGHT": 16, "OUTPUT": number, "ACTIVATE": activate}
        for rows in (2, 4, 8):
            yield shape | {"WEIGHT": 16, "OUTPUT": number, "ROWS": rows, "AHEAD": rows // 4}


def elementwise() -> Iterator[Options]:
    """Every expression in the types that it is for."""

    def of(expression: str, inputs: int, kind: str) -> Options:
        return {"EXPRESSION": expression, "INPUTS": inputs, "TYPE0": kind, "COMPUTED": kind, "OUTPUT": kind,
                "NUMBERS": 0, "DENSE": 0, "TOGETHER": 1}  # fmt: skip

    for name, kind in product(UNARY, ("float", "double")):
        yield of(f"{name}(a0)", 1, kind)
    for name, kind in product(BINARY, ("float", "double")):
        yield of(f"{name}(a0,a1)", 2, kind)
    for name in INTEGER_BINARY:
        yield from (of(f"{name}(a0,a1)", 2, kind) for kind in INTEGERS)
    for name in ("logical_and", "logical_or", "logical_xor", "equal"):
        yield of(f"{name}(a0,a1)", 2, "bool")
    dense: dict[str, object] = {
        "DENSE": 1,
        "TOGETHER": 4,
        "NUMBERS": 4,
        "TYPE1": "float",
        "TYPE2": "float",
    }
    for number in HALF:
        together: dict[str, object] = {
            "TYPE0": number,
            "COMPUTED": "float",
            "OUTPUT": number,
            "INPUTS": 3,
        }
        yield dense | together | {"EXPRESSION": "multiply(add(a0,a1),a2)"}


def variants(file: str, architecture: str) -> Iterator[Options]:
    """Options for one file; none where the file is not for the architecture."""
    clusters = (0, 1) if architecture != "sm_80" else (0,)
    match file:
        case "linear_few_rows.cu":
            yield from linear()
        case "elementwise.cu":
            yield from elementwise()
        case "attention_decode.cu":
            for number, cluster, (head, tiles) in product(
                HALF, clusters, ((64, 1), (128, 1), (128, 2), (192, 1), (256, 1))
            ):
                yield {
                    "NUMBER": number, "HEAD": head, "HEAD_TILES": tiles, "BLOCKS": 1, "CLUSTER": cluster,
                    "WARPS": 2 if head * tiles > 128 else 4, "SETTLED": cluster,
                }  # fmt: skip
        case "attention_prefill.cu":
            for number, head, causal in product(HALF, (64, 128, 192, 256), (0, 1)):
                yield {"NUMBER": number, "HEAD": head, "CAUSAL": causal}
        case "attention_prefill_hopper.cu":
            for number, head, causal in product(HALF, (64, 128), (0, 1)):
                if architecture == "sm_90a":
                    yield {"NUMBER": number, "HEAD": head, "CAUSAL": causal}
        case "normalize.cu" | "softmax.cu":
            for number, flag, chunks in product(NUMBERS, (0, 1), (0, 4)):
                if chunks == 0 and file == "normalize.cu":
                    continue
                for vector in (4 if number == "float" else 8, 1):
                    yield {"NUMBER": number, "LAYER": flag, "LOGARITHM": flag, "CHUNKS": chunks,
                           "VECTOR": vector, "THREADS": 128}  # fmt: skip
        case "activate.cu":
            for number, activate in product(NUMBERS, range(5)):
                vector = 4 if number == "float" else 8
                yield {"NUMBER": number, "VECTOR": vector, "ACTIVATE": activate}
        case "swiglu.cu":
            for number in NUMBERS:
                yield from (
                    {"NUMBER": number, "VECTOR": v} for v in (4 if number == "float" else 8, 1)
                )
        case "rope_write.cu":
            for number, neighbours in product(NUMBERS, (0, 1)):
                yield {"NUMBER": number, "CACHE": number, "NEIGHBOURS": neighbours, "WARPS": 4,
                       "SETTLED": neighbours}  # fmt: skip
        case "gather_rows.cu":
            yield from ({"UNIT": unit} for unit in (16, 4, 2, 1))
        case "take.cu":
            yield from (
                {"UNIT": unit, "PUT": put} for unit, put in product((16, 8, 4, 2, 1), (0, 1))
            )
        case "sample.cu":
            for number, cluster in product(NUMBERS, (1, 8) if architecture != "sm_80" else (1,)):
                yield {"NUMBER": number, "THREADS": 512, "CLUSTER": cluster}
                yield {
                    "NUMBER": number,
                    "THREADS": 512,
                    "CLUSTER": cluster,
                    "SEED": "int",
                    "STEP": "int",
                }
        case "penalize.cu":
            yield from ({"NUMBER": number} for number in NUMBERS)
        case "dequantize.cu" | "quantize.cu":
            for (weight, group), number in product(PACKED, NUMBERS):
                yield {
                    "WEIGHT": weight,
                    "GROUP": group,
                    "OUTPUT": number,
                    "TYPE": number,
                    "THREADS": 256,
                }
        case "pack_blocks.cu":
            for source, weight in ((80, 8), (40, 4), (41, 4)):
                yield {"SOURCE": source, "WEIGHT": weight, "GROUP": 32}
        case "reduce.cu":
            for kind, rows in product(("float", "double", "i64"), (0, 1)):
                yield {"TYPE": kind, "COMPUTED": kind, "OUTPUT": kind, "EXPRESSION": "square(a0)", "JOIN": "add",
                       "START": 0, "ROWS": rows}  # fmt: skip
        case "scan.cu":
            for kind, exclusive in product(("float", "double", "i64"), (0, 1)):
                yield {"TYPE": kind, "COMPUTED": kind, "OUTPUT": kind, "JOIN": "add", "START": 0,
                       "EXCLUSIVE": exclusive, "THREADS": 256}  # fmt: skip
        case "sort.cu":
            for kind, descending in product(("float", "double", "int", "i64", "u8"), (0, 1)):
                yield {
                    "TYPE": kind,
                    "COMPUTED": kind,
                    "DESCENDING": descending,
                    "SPAN": 1024,
                    "THREADS": 256,
                }
        case _:
            yield {}
