"""`assay levers check FILE`: whether a lever file is valid."""

from pathlib import Path
from typing import Annotated

from assay.cli import options
from assay.cli.declaring import argument
from assay.cli.output import Report, count, report_of


def levers_check_command(
    file: Annotated[
        list[Path] | None, argument("[FILE]...", "Lever files; the library if none is given.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Check lever files: keys, expressions, names of causes and what-if changes.

    The first mistake is named with its file, lever and place, and the exit code is 2. Whether an
    engine has the knobs is only known when it runs: levers without theirs are skipped then.
    """
    from assay.improve.levers.library_questions import check_lever_files

    valid = check_lever_files(file or ())
    lines = [f"{name}: {count(number, 'lever')}, valid" for name, number in valid.counts.items()]
    return report_of(valid, lambda canvas: lines, as_json)
