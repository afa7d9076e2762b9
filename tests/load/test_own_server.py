"""The load client against `assay serve`: two programs of ours that share no code but the API."""

from __future__ import annotations

from fake_engine import FakeEngine
from running_server import running

from assay.load.client import ClientOptions, LoadClient
from assay.load.workloads.builtin import workload
from assay.load.workloads.workload import Window


def test_completions_and_chats_of_our_own_server() -> None:
    load = workload("decode", requests=6, concurrency=3, input_tokens=12, output_tokens=9)
    with running(FakeEngine(step_seconds=0.002)) as server:
        for interface, path in (
            ("completions", "/v1/completions"),
            ("chat", "/v1/chat/completions"),
        ):
            options = ClientOptions(interface=interface)  # type: ignore[arg-type]
            with LoadClient(server.url, options) as client:
                found = client.run_window(load, Window(requests=6))
            assert [one.error for one in found.records] == [None] * 6
            assert found.output_tokens == 54
            assert found.details["interface"] == path
            assert found.figures["mean_tpot_ms"] > 0.0
            assert server.wait_idle()
