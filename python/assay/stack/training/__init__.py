"""A training run: the time of a step from its kernels and its traffic, and of all steps."""

from assay.stack.training import job, run, step, work
from assay.stack.training.job import scope

__all__ = ["job", "run", "scope", "step", "work"]
