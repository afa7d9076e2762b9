"""The files that commands of the documents name, small and written here."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import decode_traces
from document_blocks import Block

from assay.engine.loading.synthetic import write_folder

LAYERS = 32
"""Of Llama 3.1 8B, which the commands name."""
SLOWER = 8
"""Times that its kernels take as long as those of the small model that the traces were written for."""

STEPS = 14
"""One more than the number of a step that a command shows, and a warm-up."""
INTERVAL_NS = 400_000
"""From one launch of the eager trace to the next: longer than its longest kernel."""


def write_files(folder: Path, root: Path, blocks: list[Block]) -> None:
    """Write them into the folder where commands run."""
    kernels = (*decode_traces.BEFORE, *decode_traces.LAYER * LAYERS, *decode_traces.AFTER)
    slower = tuple((name, SLOWER * nanoseconds, by_row) for name, nanoseconds, by_row in kernels)
    with mock.patch.object(decode_traces, "KERNELS", slower):
        decode_traces.replayed(steps=STEPS).save(folder / "graph.json")
        decode_traces.eager(STEPS, interval=INTERVAL_NS).save(folder / "trace.json")
    packed = {
        name: gzip.compress((folder / f"{name}.json").read_bytes()) for name in ("graph", "trace")
    }
    for name in ("trace", "eager", "graph", "today", "yesterday"):
        (folder / f"{name}.json.gz").write_bytes(packed["graph" if name == "graph" else "trace"])
    # Names that commands write to are left free.
    (folder / "trace.json").rename(folder / "rank0.json")
    (folder / "graph.json").rename(folder / "rank1.json")
    config = dict(decode_traces.CONFIG, num_hidden_layers=LAYERS)
    (folder / "path" / "to").mkdir(parents=True)
    for place in (folder, folder / "path" / "to"):
        (place / "config.json").write_text(json.dumps(config))
    # Only tests install the format's own writer; README.md names no such file.
    if find_spec("gguf"):
        import gguf_models

        gguf_models.write(folder / "model.gguf", gguf_models.small("llama"))
        shutil.copyfile(folder / "model.gguf", folder / "path" / "to" / "file.gguf")
    write_folder(folder / "path" / "to" / "folder", "bert")
    (folder / "lines.txt").write_text("a cat\ntwo cats\na bridge\n")
    (folder / "story.txt").write_text("Gravity is the force that\n")
    shutil.copyfile(root / "tests" / "data" / "public_domain.txt", folder / "FILE")
    requests = [
        {"timestamp": index * 1000, "input_length": 1000, "output_length": 100, "hash_ids": [index]}
        for index in range(200)
    ]
    text = "".join(json.dumps(request) + "\n" for request in requests)
    (folder / "conversation_trace.jsonl").write_text(text)
    (folder / "week.csv").write_text("timestamp,model,prompt_tokens,completion_tokens\n" + _week())
    # What a document prints as a file is that file.
    by_place = {(block.document, block.language): block.text for block in blocks}
    (folder / "mine.json").write_text(by_place["docs/guides/validating.md", "json"])
    shutil.copyfile(folder / "mine.json", folder / "figures.json")
    for name in ("now.json", "before.json"):
        shutil.copyfile(root / "bench" / "results" / "trace-cpu.json", folder / name)
    (folder / "mine.yaml").write_text(by_place["docs/guides/levers.md", "yaml"])
    (folder / "bench").symlink_to(root / "bench")
    (folder / "docs").symlink_to(root / "docs")
    (folder / "examples").symlink_to(root / "examples")
    (folder / "tests").symlink_to(root / "tests")


def _week() -> str:
    """Requests of two models, one of them every ten minutes."""
    models = ("llama-3.1-8b", "llama-3.1-70b")
    return "".join(f"{600 * index},{models[index % 2]},800,120\n" for index in range(7 * 24 * 6))


def write_run(scratch: Path, root: Path) -> str:
    """Put a stored run where commands that name the latest look for it; returns its name."""
    with tarfile.open(root / "docs" / "examples" / "h200-own-engine" / "run.tar.gz") as archive:
        archive.extractall(scratch / "runs", filter="data")
    [run] = (scratch / "runs").iterdir()
    return run.name


def write_sounds(folder: Path, models: Path) -> None:
    """Recordings of the sample package under the names that the documents use."""
    sample = models / "speech-samples" / "two_cities.wav"
    if sample.exists():
        # The reader goes by the content, not by the ending of the name.
        for name in ("talk.wav", "talk.flac", "question.wav"):
            shutil.copyfile(sample, folder / name)
