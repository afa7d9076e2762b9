"""Work that outgrows a process: cut into numbered parts, run here or by Ray, gathered in order.

- Parts speak JSON (`parts.py`); they run in processes (`local.py`) or by Ray (`by_ray.py`), each is
  kept by content (`kept.py`), and nodes with other sources refuse them (`code.py`).
- `jobs.py`: commands as jobs of a cluster (`--on`), with what was submitted (`records.py`), files
  that travel (`job_files.py`) and how the answer comes back (`envelope.py`).
"""
