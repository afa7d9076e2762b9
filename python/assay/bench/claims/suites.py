"""The suite behind a claim: one of ours, a workload, or the work that the claim brings along."""

from __future__ import annotations

from dataclasses import replace

from assay import bench
from assay.bench.claims.claim import Claim
from assay.bench.harness.case import Suite
from assay.runtime.hardware import Device
from assay.workloads.contract import ArrayWorkload
from assay.workloads.registry import WORKLOADS, workload as workload_named


def workload_of(claim: Claim) -> ArrayWorkload | None:
    """The workload of a claim; None of a suite."""
    if claim.work is not None:
        return _own(claim)
    return workload_named(claim.suite) if claim.suite in WORKLOADS else None


def suite_of(claim: Claim) -> Suite:
    """The suite of a claim."""
    if claim.work is None:
        return bench.suite(claim.suite)
    from assay.bench.suites.array_workload import suite_for

    suite = suite_for(_own(claim))
    # Without a size in the claim, calls are not told one: units of work would be counted, not done.
    return suite if claim.data.size is not None else replace(suite, axes=())


def has_sizes_of_its_own(claim: Claim, device: Device) -> bool:
    """Whether data are a file, or a GPU has cases in place of the workload's, each of one size."""
    workload = workload_of(claim)
    return bool(claim.data.file) or (
        workload is not None and workload.measured_on(device) != (workload,)
    )


def _own(claim: Claim) -> ArrayWorkload:
    from assay.bench.own.workload import OwnWorkload

    return OwnWorkload(claim)
