"""The runtime: devices, streams, graphs, memory, tasks and arrays over the memory of a pool."""

from assay.runtime import operators
from assay.runtime.allocation_log import AllocationLog, ReplayReport
from assay.runtime.array import Array
from assay.runtime.capabilities import Capabilities
from assay.runtime.dtypes import DType
from assay.runtime.graphs import Graph, GraphNode, NodeTime, capture_graph
from assay.runtime.hardware import Device, Event, Record, Records, Stream, device, devices
from assay.runtime.memory import (
    MemoryReport,
    OutstandingAllocation,
    PinnedBuffer,
    Reservation,
    Tenant,
)
from assay.runtime.scheduling import Decision, Partition, Rate, Scheduler, Task

operators.install()

__all__ = [
    "AllocationLog",
    "Array",
    "Capabilities",
    "DType",
    "Decision",
    "Device",
    "Event",
    "Graph",
    "GraphNode",
    "MemoryReport",
    "NodeTime",
    "OutstandingAllocation",
    "Partition",
    "PinnedBuffer",
    "Rate",
    "Record",
    "Records",
    "ReplayReport",
    "Reservation",
    "Scheduler",
    "Stream",
    "Task",
    "Tenant",
    "capture_graph",
    "device",
    "devices",
]
