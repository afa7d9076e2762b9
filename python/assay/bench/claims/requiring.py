"""Rivals that a claim requires: those that cannot run here are said before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from assay.bench.claims.claim import Claim
from assay.bench.claims.suites import workload_of
from assay.bench.harness import selection
from assay.bench.harness.case import Settings, Suite
from assay.bench.own.workload import OwnWorkload
from assay.bench.rivals.elsewhere import prepare_elsewhere
from assay.errors import InputError, UnknownNameError
from assay.workloads.contract import Missing

_SEED: Final = 1


def check_names(claim: Claim, chosen: Suite) -> None:
    """Refuse rivals that the suite does not know, by the file and key that name them."""
    for key, names in (("names", claim.rivals.names), ("required", claim.rivals.required)):
        if not chosen.rivals:
            continue
        try:
            selection.rivals(chosen, names)
        except UnknownNameError as error:
            where = claim.path or claim.name
            raise InputError(f"{where}: rivals.{key}: {error.message}", error.hint) from None


def check_present(claim: Claim, settings: Settings) -> None:
    """Refuse a claim whose required rivals of a workload are missing: not installed, or not configured."""
    if not claim.rivals.required:
        return
    for name, missing in _missing(claim, settings):
        raise InputError(
            f"{claim.path or claim.name}: rivals.required: expected the rival {name}, got none: {missing}",
            "install it, or take it out of rivals.required of the claim",
        )


def _missing(claim: Claim, settings: Settings) -> Iterator[tuple[str, str]]:
    """Required rivals that do not run on a few units of work, each with its reason."""
    workload, required = workload_of(claim), claim.rivals.required
    if isinstance(workload, OwnWorkload):
        for own in workload.own.rivals:
            if own.name in required:
                try:
                    workload.program(own).close()
                except InputError as error:
                    yield own.name, error.message
        return
    for case in () if workload is None else workload.measured_on(settings.device):
        for rival in case.rivals:
            if rival.name not in required:
                continue
            data = case.generate(_SEED, case.sizes.quick)
            python, device = settings.rival_python, settings.device
            prepared = (
                rival.prepare(data, device)
                if python is None
                else prepare_elsewhere(python, case, rival.name, data, device)
            )
            if isinstance(prepared, Missing):
                install = f" ({rival.install})" if rival.install else ""
                yield rival.name, f"{prepared.reason}{install}"
            else:
                prepared.close()
