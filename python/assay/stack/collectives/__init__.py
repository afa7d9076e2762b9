"""Collectives: templates that declare the time of an operation in the scope that needs it.

`all_reduce` and its like take any medium, `node_all_reduce` and its like the links of a node with
the constants fitted on measured collectives, `spanning_all_reduce` and its like several nodes.
"""

from assay.stack.alpha_beta import Medium, Span
from assay.stack.collectives.constants import scope
from assay.stack.collectives.library import OPERATIONS
from assay.stack.collectives.node import node_all_gather, node_all_reduce, node_all_to_all, node_reduce_scatter
from assay.stack.collectives.spans import (
    LINKS,
    RAILS,
    hierarchical_all_gather,
    hierarchical_all_reduce,
    hierarchical_all_to_all,
    hierarchical_reduce_scatter,
    span_of,
    spanning_all_gather,
    spanning_all_reduce,
    spanning_all_to_all,
    spanning_reduce_scatter,
)
from assay.stack.collectives.templates import all_gather, all_reduce, all_to_all, broadcast, reduce_scatter

__all__ = [
    "LINKS",
    "OPERATIONS",
    "RAILS",
    "Medium",
    "Span",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "hierarchical_all_gather",
    "hierarchical_all_reduce",
    "hierarchical_all_to_all",
    "hierarchical_reduce_scatter",
    "node_all_gather",
    "node_all_reduce",
    "node_all_to_all",
    "node_reduce_scatter",
    "reduce_scatter",
    "scope",
    "span_of",
    "spanning_all_gather",
    "spanning_all_reduce",
    "spanning_all_to_all",
    "spanning_reduce_scatter",
]
