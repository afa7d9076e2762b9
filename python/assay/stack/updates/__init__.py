"""Updates: the recurrences of optimizers, their schedules, their states and the noise of gradients."""

from assay.stack.updates import noise, orthogonal, rules, schedules, states
from assay.stack.updates.rules import scope

__all__ = ["noise", "orthogonal", "rules", "schedules", "scope", "states"]
