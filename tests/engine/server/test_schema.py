"""Valid and invalid requests generated from the OpenAPI schema: none may crash the server."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from running_server import Running

EXAMPLES = 40
POSTS = {
    "/v1/completions": EXAMPLES,
    "/v1/chat/completions": EXAMPLES,
    "/v1/responses": 15,
    "/v1/embeddings": 15,
    "/v1/rerank": 15,
    "/v1/score": 15,
    "/tokenize": 15,
    "/detokenize": 15,
}
"""Examples of each path."""

LEFT_OUT = (
    *("tools", "tool_choice", "response_format", "structured_outputs", "logit_bias", "text"),
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar", "top_logprobs"),
    *("max_completion_tokens", "chat_template_kwargs", "best_of", "use_beam_search", "suffix"),
    *("length_penalty", "priority", "reasoning_effort", "min_tokens", "prompt_logprobs"),
    "dimensions",
)
"""Fields that are valid alone, and refused in most random combinations."""


@pytest.fixture(scope="module")
def schema(http: httpx.Client) -> Any:
    import schemathesis

    return schemathesis.openapi.from_dict(http.get("/openapi.json").json())


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.parametrize("path", POSTS)
def test_no_request_crashes_the_server(served: Running, schema: Any, path: str, mode: str) -> None:
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error

    statuses: set[int] = set()
    cases = schema[path]["POST"].as_strategy(generation_mode=GenerationMode[mode])

    @settings(max_examples=POSTS[path], derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def check(case: Any) -> None:
        # A random model name would only ever give status 404.
        if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = "fake"
        if isinstance(case.body, dict) and mode == "POSITIVE" and len(statuses) < 2:
            for name in LEFT_OUT:
                case.body.pop(name, None)
            for message in case.body.get("messages") or ():
                message |= {"role": "user", "content": message.get("content") or "a"}
                message.pop("tool_calls", None)
        response = case.call(base_url=served.url)
        case.validate_response(response, checks=[not_a_server_error])
        statuses.add(response.status_code)

    check()
    assert statuses & ({200} if mode == "POSITIVE" else {400}), statuses
    assert served.wait_idle()


def test_schema_lists_every_route(http: httpx.Client) -> None:
    paths = json.loads(http.get("/openapi.json").text)["paths"]
    assert set(paths) == {
        "/health",
        "/metrics",
        "/server_info",
        "/reset_prefix_cache",
        "/v1/models",
        "/v1/models/{name}",
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/audio/speech",
        "/v1/rerank",
        "/v1/score",
        "/tokenize",
        "/detokenize",
        "/tokenizer_info",
    }
