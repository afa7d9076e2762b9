"""Rules of optimizers step for step by their papers, schedules by hand, states by counting, noise by closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay import stack
from assay.scenario.question import read_question

TRAINING = "llama3_8b_8_h100_training"


def value(target: str, variant: dict[str, str] | None = None, **given: float) -> float:
    named = {name.replace("__", "."): number for name, number in given.items()}
    return stack.registry().resolve(target, named, variant).require_value()


def _scope(**given: float) -> dict[str, float]:
    return {f"updates__{name}": number for name, number in given.items()}


def test_adamw_step_for_step() -> None:
    """Algorithm 2 of Loshchilov and Hutter with a constant schedule, over ten steps of drawn gradients."""
    rng = np.random.default_rng(3)
    w, m, v, rate = 0.7, 0.0, 0.0, 1e-2
    for t, g in enumerate(rng.normal(0, 0.3, 10).tolist(), start=1):
        given = _scope(
            gradient=g, clip__norm=0.5, weight=w, previous__first=m, previous__second=v, step=t, rate=rate
        )  # fmt: skip
        m_next, v_next, w_next = (
            value(f"updates.adam.{what}", **given) for what in ("first", "second", "weight")
        )
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g**2
        w = w - rate * (m / (1 - 0.9**t) / (math.sqrt(v / (1 - 0.95**t)) + 1e-8) + 0.1 * w)
        assert (m_next, v_next, w_next) == pytest.approx((m, v, w), rel=1e-9)


def test_momentum_under_a_steady_gradient() -> None:
    """g / (1 - mu)."""
    given = _scope(gradient=0.02, clip__norm=0.1, momentum=0.9, rate=0.01)
    assert value("updates.momentum.steady", **given) == pytest.approx(0.2, rel=1e-9)
    assert value("updates.momentum.effective_rate", **given) == pytest.approx(0.1)
    assert value("updates.momentum.half_life", **given) == pytest.approx(
        math.log(0.5) / math.log(0.9)
    )


def test_clipping_keeps_the_direction() -> None:
    given = _scope(gradient=3.0, clip__norm=4.0)
    assert value("updates.clipped", **given) == pytest.approx(0.75)
    assert value("updates.clipped", **_scope(gradient=0.3, clip__norm=0.4)) == pytest.approx(0.3)


def test_lion_moves_by_the_sign() -> None:
    given = _scope(
        gradient=-0.4,
        clip__norm=0.5,
        previous__first=0.01,
        weight=1.0,
        rate=1e-3,
        decay=0.0,
        step=1,
        first_decay=0.9,
    )
    assert value("updates.lion.weight", **given) == pytest.approx(1.0 + 1e-3)
    assert value("updates.lion.momentum", **given) == pytest.approx(0.99 * 0.01 - 0.01 * 0.4)


@pytest.mark.parametrize("singular", [0.005, 0.05, 0.3, 0.9])
def test_iterations_of_muon_on_a_matrix(singular: float) -> None:
    """Five products on a 3 x 3 matrix whose middle singular value is the one asked for."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    x = left @ np.diag([math.sqrt(1 - singular**2), singular, 0.0]) @ right.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    expected = float(left[:, 1] @ x @ right[:, 1])
    assert value(
        "updates.muon.iteration_5.singular", **_scope(muon__singular=singular)
    ) == pytest.approx(expected, rel=1e-6)
    if singular >= 0.05:
        assert 0.65 < expected < 1.25


def test_the_cubic_iteration_ends_at_one() -> None:
    assert value("updates.muon.cubic", **_scope(muon__singular=0.2)) == pytest.approx(1, rel=1e-9)


def test_operations_of_muon_are_those_of_its_products() -> None:
    """Square matrices: three products of 2 m^3, five times; 6 m^2 n by iteration at most (Jordan)."""
    given = {
        "updates__muon__rows": 1024.0,
        "updates__muon__columns": 1024.0,
        "optimizer__orthogonalization_steps": 5.0,
    }
    assert value("updates.muon.flops", **given) == 5 * 6 * 1024**3


