"""A report as one HTML file that needs nothing else and runs no script."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from functools import cache
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any, Final

from assay.escaping import clipped
from assay.report import derivations, figures, pareto, words
from assay.report.claim import Claim, Evidence, Provenance
from assay.report.gate_words import is_gate, labels
from assay.report.grouping import by_role, named, prices, starting
from assay.report.headline import (
    evidence_text,
    forecast_text,
    headline,
    outcomes,
    ran_on,
    sentence,
    target_text,
)
from assay.report.patches import patches
from assay.report.run_files import EXPERIMENTS, PLAN, RunFiles, selected
from assay.report.waterfall import CAUSES_NOTE, TERMS_NOTE

if TYPE_CHECKING:
    from jinja2 import Template

LONGEST_LINE: Final = 4000
_GOOD: Final = "improved"
_BAD: Final = ("rolled back", "engine lost", "regressed", "invalid")


def render(claims: Sequence[Claim], provenance: Provenance, files: RunFiles) -> str:
    """The page as text: a pure function of claims, provenance and the run's rows."""
    from markupsafe import Markup

    style = _asset("assay.diagnose.page", "diagnosis.css") + _asset("assay.report", "report.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    details = provenance.details
    verdict = str(details.get("verdict") or "")
    return _template().render(
        policy=Markup(f"default-src 'none'; style-src 'sha256-{digest}'"),
        style=Markup(style),
        provenance=provenance,
        headline=headline(claims, provenance),
        ran_on=ran_on(provenance),
        verdict=verdict,
        is_gate=is_gate(provenance),
        verdict_class=_GOOD if verdict == _GOOD else "bad" if verdict in _BAD else "",
        cards=_cards(claims, provenance),
        summary=list(outcomes(claims, provenance)),
        is_confirmed="final.level" in named(claims),
        metric=sentence(words.metric_name(str(details.get("metric") or "the metric"))),
        empty_reason=_empty_reason(provenance),
        figures={
            name: Markup(drawn) for name, drawn in _figures(claims, provenance, files).items()
        },
        trials=_trials(claims),
        causes=[cause.statement for cause in starting(claims, "cause.")],
        terms_note=TERMS_NOTE,
        causes_note=CAUSES_NOTE,
        share=_statement(claims, "waterfall.share"),
        forecasts=[sentence(forecast.statement) for forecast in starting(claims, "forecast.")],
        costs=prices(claims),
        cost_gap=_cost_gap(provenance),
        skipped=details.get("skipped") or [],
        counts=[sentence(count.statement) for count in starting(claims, "blocks.")],
        gaps=details.get("gaps") or [],
        notes=details.get("notes") or [],
        launch=details.get("launch") or "",
        unchanged=bool(details.get("launch"))
        and details.get("launch") == details.get("launch_start"),
        patches=patches(details.get("launch_start") or "", details.get("launch") or ""),
        settings=words.settings(details.get("settings") or {}),
        claims=[{"claim": claim, "evidence": _evidence(claim.evidence)} for claim in claims],
        written=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(provenance.created_at)),
    )


def _asset(package: str, name: str) -> str:
    return resources(package).joinpath("assets", name).read_text("utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {
        "line": lambda text: clipped(str(text), LONGEST_LINE),
        "sentence": sentence,
        "text": lambda text: str(text)[: 4 * LONGEST_LINE],
        "amount": words.quantity,
    }
    return made.from_string(_asset("assay.report", "report.html"))


def _figures(claims: Sequence[Claim], provenance: Provenance, files: RunFiles) -> dict[str, str]:
    details = provenance.details
    threshold = float(details.get("threshold") or 0.0)
    blocks = files.blocks if files.has(EXPERIMENTS) else []
    unit = words.metric_unit(str(details.get("metric") or ""))
    prediction = files.plan.get("prediction") if files.has(PLAN) else None
    compared = [*starting(claims, "noise."), *starting(claims, "experiment.")]
    if not is_gate(provenance):
        # That of a gate is one of its comparisons.
        compared += starting(claims, "final.ratio")
    compared += starting(claims, "worth.")
    looks = {
        claim.name: derivations.looks(
            selected(blocks, claim.evidence[0].select),
            str(details.get("better")),
            1 - float(details.get("confidence") or 0.95),
            derivations.design_of(files, str(claim.evidence[0].select.get("experiment"))),
        )
        for claim in compared
        if any(proof.rule == derivations.RATIO for proof in claim.evidence[:1])
    }
    return {
        "before_after": figures.before_after(claims, blocks, labels(provenance)),
        "pareto": pareto.drawn(claims),
        "trials": figures.trials(claims, threshold),
        "sequences": figures.sequences(looks, compared, threshold),
        "timeline": figures.timeline(claims, blocks, unit),
        "waterfall": figures.waterfall(claims, prediction),
    }


def _cards(claims: Sequence[Claim], provenance: Provenance) -> list[tuple[str, str, str, str]]:
    known = named(claims)
    before, after = labels(provenance)
    the = "the " if not is_gate(provenance) else ""
    cards = []
    for label, name, note in (
        (before, "start.level", ""),
        (after, "final.level", ""),
        ("ratio", "final.ratio", f"{after} over {the}{before}"),
        ("A/A noise", "noise.ratio", f"the {before} against itself"),
        ("noise of restarts", "noise.starts", "standard deviation of starts of equal settings"),
        ("floor", "waterfall.share", "of the starting step's time"),
    ):
        claim = known.get(name)
        if claim is None or claim.figure is None:
            continue
        figure = claim.figure
        interval = "" if figure.lo == figure.hi else words.interval(figure, claim.unit)
        if name == "noise.ratio":
            # Its interval is the news: how far equal settings are apart.
            cards.append((label, words.interval(figure, claim.unit), "", note))
            continue
        value, unit = words.number(figure.value), claim.unit
        if claim.unit in (words.RATIO, words.PERCENT):
            value, unit = words.amount(figure.value, claim.unit), ""
        cards.append((label, value, unit, interval or note))
    target = provenance.details.get("target")
    if target is not None:
        cards.append(("target", f"+{100 * float(target):g} %", "", target_text(provenance)))
    return cards


def _trials(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    worth = {claim.details.get("lever"): claim.statement for claim in by_role(claims, "left out")}
    return [
        {
            "claim": claim,
            "forecast": forecast_text(claim.details),
            "evidence": _evidence(claim.evidence),
            "prices": [proof.statement for proof in prices(claims, claim.details["experiment"])],
            "worth": worth.get(", ".join(claim.details["levers"]), ""),
        }
        for claim in starting(claims, "experiment.")
    ]


def _evidence(evidence: Sequence[Evidence]) -> str:
    return "; ".join(evidence_text(proof) for proof in evidence)


def _statement(claims: Sequence[Claim], name: str) -> str:
    claim = named(claims).get(name)
    return "" if claim is None else sentence(claim.statement)


def _empty_reason(provenance: Provenance) -> str:
    verdict = str(provenance.details.get("verdict") or "")
    notes = provenance.details.get("notes") or ["no experiment was made"]
    return f"the run ended as {verdict}, {notes[0]}" if verdict else str(notes[0])


def _cost_gap(provenance: Provenance) -> str:
    gaps = [
        gap.replace(" is not claimed", "")
        for gap in provenance.details.get("gaps") or ()
        if "per token" in gap
    ]
    return "; ".join(gaps) or "no block was measured"
