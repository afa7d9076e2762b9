"""What a model should do on some hardware: a graph of operations with floors and intervals.

- A step: `specs.py` (model, hardware, batch); `predict.py` evaluates the stack's serving equations and
  spreads them over the nodes of a `graph.py`; `sweep.py` many settings through one tape.
- Whether a server could run it: `fit.py`, by the graph's constraints; `gguf_mixes.py` has the formats of
  GGUF files, tensor by tensor.
- Queues and percentiles by arrival rate: `open_loop.py`, `prefill_chain.py`.
- `calibrate/`: this machine's measured ceilings.
- `capacity/` plans servers for a traffic: lengths and arrivals (`traffic.py`), steps as a table
  (`step_table.py`; `throttle.py`: the clock that a lasting load leaves), latencies in closed form
  (`queues.py`, `served.py`) and by replay (`replay.py`), every layout (`candidates.py`), prefill and
  decode workers (`disaggregated.py`), replicas and cost (`option.py`, `planning.py`; `hosts.py`: power
  beside boards), rates by limits (`by_limits.py`), mixed fleets (`fleet.py`, `fleet_plan.py`), training
  runs (`training.py`).
"""

from assay.planner.graph import Graph as Graph, Node as Node
from assay.planner.predict import predict_graph as predict_graph
from assay.planner.sources import hardware_spec as hardware_spec, model_spec as model_spec
from assay.planner.specs import (
    BatchConfig as BatchConfig,
    Ceiling as Ceiling,
    HardwareSpec as HardwareSpec,
    LayerSpec as LayerSpec,
    ModelSpec as ModelSpec,
)
