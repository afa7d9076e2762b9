"""`assay perplexity`: perplexity of a text in each format of weights and KV cache."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from assay.cli import options, sampling, styles
from assay.cli.declaring import option
from assay.cli.output import Canvas, Line, Part, Report, table, working
from assay.files import read_text

FORMATS = "f32,file,int8,q4_0"
MAX_TEXT_BYTES = 16 << 20
DECODE_BATCH = 16
"""The engine's max_batch if not given."""


def perplexity_command(
    model: sampling.Model,
    text: Annotated[Path, option("--text FILE", "A text in UTF-8.")],
    formats: Annotated[
        str, option("--formats FORMATS", "Comma-separated; the first is the reference.")
    ] = FORMATS,
    window: Annotated[
        int, option("--window COUNT", "Tokens of an independent window.", min=2)
    ] = 256,
    tokens: Annotated[
        int | None, option("--tokens COUNT", "Use only the first COUNT tokens.", min=2)
    ] = None,
    batch: Annotated[
        int,
        option("--batch COUNT", "Tokens of a step: as many requests as decode together.", min=1),
    ] = DECODE_BATCH,
    device: sampling.Device = None,
    as_json: options.Json = False,
) -> Report:
    """Compare the perplexity of weight formats.

    Perplexity is exp of the mean negative log-likelihood; divergence (Kullback-Leibler) is from
    the first format, in nats per token; agreement is how often the most likely next token is the
    same. `file` keeps the format of the model's file; `file/fp8` has a KV cache of fp8 besides. The
    text is computed in steps of --batch tokens, by the kernels that decode so many requests.
    """
    from assay.engine.core.perplexity import compare_formats
    from assay.engine.loading import open_model

    format_names = [name.strip() for name in formats.split(",") if name.strip()]
    files = open_model(model)
    known = files.tokenizer.encode(read_text("text", text, MAX_TEXT_BYTES), add_special=False)[
        :tokens
    ]
    where = sampling.chosen_device(device)
    with working(f"reading {len(known):,} tokens in {len(format_names)} formats") as progress:
        rows = compare_formats(
            files, where, known, format_names, window=window, batch=batch, progress=progress
        )
    data = {
        "model": files.name,
        "synthetic": files.synthetic,
        "text": str(text),
        "window": window,
        "batch": batch,
        "formats": [asdict(row) for row in rows],
    }

    def lines(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = [
            (
                (row.weight_format, styles.NAME),
                row.kv_format,
                f"{row.weight_bytes / 1e6:,.1f}",
                (f"{row.perplexity:.3f}", styles.VALUE),
                f"{row.divergence:.5f}",
                f"{100 * row.agreement:.1f}",
            )
            for row in rows
        ]
        titles = (
            *("weights", "KV cache", "MB of weights"),
            *("perplexity", "divergence (nats)", "same best token (%)"),
        )
        yield from table(titles, cells, canvas, right=(2, 3, 4, 5))
        yield (
            f"{rows[0].tokens:,} tokens predicted, in windows of {window} and steps of {batch}; "
            f"against {format_names[0]}"
        )

    notes = [f"{row.weight_format}: {note}" for row in rows for note in row.notes]
    return Report(data, lines, as_json, notes=[*files.notes, *notes])
