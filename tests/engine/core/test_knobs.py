"""Every knob can be turned while requests run, and turned back."""

import pytest
from small_models import fixture_engine

from assay._native import kernel_threads
from assay.engine import SamplingParams
from assay.engine.core import gpu_limits
from assay.engine.core.knobs import KNOBS, Settings
from assay.errors import AssayError, InputError, UnsupportedError
from chosen_device import ON_GPU, blocks_of

GREEDY = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)
PLANS = {f"r{index}": [(5 * index + place) % 90 + 3 for place in range(20)] for index in range(5)}


class Gpu:
    """As much of a GPU as its limits ask for."""

    kind = "cuda"

    def __str__(self):
        return "cuda:0"


GPU = Gpu()
FORMATS = [{"weight_format": "q8_0"}]
if not ON_GPU:
    # Kernels of GPUs read keys and values of the type of activations, bfloat16.
    FORMATS.append({"kv_format": "f32"})

TURNS = [
    {"max_batch": 2},
    {"token_budget": 16},
    {"block_tokens": blocks_of(24)},
    {"speculation_depth": 3},
    {"policy": "priority"},
    {"threads": 1},
    {"overlap": "on"},
    {"graph_buckets": 0},
    {"graph_buckets": 1},
    {"deterministic": False},
    {"max_batch": 3, "token_budget": 5, "block_tokens": blocks_of(3), "speculation_depth": 2},
]


def run(engine, changes=None):
    """Generate, turning knobs in the middle and back again later."""
    said = {name: [] for name in PLANS}
    for name, prompt in PLANS.items():
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
            said[output.request_id] += output.token_ids
        steps += 1
    return said


@pytest.fixture(scope="module")
def expected():
    with fixture_engine("llama", deterministic=True) as engine:
        return run(engine)


@pytest.mark.parametrize("changes", TURNS, ids=lambda changes: ",".join(changes))
def test_running_requests_stay_correct(expected, changes):
    with fixture_engine("llama", deterministic=True) as engine:
        before = engine.settings
        assert run(engine, changes) == expected
        assert engine.settings == before
        assert engine.statistics()["used"] == 0


def test_a_split_context_changes_rounding_and_nothing_else():
    prompt = [(7 * place) % 90 + 3 for place in range(90)]
    with fixture_engine("llama", attention_split=1) as engine:
        engine.generate([prompt], GREEDY)
        told = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True, logprobs=0)
        (whole,) = engine.generate([prompt], told)
        undo = engine.configure({"attention_split": 4})
        (split,) = engine.generate([prompt], told)
        undo()
        (again,) = engine.generate([prompt], told)
    chances = [[chunk.logprob for chunk in one.logprobs or ()] for one in (whole, split, again)]
    assert chances[0] == chances[2]
    assert chances[0] != chances[1]
    # On a GPU the sums of either are rounded to bfloat16.
    assert chances[0] == pytest.approx(chances[1], abs=5e-2 if ON_GPU else 1e-4)
    assert whole.token_ids == split.token_ids


@pytest.mark.parametrize("changes", FORMATS, ids=lambda changes: ",".join(changes))
def test_requests_go_on_in_another_format(expected, changes):
    with fixture_engine("llama", deterministic=True) as engine:
        said = run(engine, changes)
        assert {name: len(tokens) for name, tokens in said.items()} == dict.fromkeys(PLANS, 24)
        # Back in the first format, everything is as it was.
        assert run(engine) == expected


def test_every_knob_is_turned_by_a_test():
    turned = {name for changes in TURNS for name in changes}
    turned |= {"weight_format", "kv_format", "attention_split"}
    assert turned == set(KNOBS)


@pytest.mark.parametrize(
    ("changes", "said"),
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
def test_a_change_that_cannot_be_meant_changes_nothing(changes, said):
    with fixture_engine("llama") as engine:
        before = engine.settings
        with pytest.raises(AssayError) as refused:
            engine.configure(changes)
        assert str(refused.value) == said
        assert engine.settings == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kv_format": "f32"}, "kv_format: expected bf16 on cuda:0, got f32"),
        ({"block_tokens": 24}, "block_tokens: expected a multiple of 16 on cuda:0, got 24"),
    ],
)
def test_what_no_kernel_of_a_gpu_takes_is_refused_before_anything_is_built(changes, said):
    gpu_limits.check_settings(GPU, Settings.of({}))
    with pytest.raises(InputError) as refused:
        gpu_limits.check_settings(GPU, Settings.of(changes))
    assert str(refused.value) == said
    if ON_GPU:
        with fixture_engine("llama") as engine:
            before = engine.settings
            with pytest.raises(InputError):
                engine.configure(changes)
            assert engine.settings == before
            assert len(engine.generate([[3, 4]], GREEDY)[0].token_ids) == 24


def test_a_model_whose_heads_no_kernel_of_a_gpu_takes_is_refused():
    with fixture_engine("llama") as engine:
        shape = engine.model.shape
    gpu_limits.check_shape(GPU, shape._replace(head_dim=128))
    with pytest.raises(UnsupportedError, match=r"expected heads of 64, .* on cuda:0, got 80"):
        gpu_limits.check_shape(GPU, shape._replace(head_dim=80))


def test_the_schema_says_what_settings_there_are():
    assert set(Settings.of({}).as_dict()) == set(KNOBS)
    with pytest.raises(InputError):
        fixture_engine("llama", token_budget=1)


def test_threads_are_limited_and_given_back():
    with fixture_engine("llama") as engine:
        everyone = kernel_threads()
        undo = engine.configure({"threads": 1})
        assert kernel_threads() == (1, everyone[1])
        undo()
        assert kernel_threads() == (everyone[1], everyone[1])
