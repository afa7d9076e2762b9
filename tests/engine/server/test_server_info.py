"""What the server says of itself, and its prefix cache."""

from __future__ import annotations

import httpx
from running_server import Serving


def test_settings_are_those_of_the_engine(serving: Serving) -> None:
    served = serving()
    said = httpx.get(f"{served.url}/server_info", trust_env=False).json()
    assert (said["engine"], said["device"], said["synthetic"]) == ("assay", "cpu", True)
    assert (said["model"], said["weights"], said["weight_format"]) == ("fake", None, "f32")
    assert said["settings"] == {"max_batch": served.engine.batch, "deterministic": True}


def test_the_prefix_cache_is_reset_on_request(serving: Serving) -> None:
    served = serving()
    answer = httpx.post(f"{served.url}/reset_prefix_cache", trust_env=False)
    assert (answer.status_code, served.engine.resets) == (200, 1)


def test_both_need_the_key(serving: Serving) -> None:
    served = serving(api_key="sesame")
    answers = (
        httpx.get(f"{served.url}/server_info", trust_env=False),
        httpx.post(f"{served.url}/reset_prefix_cache", trust_env=False),
    )
    assert [one.status_code for one in answers] == [401, 401]
    assert served.engine.resets == 0
