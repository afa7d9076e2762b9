"""The ways in which every kernel of this repository is compiled: one of each kind at least.

What compiles here compiles in use; options that only change a size are tried with one size or two.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from assay.runtime.rules import BINARY, UNARY

Options = Mapping[str, object]

ARCHITECTURES = ("sm_80", "sm_90a", "sm_120")
HALF = ("bf16", "fp16")
NUMBERS = (*HALF, "float")
PACKED = ((8, 0), (8, 32), (8, 64), (80, 0), (4, 32), (4, 64), (4, 128))
KINDS = {"bool": "bool", "int": "i64", "uint": "u8", "float": "float"}
INTEGERS = ("i8", "i16", "int", "i64", "u8", "u16", "u32", "u64")


def linear() -> Iterator[Options]:
    """Every weight with every kind of step before and after."""
    for number in HALF:
        shape: dict[str, object] = {
            "ACTIVATION": number,
            "INPUTS": 4096,
            "ROWS": 1,
            "TAKEN": 4,
            "THREADS": 256,
            "CHUNKS": 2,
            "BLOCKS": 1,
        }
        for weight, group in ((16, 0), *PACKED):
            kind = shape | {"WEIGHT": weight, "GROUP": group}
            yield kind | {"OUTPUT": number, "EVEN": 1}
            yield kind | {"OUTPUT": "float", "NORM": 1}
            yield kind | {"OUTPUT": number, "NORM": 1, "PAIRED": 1}
        for activate in range(1, 5):
            yield shape | {"WEIGHT": 16, "OUTPUT": number, "ACTIVATE": activate}
        for rows in (2, 4, 8):
            yield shape | {"WEIGHT": 16, "OUTPUT": number, "ROWS": rows}


def some_rows() -> Iterator[Options]:
    """Some rows, in one pass over the inputs and in several."""
    for number, inputs in product(HALF, (4096, 14336)):
        shape: dict[str, object] = {
            "ACTIVATION": number,
            "TILES": 1,
            "INPUTS": inputs,
            "SLICE": 256,
            "SLICES": 2,
            "STAGES": 3,
            "TURNS": 2,
            "WARPS": 8 if inputs == 4096 else 7,
            "BLOCKS": 1,
        }
        yield shape | {"OUTPUT": number}
        yield shape | {"OUTPUT": "float", "NORM": 1}
        yield shape | {"OUTPUT": number, "NORM": 1, "PAIRED": 1, "ACTIVATE": 1}


def elementwise() -> Iterator[Options]:
    """Every expression in the types that it is for."""

    def of(expression: str, inputs: int, kind: str) -> Options:
        return {"EXPRESSION": expression, "INPUTS": inputs, "COMPUTED": kind, "INDEX": "u32"}

    for inputs, rules in ((1, UNARY), (2, BINARY)):
        for rule in rules.values():
            kinds = [kind for kind in rule.kinds if kind in KINDS and rule.expression]
            yield from (of(rule.expression, inputs, KINDS[kind]) for kind in kinds)
    for name, kind in product(("silu_", "gelu", "gelu_tanh", "relu"), ("float", "double")):
        yield of(f"{name}(a0)", 1, kind)
    for kind in INTEGERS:
        yield of("add(a0,a1)", 2, kind)
    for kind in ("u8", "u16", "u32", "u64", "uint4"):
        yield {"EXPRESSION": "a0", "INPUTS": 1, "TYPE0": kind, "COMPUTED": kind, "RESULT": kind, "INDEX": "u64",
               "NUMBERS": 0, "DENSE": 0, "SAME": 0, "TOGETHER": 1}  # fmt: skip
    for kind in ("double", "i64", "u8"):
        yield of("ramp(place,a0,a1)", 2, kind)
        yield of("where(a0,a1,a2)", 3, kind)
    dense: dict[str, object] = {
        "INDEX": "u32",
        "SAME": 0,
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
            "RESULT": number,
            "INPUTS": 3,
        }
        yield dense | together | {"EXPRESSION": "multiply(add(a0,a1),a2)"}
        yield dense | together | {"EXPRESSION": "add(a0,a1)", "DENSE": 0, "SAME": 2}


def variants(file: str, architecture: str) -> Iterator[Options]:
    """Options for one file; none where the file is not for the architecture."""
    clusters = (0, 1) if architecture != "sm_80" else (0,)
    match file:
        case "gemv.cu":
            yield from linear()
        case "small_m_gemm.cu":
            yield from some_rows()
        case "elementwise.cu":
            yield from elementwise()
        case "attention_decode.cu":
            for number, cluster, (head, tiles) in product(
                HALF, clusters, ((64, 1), (128, 1), (128, 2), (192, 1), (256, 1))
            ):
                yield {
                    "NUMBER": number, "HEAD": head, "HEAD_TILES": tiles, "BLOCKS": 1, "CLUSTER": cluster,
                    "WARPS": 2 if head * tiles > 128 else 4, "SETTLED": cluster,
                    "ROTATES": cluster, "NEIGHBORS": int(number == "fp16"),
                }  # fmt: skip
        case "attention_prefill.cu":
            for number, head, causal in product(HALF, (64, 128, 192, 256), (0, 1)):
                yield {"NUMBER": number, "HEAD": head, "CAUSAL": causal}
        case "attention_prefill_hopper.cu":
            for number, head, causal, (box, bundle) in product(
                HALF, (64, 128), (0, 1), ((16, 4), (128, 1))
            ):
                if architecture == "sm_90a":
                    yield {"NUMBER": number, "HEAD": head, "BUNDLE": bundle, "CAUSAL": causal,
                           "BOX": box}  # fmt: skip
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
            for number, neighbors in product(NUMBERS, (0, 1)):
                for vector, lanes in ((4 if number == "float" else 8, 8), (1, 32)):
                    yield {"NUMBER": number, "CACHE": number, "NEIGHBORS": neighbors, "VECTOR": vector,
                           "LANES": lanes, "THREADS": 128, "SETTLED": neighbors}  # fmt: skip
        case "gather_rows.cu":
            yield from ({"UNIT": unit} for unit in (16, 4, 2, 1))
        case "gather.cu":
            yield from (
                {"UNIT": unit, "EACH": each} for unit, each in product((16, 8, 4, 2, 1), (0, 1))
            )
        case "sample.cu":
            for number, cluster in product(NUMBERS, (1, 8) if architecture != "sm_80" else (1,)):
                wide = 4 if number == "float" else 8
                yield {"NUMBER": number, "VECTOR": wide, "THREADS": 512, "CLUSTER": cluster}
                yield {
                    "NUMBER": number,
                    "VECTOR": 1,
                    "THREADS": 128,
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
        case "dequantize_blocks.cu":
            for source, number in product((80, 40, 41, 45, 65), NUMBERS):
                yield {"SOURCE": source, "OUTPUT": number}
        case "quantize_blocks.cu":
            for source, number in product((80, 40, 41), NUMBERS):
                yield {"SOURCE": source, "TYPE": number}
        case "matmul.cu":
            for number, epilogue in product(NUMBERS, range(3)):
                yield {"TYPE": number, "OUTPUT": number, "EPILOGUE": epilogue}
                yield {"TYPE": number, "OUTPUT": "float", "EPILOGUE": epilogue}
        case "convert.cu":
            for number, other in product(NUMBERS, NUMBERS):
                yield {"TYPE": number, "OUTPUT": other}
        case "pack_blocks.cu":
            for source, weight in ((80, 8), (40, 4), (41, 4)):
                yield {"SOURCE": source, "WEIGHT": weight, "GROUP": 32}
        case "reduce.cu":
            for kind, (rows, held) in product(("float", "double", "i64"), ((0, 0), (1, 0), (1, 4))):
                yield {"TYPE": kind, "LOADED": kind, "COMPUTED": kind, "OUTPUT": kind, "CENTERED": 1 + rows,
                       "FIRST": "square(subtract(a0,a1))",
                       "JOIN": "add", "LAST": "divide(a0,a1)", "ROWS": rows, "HELD": held,
                       "TOGETHER": 1 + rows}  # fmt: skip
            for kind, join in product(
                ("i16", "u64", "bool"), ("maximum", "minimum", "logical_and")
            ):
                yield {"TYPE": kind, "LOADED": kind, "COMPUTED": kind, "OUTPUT": kind, "FIRST": "a0", "CENTERED": 0,
                       "JOIN": join, "LAST": "a0", "ROWS": 1, "HELD": 0, "TOGETHER": 1}  # fmt: skip
        case "argreduce.cu":
            for (kind, computed), rows in product((("bf16", "float"), ("u64", "u64")), (0, 1)):
                yield {
                    "TYPE": kind,
                    "COMPUTED": computed,
                    "LARGEST": rows,
                    "ROWS": rows,
                    "TOGETHER": 1 + rows,
                }
        case "scan.cu":
            for kind, exclusive in product(("float", "double", "i64"), (0, 1)):
                yield {"TYPE": kind, "COMPUTED": kind, "OUTPUT": kind, "JOIN": "add", "EXCLUSIVE": exclusive,
                       "TOGETHER": 1 + exclusive, "THREADS": 256}  # fmt: skip
        case "sort.cu":
            kinds = (("u32", 0, "0x7f800000"), ("u16", 0, "0x7c00"), ("u64", 0, "0x7ff0000000000000"),
                     ("u32", 1, 0), ("u64", 1, 0), ("u8", 0, 0))  # fmt: skip
            for (bits, signed, infinite), places in product(kinds, (0, 1)):
                sizes = ((256, 4), (512, 8), (512, 16))
                for threads, each in sizes[: 2 if bits == "u64" else 3]:
                    yield {"BITS": bits, "SIGNED": signed, "INFINITE": infinite, "PLACES": places,
                           "THREADS": threads, "EACH": each}  # fmt: skip
        case "compact.cu":
            yield {"THREADS": 256}
        case "scatter.cu":
            yield from ({"UNIT": unit} for unit in (16, 8, 4, 2, 1))
        case "searchsorted.cu":
            for kind, right in product(("bf16", "double", "u64", "bool"), (0, 1)):
                computed = "float" if kind == "bf16" else kind
                yield {"TYPE": kind, "COMPUTED": computed, "RIGHT": right}
        case _:
            yield {}
