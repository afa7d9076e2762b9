"""`assay runs compare A B`: two runs side by side."""

from collections.abc import Iterator
from typing import Annotated, Any

from assay.cli import options, styles
from assay.cli.declaring import argument
from assay.cli.output import Canvas, Line, Part, Report, facts, report_of, table
from assay.cli.runs_text import Run, figure, setting
from assay.report.words import metric_name, metric_unit
from assay.runs.stored import compare_runs


def runs_compare_command(
    first: Run,
    second: Annotated[str, argument("OTHER", "The run to compare it with.")],
    as_json: options.Json = False,
) -> Report:
    """Compare two runs: fingerprints, settings, figures and what was kept.

    Figures of runs with different fingerprints (another model, machine, engine release or workload)
    are not comparable; a note says so.
    """
    compared = compare_runs(first, second)
    return report_of(compared, lambda canvas: _lines(compared.differences, canvas), as_json)


def _lines(comparison: dict[str, Any], canvas: Canvas) -> Iterator[Line]:
    yield from facts(zip("AB", comparison["runs"], strict=True), canvas)
    metric = comparison["metric"]
    unit = metric_unit(metric) if metric else ""
    if metric:
        yield from facts([("metric", metric_name(metric))], canvas)
    yield ""
    rows: list[tuple[Part, ...]] = [
        (("status", styles.NAME), *map(str, comparison["status"])),
        (("verdict", styles.NAME), *(str(text or "-") for text in comparison["verdict"])),
    ]
    rows += [
        ((name, styles.NAME), *(figure(value, "x" if name == "ratio" else unit) for value in pair))
        for name, pair in comparison["figures"].items()
    ]
    rows.append((("kept", styles.NAME), *("; ".join(texts) or "-" for texts in comparison["kept"])))
    yield from table(("", "A", "B"), rows, canvas)
    for title, differences in (
        ("fingerprint", comparison["fingerprint"]),
        ("settings at the start", comparison["start"]),
        ("settings at the end", comparison["settings"]),
    ):
        yield ""
        if not differences:
            yield ((f"{title}: equal", styles.FAINT),)
            continue
        cells: list[tuple[Part, ...]] = [
            ((name, styles.NAME), setting(pair[0]), setting(pair[1]))
            for name, pair in differences.items()
        ]
        yield from table((title, "A", "B"), cells, canvas)
