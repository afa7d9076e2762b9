"""Recordings in formats that are not read here, such as MP3, by the program ffmpeg where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from assay.errors import InputError

PROGRAM: Final = "ffmpeg"
_OPTIONS: Final = ("-nostdin", "-v", "error")
# A playlist may name addresses of the network.
_PROTOCOLS: Final = ("-protocol_whitelist", "file")
_FIRST_SOUND: Final = ("-map", "0:a:0", "-c:a", "pcm_f32le", "-rf64", "auto", "-f", "wav")


def is_convertible() -> bool:
    """Whether the program is installed."""
    return shutil.which(PROGRAM) is not None


def convert(path: Path, to: Path, seconds: float) -> None:
    """Write at most so much of the first sound of a file as WAV."""
    command = [PROGRAM, *_OPTIONS, *_PROTOCOLS, "-i", f"file:{path}", "-t", f"{seconds:g}"]
    done = subprocess.run(
        [*command, *_FIRST_SOUND, f"file:{to}"], capture_output=True, text=True, check=False,
        # Messages repeat file names, which need not be text.
        errors="replace",
    )  # fmt: skip
    said = done.stderr.strip().splitlines()
    if done.returncode != 0:
        raise InputError(
            f"{path}: expected a recording, which neither this program nor {PROGRAM} reads",
            f"{PROGRAM} says: {said[-1] if said else f'exit code {done.returncode}'}",
        )
    if said:
        # What cannot be decoded is left out, with exit code 0.
        raise InputError(
            f"{path}: expected a whole recording, got one that {PROGRAM} reads in part: {said[0]}",
            f"it is damaged; what is there can be kept: {PROGRAM} -i RECORDING kept.wav",
        )
