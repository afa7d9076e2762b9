"""Threads share an engine: calls wait, outputs equal those of one thread, nothing is corrupted."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from small_models import fixture_engine

from assay.engine import Engine, SamplingParams
from assay.engine.core import engine as engine_module
from assay.engine.core.exclusive import EngineLock
from assay.errors import InputError

GREEDY = SamplingParams(max_tokens=12, temperature=0.0, ignore_eos=True)
PROMPTS = [[5 + i, 6, 7 + 2 * i, 8, 9 + i] * (1 + i % 3) for i in range(8)]
THREADS = len(PROMPTS)


@pytest.fixture(scope="module")
def expected() -> list[tuple[int, ...]]:
    with fixture_engine("llama", deterministic=True) as one:
        return [one.generate([prompt], GREEDY)[0].token_ids for prompt in PROMPTS]


@pytest.fixture
def engine() -> Iterator[Engine]:
    with fixture_engine("llama", deterministic=True) as one:
        yield one


def together(work: Callable[[int], object]) -> list[object]:
    """Runs the work of every thread at the same time; an error is raised here."""
    start = threading.Barrier(THREADS)

    def run(index: int) -> object:
        start.wait(20)
        return work(index)

    with ThreadPoolExecutor(THREADS) as threads:
        return [one.result(60) for one in [threads.submit(run, i) for i in range(THREADS)]]


@pytest.mark.parametrize("trial", range(12))
def test_generate_in_threads(engine: Engine, expected: list[tuple[int, ...]], trial: int) -> None:
    del trial
    outputs = together(lambda i: engine.generate([PROMPTS[i]], GREEDY)[0].token_ids)
    assert outputs == expected
    # The prefix cache holds what one thread would have put there.
    for prompt, tokens in zip(PROMPTS, expected, strict=True):
        [again] = engine.generate([prompt], GREEDY)
        assert again.token_ids == tokens
    statistics = engine.statistics()
    assert (statistics["running"], statistics["waiting"], statistics["used"]) == (0, 0, 0)


@pytest.mark.parametrize("trial", range(4))
def test_streams_in_threads(engine: Engine, expected: list[tuple[int, ...]], trial: int) -> None:
    del trial
    outputs = together(
        lambda i: tuple(chunk.token_id for chunk in engine.stream(PROMPTS[i], GREEDY))
    )
    assert outputs == expected


@pytest.mark.parametrize("trial", range(4))
def test_every_kind_of_call_in_threads(
    engine: Engine, expected: list[tuple[int, ...]], trial: int
) -> None:
    del trial

    def work(index: int) -> tuple[int, ...]:
        for _ in range(3):
            engine.statistics()
            engine.describe()
            if index == 0:
                engine.configure({"max_batch": 4})()
            if index == 1:
                engine.restore_kv_cache(engine.snapshot_kv_cache())
        if index % 2:
            return tuple(chunk.token_id or 0 for chunk in engine.stream(PROMPTS[index], GREEDY))
        return engine.generate([PROMPTS[index]], GREEDY)[0].token_ids

    assert together(work) == expected


def test_asyncio_to_thread(engine: Engine, expected: list[tuple[int, ...]]) -> None:
    async def all_at_once() -> list[tuple[int, ...]]:
        calls = (asyncio.to_thread(engine.generate, [prompt], GREEDY) for prompt in PROMPTS)
        return [answer.token_ids for [answer] in await asyncio.gather(*calls)]

    assert asyncio.run(all_at_once()) == expected


def test_half_read_stream_neither_blocks_nor_suffers(
    engine: Engine, expected: list[tuple[int, ...]]
) -> None:
    stream = engine.stream(PROMPTS[0], GREEDY)
    tokens = [next(stream).token_id for _ in range(3)]
    with ThreadPoolExecutor(1) as other:
        with pytest.raises(InputError, match="expected no streams under way, got 1"):
            other.submit(engine.logits, PROMPTS[2]).result(30)
        [answer] = other.submit(engine.generate, [PROMPTS[1]], GREEDY).result(30)
    assert answer.token_ids == expected[1]
    assert engine.step() == []
    tokens += [chunk.token_id for chunk in stream]
    assert tuple(tokens) == expected[0]
    assert engine.logits(PROMPTS[2]).shape[0] == len(PROMPTS[2])


def test_stream_left_while_another_thread_computes(
    engine: Engine, expected: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = engine.stream(PROMPTS[0], GREEDY)
    next(stream)
    inside, left = threading.Event(), threading.Event()
    run_step = engine_module.run_step

    def slow_step(*arguments):
        inside.set()
        assert left.wait(20)
        return run_step(*arguments)

    monkeypatch.setattr(engine_module, "run_step", slow_step)
    with ThreadPoolExecutor(1) as other:
        answers = other.submit(engine.generate, [PROMPTS[1]], GREEDY)
        assert inside.wait(20)
        # Leaving the loop does not wait for the other thread.
        stream.close()  # type: ignore[attr-defined]
        left.set()
        [answer] = answers.result(30)
    assert answer.token_ids == expected[1]
    assert engine.statistics()["used"] == 0
    assert not engine.has_work


def test_stream_collected_as_garbage_inside_a_step(
    engine: Engine, expected: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle: list[object] = [engine.stream(PROMPTS[0], GREEDY)]
    cycle.append(cycle)
    next(cycle[0])  # type: ignore[call-overload]
    run_step, steps = engine_module.run_step, []

    def collecting_step(*arguments):
        outputs = run_step(*arguments)
        gc.collect()
        steps.append(len(engine._requests))
        return outputs

    monkeypatch.setattr(engine_module, "run_step", collecting_step)
    del cycle
    [answer] = engine.generate([PROMPTS[1]], GREEDY)
    assert answer.token_ids == expected[1]
    # The stream's request was still there when its step ended, and was aborted before the next.
    assert steps[:2] == [2, 1]
    assert engine.statistics()["used"] == 0


def test_close_waits_for_calls_and_ends_streams(
    engine: Engine, expected: list[tuple[int, ...]]
) -> None:
    stream = engine.stream(PROMPTS[0], GREEDY)
    next(stream)

    def work(index: int) -> object:
        try:
            if index == 3:
                return engine.close()
            return engine.generate([PROMPTS[index]], GREEDY)[0].token_ids
        except InputError as error:
            return str(error)

    closed = "engine: expected an open engine, got one that was closed"
    for index, output in enumerate(together(work)):
        assert output in (None, closed, expected[index])
    with pytest.raises(InputError, match=closed):
        next(stream)


def test_aborting_a_stream_ends_it(engine: Engine) -> None:
    stream = engine.stream(PROMPTS[0], GREEDY)
    first = next(stream)
    output = engine.abort("request-1")
    assert output.finish_reason == "abort"
    assert [chunk.finish_reason for chunk in (first, *stream)] == [None, "abort"]


def test_lock_knows_whether_its_own_thread_is_inside() -> None:
    lock = EngineLock()
    with lock.if_free() as free:
        assert free
        with lock.if_free() as again:
            assert not again
        with lock:
            assert not lock.is_outermost
        assert lock.is_outermost
    with lock.if_free() as free:
        assert free
