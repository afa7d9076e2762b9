"""A server whose every output is a given text, with a client."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
from fake_engine import FakeEngine, fake_model
from running_server import Running, running

from assay.engine.server import ServedModel
from assay.engine.server.tools import FAMILIES


def client_of(served: Running) -> openai.OpenAI:
    http = httpx.Client(trust_env=False)
    return openai.OpenAI(
        base_url=f"{served.url}/v1", api_key="none", http_client=http, max_retries=0, timeout=30
    )


@contextmanager
def scripted(script: str, **fields: Any) -> Iterator[openai.OpenAI]:
    """A client of a server whose every output is the script."""
    options = {"renders_tools": True, "tool_family": FAMILIES["hermes"], **fields}
    model: ServedModel = dataclasses.replace(fake_model(), **options)
    with running(FakeEngine(script=script), model=model) as served, client_of(served) as client:
        yield client
