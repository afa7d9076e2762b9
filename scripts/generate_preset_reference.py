"""Writes docs/reference/presets.md: every built-in scenario beside a public figure.

python scripts/generate_preset_reference.py          # write it
python scripts/generate_preset_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import assay.catalog
from assay import stack
from assay.model.inputs import read_inputs
from assay.model.language.quantity import parse_quantity
from assay.scenario import built_in, include
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "presets.md"
CASES = Path(assay.catalog.__file__).parent / "cases" / "presets.json"
COMMAND = "python scripts/generate_preset_reference.py"
CLOSE = 0.25
"""Relative difference up to which a preset agrees with what is published."""


def compared(row: Mapping[str, Any]) -> tuple[str, str, float]:
    """Our figure and the published one as text, and their ratio."""
    registry = stack.registry()
    preset = built_in.preset(row["preset"])
    if "with" in row:
        preset = preset.with_includes([include(path, registry) for path in row["with"]])
    given = {**preset.exact_inputs.given, **read_inputs(registry, row.get("assign", {})).given}
    variable = registry.variables[row["variable"]]
    ours = registry.resolve(row["variable"], given, preset.variants).require_value()
    published = parse_quantity(row["published"]).value
    unit = variable.display.text

    def text(value: float) -> str:
        shown = variable.shown(value)
        # Three digits, without an exponent where people write the number out.
        number = f"{float(f'{shown:.3g}'):,.0f}" if 1e3 <= shown < 1e9 else f"{shown:.3g}"
        return f"{number} {unit}".removesuffix(" 1")

    return text(ours), text(published), ours / published


def command(row: Mapping[str, Any]) -> str:
    """The command that prints our figure."""
    words = ["assay resolve", row["variable"], "--preset", row["preset"]]
    words += [f"--with {path}" for path in row.get("with", ())]
    words += [f'--set {name}="{text}"' for name, text in row.get("assign", {}).items()]
    return " ".join(words)


def write_page() -> str:
    """The whole page as Markdown."""
    rows = json.loads(CASES.read_text(encoding="utf-8"))
    return "\n".join(_lines(rows))


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "# Presets beside public figures"
    yield ""
    yield (
        f"Written by `{COMMAND}`; do not edit. Each built-in scenario beside a figure that others "
        "published: medians,"
    )
    yield (
        "and where the two differ by more than a quarter, the reason. `assay validate` scores "
        "predictions of published"
    )
    yield "runs as they were run; a preset is a scenario of its own."
    yield ""
    for name in sorted(built_in.presets()):
        yield f"## {name}"
        yield ""
        yield built_in.preset(name).description
        yield ""
        own = [row for row in rows if row["preset"] == name]
        if not own:
            yield "Round numbers that are followed by hand; nothing public to compare with."
            yield ""
        for row in own:
            yield from _row(row)


def _row(row: Mapping[str, Any]) -> Iterator[str]:
    ours, published, ratio = compared(row)
    yield f"- **{row['what']}**: {ours}, published {published} (ratio {ratio:.2f})."
    yield f"  {row['source']}."
    if not 1 / (1 + CLOSE) <= ratio <= 1 + CLOSE:
        yield f"  Why it is off: {row['why']}."
    yield ""
    yield "  ```console"
    yield f"  $ {command(row)}"
    yield "  ```"
    yield ""


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
