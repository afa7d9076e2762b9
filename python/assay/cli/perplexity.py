"""`assay perplexity`: how well a model predicts a text, in each format of weights."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from assay.cli import options, sampling
from assay.cli.output import NAME, VALUE, Canvas, Line, Part, Report, table, working
from assay.files import read_text

FORMATS = "f32,file,int8,q4_0"
LARGEST_TEXT = 16 << 20


def perplexity_command(
    model: sampling.Model,
    text: Annotated[Path, typer.Option("--text", metavar="FILE", help="A text in UTF-8.")],
    formats: Annotated[
        str,
        typer.Option(
            "--formats", metavar="FORMATS", help="The first is what the others are compared with."
        ),
    ] = FORMATS,
    window: Annotated[
        int,
        typer.Option("--window", metavar="COUNT", min=2, help="Tokens that are read in one piece."),
    ] = 256,
    tokens: Annotated[
        int | None,
        typer.Option("--tokens", metavar="COUNT", min=2, help="Only so many first tokens."),
    ] = None,
    device: sampling.Device = None,
    as_json: options.Json = False,
) -> Report:
    """Show what formats of weights do to predictions.

    Perplexity is how many tokens the model wavers between; divergence (Kullback-Leibler) is how
    far probabilities are from those of the first format, in nats per token; agreement is how often
    the likeliest next token is the same. `file` keeps what the model's file has.
    """
    from assay.engine.core.perplexity import compare_formats
    from assay.engine.loading import open_model

    wanted = [one.strip() for one in formats.split(",") if one.strip()]
    files = open_model(model)
    known = files.tokenizer.encode(read_text("text", text, LARGEST_TEXT), add_special=False)[
        :tokens
    ]
    where = sampling.chosen_device(device)
    with working(f"reading {len(known):,} tokens in {len(wanted)} formats"):
        rows = compare_formats(files, where, known, wanted, window=window)
    data = {
        "model": files.name,
        "synthetic": files.synthetic,
        "text": str(text),
        "window": window,
        "formats": [asdict(row) for row in rows],
    }

    def lines(canvas: Canvas) -> Iterator[Line]:
        cells: list[tuple[Part, ...]] = [
            (
                (row.weight_format, NAME),
                f"{row.weight_bytes / 1e6:,.1f}",
                (f"{row.perplexity:.3f}", VALUE),
                f"{row.divergence:.5f}",
                f"{100 * row.agreement:.1f}",
            )
            for row in rows
        ]
        titles = ("weights", "MB", "perplexity", "divergence (nats)", "same best token (%)")
        yield from table(titles, cells, canvas, right=(1, 2, 3, 4))
        yield f"{rows[0].tokens:,} tokens predicted, in windows of {window}; against {wanted[0]}"

    notes = [f"{row.weight_format}: {note}" for row in rows for note in row.notes]
    return Report(data, lines, as_json, notes=[*files.notes, *notes])
