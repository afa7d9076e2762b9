"""Every option that a message or hint names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import assay
from assay.cli.app import COMMANDS, program

FOLDER = Path(assay.__file__).parent
PACKAGES = ("model", "catalog", "scenario", "stack", "validate", "cli", "engine")
ELSEWHERE = {"--version", "--help", "--extra", "--all-extras", "--user", "--upgrade", "--locked"}
"""Options of the program itself and of installers that hints name."""


def known_options() -> set[str]:
    found = set(ELSEWHERE)
    for command in program(list(COMMANDS)).commands.values():
        nested = getattr(command, "commands", {}).values()
        for part in (command, *nested):
            for parameter in part.params:
                found.update((*parameter.opts, *parameter.secondary_opts))
    return found


def named_options(path: Path) -> Iterator[tuple[str, str]]:
    """Options in the arguments of raised errors and in hints that are assigned."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.Assign)):
            target = node.func if isinstance(node, ast.Call) else node.targets[0]
            name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
            if not (name.endswith(("Error", "_error", "unknown_name")) or "hint" in name.lower()):
                continue
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", part.value):
                        yield option, part.value


def test_every_option_that_an_error_names_exists() -> None:
    known = known_options()
    named = 0
    for package in PACKAGES:
        for path in sorted((FOLDER / package).rglob("*.py")):
            for option, text in named_options(path):
                named += 1
                assert option in known, f"{path.relative_to(FOLDER)}: {text}"
    assert named > 20


def test_no_hint_of_a_refused_sweep_names_what_the_command_line_lacks() -> None:
    for name in ("sweep", "optimize", "grid"):
        text = (FOLDER / "model" / "optimizing" / f"{name}.py").read_text(encoding="utf-8")
        assert "raise the limit" not in text