@pytest.mark.parametrize(
    ("step", "name", "expected"),
    [
        (1000, "cosine", 0.5),
        (2000, "cosine", 1.0),
        (51000, "cosine", 0.1 + 0.9 * 0.5),
        (100000, "cosine", 0.1),
        (8000, "inverse_root", 0.5),
        (500, "stable", 0.25),
        (50000, "stable", 1.0),
        (95000, "stable", 0.55),
        (100000, "stable", 0.1),
    ],
)
def test_learning_rates_of_schedules(step: int, name: str, expected: float) -> None:
    given = _scope(step=step, schedule__steps=1e5, schedule__peak=1.0, schedule__warm_up=2000.0)
    rate = value("updates.rate", {"updates.rate": f"updates.schedule.{name}"}, **given)
    assert rate == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["cosine", "stable"])
def test_mean_rates_by_summing(name: str) -> None:
    given = _scope(schedule__steps=2000.0, schedule__warm_up=100.0, schedule__peak=1.0)
    chosen = {"updates.rate": f"updates.schedule.{name}"}
    rates = [value("updates.rate", chosen, **given, updates__step=t) for t in range(1, 2001, 13)]
    assert value(f"updates.schedule.{name}_mean", **given) == pytest.approx(
        np.mean(rates), rel=0.01
    )


def test_states_by_counting() -> None:
    """A matrix of 4,096 by 14,336; weights of four bytes beside."""
    shape = {
        "updates__muon__rows": 4096.0,
        "updates__muon__columns": 14336.0,
        "optimizer__master_bytes": 4.0,
    }
    size = 4096 * 14336
    assert value("updates.adafactor.bytes", **shape) == pytest.approx(4 + 4 * (4096 + 14336) / size)
    moments = value("updates.shampoo.bytes", **shape, optimizer__moment_bytes=4.0)
    assert moments == pytest.approx(4 + 4 + 4 * 2 * (4096**2 + 14336**2) / size)
    chosen = {"optimizer.moment_bytes": "updates.eight_bit_moments"}
    state = value(
        "optimizer.state_bytes", chosen, optimizer__master_bytes=4.0, optimizer__moments=2.0
    )
    assert state == pytest.approx(4 + 2 * (1 + 4 / 2048))


def test_states_of_eight_bits_reach_the_step() -> None:
    stated, small = (
        read_question(TRAINING, None, chosen)
        .resolve("training.step_time", intervals=False)
        .require_value()
        for chosen in (None, {"optimizer.moment_bytes": "updates.eight_bit_moments"})
    )
    assert small < stated


def test_tokens_and_steps_by_batch() -> None:
    """(S / S_min - 1)(E / E_min - 1) = 1, and E = S B."""
    given = {
        "updates__noise__variance": 2e6, "updates__noise__least_tokens": 1e10, "training__tokens_per_step": 5e5,
    }  # fmt: skip
    steps, tokens = (value(f"updates.noise.{name}", **given) for name in ("steps", "tokens"))
    least = value("updates.noise.least_steps", **given)
    assert (steps / least - 1) * (tokens / 1e10 - 1) == pytest.approx(1)
    assert tokens == pytest.approx(steps * 5e5)


def test_gradients_are_drawn_about_the_true_one() -> None:
    named = {
        "updates.gradient": 0.2, "updates.clip.norm": 0.5, "updates.noise.variance": 1e6,
        "training.tokens_per_step": 4e6,
    }  # fmt: skip
    drawn = stack.registry().resolve("updates.noise.gradient", named)
    assert drawn.upper == pytest.approx(0.2 + 1.645 * 0.2 * 0.5, rel=5e-3)


def test_larger_batches_cost_tokens() -> None:
    chosen = {"training.total_tokens": "updates.total_tokens"}
    given = {"updates.noise.least_tokens": "1e12 token", "updates.noise.variance": "4e6 token"}
    question = read_question(TRAINING, given, chosen)
    tokens = question.resolve("training.total_tokens", intervals=False).require_value()
    per_step = question.resolve("training.tokens_per_step", intervals=False).require_value()
    assert tokens == pytest.approx(1e12 * (1 + per_step / 4e6))


def test_logits_are_clipped_to_their_limit() -> None:
    """Heads of 128: 1 / sqrt(128); a logit of 200 is halved."""
    given = _scope(qk_clip__query_norm=40.0, qk_clip__key_norm=5 * math.sqrt(128))
    given["architecture__head_size"] = 128.0
    assert value("updates.qk_clip.logit", **given) == pytest.approx(200)
    assert value("updates.qk_clip.factor", **given) == pytest.approx(0.5)
