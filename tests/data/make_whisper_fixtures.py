"""Writes whisper_oracle.json: what other programs make of a random Whisper model and of recordings.

    python tests/data/make_whisper_fixtures.py

It needs ctranslate2, faster-whisper and soundfile, which tests do not.
"""

import base64
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "speech"))

START, PREVIOUS, NO_TIMESTAMPS = 50_257, 50_360, 50_362
PROMPTS = {
    "plain": [START],
    "context": [PREVIOUS, 300, 4_000, 17, START],
    "no_timestamps": [START, NO_TIMESTAMPS],
}
ALIGNED = [300, 4_000, 17, 12_345, 9]


def whisper() -> dict[str, Any]:
    """States, texts and alignment by CTranslate2."""
    import ctranslate2
    from whisper_folders import TEXT_CONTEXT, features, write_ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        model = ctranslate2.models.Whisper(
            str(write_ctranslate2(Path(folder))), compute_type="float32", intra_threads=1
        )
    encoded = model.encode(ctranslate2.StorageView.from_array(features()[None]))
    states = np.array(encoded)[0]
    texts = {}
    for name, prompt in PROMPTS.items():
        for beam_size in (1, 5):
            [text] = model.generate(
                encoded,
                [prompt],
                beam_size=beam_size,
                max_length=TEXT_CONTEXT,
                return_scores=True,
                return_no_speech_prob=True,
                suppress_tokens=[1, 2],
                max_initial_timestamp_index=50,
            )
            texts[f"{name}/{beam_size}"] = {
                "prompt": prompt,
                "tokens": text.sequences_ids[0],
                "score": text.scores[0],
                "no_speech": text.no_speech_prob,
            }
    [aligned] = model.align(encoded, [START], [ALIGNED], [100], median_filter_width=7)
    return {
        "states": {
            "shape": states.shape,
            "first": states[0, :8].tolist(),
            "last": states[-1, -8:].tolist(),
            "mean_of_squares": float((states.astype(np.float64) ** 2).mean()),
        },
        "texts": texts,
        "alignment": {
            "tokens": ALIGNED,
            "path": aligned.alignments,
            "probabilities": aligned.text_token_probs,
        },
    }


def log_mel() -> dict[str, Any]:
    """Features by faster-whisper."""
    from faster_whisper.feature_extractor import FeatureExtractor

    seconds = np.arange(8_000) / 16_000
    chirp = 0.1 * np.sin(2 * np.pi * 3_000 * seconds * seconds)
    samples = (0.3 * np.sin(2 * np.pi * 440 * seconds) + chirp).astype(np.float32)
    made = FeatureExtractor()(samples)
    rows = {str(row): made[row, ::10].astype(float).round(7).tolist() for row in (0, 7, 30, 79)}
    return {"shape": made.shape, "rows": rows}


def flac() -> dict[str, str]:
    """Files by libFLAC."""
    import soundfile

    files = {}
    places = np.arange(600)
    for name, channels, rate, subtype in (
        ("stereo 16", 2, 48_000, "PCM_16"),
        ("mono 24", 1, 16_000, "PCM_24"),
        ("eight 16", 8, 16_000, "PCM_16"),
    ):
        columns = [np.round(8000 * np.sin(0.05 * places * (1 + own))) for own in range(channels)]
        out = io.BytesIO()
        samples = np.stack(columns, axis=1).astype(np.int16)
        soundfile.write(out, samples, rate, format="FLAC", subtype=subtype)
        files[name] = base64.b64encode(out.getvalue()).decode()
    return files


def main() -> None:
    """Write the file."""
    import ctranslate2
    import faster_whisper
    import soundfile

    origin = (
        f"states, texts and alignment: CTranslate2 {ctranslate2.__version__} (float32, CPU) on the "
        "model that tests/speech/whisper_folders.py writes; features: faster-whisper "
        f"{faster_whisper.__version__}; flac: libFLAC by soundfile {soundfile.__version__}"
    )
    data = {"origin": origin, **whisper(), "features": log_mel(), "flac": flac()}
    (HERE / "whisper_oracle.json").write_text(json.dumps(data) + "\n")


if __name__ == "__main__":
    main()
