"""/v1/audio by the official client, with a small random model of speech."""

import io
import wave
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from fake_engine import FakeEngine
from running_server import Serving
from whisper_folders import write_ctranslate2

from assay.engine.core.transcription import SpeechModel
from assay.engine.server import audio, speech_cards
from assay.engine.server.errors import ApiError
from assay.engine.server.multipart import read_form


def recording(seconds: float = 0.5) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(range(256)) * int(seconds * 125))
    return out.getvalue()


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_ctranslate2(tmp_path_factory.mktemp("speech")))


@pytest.fixture
def client(serving: Serving, speech: str) -> Iterator[openai.OpenAI]:
    served = serving(FakeEngine(), transcription_model=speech)
    http = httpx.Client(trust_env=False)
    with openai.OpenAI(
        base_url=f"{served.url}/v1", api_key="none", http_client=http, max_retries=0, timeout=60
    ) as made:
        yield made


def test_transcriptions_of_every_format(client: openai.OpenAI, speech: str) -> None:
    def ask(**more: Any) -> Any:
        # At a temperature of its own the random text is heard once.
        return client.audio.transcriptions.create(
            model=speech, file=("a.wav", recording()), temperature=0.4, **more
        )

    plain = ask()
    verbose = ask(response_format="verbose_json")
    assert verbose.text == plain.text
    timed = ask(response_format="verbose_json", timestamp_granularities=["word", "segment"])
    # With the times of words the next window begins where the last one ended: the text may differ.
    assert timed.words
    assert all(0 <= word.start <= word.end for word in timed.words)
    assert verbose.language == "english"
    assert verbose.duration == pytest.approx(0.5, abs=0.01)
    assert ask(response_format="text") == plain.text + "\n"
    assert str(ask(response_format="vtt")).startswith("WEBVTT\n")
    assert " --> " in str(ask(response_format="srt")) or not plain.text
    *deltas, done = ask(stream=True)
    assert (done.type, done.text) == ("transcript.text.done", plain.text)
    assert "".join(event.delta for event in deltas).strip() == plain.text
    with pytest.raises(openai.BadRequestError, match="file: first bytes"):
        client.audio.transcriptions.create(model=speech, file=("a.wav", b"none"), stream=True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"response_format": "mp3"}, "response_format: expected one of"),
        ({"language": "klingon"}, 'unknown language "klingon"'),
        ({"temperature": 3.0}, "temperature: expected 0 to 1, got 3"),
        (
            {"extra_body": {"chunking_strategy": "x"}},
            "chunking_strategy: expected auto or server_vad",
        ),
        ({"file": ("a.mp3", b"ID3 nothing")}, "file: first bytes: expected a WAV"),
    ],
)
def test_bad_requests_are_refused_by_field(
    client: openai.OpenAI, speech: str, more: dict[str, object], message: str
) -> None:
    given = {"model": speech, "file": ("a.wav", recording()), **more}
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.transcriptions.create(**given)  # type: ignore[call-overload]
    assert message in str(caught.value)


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
def test_an_english_model_does_not_translate(client: openai.OpenAI, speech: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.translations.create(model=speech, file=("a.wav", recording()))
    assert caught.value.body == {
        "message": "task translate: expected a model of several languages, got speech0, "
        "an English one; whisper-tiny has several: assay pull whisper-tiny",
        "type": "invalid_request_error",
        "param": "model",
        "code": None,
    }
    with pytest.raises(openai.NotFoundError, match="model: expected"):
        client.audio.translations.create(model="other", file=("a.wav", recording()))
    with pytest.raises(openai.BadRequestError, match="language de: expected a model") as caught:
        client.audio.transcriptions.create(model=speech, file=("a.wav", recording()), language="de")
    assert caught.value.param == "language"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"timestamp_granularities": ["word"]}, "timestamp_granularities"),
        ({"language": "de"}, "language"),
        ({"prompt": "Names"}, "prompt"),
        ({"temperature": 0.5}, "temperature"),
        ({"extra_body": {"beam_size": "2"}}, "beam_size"),
    ],
)
def test_what_moonshine_has_not_is_refused_by_field(
    client: openai.OpenAI,
    speech: str,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, object],
    param: str,
) -> None:
    # Options are looked at before the model, which is not a Whisper's here and is never run.
    monkeypatch.setattr(
        SpeechModel, "__init__", lambda self, *_: setattr(self, "_opened", object())
    )
    monkeypatch.setattr(audio, "beams_of", lambda _: 1)
    given = {"model": speech, "file": ("a.wav", recording()), **more}
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.transcriptions.create(**given)  # type: ignore[call-overload]
    assert caught.value.param == param
    assert str(caught.value.body["message"]).startswith(  # type: ignore[index]
        f"{param}: expected none for moonshine"
    )


def test_models_of_speech_are_listed_behind_the_language_model(
    client: openai.OpenAI, speech: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed() -> list[str]:
        return [model.id for model in client.models.list()]

    monkeypatch.setattr(speech_cards.sources, "is_pulled", lambda name: False)
    assert listed() == ["fake", speech]
    with pytest.raises(openai.NotFoundError, match='the model "kokoro" is not served here'):
        client.models.retrieve("kokoro")
    # What speaks is served from when it is downloaded on.
    monkeypatch.setattr(speech_cards.sources, "is_pulled", lambda name: name == "kokoro")
    assert listed() == ["fake", speech, "kokoro"]
    card = client.models.retrieve("kokoro")
    assert (card.id, card.object, card.owned_by) == ("kokoro", "model", "assay")
    assert card.created > 0
    assert client.models.retrieve("fake").id == "fake"


def test_forms_are_read_byte_by_byte() -> None:
    content = b"\r\n--xy\r\n\x00\xff\r\n"
    body = (
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a \\"b\\".wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n" + content + b"\r\n"
        b'--xyz\r\ncontent-disposition: form-data; name="model"\r\n\r\nsm\xc3\xa4ll\r\n--xyz--\r\n'
    )
    file, model = read_form('multipart/form-data; boundary="xyz"', body)
    assert (file.name, file.content, file.filename) == ("file", content, 'a "b".wav')
    assert (model.name, model.text) == ("model", "sm\u00e4ll")
    for content_type, damaged in (
        ("application/json", body),
        ("multipart/form-data", body),
        ("multipart/form-data; boundary=xyz", body[:-6]),
        ("multipart/form-data; boundary=xyz", b"--xyz\r\nnothing\r\n--xyz--"),
    ):
        with pytest.raises(ApiError):
            read_form(content_type, damaged)
