"""Collectives: templates that declare the time of an operation in the scope that needs it.

`all_reduce` and its like take any medium, `node_all_reduce` and its like the links of a node with
the constants fitted on measured collectives, `spanning_all_reduce` and its like several nodes.
`alone` has the figures of one collective by itself, with `rails` between nodes.
"""

from assay.stack.collectives import alone, constants, library, node, rails, spans, templates
from assay.stack.collectives.constants import scope

__all__ = ["alone", "constants", "library", "node", "rails", "scope", "spans", "templates"]
