# ruff: noqa: E501
"""What the server says of bodies and paths that it refuses: no names of libraries in it."""

from typing import Any

import httpx
import pytest

USER = {"role": "user", "content": "Hi"}
CODES = ("invalid_value", "invalid_type", "missing_required_parameter", "unsupported_parameter")
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


def parts(*kinds: dict[str, Any]) -> dict[str, Any]:
    return {
        "messages": [USER, {"role": "user", "content": [{"type": "text", "text": "a"}, *kinds]}]
    }


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (CHAT, parts(IMAGE), "messages.1.content.1.type: expected 'text', got \"image_url\": models here read text, no images"),
        (CHAT, parts(AUDIO), "messages.1.content.1.type: expected 'text', got \"input_audio\": models here read text, no audio"),
        (CHAT, {"messages": [USER], "tools": [{"type": "web_search"}]}, "tools.0.type: expected 'function', got \"web_search\": the server has no tools of its own: only functions of the client can be called"),
        (CHAT, {"messages": []}, "messages: expected at least 1 item, got []"),
        (CHAT, {"messages": [USER], "stop": [""]}, 'stop.0: expected at least 1 character, got ""'),
        (CHAT, {"messages": [USER], "prediction": {}}, "prediction: this server does not support it: --knob speculation_depth=4 of the server drafts from the text so far"),
        (CHAT, {"messages": [{"role": "user"}]}, "messages.0: expected content, got null"),
        (CHAT, {"messages": [{"role": "robot", "content": "a"}]}, "messages.0.role: expected 'system', 'developer', 'user', 'assistant' or 'tool', got \"robot\""),
        (CHAT, {}, "messages: expected a value, got none"),
        (CHAT, {"messages": [USER], "temperature": 3}, "temperature: expected at most 2, got 3"),
        (CHAT, {"messages": [USER], "temperature": "hot"}, 'temperature: expected a number, got "hot"'),
        (CHAT, {"messages": [USER], "stop": 3}, "stop: expected a text or a list, got 3"),
        (CHAT, {"messages": [USER], "n": 1.5}, "n: expected a whole number, got 1.5"),
        (CHAT, {"messages": [USER], "response_format": {"type": "xml"}}, "response_format.type: expected 'text' or 'json_object' or 'json_schema', got \"xml\""),
        (CHAT, {"messages": [USER], "functions": []}, "functions: this server does not support it: tools and tool_choice replaced it"),
        (CHAT, {"messages": [USER], "repeat_penalty": 1.1}, "repeat_penalty: this server does not support it: repetition_penalty is the name here"),
        (CHAT, {"messages": [USER], "nonsense": 1}, "nonsense: this server does not support it"),
        ("/v1/completions", {"prompt": [1.5]}, "prompt.0: expected a whole number or a text or a list, got 1.5"),
        (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input.0.content.0.type: expected 'input_text', 'output_text' or 'text', got \"input_image\": models here read text, no images"),
        (RESPONSES, {"input": "a", "tools": [{"type": "web_search_preview"}]}, "tools.0.type: expected 'function', got \"web_search_preview\": the server has no tools of its own: only functions of the client can be called"),
        (RESPONSES, {"input": "a", "previous_response_id": "x"}, "previous_response_id: this server does not support it: nothing is stored: send the conversation"),
    ],
)  # fmt: skip
def test_refused_bodies_name_the_field(
    http: httpx.Client, path: str, body: dict[str, Any], message: str
) -> None:
    refused = http.post(path, json={"model": "fake", **body})
    assert refused.status_code == 400, refused.text
    error = refused.json()["error"]
    assert error["message"] == message
    assert error["param"] == message.partition(":")[0]
    assert error["code"] in CODES


def test_body_that_is_not_json(http: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    error = http.post(CHAT, content=b"{", headers=headers).json()["error"]
    assert error["message"].startswith("expected a JSON object, got: ")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/api/chat", "Ollama's interface is not served"),
        ("/v1/messages", "Anthropic's interface"),
        ("/completion", "use /v1/completions"),
        ("/sleep", "--enable-sleep-mode"),
        ("/start_profile", "--trace FOLDER"),
        ("/v1/audio/transcriptions", "start the server with --transcription-model NAME"),
        ("/v1/audio/translations", "start the server with --transcription-model NAME"),
        ("/v1/audio/voices", "/v1/audio/speech says a text"),
    ],
)
def test_paths_of_other_servers_name_what_is_here(http: httpx.Client, path: str, hint: str) -> None:
    refused = http.post(path, json={})
    assert refused.status_code == 404
    assert hint in refused.json()["error"]["message"]
    assert http.get("/nowhere").json()["error"]["message"] == "Not Found"
