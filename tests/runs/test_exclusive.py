"""One run at a time on a server."""

from __future__ import annotations

import socket

import pytest

from assay.errors import InputError
from assay.improve.loop.progress import Silent
from assay.runs.exclusive import tuned_alone
from assay.runs.subject import opened
from assay.runs.subject_options import SubjectOptions


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def test_a_second_run_on_a_server_is_refused_before_it_touches_it(url):
    asked = SubjectOptions(
        engine=url, restart="no-server {settings}", adapter="llama.cpp", budget_s=60.0
    )
    with (
        tuned_alone(url),
        pytest.raises(InputError, match="got one that is being tuned"),
        opened(asked, Silent()),
    ):
        pass


def test_another_server_or_a_later_run_may_go_on(url):
    elsewhere = url.replace("127.0.0.1", "gpu-host")
    with tuned_alone(url), tuned_alone("http://127.0.0.1:1/v1"), tuned_alone(elsewhere):
        pass
    with (
        tuned_alone(url),
        pytest.raises(InputError, match="being tuned"),
        tuned_alone(url.replace("127.0.0.1", "localhost")),
    ):
        pass
    with tuned_alone(url):
        pass
