"""Writes docs/reference/telemetry.md from the table of fields.

python scripts/generate_telemetry_reference.py          # write it
python scripts/generate_telemetry_reference.py --check  # exit with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.observe.telemetry.fields import FIELDS, IDENTITY, PROCESS, Field
from assay.observe.telemetry.sinks.otlp_metrics import GEN_AI, OPERATION, TOKEN_USAGE, metric_name
from assay.observe.telemetry.sources.servers import SERVERS
from assay.observe.telemetry.throttle import HARMLESS, WORDS
from generated_pages import write_or_check

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "telemetry.md"
COMMAND = "python scripts/generate_telemetry_reference.py"


def write_page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield "# Fields of telemetry"
    yield ""
    yield f"Written by `{COMMAND}` from the table of fields; do not edit."
    yield ""
    yield "A sample is one row: one device at one moment. Units are SI base units; shares run from 0 to"
    yield "1. A field that a device does not have, or that was not read at this tick, is null. A limit is"
    yield "read rarely and repeated in every row."
    yield ""
    yield "## Identity"
    yield ""
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for name, (kind, meaning) in IDENTITY.items():
        yield f"| `{name}` | {kind.__name__} | {meaning} |"
    yield ""
    yield "## Fields, and their names in other tools"
    yield ""
    yield "The Prometheus exporter uses DCGM's name and unit where DCGM has one, else `assay_` and the"
    yield "field's name (counters end in `_total`). OTLP uses OpenTelemetry's name where there is one."
    yield ""
    yield "| field | type | unit | kind | meaning | Prometheus | OTLP |"
    yield "|---|---|---|---|---|---|---|"
    for field in FIELDS.values():
        yield (
            f"| `{field.name}` | {field.type.__name__} | {field.unit} | {field.kind} | "
            f"{field.meaning} | {_prometheus(field)} | {metric_name(field)} |"
        )
    yield ""
    yield "`processes` is a list with, for each process on a GPU, "
    yield f"{', '.join(f'`{name}`' for name in PROCESS)}; null where the driver does not say."
    yield "`series` holds every series of a metrics endpoint, or every count of an engine, by name"
    yield "with labels."
    yield ""
    yield "## Bits of `gpu_throttle`"
    yield ""
    yield "One bitmask over vendors; bits 0 to 10 are NVML's. Those marked are no limit that was hit."
    yield ""
    yield "| bit | value | reason | a limit |"
    yield "|---|---|---|---|"
    for flag, words in WORDS.items():
        limit = "no" if flag & HARMLESS else "yes"
        yield f"| {flag.bit_length() - 1} | 0x{flag:x} | {words} | {limit} |"
    yield ""
    yield "## Metrics of servers"
    yield ""
    yield "| field | " + " | ".join(f"`{prefix}`" for prefix in SERVERS) + " |"
    yield "|---|" + "---|" * len(SERVERS)
    for name in dict.fromkeys(name for fields in SERVERS.values() for name in fields):
        cells = [
            ", ".join(f"`{metric}`" for metric in fields.get(name, ()))
            for fields in SERVERS.values()
        ]
        shown = f"`{name}`" if name in FIELDS else f"`engine_{name}_seconds_sum` and `_count`"
        yield f"| {shown} | {' | '.join(cells)} |"
    yield ""
    yield (
        "Histograms of servers go to OTLP whole: "
        + ", ".join(f"`{name}` ({which})" for which, (name, _) in GEN_AI.items())
        + f", and tokens of requests as `{TOKEN_USAGE[0]}` with `gen_ai.token.type`, "
        + "`gen_ai.request.model` and `gen_ai.provider.name`; `gen_ai.operation.name` is "
        + f"`{OPERATION}`, since servers count all of theirs as one. Energy of GPUs is `hw.energy`. "
        + "OpenTelemetry has no name for cost yet, so none is sent."
    )
    yield ""


def _prometheus(field: Field) -> str:
    if field.dcgm is None:
        return f"`assay_{field.name}{'_total' if field.kind == 'counter' else ''}`"
    scale = "" if field.dcgm_scale == 1.0 else f" (times {_factor(field.dcgm_scale)})"
    return f"`{field.dcgm}`{scale}"


def _factor(scale: float) -> str:
    return "1/2^20" if scale == 2.0**-20 else f"{scale:g}"


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it."""
    return write_or_check({PAGE: write_page()}, COMMAND, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
