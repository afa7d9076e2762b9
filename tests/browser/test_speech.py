"""Speech: a file is heard, its text is said, and what is missing is named."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from browser_pages import check_narrow

pytestmark = pytest.mark.slow

INSTALLED = {
    "models": ["whisper-tiny.en"],
    "speaks": True,
    "voices": ["af_heart"],
    "voice": "af_heart",
}
HEARD = {
    "text": " The <b>words</b>.",
    "language": "en",
    "seconds": 0.5,
    "segments": [{"start": 0.0, "end": 0.5, "text": " The <b>words</b>."}],
}


def recording() -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((2, 2, 48_000, 0, "NONE", ""))
        file.writeframes(np.zeros(48_000, "<i2").tobytes())
    return content.getvalue()


def opened(open_page: Callable[..., Any], installed: Any, **how: Any) -> Any:
    page = open_page("#/docs", **how)
    page.locator("article h1").wait_for()
    page.route("**/api/v1/speech", lambda route: route.fulfill(json=installed))
    page.evaluate("location.hash = '#/speech'")
    page.get_by_role("heading", name="Speech", exact=True).wait_for()
    return page


def test_a_file_is_heard_and_said(
    open_page: Callable[..., Any], check_accessibility: Callable[[Any], None]
) -> None:
    page = opened(open_page, INSTALLED)
    sent: list[bytes] = []

    def transcribe(route: Any) -> None:
        sent.append(route.request.post_data_buffer)
        route.fulfill(json=HEARD)

    page.route("**/api/v1/speech/transcriptions?*", transcribe)
    page.route(
        "**/api/v1/speech/waveforms",
        lambda route: route.fulfill(body=recording(), content_type="audio/wav"),
    )
    file = {"name": "a.wav", "mimeType": "audio/wav", "buffer": recording()}
    page.locator("input[type=file]").set_input_files(file)
    page.locator(".speech-segments li").get_by_text("The <b>words</b>.").wait_for()
    with wave.open(io.BytesIO(sent[0])) as heard:
        # Half a second of two channels at 48 kHz.
        assert (heard.getframerate(), heard.getnchannels(), heard.getnframes()) == (
            16_000,
            1,
            8_000,
        )
    assert page.get_by_role("textbox", name="Text to say").input_value() == "The <b>words</b>."
    page.get_by_role("button", name="Speak").click()
    page.get_by_role("button", name="Speak", disabled=False).wait_for()
    assert page.get_by_role("alert").count() == 0
    check_accessibility(page)


def test_missing_models_are_named(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, {**INSTALLED, "models": [], "speaks": False})
    page.get_by_text("assay pull whisper-tiny.en").wait_for()
    page.get_by_text("assay pull kokoro").wait_for()


def test_speech_fits_a_narrow_screen(open_page: Callable[..., Any]) -> None:
    page = opened(open_page, INSTALLED, width=390, height=844)
    page.get_by_role("button", name="Record").wait_for()
    check_narrow(page)
