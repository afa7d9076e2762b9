"""`assay config`: options that files and environment variables set, and where each comes from."""

from collections.abc import Iterator
from typing import Annotated, Any

from assay.cli import configuration, options, styles
from assay.cli.declaring import argument
from assay.cli.output import Canvas, Line, Part, Report, table


def config_command(
    command: Annotated[
        str | None, argument("COMMAND", "Show every option of this command.")
    ] = None,
    as_json: options.Json = False,
) -> Report:
    """Show the options that files and the environment set.

    The command line overrides environment variables (ASSAY_COMMAND_OPTION, such as
    ASSAY_SERVE_PORT), these override assay.toml of the folder or the nearest one above it, and
    that overrides the user's assay/config.toml. ASSAY_CONFIG names one file to read instead.
    """
    from assay.cli.app import COMMANDS, by_name, program
    from assay.errors import unknown_name

    if command is not None and command not in COMMANDS:
        raise unknown_name("command", command, COMMANDS)
    names = [command] if command is not None else list(COMMANDS)
    known = by_name(program(names))
    settings = configuration.read(COMMANDS)
    rows: list[dict[str, Any]] = [
        {
            "command": "",
            "option": f"--{setting.option}",
            "value": _shown(setting.value),
            "source": str(setting.path),
        }
        for setting in settings
        if not setting.command
    ]
    for name in names:
        sources = configuration.sources(known[name], name, settings)
        for option, (value, source) in sources.items():
            if command is not None or source != "default":
                shown = None if value is None else _shown(value)
                rows.append({"command": name, "option": option, "value": shown, "source": source})
    files = [{"path": str(path), "exists": path.is_file()} for path in configuration.paths()]

    def text(canvas: Canvas) -> Iterator[Line]:
        for file in files:
            yield f"{file['path']}{'' if file['exists'] else ' (does not exist)'}"
        yield ""
        if not rows:
            yield "no option is set by a file or the environment"
        cells: list[tuple[Part, ...]] = [
            (
                row["command"] or "every command",
                (row["option"], styles.NAME),
                "none" if row["value"] is None else row["value"],
                (row["source"], styles.FAINT),
            )
            for row in rows
        ]
        yield from table(("command", "option", "value", "from"), cells, canvas)

    return Report({"files": files, "options": rows}, text, as_json)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
