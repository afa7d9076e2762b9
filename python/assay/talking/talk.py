"""`assay talk`: a conversation with a recording or through a microphone."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from assay.answers import Answer
from assay.engine.core.device_sharing import ShareStatistics
from assay.errors import InputError
from assay.lazy_import import np
from assay.speech.kokoro.harmonics import SAMPLE_RATE as SPOKEN_RATE
from assay.speech.kokoro.speaker import check_request
from assay.speech.sound_files import read_sound
from assay.speech.voice_activity import CHUNK, SAMPLE_RATE
from assay.speech.wav import check_wav_path, pcm16, wav_header
from assay.talking.conversation import Conversation, Report, TalkOptions
from assay.talking.players import Loudspeaker, Timeline
from assay.talking.sources import Microphone, RecordedSource, sounddevice
from assay.talking.turn import Turn

CHUNK_SECONDS = CHUNK / SAMPLE_RATE


@dataclass(frozen=True, kw_only=True)
class TalkAnswer(Answer):
    """The turns of a conversation."""

    turns: tuple[Turn, ...]
    is_live: bool
    listening_seconds: tuple[float, ...]
    stages: tuple[ShareStatistics, ...]
    gaps: float | None
    """Seconds of silence inside of answers; None where nobody counted them."""
    path: str | None = None
    waveform: Any = field(repr=False, default=None)

    @property
    def first_audio(self) -> float | None:
        """Seconds from the last sample of speech to the first of the answer, in the slowest turn."""
        times = [turn.times["first_audio"] for turn in self.turns if "first_audio" in turn.times]
        return max(times) if times and self.is_live else None

    def to_json(self) -> Any:
        """Turns, latencies and what each stage got of the device."""
        return {
            "realtime": self.is_live,
            "first_audio": self.first_audio,
            "path": self.path,
            "gaps": self.gaps,
            "turns": [turn.to_json(is_live=self.is_live) for turn in self.turns],
            "listening": {
                "chunks": len(self.listening_seconds),
                "p50": quantile(self.listening_seconds, 0.5),
                "p99": quantile(self.listening_seconds, 0.99),
                "chunk": CHUNK_SECONDS,
            },
            "stages": [
                {
                    "name": stage.share.name,
                    "share": stage.share.percent,
                    "guaranteed": stage.share.guaranteed,
                    "device_seconds": stage.device_seconds,
                    "used_bytes": stage.used_bytes,
                }
                for stage in self.stages
            ],
        }


def quantile(seconds: tuple[float, ...], share: float) -> float | None:
    """A quantile, or None of nothing."""
    return float(np.quantile(seconds, share)) if seconds else None


def talk(
    recording: str | PathLike[str] | bytes | None = None,
    output: str | PathLike[str] | None = None,
    options: TalkOptions | None = None,
    *,
    realtime: bool = True,
    device: str = "cpu",
    report: Report = lambda turn: None,
) -> TalkAnswer:
    """Answer the questions of a recording, or of a microphone where there is none.

    A recording is heard in real time, so that latencies are those of a conversation; without
    `realtime` it is heard at once, question by question. Its answers go to the WAV file `output`.
    """
    chosen = options or TalkOptions()
    if device != "cpu":
        raise InputError(f"device: expected cpu for speech, got {device}")
    check_request("Yes.", chosen.models.voice, chosen.models.speed)
    if output is not None:
        check_wav_path(output)
    if recording is None:
        return _with_microphone(chosen, device, report)
    samples = read_sound(recording, SAMPLE_RATE).samples
    player = Timeline(is_live=realtime)
    source = RecordedSource(samples, is_live=realtime)
    conversation = Conversation(chosen, source, player, report, device)
    try:
        conversation.run()
        statistics = tuple(conversation.stages.statistics())
    finally:
        conversation.close()
    waveform = player.waveform()
    if output is not None:
        content = pcm16(waveform)
        Path(output).write_bytes(wav_header(SPOKEN_RATE, len(content)) + content)
    notes = [] if conversation.turns else ["no speech was heard"]
    if not realtime and conversation.turns:
        notes.append("heard at once: latencies are those of --realtime only")
    return TalkAnswer(
        turns=tuple(conversation.turns),
        is_live=realtime,
        listening_seconds=tuple(conversation.listening_seconds),
        stages=statistics,
        gaps=player.gaps if realtime else None,
        path=None if output is None else str(output),
        waveform=waveform,
        notes=notes,
    )


def _with_microphone(options: TalkOptions, device: str, report: Report) -> TalkAnswer:
    """Talk until ctrl-c."""
    sound = sounddevice("microphone")
    loudspeaker = Loudspeaker(sound)
    conversation = Conversation(options, Microphone(sound), loudspeaker, report, device)
    try:
        conversation.run()
    except KeyboardInterrupt:
        pass
    finally:
        statistics = tuple(conversation.stages.statistics())
        loudspeaker.stop()
        conversation.close()
        loudspeaker.close()
    return TalkAnswer(
        turns=tuple(conversation.turns),
        is_live=True,
        listening_seconds=tuple(conversation.listening_seconds),
        stages=statistics,
        gaps=None,
    )
