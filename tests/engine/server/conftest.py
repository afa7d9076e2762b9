"""Servers for the tests of one module or one test."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from fake_engine import FakeEngine
from running_server import Running, Serving, running


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Starts servers that stop after the test."""
    with ExitStack() as stack:

        def start(engine: FakeEngine | None = None, **options: object) -> Running:
            return stack.enter_context(running(engine or FakeEngine(), **options))  # type: ignore[arg-type]

        yield start


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    """A server with default options."""
    with running(FakeEngine()) as server:
        yield server


@pytest.fixture(scope="module")
def http(served: Running) -> Iterator[httpx.Client]:
    """An HTTP client of that server."""
    with httpx.Client(base_url=served.url, timeout=10, trust_env=False) as client:
        yield client
