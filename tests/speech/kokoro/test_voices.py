"""Voices and mixtures of them."""

from pathlib import Path

import numpy as np
import pytest

from assay.errors import InputError, UnknownNameError
from assay.speech.kokoro.speaker import check_request
from assay.speech.kokoro.voice_names import LANGUAGES, VOICES
from assay.speech.kokoro.voices import LENGTHS, STYLE, Voices, mixture


def test_shares_of_a_mixture() -> None:
    assert mixture("af_heart") == {"af_heart": 1.0}
    assert mixture("af_heart:3+am_adam") == {"af_heart": 0.75, "am_adam": 0.25}
    assert mixture("af_sky + af_sky") == {"af_sky": 1.0}


@pytest.mark.parametrize("voice", ["af_heart:0", "af_heart:x", "af_heart:-1", "af_heart:nan"])
def test_weights_are_above_zero(voice: str) -> None:
    with pytest.raises(InputError, match="expected a weight above 0"):
        mixture(voice)


def test_unknown_voice_has_a_near_one() -> None:
    with pytest.raises(UnknownNameError, match="af_hart") as caught:
        mixture("af_hart")
    assert "af_heart" in str(caught.value) + str(caught.value.hint)
    with pytest.raises(UnknownNameError, match="nobody") as caught:
        mixture("nobody")
    assert caught.value.hint == "assay speak --voices lists them"


def test_style_is_that_of_the_length(tmp_path: Path) -> None:
    path = tmp_path / "voices.bin"
    styles = np.zeros((len(VOICES), LENGTHS, STYLE), np.float32)
    styles[VOICES.index("af_heart"), 6] = 1
    styles[VOICES.index("am_adam"), 6] = 5
    styles[VOICES.index("af_heart"), LENGTHS - 1] = 2
    styles.tofile(path)
    voices = Voices(path)
    assert (voices.style("af_heart", 7) == 1).all()
    assert (voices.style("af_heart:3+am_adam", 7) == 2).all()
    assert (voices.style("af_heart", 900) == 2).all()
    path.write_bytes(b"\0" * 12)
    with pytest.raises(InputError, match="expected 54 voices"):
        Voices(path)


def test_what_cannot_be_said_is_refused() -> None:
    assert {voice[0] for voice in VOICES} == set(LANGUAGES)
    with pytest.raises(InputError, match="expected something to say"):
        check_request("  \n", "af_heart", 1.0)
    with pytest.raises(InputError, match=r"speed: expected 0\.25 to 4, got 9"):
        check_request("a", "af_heart", 9.0)
    with pytest.raises(InputError, match="got one of Mandarin Chinese"):
        check_request("a", "af_heart+zf_xiaoxiao", 1.0)
    check_request("a", "zf_xiaoxiao", 1.0, as_phonemes=True)
