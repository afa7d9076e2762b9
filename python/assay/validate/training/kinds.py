"""Kinds of training jobs whose steps are missed by different amounts."""

from __future__ import annotations

from assay.validate.training.jobs import Job

DENSE, MOE, SHARDED = "dense", "moe", "fsdp_long"

LONG = 32768
"""Tokens of a sequence from which attention and context parallelism set the step."""


def kind_of(job: Job) -> str:
    """`moe` with experts; `fsdp_long` with sharded gradients (FSDP, ZeRO-2 and 3) or long contexts.

    It reads inputs of the graph only, so that scenarios fall into the same kinds.
    """
    if job.values.get("architecture.experts", 0) > 0:
        return MOE
    stage = job.software.zero_stage if job.software is not None else 0.0
    if stage > 1 or job.values["architecture.sequence"] >= LONG:
        return SHARDED
    return DENSE
