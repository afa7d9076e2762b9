"""Close the gap: levers, experiments behind a rollback gate, and the loop that tries them.

- `engines/`: the own engine, vLLM and servers (`adapters/`: llama.cpp, vLLM, SGLang, TensorRT-LLM)
  behind `protocol.py`; `resident.py` keeps servers of several settings at once.
- `levers/`: the library of changes (YAML), and when they apply.
- `policy/`: qualification, predictions, ranking, search.
- `experiments/`: paired blocks, confidence sequences, correctness gates, verdicts.
- `journal/`: write-ahead journal, watchdog, recovery.
- `loop/` joins them, a file a phase (`phases/race.py`: candidates side by side, where restarts are
  slow); `fleet/`: staged promotion over replicas, with an agent on each node.
"""
