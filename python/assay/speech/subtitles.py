"""Transcripts as subtitles: SubRip (SRT) and WebVTT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from assay.speech.transcript import Segment


def srt(segments: Iterable[Segment]) -> str:
    """SubRip: a number, the times, the text, an empty line."""
    blocks = (
        f"{number}\n{_times(segment, ',')}\n{_text(segment)}\n"
        for number, segment in enumerate(segments, 1)
    )
    return "\n".join(blocks)


def vtt(segments: Iterable[Segment]) -> str:
    """WebVTT; where words have times, each but the first is preceded by its own."""

    def blocks() -> Iterator[str]:
        yield "WEBVTT\n"
        for segment in segments:
            yield f"{_times(segment, '.')}\n{_karaoke(segment)}\n"

    return "\n".join(blocks())


def _times(segment: Segment, mark: str) -> str:
    return f"{_time(segment.start, mark)} --> {_time(segment.end, mark)}"


def _time(seconds: float, mark: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{mark}{milliseconds:03}"


def _text(segment: Segment) -> str:
    # An arrow would end the line of times of another block.
    return segment.text.strip().replace("-->", "->")


def _karaoke(segment: Segment) -> str:
    if len(segment.words) < 2:
        return _escaped(_text(segment))
    first, *others = segment.words
    return _escaped(first.text.strip()) + "".join(
        f"<{_time(word.start, '.')}><c>{_escaped(word.text)}</c>" for word in others
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("-->", "->").replace(">", "&gt;")
