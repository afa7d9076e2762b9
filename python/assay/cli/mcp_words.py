"""What a command says, for an assistant: options as arguments of its tool, commands as tools, no contents of files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any, Final

_NAMES: Final = {
    "assign": "values", "set": "values", "with": "entries", "gpu": "gpus", "filter": "text",
}  # fmt: skip
"""Arguments of tools that are named otherwise than their options; where a tool has both, its own name is first."""
_COMMANDS: Final = (
    (re.compile(r"assay list --presets|assay list --filter presets"), 'find(what="presets")'),
    (re.compile(r"assay list --relations"), 'find(what="relations")'),
    (re.compile(r"assay catalog list(?: [a-z_]+(?= lists| names))?"), 'find(what="catalog")'),
    (re.compile(r"assay list\b(?! --)"), "find"),
    (
        re.compile(
            r"assay plan requests\.jsonl \.\.\., --rate 20, --rate max --max-power 500, or "
        ),
        "recording=requests.jsonl, rate=20, or ",
    ),
    (re.compile(r"assay validate --suite all --summary"), 'validate(suite="all")'),
    (re.compile(r"docs/([\w/-]+)\.md"), r"assay://docs/\1"),
)
_PAIR: Final = re.compile(r'--(?:assign|set) ([\w.]+)=(?:"([^"]*)"|(\S+))')
_ENTRY: Final = re.compile(r"--with ([\w-]+/[\w.-]+)")
_VALUED: Final = re.compile(r"--([a-z][a-z-]*)[ =](\d[\w.%]*|[A-Z]{2,})")
_OPTION: Final = re.compile(r"--([a-z][a-z-]*)")
_SHELL: Final = re.compile(r"(assay(?: [a-z][a-z-]*){1,3} --[^;,)]*|\([^()]*\))")
"""Words for a shell: the command lines of a hint, and what it says in parentheses of other programs."""
_CONTENT: Final = re.compile(r"(text|a file) that begins with [^\n]*")
_UNKNOWN: Final = re.compile(r"^error: (?=unknown ([a-z]+) \")")
_NAMED_BY: Final = {
    "place": ("where",), "model": ("model",), "accelerator": ("accelerator", "gpu", "gpus"),
    "variable": ("variable",), "scenario": ("preset",), "preset": ("preset",), "run": ("run",),
}  # fmt: skip
"""Arguments of tools that name a thing, by the word of a refusal for it."""
_POSITIONAL: Final = {
    "ask": ("question",), "resolve": ("variable",), "explain": ("variable",), "sensitivity": ("variable",),
    "plan": ("recording",), "estimate": ("model", "accelerator", "tokens", "where"), "diagnose": ("trace",),
}  # fmt: skip
"""Arguments of tools that their commands take without an option."""


def refusal_words(text: str, arguments: Collection[str]) -> str:
    """A refusal in the words of a tool that has these arguments.

    >>> refusal_words('give --assign name="value unit", or use --preset', ["values", "preset"])
    'give values=["name=value unit"], or use preset'
    >>> refusal_words("it fits with --tensor 2", ["tensor"])
    'it fits with tensor=2'
    >>> refusal_words("expected --rate or --users", ["rate"])
    'expected rate or --users'
    >>> refusal_words('error: unknown place "narnia"', ["model", "where"])
    'error: where: unknown place "narnia"'
    >>> refusal_words("no --store: assay store init --store X makes one", ["store"])
    'no store: assay store init --store X makes one'
    """

    def named(option: str) -> str:
        name = option.replace("-", "_")
        return name if name in arguments else _NAMES.get(option, name)

    def pair(match: re.Match[str]) -> str:
        return (
            f'values=["{match[1]}={match[2] or match[3]}"]' if "values" in arguments else match[0]
        )

    def entry(match: re.Match[str]) -> str:
        return f'entries=["{match[1]}"]' if "entries" in arguments else match[0]

    def valued(match: re.Match[str]) -> str:
        name = named(match[1])
        return f"{name}={match[2]}" if name in arguments else match[0]

    def option(match: re.Match[str]) -> str:
        name = named(match[1])
        return name if name in arguments else match[0]

    def whose(match: re.Match[str]) -> str:
        name = next((name for name in _NAMED_BY.get(match[1], ()) if name in arguments), "")
        return f"{match[0]}{name}: " if name else match[0]

    def spoken(part: str) -> str:
        part = _ENTRY.sub(entry, _PAIR.sub(pair, part))
        return _OPTION.sub(option, _VALUED.sub(valued, part))

    text = _UNKNOWN.sub(whose, text)
    # A file that is no trace may be anything of this machine, and a model is sent elsewhere.
    text = _CONTENT.sub(r"\1 of another kind", text)
    text = text.replace("; --verbose lists all", "")
    for pattern, tool in _COMMANDS:
        text = pattern.sub(tool, text)
    parts = _SHELL.split(text)
    parts[::2] = [spoken(part) for part in parts[::2]]
    return "".join(parts)


def left_options(text: str) -> bool:
    """Whether a refusal names options that its tool has no arguments for.

    >>> left_options("expected --users"), left_options("no trace (nsys export --type sqlite)")
    (True, False)
    """
    return _OPTION.search(_SHELL.sub("", text)) is not None


def tool_call(line: str, tools: Mapping[str, Collection[str]]) -> str:
    """A command line as the call of a tool, or the line where no tool has all of its options.

    >>> tool_call("assay resolve a.b --preset p --set a.c='2 W'", {"resolve": ["variable", "preset", "values"]})
    'resolve(variable="a.b", preset="p", values=["a.c=2 W"])'
    >>> tool_call("assay show a.b", {"resolve": ["variable"]})
    'assay show a.b'
    >>> tool_call("assay list --presets", {})
    'find(what="presets")'
    """
    for pattern, tool in _COMMANDS:
        if pattern.fullmatch(line):
            return pattern.sub(tool, line)
    words = shlex.split(line)
    tool = words[1].replace("-", "_") if len(words) > 1 else ""
    if words[:1] != ["assay"] or tool not in tools:
        return line
    positional = iter(_POSITIONAL.get(tool, ()))
    given: dict[str, Any] = {}
    rest = iter(words[2:])
    for word in rest:
        if word == "--constraints":
            # Structured content has them.
            continue
        option = word.removeprefix("--")
        name = next(positional, "") if option == word else option.replace("-", "_")
        name = name if name in tools[tool] else _NAMES.get(option, "")
        value = word if option == word else next(rest, "")
        if name not in tools[tool] or value.startswith("--"):
            return line
        if name in ("values", "entries"):
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in given.items())
    return f"{tool}({shown})"


def _shown(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return f'"{value}"'
