"""`assay bench`: figures beside their ceilings and rivals."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli import options
from assay.cli.output import FAINT, NAME, Canvas, Line, Report, working, wrapped

if TYPE_CHECKING:
    from assay.bench import Row


def bench_command(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="What to measure: graph.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions: a look, not a claim.")
    ] = False,
    as_json: options.Json = False,
) -> Report:
    """Measure a suite, beside ceilings and rivals."""
    from assay import bench

    with working(f"measuring {suite}", log=True) as progress:
        rows = bench.run(suite, quick=quick, progress=progress)

    def text(canvas: Canvas) -> Iterator[Line]:
        for row in rows:
            yield ((row.name, NAME),)
            yield from wrapped(", ".join(_figures(row)), canvas, "    ")
            if row.note:
                yield from wrapped(row.note, canvas, "    ", FAINT)

    return Report([row.to_data() for row in rows], text, as_json)


def _figures(row: "Row") -> Iterator[str]:
    yield f"{row.value:.4g} {row.unit}"
    if row.spread is not None:
        yield f"spread {row.spread:.0%}"
    if row.ceiling is not None:
        yield f"ceiling {row.ceiling:.4g}"
    if row.rival is not None:
        yield f"rival {row.rival:.4g}"
    if row.ratio is not None:
        yield f"ratio {row.ratio:.4g}"
