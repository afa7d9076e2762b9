"""vLLM's knobs, read from modules shaped like two of its releases."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import fake_vllm_010
import fake_vllm_024
import pytest

from assay.errors import InputError
from assay.improve.engines import adapter as adapters, vllm_arguments, vllm_fields
from assay.improve.engines.vllm import has_no_weights, open_vllm
from assay.improve.engines.vllm_arguments import VllmArguments


def arguments(module) -> VllmArguments:
    # Through JSON, as another interpreter prints it.
    return VllmArguments.from_data(json.loads(json.dumps(vllm_fields.read(module))))


def adapter_of(module):
    return arguments(module).adapter(adapters.load("vllm"))


def test_types_choices_and_defaults_are_those_of_engine_args():
    knobs = arguments(fake_vllm_024).knobs()
    described = {name: (one.kind, one.default, one.choices) for name, one in knobs.items()}
    assert described == {
        "kv_cache_dtype": (
            "text", "auto", ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"),
        ),
        "max_cudagraph_capture_size": ("integer", None, None),
        "block_size": ("integer", None, None),
        "enable_prefix_caching": ("boolean", None, None),
        "disable_cascade_attn": ("boolean", False, None),
        "gpu_memory_utilization": ("number", 0.92, None),
        "kv_cache_memory_bytes": ("integer", None, None),
        "max_num_batched_tokens": ("integer", None, None),
        "max_num_seqs": ("integer", None, None),
        "long_prefill_token_threshold": ("integer", 0, None),
        "quantization": ("text", None, None),
        "enforce_eager": ("boolean", False, None),
        "enable_chunked_prefill": ("boolean", None, None),
        "speculative_config": ("text", None, None),
        "scheduling_policy": ("text", "fcfs", ("fcfs", "priority")),
        "attention_backend": ("text", None, ("FLASH_ATTN", "TRITON_ATTN")),
        "async_scheduling": ("boolean", None, None),
        "enable_sleep_mode": ("boolean", False, None),
        "performance_mode": ("text", "balanced", ("balanced", "interactivity", "throughput")),
        "optimization_level": ("integer", 2, (0, 1, 2, 3)),
    }  # fmt: skip


def test_a_part_of_a_field_is_a_knob_where_the_release_has_the_field():
    given = arguments(fake_vllm_024)
    with_field = replace(given, names=given.names | {"compilation_config"})
    found = with_field.adapter(adapters.load("vllm"))
    words = found.arguments({"cudagraph_mode": "FULL"})
    assert words[-2:] == ["--compilation-config.cudagraph_mode", "FULL"]
    assert "cudagraph_mode" in adapter_of(fake_vllm_024).skipped


def test_knobs_become_flags():
    found = adapter_of(fake_vllm_024)
    settings = {"enforce_eager": False, "max_num_seqs": 64, "speculative_config": '{"method": "x"}'}
    words = found.arguments(found.check(settings))[len(found.always) :]
    assert sorted(words) == sorted(
        ["--no-enforce-eager", "--max-num-seqs", "64", "--speculative-config", '{"method": "x"}']
    )


def test_knobs_that_a_release_lacks_are_skipped_with_the_reason():
    old = adapter_of(fake_vllm_010)
    assert {"async_scheduling", "optimization_level", "max_cudagraph_capture_size"} <= set(
        old.skipped
    )
    with pytest.raises(InputError, match=r"async_scheduling: vLLM 0\.10\.0 has no such argument"):
        old.check({"async_scheduling": True})
    assert {"swap_space", "preemption_mode"} <= set(old.knobs)
    assert not {"swap_space", "preemption_mode"} & set(adapter_of(fake_vllm_024).knobs)
    assert old.knobs["block_size"].choices == (1, 8, 16, 32, 64, 128)
    # A type that only type checkers import does not hide the other fields.
    assert old.knobs["max_num_seqs"].kind == "integer"


def test_limits_and_read_back_come_from_the_adapter():
    found = adapter_of(fake_vllm_024)
    with pytest.raises(InputError, match=r"gpu_memory_utilization: expected from 0\.05 to 0\.99"):
        found.check({"gpu_memory_utilization": 1.5})
    assert found.knobs["max_num_seqs"].read[0].path == "vllm_config/scheduler_config/max_num_seqs"


def test_traces_go_where_the_release_wants_them():
    assert "--profiler-config" in adapter_of(fake_vllm_024).always
    old = adapter_of(fake_vllm_010)
    assert "--profiler-config" not in old.always
    assert old.environment["VLLM_TORCH_PROFILER_DIR"] == "{folder}/traces"


def test_the_interpreter_of_a_program_is_found(tmp_path):
    script = tmp_path / "vllm"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    assert vllm_arguments.interpreter_of(str(script)) == sys.executable
    assert vllm_arguments.interpreter_of(None) == sys.executable
    with pytest.raises(InputError, match="expected a program, got no such file"):
        vllm_arguments.interpreter_of(str(tmp_path / "none"))


def test_an_interpreter_without_vllm_is_named():
    with pytest.raises(InputError, match="expected vLLM to be installed there"):
        vllm_arguments.installed()


def test_a_package_that_is_not_installed_is_said(monkeypatch):
    def lacking(found: bool) -> tuple[str, ...]:
        spec = importlib.util.spec_from_loader("flashinfer", None) if found else None
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        return adapter_of(fake_vllm_024).capabilities

    assert "without-flashinfer" in lacking(False)
    assert "without-flashinfer" not in lacking(True)


def test_a_missing_program_is_refused():
    with pytest.raises(InputError, match="expected the program no-vllm-here, got none"):
        open_vllm("model", program="no-vllm-here")
    with pytest.raises(InputError, match="expected a model, got none"):
        open_vllm(None)


def test_a_configuration_alone_is_served_with_dummy_weights(tmp_path: Path):
    assert not has_no_weights("meta-llama/Llama-3")
    (tmp_path / "config.json").write_text("{}")
    assert has_no_weights(str(tmp_path))
    (tmp_path / "model.safetensors").write_text("")
    assert not has_no_weights(str(tmp_path))
