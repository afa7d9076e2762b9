"""A report as Markdown, from claims and provenance alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from assay.escaping import one_line
from assay.report import pareto, words
from assay.report.claim import Claim, Provenance
from assay.report.gate_words import gate_comparisons, is_gate, labels
from assay.report.grouping import by_role, named, prices, starting
from assay.report.headline import evidence_text, forecast_text, headline, ran_on, sentence, summary
from assay.report.patches import patches
from assay.report.waterfall import CAUSES_NOTE, TERMS_NOTE

_ROLES: Final = (
    ("Kept", ("kept",), "Nothing was kept."),
    ("Undecided", ("undecided",), "Nothing is undecided."),
    ("Improved by itself, not proven in the confirmation", ("not kept",), ""),
    ("Rejected and failed", ("rejected",), "Nothing was rejected, and no trial failed."),
)
"""Headings, with what stands there where no trial is of that kind; without such words there is no heading."""


def write(claims: Sequence[Claim], provenance: Provenance) -> str:
    """A report as Markdown; every figure in it is one of the claims'."""
    if is_gate(provenance):
        lines = [
            *_top(claims, provenance),
            *_result(claims, provenance),
            *_comparisons(claims),
            *_rests_on(claims, provenance),
            *_check_it(claims, provenance),
        ]
        return "\n".join(lines).rstrip() + "\n"
    lines = [
        *_top(claims, provenance),
        *_result(claims, provenance),
        *_pareto(claims),
        *_trials(claims),
        *_skipped(provenance),
        *_waterfall(claims),
        *_forecasts(claims),
        *_costs(claims),
        *_rests_on(claims, provenance),
        *_use_it(provenance),
        *_check_it(claims, provenance),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _top(claims: Sequence[Claim], provenance: Provenance) -> Iterator[str]:
    yield f"# {_text(headline(claims, provenance))}"
    yield ""
    if ran := ran_on(provenance):
        yield _text(ran)
        yield ""
    for line in summary(claims, provenance):
        yield f"- {_text(line)}"
    yield ""


def _result(claims: Sequence[Claim], provenance: Provenance) -> Iterator[str]:
    known = named(claims)
    before, after = labels(provenance)
    rows = [
        (label, words.shown(known[name].figure, known[name].unit))
        for label, name in (
            (before, "start.level"),
            (after, "final.level"),
            (f"{before}, per unit", "start.own_unit"),
            (f"{after}, per unit", "final.own_unit"),
            ("ratio", "final.ratio"),
            ("slowdown excluded", "slowdown.excluded"),
            ("A/A noise", "noise.ratio"),
            ("noise of restarts", "noise.starts"),
            ("answers compared", "answers.compared"),
            ("wrongly changed", "answers.changed"),
            ("gap where they differ", "answers.divergence"),
            ("A/A gap where they differ", "noise.divergence"),
        )
        if name in known
    ]
    yield "## Before and after"
    yield ""
    if not rows:
        yield "Nothing was measured."
        yield ""
        return
    yield from _table(("", "value and interval"), rows)
    yield "Levels are medians of blocks with order-statistic intervals; ratios are over pairs of"
    yield "blocks with a confidence sequence, which holds at every look. Above 1 is better."
    yield ""


def _pareto(claims: Sequence[Claim]) -> Iterator[str]:
    lines = pareto.rows(claims)
    if not lines:
        return
    yield "## Throughput against interactivity"
    yield ""
    header = ("settings", "requests/s", "in all", "of a user", "on the front")
    yield from _table(header, lines)
    yield "Each line is a part of the ramps of rates; on the front are those that no other has more of"
    yield "both than."
    yield ""


def _trials(claims: Sequence[Claim]) -> Iterator[str]:
    worth = {claim.details.get("lever"): claim for claim in by_role(claims, "left out")}
    for title, roles, empty in _ROLES:
        tried = by_role(claims, *roles)
        if not tried and not empty:
            continue
        yield f"## {title}"
        yield ""
        if not tried:
            yield empty
            yield ""
        for claim in tried:
            yield from _trial(claim, worth, prices(claims, claim.details["experiment"]))


def _comparisons(claims: Sequence[Claim]) -> Iterator[str]:
    yield "## Comparisons"
    yield ""
    for claim in gate_comparisons(claims):
        yield from _trial(claim, {}, ())


def _trial(claim: Claim, worth: Mapping[Any, Claim], priced: Sequence[Claim]) -> Iterator[str]:
    details = claim.details
    yield f"### {_text(details['candidate'])}"
    yield ""
    yield f"- **{_text(claim.statement)}**"
    if claim.intervention:
        yield f"- change: `{_code(claim.intervention)}`"
    yield f"- why: {_text(details['reason'])}"
    if details["role"] != "gate":
        yield f"- forecast: {_text(forecast_text(details))}"
    if left_out := worth.get(", ".join(details["levers"])):
        yield f"- {_text(left_out.statement)}"
    yield from (f"- {_text(price.statement)}" for price in priced)
    for gate in details["gates"]:
        passed = "passed" if gate["passed"] else "FAILED"
        yield f"- gate {_text(gate['gate'])}: {passed}, {_text(gate['statement'])}"
    for reason, count in details["dropped"].items():
        yield f"- dropped: {_counted(count)}, {_text(reason)}"
    rows = "; ".join(evidence_text(evidence) for evidence in claim.evidence)
    yield f"- evidence: {_text(rows)}"
    yield ""


def _skipped(provenance: Provenance) -> Iterator[str]:
    skipped = provenance.details.get("skipped") or ()
    yield "## Not tried"
    yield ""
    if skipped:
        yield from _table(("lever", "reason"), [(lever, reason) for lever, reason in skipped])
    else:
        yield "Every lever of the library that is known for this engine was tried."
        yield ""


def _waterfall(claims: Sequence[Claim]) -> Iterator[str]:
    terms = [claim for claim in starting(claims, "waterfall.") if claim.unit == "us"]
    yield "## Where the time of a step went"
    yield ""
    if not terms:
        yield "No waterfall: the engine was not traced, or the trace has no steps."
        yield ""
        return
    rows = [
        (term.statement.partition(":")[0], words.shown(term.figure, term.unit)) for term in terms
    ]
    yield from _table(("term", "step of median time, and 90 % of the steps"), rows)
    yield TERMS_NOTE
    yield ""
    causes = starting(claims, "cause.")
    if causes:
        yield f"Causes that the diagnosis found, with the time that each explains. {CAUSES_NOTE}"
        yield ""
        yield from (f"- {_text(cause.statement)}" for cause in causes)
        yield ""
    share = named(claims).get("waterfall.share")
    yield f"{_sentence(share.statement)}." if share else "No floor: nothing predicts this step."
    yield ""


def _forecasts(claims: Sequence[Claim]) -> Iterator[str]:
    yield "## Forecasts, scored"
    yield ""
    forecasts = starting(claims, "forecast.")
    if not forecasts:
        yield "No trial had both a forecast and an outcome."
    for claim in forecasts:
        yield f"- {_sentence(claim.statement)}"
    yield ""


def _costs(claims: Sequence[Claim]) -> Iterator[str]:
    priced = prices(claims)
    yield "## Cost and energy of an output token"
    yield ""
    if not priced:
        yield "Not claimed: see the gaps below."
        yield ""
    for claim in priced:
        yield f"- **{_sentence(claim.statement)}**"
        for entry in claim.details.get("receipt", ()):
            yield f"{'  ' * (entry['depth'] + 1)}- {_text(_entry(entry))}"
    if priced:
        yield ""


def _entry(entry: Mapping[str, Any]) -> str:
    value = words.quantity(entry["value"], entry["unit"])
    equation = f"; {entry['text']}" if entry["text"] else ""
    return f"{entry['name']} = {value}{equation} [{entry['source']}]"


def _rests_on(claims: Sequence[Claim], provenance: Provenance) -> Iterator[str]:
    yield "## What this rests on"
    yield ""
    for claim in starting(claims, "blocks."):
        yield f"- {_sentence(claim.statement)}"
    for title, lines in (
        ("degradation", provenance.degradations),
        ("gap", provenance.details.get("gaps") or ()),
        ("note", provenance.details.get("notes") or ()),
    ):
        yield from (f"- {title}: {_text(line)}" for line in lines)
    if not provenance.degradations:
        yield "- No degradation was recorded."
    yield ""


def _use_it(provenance: Provenance) -> Iterator[str]:
    details = provenance.details
    ways = patches(details.get("launch_start") or "", details.get("launch") or "")
    yield "## To use it"
    yield ""
    if details.get("launch") == details.get("launch_start") and ways:
        yield "The settings are those of the start; the engine is started as before:"
        yield ""
        yield from _block("sh", ways[0].apply)
        return
    if not ways:
        yield "No launch command is known for this engine; the settings are:"
        yield ""
        yield from _block("text", words.settings(details.get("settings") or {}))
        return
    for patch in ways:
        yield f"### {patch.title}"
        yield ""
        yield f"{_sentence(patch.apply_text)}:"
        yield ""
        yield from _block(patch.language, patch.apply)
        yield f"Inverse ({patch.inverse_text}):"
        yield ""
        yield from _block(patch.language, patch.inverse)


def _check_it(claims: Sequence[Claim], provenance: Provenance) -> Iterator[str]:
    yield "## To check it"
    yield ""
    yield f"`assay verify-report {_code(provenance.run)}` derives every claim again from these rows,"
    yield "and checks the journal's chain and the SHA-256 of every file."
    yield ""
    rows = [
        (claim.name, "; ".join(evidence_text(proof) for proof in claim.evidence))
        for claim in claims
    ]
    yield from _table(("claim", "rows and rule"), rows)
    yield f"- journal head: `{_code(provenance.journal_head)}`"
    for name, digest in provenance.files.items():
        yield f"- {_text(name)}: `{digest}`"
    yield f"- run {_text(provenance.run)}, written {_when(provenance.created_at)} by Assay"
    yield f"  {_text(provenance.assay_version)}"
    for name, value in provenance.fingerprint.items():
        yield f"- {_text(name)}: {_text(str(value))}"
    yield ""


def _counted(count: int) -> str:
    return f"{count} block" if count == 1 else f"{count} blocks"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(_text(cell).replace('|', chr(92) + '|') for cell in row)} |"
    yield ""


def _block(language: str, content: str) -> Iterator[str]:
    fence = "```"
    while fence in content:
        fence += "`"
    yield f"{fence}{language}"
    yield content.rstrip("\n")
    yield fence
    yield ""


def _text(text: str) -> str:
    """Text of the run on one line, without markup of its own: it is data."""
    plain = one_line(str(text))
    for mark in ("\\", "`", "*", "_", "<", "[", "]"):
        plain = plain.replace(mark, f"\\{mark}")
    return plain


def _code(text: str) -> str:
    return one_line(text).replace("`", "'")


def _sentence(text: str) -> str:
    return _text(sentence(text))
