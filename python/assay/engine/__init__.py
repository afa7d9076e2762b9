"""The engine: a language model served on the runtime, every kernel a model operation.

In this order, each folder imports only those before it:

- `architectures/`: one file each, as data: configuration keys and layers.
- `loading/`: files, tokenizers, templates, `lora_adapter.py`.
- `models/`: layers and the buffers of a step, the builder of a model from an architecture, LoRA on
  layers (`adapters.py`), weights of sleeping models (`residence.py`).
- `requests/`: a request, its sampling parameters, grammar and text, what it puts into a step.
- `runner/`: model runner, KV memory, input batch, CUDA-graph capture.
- `speculation/`: proposers of draft tokens, one file a method.
- `core/`: engine, the worker thread that owns one, batch scheduler, step loop, knobs,
  `device_sharing.py` (engines as tasks of the scheduler).
- `server/`: OpenAI-compatible HTTP; `http_process.py` serves it in a process of its own,
  `engine_process.py` steps the engines for it.
"""

from assay.engine.core.encoder import Encoder as Encoder
from assay.engine.core.engine import Engine as Engine
from assay.engine.core.knobs import Knob as Knob, Settings as Settings, Undo as Undo
from assay.engine.requests.outputs import (
    Chunk as Chunk,
    Completion as Completion,
    FinishReason as FinishReason,
    StepOutput as StepOutput,
    Summary as Summary,
    Timing as Timing,
)
from assay.engine.requests.sampling_params import SamplingParams as SamplingParams
from assay.engine.requests.structured_output import StructuredOutput as StructuredOutput
from assay.engine.runner.kv_memory import KvSnapshot as KvSnapshot
