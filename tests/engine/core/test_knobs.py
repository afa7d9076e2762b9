"""Every knob can be changed while requests run, and undone."""

import pytest
from small_models import fixture_engine

from assay._native import kernel_threads
from assay.engine import SamplingParams
from assay.engine.core import gpu_limits
from assay.engine.core.knobs import KNOBS, Settings
from assay.errors import AssayError, InputError, UnsupportedError
from assay.runtime.capabilities import BY_KIND
from chosen_device import ON_GPU, kv_block_size

GREEDY = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)
PROMPTS = {
    f"r{index}": [(5 * index + position) % 90 + 3 for position in range(20)] for index in range(5)
}


class Gpu:
    """A stand-in for a GPU: what `gpu_limits` reads of a device."""

    capabilities = BY_KIND["cuda"]

    def __str__(self):
        return "cuda:0"


GPU = Gpu()
FORMATS = [{"weight_format": "q8_0"}]
if not ON_GPU:
    # GPU kernels read keys and values in the data type of the activations, bfloat16.
    FORMATS.append({"kv_format": "f32"})

CHANGES = [
    {"max_batch": 2},
    {"token_budget": 16},
    {"block_tokens": kv_block_size(24)},
    {"speculation_depth": 3},
    {"speculation_depth": 3, "draft_policy": "always"},
    {"speculation_depth": 2, "speculation_method": "layer_skip", "draft_layers": 1},
    {
        "speculation_depth": 2,
        "speculation_method": "draft_model",
        "draft_model": "",
        "draft_weight_format": "q8_0",
    },
    {"offload_layers": 1},
    {"policy": "priority"},
    {"threads": 1},
    {"overlap": "on"},
    {"graph_buckets": 0},
    {"graph_buckets": 1},
    {"graphs_per_step": 2},
    {"captured_prefill": 0},
    {"max_step_ms": 1},
    {"deterministic": False},
    {"max_batch": 3, "token_budget": 5, "block_tokens": kv_block_size(3), "speculation_depth": 2},
]


def run(engine, changes=None):
    """Generate, changing knobs in the middle and undoing the change later."""
    tokens = {name: [] for name in PROMPTS}
    for name, prompt in PROMPTS.items():
        engine.add_request(prompt, GREEDY, name)
    steps = 0
    undo = None
    while engine.has_work:
        if changes is not None and steps == 6:
            undo = engine.configure(changes)
            for name, value in changes.items():
                assert getattr(engine.settings, name) == value
        if undo is not None and steps == 14:
            undo()
            undo = None
        for output in engine.step():
            tokens[output.request_id] += output.token_ids
        steps += 1
    return tokens


@pytest.fixture(scope="module")
def expected():
    with fixture_engine("llama", deterministic=True) as engine:
        return run(engine)


@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: ",".join(changes))
def test_running_requests_keep_their_outputs(expected, changes):
    with fixture_engine("llama", deterministic=True) as engine:
        before = engine.settings
        assert run(engine, changes) == expected
        assert engine.settings == before
        assert engine.statistics()["used"] == 0


def test_split_attention_changes_rounding_only():
    prompt = [(7 * position) % 90 + 3 for position in range(90)]
    with fixture_engine("llama", attention_split=1) as engine:
        engine.generate([prompt], GREEDY)
        params = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True, logprobs=0)
        (unsplit,) = engine.generate([prompt], params)
        undo = engine.configure({"attention_split": 4})
        (split,) = engine.generate([prompt], params)
        undo()
        (again,) = engine.generate([prompt], params)
    logprobs = [[chunk.logprob for chunk in one.logprobs or ()] for one in (unsplit, split, again)]
    assert logprobs[0] == logprobs[2]
    assert logprobs[0] != logprobs[1]
    # On a GPU both sums are rounded to bfloat16.
    assert logprobs[0] == pytest.approx(logprobs[1], abs=5e-2 if ON_GPU else 1e-4)
    assert unsplit.token_ids == split.token_ids


@pytest.mark.parametrize("changes", FORMATS, ids=lambda changes: ",".join(changes))
def test_requests_continue_in_another_format(expected, changes):
    with fixture_engine("llama", deterministic=True) as engine:
        outputs = run(engine, changes)
        lengths = {name: len(tokens) for name, tokens in outputs.items()}
        assert lengths == dict.fromkeys(PROMPTS, 24)
        # Back in the first format, the outputs are the first ones.
        assert run(engine) == expected


def test_every_knob_has_a_test():
    tested = {name for changes in CHANGES for name in changes}
    tested |= {"weight_format", "kv_format", "attention_split"}
    assert tested == set(KNOBS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_batch": 0}, "max_batch: expected from 1 to 1024, got 0"),
        ({"max_batch": "2"}, "max_batch: expected a whole number, got '2'"),
        ({"policy": "luck"}, "policy: expected one of fcfs, priority, shortest, got 'luck'"),
        ({"deterministic": 1}, "deterministic: expected True or False, got 1"),
        ({"max_bach": 2}, 'unknown knob "max_bach"'),
        (
            {"deterministic": True, "attention_split": 2},
            "attention_split: expected 0 or 1 in deterministic mode, got 2",
        ),
        ({"token_budget": 4}, "token_budget: expected at least max_batch 16, got 4"),
    ],
)
def test_invalid_change_is_refused(changes, message):
    with fixture_engine("llama") as engine:
        before = engine.settings
        with pytest.raises(AssayError) as error:
            engine.configure(changes)
        assert str(error.value) == message
        assert engine.settings == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_format": "f32"}, "kv_format: expected bf16 or fp8 or int8 on cuda:0, got f32"),
        ({"block_tokens": 24}, "block_tokens: expected a multiple of 16 on cuda:0, got 24"),
    ],
)
def test_settings_without_a_gpu_kernel_are_refused(changes, message):
    gpu_limits.check_settings(GPU, Settings.of({}))
    with pytest.raises(InputError) as error:
        gpu_limits.check_settings(GPU, Settings.of(changes))
    assert str(error.value) == message
    if ON_GPU:
        with fixture_engine("llama") as engine:
            before = engine.settings
            with pytest.raises(InputError):
                engine.configure(changes)
            assert engine.settings == before
            assert len(engine.generate([[3, 4]], GREEDY)[0].token_ids) == 24


def test_head_size_without_a_gpu_kernel_is_refused():
    with fixture_engine("llama") as engine:
        shape = engine.model.shape
    gpu_limits.check_shape(GPU, shape._replace(head_dim=128))
    with pytest.raises(UnsupportedError, match=r"expected a head size of 64, .* on cuda:0, got 80"):
        gpu_limits.check_shape(GPU, shape._replace(head_dim=80))


def test_settings_have_one_field_for_each_knob():
    assert set(Settings.of({}).as_dict()) == set(KNOBS)
    with pytest.raises(InputError):
        fixture_engine("llama", token_budget=1)


def test_thread_limit_is_set_and_undone():
    with fixture_engine("llama") as engine:
        available = kernel_threads()
        undo = engine.configure({"threads": 1})
        assert kernel_threads() == (1, available[1])
        undo()
        assert kernel_threads() == (available[1], available[1])
