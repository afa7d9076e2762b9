"""Nodes, network, racks, power, failures and the availability of a run."""

from assay.stack.cluster import failures, network, nodes, power
from assay.stack.cluster.nodes import scope

__all__ = ["failures", "network", "nodes", "power", "scope"]
