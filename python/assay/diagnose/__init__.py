"""What did happen, against what should have: residuals, invariants, causes and what-if.

- `residuals.py`: every nanosecond of a step in a term (`terms.py`; `itemizing/` finds them);
  `invariants/`, `baseline.py`, `critical_path/`.
- `mechanisms/`: the causes, joined by `attribution.py`.
- `statistics/`: lagged dependence, doubly robust effects, refuters; `delays/`: causal profiling by
  delay injection.
- `replay/`: what-if on a virtual clock; `live/`: a running server.
- `examination.py` does all of it for a trace, `page/` writes it as HTML.
"""
