"""The runtime: devices, streams, events and arrays over the memory of a pool."""

from assay.runtime.array import Array
from assay.runtime.dtypes import DType
from assay.runtime.hardware import Device, Event, Record, Records, Stream, device, devices

__all__ = [
    "Array",
    "DType",
    "Device",
    "Event",
    "Record",
    "Records",
    "Stream",
    "device",
    "devices",
]
