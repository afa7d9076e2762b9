"""`assay levers check FILE`: whether a lever file is valid."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli import options
from assay.cli.output import Report, count


def levers_check_command(
    file: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Lever files; the library if none is given."),
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Check lever files: keys, expressions, names of causes and what-if changes.

    The first mistake is named with its file, lever and place, and the exit code is 2. Whether an
    engine has the knobs is only known when it runs: levers without theirs are skipped then.
    """
    from assay.improve.levers import loading

    if file:
        loading.load(None, file)
        counts = {str(one): len(loading.read(one)) for one in file}
    else:
        paths = sorted(loading.LIBRARY.glob("*.yaml"))
        counts = {f"built-in {one.name}": len(loading.read(one)) for one in paths}
    lines = [f"{name}: {count(number, 'lever')}, valid" for name, number in counts.items()]
    rows = [{"file": name, "levers": number} for name, number in counts.items()]
    return Report(rows, lambda canvas: lines, as_json)
