"""Which commands of the documents are not run as they stand, and why; all others are.

A rule is a pattern and a reason. The first that matches counts; each must match something. A reason says
what a machine without it lacks, or which command runs the same where people wait for it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from document_blocks import Block

GPU: Final = "needs an NVIDIA GPU"
NETWORK: Final = "downloads"
OTHER: Final = "needs another program"
OWN: Final = "names a server, model or commit of one's own"
MINUTES: Final = "takes minutes"
BUILDS: Final = "sets up, tests or builds the repository, as CI does"
CALIBRATED: Final = "needs this machine calibrated, which takes minutes"
LISTENS: Final = "needs a microphone"
HELD: Final = "would change this shell or delete what is stored"


class Rule(NamedTuple):
    """A pattern of commands that are not run, and why."""

    pattern: str
    reason: str


NOT_RUN: Final = (
    Rule(
        r"^(?:\.venv/bin/)?(?:make|cargo|pytest|python -m pytest)\b|^cd web|^ARRAY_API|^ASSAY_TEST_DEVICE",
        BUILDS,
    ),
    Rule(r"^\.venv/bin/python -m pytest", BUILDS),
    Rule(r"assay-bundle/|path/to/python3", GPU),
    Rule(r"--device cuda|trace attach (?:--delay-s |--arm-file|-- )|diagnose b64", GPU),
    Rule(r"^pip |assay pull", NETWORK),
    Rule(
        r"\bvllm serve\b|^lm_eval|^ray|^ffmpeg|llama-server|llama_cpp_server|^assay run --engine vllm|registry/",
        OTHER,
    ),
    Rule(
        r"\bCMD\b|\bHEAD:|run/ID|http://gpu-|my_server|\bMODEL\b|Llama-3.2-1B|trace attach --url",
        OWN,
    ),
    Rule(
        r"s3://bucket|otlp:|curl .*lora_adapter|--telemetry run1-state|--experiments profile.json",
        OWN,
    ),
    Rule(r"--replicas|assay gate (?:main|v1)", OWN),
    Rule(r"^assay run(?!\w)(?!.*--dry-run)", MINUTES),
    Rule(
        r"--seconds 2m|--find max-rate|--time-scale|--duration 60|--rate 2 --bursts|--workload requests.jsonl",
        MINUTES,
    ),
    Rule(
        r"^assay bench (?!(?:gemv|perception|protein|profile order-book) --quick|run examples/|list|manifest "
        r"|compare |table )",
        MINUTES,
    ),
    Rule(r"^assay (?:causal-profile|calibrate|perplexity)", MINUTES),
    Rule(r"--gpu cpu|^assay predict-speech \w+(?!.*--gpu)", CALIBRATED),
    Rule(r"^assay talk$", LISTENS),
    Rule(r"^eval |cache clear models", HELD),
)

DATA: Final = {
    "ARCHITECTURE.md": "a diagram, and the order of packages that a test reads",
    "docs/design/crates.md": "a diagram",
    "docs/guides/gpus.md": "an error of NVRTC",
    "docs/guides/serving.md": "notes of a server on a GPU",
    "docs/guides/worked-example.md": "what a run on an H200 printed",
}
"""Documents that have blocks with no command, and what these hold."""

RECORDS: Final = ("docs/examples/h200", "docs/examples/cpu")
"""Reports of runs elsewhere: their commands are those of that machine."""
SYNOPSES: Final = "docs/reference/cli.md"
"""Usages with names of arguments; `tests/cli` compares them with the program."""

IMPLIED_MODELS: Final = {
    r"\bassay speak\b": ("kokoro",),
    r"\bassay transcribe\b": ("whisper-tiny.en",),
    r"\bassay talk\b": ("kokoro", "whisper-tiny.en", "smollm2"),
    r"\b(?:talk|question)\.(?:wav|flac)\b": ("speech-samples",),
}
"""Models that commands need without naming them, by pattern."""

PROGRAMS: Final = {"docs/guides/load-testing.md": MINUTES, "docs/guides/lora.md": OWN}
"""Documents whose programs for a server (blocks `py`) are not run."""

FIRST: Final = {
    "docs/guides/diagnosing.md": (
        "assay trace import trace.json.gz --out run1",
        "assay bench profile order-book --quick --out book",
    ),
    "docs/guides/traces.md": (
        "assay trace import trace.json.gz --out before",
        "assay trace import trace.json.gz --out after",
    ),
    "docs/guides/gating.md": ("mkdir -p .github/workflows",),
}
"""What a reader of a document has done before."""

EXIT_CODES: Final = {'assay ask "what does Lama 70b cost per token?"': 2}
"""Commands that end with another code than 0, by design."""


def reason(block: Block, command: str) -> str | None:
    """Why a command is not run; None where it is."""
    if block.document.startswith(RECORDS):
        return "the record of a run on another machine"
    if block.document == SYNOPSES:
        return "a synopsis"
    return next((rule.reason for rule in NOT_RUN if re.search(rule.pattern, command)), None)
