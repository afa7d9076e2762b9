"""The runtime: devices, streams, events, graphs and arrays over the memory of a pool."""

from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.graphs import Graph, GraphNode, NodeTime, capture_graph
from assay.runtime.hardware import Device, Event, Record, Records, Stream, device, devices

__all__ = [
    "Array",
    "DType",
    "Device",
    "Event",
    "Graph",
    "GraphNode",
    "NodeTime",
    "Record",
    "Records",
    "Stream",
    "capture_graph",
    "device",
    "devices",
]
