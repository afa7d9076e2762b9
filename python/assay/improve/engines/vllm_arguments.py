"""Knobs of the vLLM that is installed: its own `EngineArgs`, whatever the release."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from assay import paths
from assay.errors import InputError
from assay.improve.engines.adapter import VALUE, Adapter, AdapterKnob, Kind, with_knobs
from assay.improve.engines.process import output_of
from assay.improve.engines.vllm_fields import OPTIONAL

FOLDER: Final = "{folder}/traces"
_FIELDS: Final = Path(__file__).with_name("vllm_fields.py")
_READ: Final = (
    "import runpy, sys; sys.path[:] = [folder for folder in sys.path if folder]; "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
"""Runs a file without its folder in the path: this one has a vllm.py and an http.py of its own."""
_IMPORT_S: Final = 300.0
_UNTUNED: Final = frozenset(
    {
        # What is served, not how: a change would be another model or another output.
        "model", "model_weights", "served_model_name", "tokenizer", "hf_config_path", "runner",
        "convert", "task", "revision", "code_revision", "tokenizer_revision", "tokenizer_mode",
        "skip_tokenizer_init", "trust_remote_code", "load_format", "config_format", "download_dir",
        "dtype", "seed", "max_model_len", "hf_token", "generation_config", "tokens_only",
    }
)  # fmt: skip
"""Fields that choose the model and its outputs."""


@dataclass(frozen=True, slots=True)
class VllmArguments:
    """A release and the fields of its `EngineArgs`."""

    release: str
    fields: tuple[Mapping[str, Any], ...]
    names: frozenset[str] = frozenset()
    """All fields, those too that are no knobs."""
    lacks: frozenset[str] = frozenset()
    """Optional packages that are not installed: capabilities of the adapter named without-NAME."""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> VllmArguments:
        """What `vllm_fields.read` returns."""
        return cls(
            str(data["release"]),
            tuple(data["fields"]),
            frozenset(data["names"]),
            frozenset(data["lacks"]),
        )

    def knobs(self) -> dict[str, AdapterKnob]:
        """Every field that says how a model is served."""
        return {
            field["name"]: _knob(field) for field in self.fields if field["name"] not in _UNTUNED
        }

    def adapter(self, base: Adapter) -> Adapter:
        """The adapter with this release's knobs; those it lacks are skipped with the reason."""
        parts = {name: knob for name, knob in base.knobs.items() if knob.needs in self.names}
        knobs = {**self.knobs(), **parts}
        adapter = with_knobs(base, knobs, f"vLLM {self.release} has no such argument")
        lacking = tuple(f"without-{name}" for name in sorted(self.lacks))
        adapter = replace(adapter, capabilities=(*adapter.capabilities, *lacking))
        if "profiler_config" in self.names:
            options = {"profiler": "torch", "torch_profiler_dir": FOLDER}
            return replace(
                adapter,
                always=(
                    *adapter.always,
                    "--profiler-config",
                    json.dumps({**options, "torch_profiler_with_stack": False}),
                ),
            )
        # Before 0.13 a variable says where traces go.
        return replace(
            adapter, environment={**adapter.environment, "VLLM_TORCH_PROFILER_DIR": FOLDER}
        )


def _knob(field: Mapping[str, Any]) -> AdapterKnob:
    name: str = field["name"]
    flag = f"--{name.replace('_', '-')}"
    kind: Kind = field["type"]
    choices = field["choices"]
    return AdapterKnob(
        name=name,
        meaning=f"vLLM's {flag}",
        kind=kind,
        default=field["default"],
        choices=None if choices is None else tuple(choices),
        argument="" if kind == "boolean" else f"{flag} {VALUE}",
        arguments={"true": flag, "false": f"--no-{flag[2:]}"} if kind == "boolean" else {},
    )


def installed(program: str | None = None) -> VllmArguments:
    """The arguments of the vLLM that a program runs; importing it takes half a minute once.

    `program` is `vllm` or an interpreter; None is this interpreter.
    """
    interpreter = interpreter_of(program)
    mark = _mark(interpreter)
    cached = paths.cache("vllm") / f"{mark}.json"
    if mark and cached.is_file():
        return VllmArguments.from_data(json.loads(cached.read_text(encoding="utf-8")))
    said = output_of([interpreter, "-c", _READ, str(_FIELDS)], _IMPORT_S)
    if said.code != 0 or not said.text.strip():
        last = said.text.strip().splitlines()[-1:] or ["no words"]
        raise InputError(
            f"{interpreter}: expected vLLM to be installed there, got: {last[0][:200]}",
            "pip install vllm, or --restart with the vllm of its environment",
        )
    data = json.loads(said.text.strip().splitlines()[-1])
    if mark:
        paths.write_atomically(cached, json.dumps(data).encode())
    return VllmArguments.from_data(data)


def interpreter_of(program: str | None) -> str:
    """The Python that runs a program: itself, or the first line of its script."""
    if program is None:
        return sys.executable
    interpreter = shutil.which(program)
    if interpreter is None:
        raise InputError(f'"{program}": expected a program, got no such file')
    if Path(interpreter).name.startswith("python"):
        return interpreter
    with Path(interpreter).open("rb") as file:
        first = file.readline(1024).decode("utf-8", "replace").strip()
    words = first.removeprefix("#!").split()
    if not first.startswith("#!") or not words:
        return sys.executable
    if Path(words[0]).name == "env" and len(words) > 1:
        return shutil.which(words[1]) or sys.executable
    return words[0]


def _mark(interpreter: str) -> str:
    """What tells one installation from another: its path and when its metadata was written."""
    import hashlib

    packages = Path(interpreter).parent.parent.glob(
        "lib/python3*/site-packages/*.dist-info/METADATA"
    )
    named = ("vllm-", *(f"{name}_" for name in OPTIONAL))
    installed = sorted(path for path in packages if path.parent.name.startswith(named))
    if not any(path.parent.name.startswith("vllm-") for path in installed):
        return ""
    text = "".join(f"{path} {path.stat().st_mtime_ns}\n" for path in installed)
    source = _FIELDS.read_text(encoding="utf-8")
    return hashlib.sha256((text + source).encode()).hexdigest()[:16]
