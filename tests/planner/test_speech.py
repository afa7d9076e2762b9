"""Predictions of speech: what is counted from sizes is what the operations count while they run."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from whisper_random import SMALL, random_files

from assay.cli.app import run
from assay.errors import InputError
from assay.planner.specs import Ceiling, HardwareSpec
from assay.planner.speech import predict_speech, predicted
from assay.planner.speech_work import Product, kokoro_products, whisper_products
from assay.runtime import device
from assay.speech.whisper.decoder import Decoder
from assay.speech.whisper.encoder import Encoder
from assay.speech.whisper.layers import Loader

KOKORO: Mapping[str, Any] = {
    "istftnet": {
        "upsample_kernel_sizes": [20, 12],
        "upsample_rates": [10, 6],
        "gen_istft_n_fft": 20,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "resblock_kernel_sizes": [3, 7, 11],
        "upsample_initial_channel": 512,
    },
    "dim_in": 64,
    "hidden_dim": 512,
    "max_dur": 50,
    "n_layer": 3,
    "style_dim": 128,
    "text_encoder_kernel_size": 5,
    "plbert": {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 12},
}
"""Of config.json of Kokoro-82M."""


def flops(products: list[Product]) -> float:
    return sum(product.times * product.work.flops for product in products)


def test_the_encoder_counts_what_its_operations_do() -> None:
    cpu = device("cpu")
    loader = Loader(random_files(), cpu)
    encoder, decoder = Encoder(loader), Decoder(loader)
    cpu.take_records()
    states = encoder.forward(np.zeros((SMALL.mels, encoder.frames), np.float32))
    decoder.encoded(states)
    names = ("conv", "encoder.0.attention", "encoder.0.mlp", "encoder.1", "decoder")
    counted = sum(
        record.flops
        for record in cpu.take_records().records
        if record.name.startswith(names) and "norm" not in record.name
    )
    encoding = [part for part in whisper_products(SMALL, 1, 1, 1, "f16") if part.part == "encoder"]
    assert flops(encoding) == counted
    twice = list(whisper_products(SMALL, 2, 8, 5, "f16"))
    once = list(whisper_products(SMALL, 1, 8, 1, "f16"))
    assert flops(twice) - 2 * flops(encoding) == 10 * (flops(once) - flops(encoding))


@pytest.mark.parametrize(
    ("phonemes", "seconds", "counted"),
    # What the operations of the runtime counted while it said "Good morning." and "The quick brown fox
    # jumps over the lazy dog.", with additions and depthwise upsampling.
    [(13, 1.575, 85_264_041_064), (48, 3.25, 179_035_580_208)],
)
def test_kokoro_counts_what_its_operations_did(
    phonemes: int, seconds: float, counted: float
) -> None:
    products = list(kokoro_products(KOKORO, phonemes, seconds, 1.0))
    assert flops(products) == pytest.approx(counted, rel=1e-4)
    assert flops(products) < counted


def linear(rows: int, side: int, seconds: float) -> Ceiling:
    moved = 4.0 * side * side
    parameters = {
        **{"operation": "linear", "dtype": "f32", "rows": rows, "outputs": side, "inputs": side},
        **{"threads": 2, "bytes": moved, "flops": 2.0 * rows * side * side},
    }
    return Ceiling(seconds, seconds, seconds, "s", 1, parameters)


def test_times_are_those_of_measured_layers_and_floors_those_of_the_best_rate() -> None:
    read = Ceiling(1e12, 1e12, 1e12, "byte/s", 1, {"operation": "read", "bytes": 1e3, "threads": 2})
    ceilings = {
        **{"small": linear(1, 100, 1e-3), "large": linear(1, 1000, 1e-1), "read": read},
        "many": linear(64, 1000, 0.2),
    }
    here = HardwareSpec("here", {"gpu.peak_flops": 1e9}, "", ceilings)
    answer = predicted("any", 2.0, [Product("a", 3, 64, 1000, 500, share=0.5)], here)
    # Half of the outputs, half of the arithmetic.
    assert answer.seconds == pytest.approx(3 * 0.5 * 0.1, rel=1e-2)
    assert answer.floor_s == pytest.approx(3 * 2 * 64 * 1000 * 500 / 1e9)
    assert answer.real_time_factor == answer.seconds / 2
    keys = ["model", "hardware", "audio_s", "seconds", "floor_s", "real_time_factor", "parts"]
    assert list(answer.to_json()) == keys
    [part] = answer.to_json()["parts"]
    assert list(part) == ["part", "gflop", "seconds", "floor_s"]
    with pytest.raises(InputError, match="calibrated CPU"):
        predicted("any", 2.0, [], HardwareSpec("h200", {}, "catalog"))


def test_what_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict-speech", "kokoro", "--seconds", "2"]) == 2
    assert (
        "phonemes: expected a number of 1 or more for kokoro, got None" in capsys.readouterr().err
    )
    with pytest.raises(InputError, match="seconds: expected a number above 0"):
        predict_speech("kokoro", float("nan"), phonemes=3)
    with pytest.raises(InputError, match="compute_type: expected default or bfloat16, got int8"):
        predict_speech("kokoro", 1.0, phonemes=3, compute_type="int8")
