"""A prompt as commands take it: an argument, an option, a file, or stdin."""

import sys
from pathlib import Path
from typing import Annotated

from assay.cli.declaring import argument, option
from assay.errors import InputError
from assay.files import read_text

STDIN = "-"
MAX_BYTES = 16 << 20

Argument = Annotated[str | None, argument("[PROMPT]", "The text; - reads it from stdin.")]
Text = Annotated[str | None, option("--prompt TEXT", "The text, as an option.")]
File = Annotated[Path | None, option("--file FILE", "Read the text from FILE, in UTF-8.")]


def prompt_of(argument: str | None, text: str | None, file: Path | None) -> str | None:
    """The text that is given in one of these ways, or comes through a pipe; None without any."""
    given = {"PROMPT": argument, "--prompt": text, "--file": file}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InputError(f"{' and '.join(names)}: expected one text, got {len(names)}")
    if file is not None and str(file) != STDIN:
        return _without_newline(read_text("prompt", file, MAX_BYTES))
    written = argument if argument is not None else text
    if written == STDIN or file is not None:
        return _from_stdin()
    return written


def piped_prompt() -> str:
    """The text that comes through a pipe; at a terminal there is none to wait for."""
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError(
            "PROMPT: expected a text, got none", 'give it: assay generate MODEL "Once upon a time"'
        )
    return _from_stdin()


def _from_stdin() -> str:
    if sys.stdin is None:
        raise InputError("stdin: expected a text, got a closed stream")
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(f"stdin: expected at most {MAX_BYTES:,} bytes, got more")
    try:
        return _without_newline(data.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"stdin: expected UTF-8, got: {error}") from None


def _without_newline(text: str) -> str:
    """The text without the newline that ends a file."""
    return text.removesuffix("\n").removesuffix("\r")
