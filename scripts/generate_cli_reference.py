"""Writes docs/reference/cli.md from the commands themselves.

python scripts/generate_cli_reference.py          # write it
python scripts/generate_cli_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.cli.app import ABOUT, COMMANDS, EXIT_CODES, by_name, program
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
COMMAND = "python scripts/generate_cli_reference.py"


def write_page() -> str:
    """The whole page as Markdown."""
    group = program(list(COMMANDS))
    commands = by_name(group)
    lines = [
        "# Command line",
        "",
        f"Written by `{COMMAND}` from the commands themselves; do not edit.",
        "",
        ABOUT,
        "",
        "Results go to stdout, progress and notes to stderr, so that what is piped is only data. With `--json`",
        "the answer is JSON whose keys are an API: they are tested and do not change silently; an object has",
        "the entry `notes` where there are any.",
        "Errors are one line and a hint. Color appears on terminals only, and never with `NO_COLOR`.",
        "",
        "Every command also takes these options, before or after its name:",
        "",
        "| | |",
        "|---|---|",
        *(row(option) for option in group.params if not option.expose_value),
        "",
        "Options are also read from `ASSAY_COMMAND_OPTION` (such as `ASSAY_SERVE_PORT`; options that repeat have",
        "none), from a file assay.toml in the folder or the nearest one above it, and from assay/config.toml in",
        "`$XDG_CONFIG_HOME` (`~/.config`), in this order; the command line overrides all. `assay config` shows",
        "what is set and where:",
        "",
        "```toml",
        "quiet = true",
        "[serve]",
        "port = 8080",
        "```",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()),
        "",
        *(
            f"- [`assay {name}`](#assay-{name.replace(' ', '-')}): {summary(c)}"
            for name, c in commands.items()
        ),
        "",
    ]
    for name, command in commands.items():
        lines += section(name, command)
    return "\n".join(lines)


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    return str(command.help).partition("\n")[0].strip()


def section(name: str, command: Any) -> list[str]:
    """One command: its usage, then what it takes."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = [f"assay {name}", *(str(p.metavar) for p in arguments), "[OPTIONS]"]
    rows = [f"| `{p.metavar}` | {described(p)} |" for p in arguments]
    for option in command.params:
        # The options of every command are described once, at the top.
        if option.param_type_name == "option" and option.expose_value:
            rows.append(row(option))
    lines = [
        f"## assay {name}",
        "",
        str(command.help).strip(),
        "",
        "```",
        " ".join(words),
        "```",
        "",
    ]
    return [*lines, "| | |", "|---|---|", *rows, ""] if rows else lines


def row(option: Any) -> str:
    """An option as a row of a table."""
    value = "" if option.is_flag else f" {option.metavar}"
    names = ", ".join((*option.opts, *option.secondary_opts)) + value.replace("|", "\\|")
    return f"| `{names}` | {described(option)} |"


def described(parameter: Any) -> str:
    """What a parameter is for, with its default where that says something."""
    text = str(parameter.help)
    if isinstance(parameter.default, (str, int)) and not isinstance(parameter.default, bool):
        text += f" Default: {parameter.default}."
    return text


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
