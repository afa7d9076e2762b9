"""What a comparison of accelerators rests on: whose prices, and whose kernel constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from assay.catalog import constants, offers
from assay.model.resolving.resolve import make_resolver
from assay.model.resolving.unused import used_cone
from assay.scenario.companions import accelerator_of
from assay.scenario.offers import accelerator_name
from assay.scenario.question import Question

PURCHASE: Final = "econ.gpu.price"


def compared_prices(questions: Sequence[Question], targets: Sequence[str]) -> list[str]:
    """Notes on the prices behind a comparison of accelerators: each rent or purchase, and whose."""
    rents: list[offers.Offer] = []
    purchases: list[str] = []
    for question in questions:
        if question.preset is None or not (accelerator := accelerator_name(question.preset)):
            continue
        resolver = make_resolver(question.registry, question.inputs, question.variants)
        for target in targets:
            resolver.value(target)
        cone = used_cone(resolver, targets)
        given = question.preset.assignments
        if offers.RENT in cone and offers.RENT in given:
            rents += [o for o in offers.offers(accelerator) if o.rent == given[offers.RENT]][:1]
        if PURCHASE in cone and PURCHASE in given:
            price = given[PURCHASE]
            purchases.append(f"{accelerator} {price.text} ({price.kind}, {price.date})")
    notes = [offers.unlike(rents)] if offers.unlike(rents) else []
    if not notes and rents:
        listed = "; ".join(f"{rent.accelerator} {rent.usd_per_hour:.4g} USD/h" for rent in rents)
        notes.append(f"rents are those of {rents[0].name}: {listed}")
    if len(purchases) > 1:
        notes.append(f"prices of GPUs: {'; '.join(dict.fromkeys(purchases))}")
    return notes


def borrowed_constants(question: Question) -> str:
    """What an answer borrows where nobody measured its accelerator's kernels; empty otherwise."""
    if question.preset is None:
        return ""
    part = accelerator_of(question.preset.included)
    if part is None or "calibration" not in part.facts:
        return ""
    name = part.path.rpartition("/")[2]
    calibration = constants.find(str(part.facts["calibration"] or name), accelerator=name)
    if calibration.source_system == name:
        return ""
    return f"{name} has no kernel measurements: constants of {calibration.source_system}, borrowed"
