"""What strangers send, as fuzz targets: valid inputs, and what must accept or refuse their damaged copies.

A target refuses by an `AssayError`, or by pydantic's error for bodies of requests; any other exception,
and a crash of course, is a bug. `tests/attacks/fuzz_inputs.py` runs them for as long as it is told.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import file_fuzz_targets
import gguf
import numpy as np
from file_fuzz_targets import Target, file_targets
from gguf_models import small, write
from lora_folders import factors_of, write_adapter
from mutations import damaged_bytes, damaged_json
from pydantic import ValidationError

from assay.engine import Encoder, Engine, StructuredOutput
from assay.engine.architectures.registry import ARCHITECTURES, ENCODERS
from assay.engine.loading import open_model
from assay.engine.loading.encoder_files import is_encoder
from assay.engine.loading.lora_adapter import open_adapter
from assay.engine.loading.synthetic import synthetic_model, write_folder
from assay.engine.models.adapters import check_adapters
from assay.engine.requests.grammar_vetting import GrammarVetting
from assay.engine.server.request_schemas import ChatRequest
from assay.engine.server.service import ServedModel
from assay.engine.server.tool_choice import tool_plan
from assay.engine.server.tools import FAMILIES
from assay.ops.formats import BLOCKS

GROUP: Final = 64
GGUF_HEADER: Final = 9000
"""Bytes at the start of a small GGUF file, among which its keys and tensors are described."""

REFUSALS: Final = (ValidationError, *file_fuzz_targets.REFUSALS)
"""Typed refusals besides `AssayError`."""


NAMES: Final = (
    *("gguf", "safetensors", "configuration", "adapter", "schema", "tools"),
    *("trace", "stored trace", "recording", "levers", "server adapter", "scenario", "cases"),
    *("requests", "run", "answer", "event"),
)
"""All targets."""

FEW: Final = ("q4_k", "mxfp4", "llama", "gpt_oss", "deepseek_v2", "mamba2", "bert")
"""Block formats and architectures of the tests that run by default."""


@contextmanager
def targets(folder: Path, only: Collection[str] | None = None) -> Iterator[dict[str, Target]]:
    """All targets, with their files in a folder; `only` of these formats and architectures."""

    def chosen(names: Iterable[str]) -> list[str]:
        return [name for name in names if only is None or name in only]

    with ExitStack() as stack:
        vetting = GrammarVetting()
        stack.callback(vetting.close)
        files = stack.enter_context(file_targets(folder / "files"))
        yield {
            **files,
            "gguf": _gguf(folder / "gguf", chosen(BLOCKS)),
            "safetensors": _checkpoints(folder / "checkpoints"),
            "configuration": _configurations(
                folder / "configurations", chosen((*ARCHITECTURES, *ENCODERS))
            ),
            "adapter": _adapter(folder / "adapter"),
            "schema": Target(
                SCHEMAS,
                damaged_json,
                lambda _, schema: vetting.check(StructuredOutput.json_schema(schema)),
            ),
            "tools": _tools(vetting),
        }


def _load(source: Path) -> None:
    """Open a model, and compute with what is accepted."""
    files = open_model(source)
    files.tokenizer.decode(files.tokenizer.encode("Hi <|end|> xy"))
    if files.chat_template is not None:
        files.chat_template.render([{"role": "user", "content": "Hi"}])
    if is_encoder(files):
        with Encoder.load(files) as encoder:
            encoder.embed("Hi")
        return
    with Engine.load(files, "cpu", kv_tokens=64, max_batch=2, token_budget=16) as engine:
        engine.logits([1, 2, 3])


def _gguf(folder: Path, formats: Iterable[str]) -> Target:
    """Files with matrices in every block format, of which some have kernels and some have none."""
    folder.mkdir(parents=True)
    seeds = {}
    names = [name for name in formats if name.upper() in gguf.GGMLQuantizationType.__members__]
    plain, random = gguf.GGUFWriter.add_tensor, np.random.default_rng(1)
    for name in names:
        values, size = BLOCKS[name]
        kind = gguf.GGMLQuantizationType[name.upper()]

        def add(writer: Any, stored: str, given: Any, **options: Any) -> None:
            if given.ndim == 2 and "blk" in stored and given.shape[1] % values == 0:  # noqa: B023
                shape = (given.shape[0], given.shape[1] // values * size)  # noqa: B023
                blocks = random.integers(0, 60, shape, np.uint8)
                plain(writer, stored, blocks, raw_dtype=kind)  # noqa: B023
            else:
                plain(writer, stored, given, **options)

        with mock.patch.object(gguf.GGUFWriter, "add_tensor", add):
            write(folder / f"{name}.gguf", small("llama"))
        seeds[name] = (folder / f"{name}.gguf").read_bytes()

    def use(name: str, data: bytes) -> None:
        # A new file each time: an open mapping must never see its file change.
        path = folder / f"{name}.gguf"
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        _load(path)

    return Target(seeds, lambda data, chance: damaged_bytes(data, chance, GGUF_HEADER), use)


def _parts(scheme: str, rows: int, columns: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The parts of a quantized matrix, with their types and shapes."""
    groups = columns // GROUP
    return {
        "fp8": {"weight": ("F8_E4M3", (rows, columns)), "weight_scale_inv": ("F32", (1, 1))},
        "awq": {
            "qweight": ("I32", (columns, rows // 8)),
            "qzeros": ("I32", (groups, rows // 8)),
            "scales": ("F16", (groups, rows)),
        },
        "gptq": {
            "qweight": ("I32", (columns // 8, rows)),
            "qzeros": ("I32", (groups, rows // 8)),
            "scales": ("F16", (groups, rows)),
            "g_idx": ("I32", (columns,)),
        },
        "compressed-tensors": {
            "weight_packed": ("I32", (rows, columns // 8)),
            "weight_scale": ("F16", (rows, groups)),
            "weight_shape": ("I64", (2,)),
        },
        "none": {"weight": ("BF16", (rows, columns))},
    }[scheme]


QUANTIZATION: Final[dict[str, Any]] = {
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True},
    "compressed-tensors": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group"},
            }
        },
    },
    "none": None,
}
ITEM_BYTES: Final = {"F8_E4M3": 1, "F16": 2, "BF16": 2, "F32": 4, "I32": 4, "I64": 8}


def _checkpoints(folder: Path) -> Target:
    """Hugging Face checkpoints of each quantization: the header of the tensors, and the configuration."""
    config = {"hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 1, "head_dim": 32}
    seeds, data = {}, {}
    for scheme, settings in QUANTIZATION.items():
        write_folder(folder / scheme, "llama", config=config)
        stored = (folder / scheme / "model.safetensors").read_bytes()
        size = int.from_bytes(stored[:8], "little")
        header: dict[str, Any] = json.loads(stored[8 : 8 + size])
        body = stored[8 + size :]
        for name in [one for one in header if ".mlp." in one]:
            rows, columns = header.pop(name)["shape"]
            base = name.removesuffix(".weight")
            for part, (kind, shape) in _parts(scheme, rows, columns).items():
                count = int(np.prod(shape)) * ITEM_BYTES[kind]
                raw = struct.pack("<2q", rows, columns) if part == "weight_shape" else bytes(count)
                offsets = [len(body), len(body) + count]
                header[f"{base}.{part}"] = {"dtype": kind, "shape": shape, "data_offsets": offsets}
                body += raw
        # The tensors that were taken out leave a gap, which is not valid: they are packed again.
        packed, ordered = b"", {}
        for name, one in header.items():
            if name == "__metadata__":
                continue
            begin, end = one["data_offsets"]
            ordered[name] = {**one, "data_offsets": [len(packed), len(packed) + end - begin]}
            packed += body[begin:end]
        written = json.loads((folder / scheme / "config.json").read_text())
        if settings is not None:
            written["quantization_config"] = settings
        seeds[scheme], data[scheme] = {"config": written, "header": ordered}, packed

    def use(scheme: str, document: Any) -> None:
        parts = document if isinstance(document, dict) else {"header": document}
        text = json.dumps(parts.get("header")).encode()
        path = folder / scheme / "model.safetensors"
        path.unlink()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[scheme])
        (folder / scheme / "config.json").write_text(json.dumps(parts.get("config")))
        _load(folder / scheme)

    return Target(seeds, damaged_json, use)


def _configurations(folder: Path, names: Iterable[str]) -> Target:
    """The configuration of every architecture, over tensors that stay as they are."""
    seeds = {}
    for name in names:
        write_folder(folder / name, name)
        seeds[name] = json.loads((folder / name / "config.json").read_text())

    def use(name: str, config: Any) -> None:
        (folder / name / "config.json").write_text(json.dumps(config))
        _load(folder / name)

    return Target(seeds, damaged_json, use)


def _adapter(folder: Path) -> Target:
    """A LoRA adapter: its configuration and the header of its tensors."""
    files = synthetic_model()
    write_adapter(folder, factors_of(files, ("q_proj", "down_proj"), rank=2, seed=1))
    stored = (folder / "adapter_model.safetensors").read_bytes()
    size = int.from_bytes(stored[:8], "little")
    seed = {
        "config": json.loads((folder / "adapter_config.json").read_text()),
        "header": json.loads(stored[8 : 8 + size]),
    }

    def use(_: str, document: Any) -> None:
        parts = document if isinstance(document, dict) else {"header": document}
        text = json.dumps(parts.get("header")).encode()
        path = folder / "adapter_model.safetensors"
        path.unlink()
        path.write_bytes(struct.pack("<Q", len(text)) + text + stored[8 + size :])
        (folder / "adapter_config.json").write_text(json.dumps(parts.get("config")))
        check_adapters(files, [open_adapter("fuzzed", folder)])

    return Target({"adapter": seed}, damaged_json, use)


SCHEMAS: Final[dict[str, Any]] = {
    "object": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[a-z]+$"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"enum": ["a", "b", 3, None]}, "maxItems": 4},
            "when": {"type": "string", "format": "date-time"},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    "references": {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "anyOf": [{"$ref": "#/$defs/node"}, {"const": 5}, {"type": ["number", "null"]}],
    },
}


def _tools(vetting: GrammarVetting) -> Target:
    """Chat requests with tools: the plan, its grammar, and parsers over the definitions."""
    function = {"name": "get", "description": "d", "parameters": SCHEMAS["object"], "strict": True}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": function}],
        "parallel_tool_calls": True,
        "max_tokens": 5,
    }
    named = {"type": "function", "function": {"name": "get"}}
    seeds = {
        name: {**body, "tool_choice": choice}
        for name, choice in (("auto", "auto"), ("required", "required"), ("named", named))
    }
    text = (
        '<tool_call>{"name": "get", "arguments": {"name": "x", "age": 3}}</tool_call>[get(age=1)]'
    )

    def use(name: str, document: Any) -> None:
        request = ChatRequest.model_validate(document)
        family = FAMILIES[sorted(FAMILIES)[len(json.dumps(document)) % len(FAMILIES)]]
        model = ServedModel(
            name="m",
            context_limit=64,
            vocabulary=256,
            encode=lambda given: list(given.encode()),
            encode_rendered=lambda given: list(given.encode()),
            token_bytes=lambda token: bytes([token]),
            decode=lambda tokens: bytes(tokens).decode("latin-1"),
            render_chat=None,
            renders_tools=True,
            tool_family=family,
        )
        plan = tool_plan(request, model)
        if plan.constraint is not None:
            vetting.check(plan.constraint)
        if plan.new_parser is not None:
            parser = plan.new_parser()
            for piece in text:
                list(parser.push(piece))
            list(parser.finish())

    return Target(seeds, damaged_json, use)
