"""`assay embed`: the embeddings of texts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from assay.cli import options, sampling, styles
from assay.cli.declaring import argument, option
from assay.cli.output import Canvas, Line, Part, Report, table, working
from assay.errors import InputError
from assay.files import read_text

if TYPE_CHECKING:
    from assay.engine import Encoder, Engine

MAX_TEXT_BYTES = 16 << 20
SHOWN_CHARACTERS = 40


def embed_command(
    model: sampling.Model,
    text: Annotated[list[str] | None, argument("[TEXT]...", "Texts to embed.")] = None,
    file: Annotated[
        Path | None, option("--file FILE", "Embed each line of FILE, in UTF-8.")
    ] = None,
    normalize: Annotated[
        bool, option("--normalize/--no-normalize", "Vectors of length one; on if not given.")
    ] = True,
    device: sampling.Device = None,
    knob: sampling.Knobs = None,
    as_json: options.Json = False,
) -> Report:
    """Embed texts.

    An encoder (BERT, RoBERTa) pools the hidden states of all tokens as its folder says; a model that
    generates text gives the hidden state of the last token. The report shows how close each text is
    to the first one, by the cosine; --json has the vectors.
    """
    texts = [*(text or ()), *([] if file is None else _lines_of(file))]
    if not texts:
        raise InputError("TEXT: expected at least one text, got none", "give texts, or --file FILE")
    from assay.engine.loading.user_knobs import read_knobs

    with working(f"embedding {len(texts):,} texts") as progress:
        engine = _load(model, device, read_knobs(knob or ()))
        with engine:
            sampling.show_notes(engine)
            rows: list[list[float]] = []
            for first in range(0, len(texts), 64):
                rows += _embedded(engine, texts[first : first + 64])
                progress(f"{len(rows):,} of {len(texts):,} texts embedded")
            name, synthetic = engine.files.name, engine.files.synthetic
            pooling = engine.describe().get("pooling", "last")
    if normalize:
        rows = [_normalized(row) for row in rows]
    cosines = [_cosine(rows[0], row) for row in rows]
    data = {
        "model": name,
        "synthetic": synthetic,
        "pooling": pooling,
        "dimensions": len(rows[0]),
        "normalized": normalize,
        "embeddings": [
            {"text": text, "embedding": row, "cosine_to_first": cosine}
            for text, row, cosine in zip(texts, rows, cosines, strict=True)
        ],
    }

    def lines(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = [
            ((_short(text), styles.NAME), (f"{cosine:.4f}", styles.VALUE))
            for text, cosine in zip(texts, cosines, strict=True)
        ]
        yield from table(("text", "cosine to the first"), cells, canvas, right=(1,))
        yield f"{len(rows)} vectors of {len(rows[0])} numbers, {pooling} pooling"

    return Report(data, lines, as_json)


def _lines_of(file: Path) -> list[str]:
    return [line for line in read_text("file", file, MAX_TEXT_BYTES).splitlines() if line.strip()]


def _load(model: str, device: str | None, knobs: dict[str, Any]) -> "Encoder | Engine":
    from assay.engine import Encoder, Engine
    from assay.engine.loading import open_model
    from assay.engine.loading.encoder_files import is_encoder

    files = open_model(model)
    place = sampling.chosen_device(device)
    if is_encoder(files):
        return Encoder.load(files, place, **knobs)
    return Engine.load(files, place, **knobs)


def _embedded(engine: "Encoder | Engine", texts: Sequence[str]) -> list[list[float]]:
    from assay.engine import Encoder

    if isinstance(engine, Encoder):
        embedded: list[list[float]] = engine.embed_batch(texts).tolist()
        return embedded
    return [engine.embed(text).tolist() for text in texts]


def _normalized(row: list[float]) -> list[float]:
    length = _length(row)
    return [value / length for value in row] if length else row


def _cosine(first: list[float], second: list[float]) -> float:
    product = sum(left * right for left, right in zip(first, second, strict=True))
    lengths = _length(first) * _length(second)
    return product / lengths if lengths else 0.0


def _length(row: list[float]) -> float:
    import math

    return math.hypot(*row)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
