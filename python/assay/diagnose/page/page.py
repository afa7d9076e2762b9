"""Writes a diagnosis as one HTML file that needs nothing else and runs no script."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay._native import build_info
from assay.diagnose.page import figures
from assay.diagnose.terms import steps_alike
from assay.escaping import clipped, one_line

if TYPE_CHECKING:
    from jinja2 import Environment

LONGEST_NAME = 400
"""Characters of a kernel's name: templates have thousands."""
LONGEST_LINE = 4000


def write_page(data: Mapping[str, Any], path: Path, command: str) -> int:
    """Write the page of a diagnosis as `to_json` gives it, all of it or nothing; its bytes."""
    content = render(data, command).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, staging = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(staging, 0o644)
        os.replace(staging, path)
    except BaseException:
        os.unlink(staging)
        raise
    return len(content)


def render(data: Mapping[str, Any], command: str) -> str:
    """The page as text; `command` is what made it."""
    from markupsafe import Markup

    style = _asset("diagnosis.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    drawn = {
        name: Markup(getattr(figures, name)(data))
        for name in ("waterfall", "step", "operations", "steps", "critical_path")
    }
    return (
        _environment()
        .from_string(_asset("diagnosis.html"))
        .render(
            data=data,
            figures=drawn,
            # Quotes of the policy stay quotes in an attribute of double ones.
            policy=Markup(f"default-src 'none'; style-src 'sha256-{digest}'"),
            style=Markup(style),
            headline=_headline(data),
            cards=_cards(data),
            shown=_shown(data),
            terms=[term["name"] for term in data["waterfall"] if term["ns"] > 0],
            version=build_info()["version"],
            command=command,
        )
    )


def _asset(name: str) -> str:
    return files("assay.diagnose.page").joinpath("assets", name).read_text("utf-8")


def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {
        "line": lambda text: clipped(str(text), LONGEST_LINE),
        "name": lambda text: clipped(str(text), LONGEST_NAME),
        "micros": lambda ns: f"{ns / 1e3:,.1f}",
        "amount": _amount,
        "sentence": _sentence,
    }
    return made


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return figures.duration(value) if unit == "ns" else f"{value:,.4g} {unit}"


def _sentence(change: Any) -> str:
    if not isinstance(change, Mapping):
        return one_line(str(change))
    return one_line(", ".join(f"{key} {_short(value)}" for key, value in change.items()))


def _short(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _headline(data: Mapping[str, Any]) -> str:
    """What ran, and the largest cause."""
    ran = " on ".join(str(name) for name in (data["model"], data["gpu"]) if name)
    first = data["causes"][0] if data["causes"] else None
    if first is None:
        return ran or "Diagnosis of a trace"
    share = first["ns_per_token"] / data["step_ns"]
    return f"{ran or 'This trace'}: {first['name']} takes {share:.0%} of a step"


def _cards(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    observed = float(data["step_ns"])
    cards = [("observed step", f"{observed / 1e6:,.3f} ms", _shown(data))]
    if data["predicted_ns"] is not None:
        interval = f"{data['lo'] / 1e6:,.3f} to {data['hi'] / 1e6:,.3f} ms, 90 %"
        cards.append(("predicted", f"{data['predicted_ns'] / 1e6:,.3f} ms", interval))
    if data["floor_ns"]:
        share = f"the step is at {data['floor_ns'] / observed:.0%} of it"
        cards.append(("floor", f"{data['floor_ns'] / 1e6:,.3f} ms", share))
    if data["batch"]:
        rate = f"{data['batch'] / observed * 1e9:,.0f} tokens/s"
        inferred = " (from attention)" if data["context_source"] == "attention" else ""
        context = f", context {data['context']:,}{inferred}" if data["context"] else ""
        cards.append(("throughput", rate, f"batch {data['batch']}{context}"))
    replay = {True: "graph replay", False: "kernel by kernel", None: ""}[data["cuda_graphs"]]
    cards.append(("engine", str(data["engine"] or "not known"), replay))
    return cards


def _shown(data: Mapping[str, Any]) -> str:
    alike = steps_alike(data)
    return f"Step {data['step']}, the median of {alike} {data['phase'] or ''} steps like it."
