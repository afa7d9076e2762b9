"""The runtime: devices, streams, graphs, memory, tasks and arrays over the memory of a pool."""

from assay.runtime import operators
from assay.runtime.allocation_log import (
    AllocationLog as AllocationLog,
    ReplayReport as ReplayReport,
)
from assay.runtime.array import Array as Array
from assay.runtime.capabilities import Capabilities as Capabilities
from assay.runtime.dtypes import DType as DType
from assay.runtime.events import Event as Event
from assay.runtime.graphs import (
    Graph as Graph,
    GraphNode as GraphNode,
    NodeTime as NodeTime,
    capture_graph as capture_graph,
)
from assay.runtime.hardware import (
    Device as Device,
    Stream as Stream,
    device as device,
    devices as devices,
)
from assay.runtime.memory import (
    MemoryReport as MemoryReport,
    OutstandingAllocation as OutstandingAllocation,
    PinnedBuffer as PinnedBuffer,
    Reservation as Reservation,
    Tenant as Tenant,
)
from assay.runtime.records import Record as Record, Records as Records
from assay.runtime.scheduling import (
    Decision as Decision,
    Partition as Partition,
    Rate as Rate,
    Scheduler as Scheduler,
    Task as Task,
)

operators.install()
