"""The worker thread: every request is delivered once, and no block leaks."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

import pytest
from fake_engine import FakeEngine, expected_text

from assay.engine.core.admission import OverloadedError, QueueLimits
from assay.engine.core.worker import EngineWorker, Failure, StoppedError
from assay.engine.requests.outputs import StepOutput
from assay.engine.requests.sampling_params import SamplingParams
from assay.errors import InputError


class Reader:
    """Collects the outputs of a worker."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.failures: dict[str, BaseException] = {}
        self.threads: set[str] = set()

    def sink(self, events: Sequence[StepOutput | Failure]) -> None:
        self.threads.add(threading.current_thread().name)
        for event in events:
            name = event.request_id
            if isinstance(event, Failure):
                self.failures[name] = event.error
                continue
            self.texts[name] = self.texts.get(name, "") + event.text
            if event.finish_reason:
                assert name not in self.reasons
                self.reasons[name] = event.finish_reason

    def wait_for(self, names: Sequence[str]) -> None:
        deadline = time.monotonic() + 30
        while not all(name in self.reasons or name in self.failures for name in names):
            assert time.monotonic() < deadline, "a request is stuck"
            time.sleep(0.001)


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def worker(engine: FakeEngine, reader: Reader) -> Iterator[EngineWorker]:
    worker = EngineWorker(engine, reader.sink, limits=QueueLimits(8))
    yield worker
    worker.close()
    assert engine.closed
    assert engine.free == engine.blocks or reader.failures


def tokens(text: str) -> list[int]:
    return list(text.encode())


def test_outputs_come_from_the_worker_thread(worker: EngineWorker, reader: Reader) -> None:
    params = SamplingParams(max_tokens=20)
    names = worker.submit([tokens("abc"), tokens("xy")], [params, params])
    reader.wait_for(names)
    assert [reader.texts[name] for name in names] == [
        expected_text("abc", 20),
        expected_text("xy", 20),
    ]
    assert reader.threads == {"assay-engine"}
    assert worker.under_way == 0


def test_limit_accepts_all_or_none_of_a_submission(
    worker: EngineWorker, engine: FakeEngine, reader: Reader
) -> None:
    params = SamplingParams(max_tokens=50)
    goes_on = threading.Event()
    worker.call(lambda: goes_on.wait(60))
    names = worker.submit([tokens("a")] * 6, [params] * 6)
    with pytest.raises(OverloadedError, match="6 requests are under way and 3 more"):
        worker.submit([tokens("b")] * 3, [params] * 3)
    names += worker.submit([tokens("b")] * 2, [params] * 2)
    goes_on.set()
    reader.wait_for(names)
    assert len(reader.reasons) == 8


def test_cancelled_request_has_no_more_output(
    worker: EngineWorker, engine: FakeEngine, reader: Reader
) -> None:
    engine.step_seconds = 0.005
    (name,) = worker.submit([tokens("a")], [SamplingParams(max_tokens=400)])
    while name not in reader.texts:
        time.sleep(0.001)
    worker.cancel([name, name, "request-999"])
    assert worker.call(lambda: engine.free).result(5) == engine.blocks
    text = reader.texts[name]
    time.sleep(0.03)
    assert reader.texts[name] == text
    assert name not in reader.reasons
    assert worker.under_way == 0


def test_refused_request_fails_alone(worker: EngineWorker, reader: Reader) -> None:
    params = SamplingParams(max_tokens=3)
    names = worker.submit([tokens("refused"), tokens("a")], [params, params])
    reader.wait_for(names)
    assert isinstance(reader.failures[names[0]], InputError)
    assert reader.texts[names[1]] == "AAA"
    assert worker.state.refusal is None


def test_failed_step_ends_all_requests_and_refuses_new_ones(
    worker: EngineWorker, engine: FakeEngine, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    engine.fails_at_step = 3
    names = worker.submit([tokens("a")] * 3, [SamplingParams(max_tokens=100)] * 3)
    reader.wait_for(names)
    assert {type(error) for error in reader.failures.values()} == {StoppedError}
    with pytest.raises(StoppedError, match="the engine failed: RuntimeError: the test said so"):
        worker.submit([tokens("a")], [SamplingParams()])
    # Clients get one line; the traceback is in the log.
    [logged] = caplog.records
    assert logged.exc_info is not None
    assert str(logged.exc_info[1]) == "the test said so"


def test_calls_run_between_steps_and_return_errors(worker: EngineWorker) -> None:
    assert worker.call(lambda: threading.current_thread().name).result(5) == "assay-engine"
    failing: Future[float] = worker.call(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failing.result(5)


def test_close_fails_unfinished_requests(engine: FakeEngine, reader: Reader) -> None:
    engine.step_seconds = 0.005
    worker = EngineWorker(engine, reader.sink)
    names = worker.submit([tokens("a")] * 3, [SamplingParams(max_tokens=400)] * 3)
    worker.close()
    worker.close()
    assert set(reader.failures) == set(names)
    assert engine.free == engine.blocks
    with pytest.raises(StoppedError):
        worker.submit([tokens("a")], [SamplingParams()])
    with pytest.raises(StoppedError):
        worker.call(lambda: None)


def test_finish_waits_for_unfinished_requests(engine: FakeEngine, reader: Reader) -> None:
    engine.step_seconds = 0.002
    worker = EngineWorker(engine, reader.sink)
    names = worker.submit([tokens("a")] * 3, [SamplingParams(max_tokens=50)] * 3)
    worker.finish(10)
    assert set(reader.reasons) == set(names)
    assert not reader.failures


def test_finish_stops_waiting_after_its_timeout(engine: FakeEngine, reader: Reader) -> None:
    engine.step_seconds = 0.01
    worker = EngineWorker(engine, reader.sink)
    worker.submit([tokens("a")], [SamplingParams(max_tokens=400)])
    worker.finish(0.05)
    assert [str(error) for error in reader.failures.values()] == ["the server is shutting down"]


def test_many_threads_submit_and_cancel(engine: FakeEngine, reader: Reader) -> None:
    worker = EngineWorker(engine, reader.sink)
    finishing: list[str] = []

    def use(number: int) -> None:
        for round_number in range(20):
            (name,) = worker.submit([tokens("abc")], [SamplingParams(max_tokens=10 + round_number)])
            if (number + round_number) % 3 == 0:
                worker.cancel([name])
            else:
                finishing.append(name)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader.wait_for(finishing)
    worker.finish(5)
    assert engine.free == engine.blocks
    assert not engine.has_work
    assert all(reader.reasons[name] == "length" for name in finishing)


class Place:
    """A place on a device: whether the engine said last that it goes on."""

    def __init__(self) -> None:
        self.goes_on: list[bool] = []

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def stepped(self, *, has_work: bool) -> None:
        self.goes_on.append(has_work)

    def sleep(self) -> None:
        pass

    def wake_up(self) -> None:
        pass


def test_a_place_is_told_when_all_requests_were_aborted(engine: FakeEngine, reader: Reader) -> None:
    engine.step_seconds = 0.001
    place = Place()
    worker = EngineWorker(engine, reader.sink, place=place)
    names = worker.submit([tokens("a")], [SamplingParams(max_tokens=100_000)])
    deadline = time.monotonic() + 5
    while not place.goes_on and time.monotonic() < deadline:
        time.sleep(0.001)
    worker.cancel(names)
    # The second call is queued when the loop has come around behind the first.
    for _ in range(2):
        worker.call(lambda: None).result(timeout=5)
    assert place.goes_on[0]
    assert not place.goes_on[-1]
    worker.close()
