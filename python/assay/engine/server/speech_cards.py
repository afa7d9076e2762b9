"""The models of speech in `/v1/models`, beside those of language."""

from __future__ import annotations

from assay.engine.loading import sources
from assay.engine.server.response_schemas import Model
from assay.engine.server.speech import MODEL as SPEAKING


def speech_cards(transcription_model: str | None, created: int) -> list[Model]:
    """What a client may name in requests of `/v1/audio`.

    Models of speech are loaded by their first request. The one that speaks is served where it is
    downloaded, which may happen while the server runs.
    """
    names = [] if transcription_model is None else [transcription_model]
    if sources.is_pulled(SPEAKING):
        names.append(SPEAKING)
    return [Model(id=name, created=created) for name in names]
