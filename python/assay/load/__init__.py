"""Load on a server: workloads, the client that sends them, and the figures of a window.

`workloads/` has requests and when they arrive, `client.py`, `connection.py` and `pacing.py` send them,
`metrics.py` and `window.py` have the figures, `find.py` the highest rate within a service level,
`traffic.py` and `capacity.py` what a plan reads. `assay load`, bench and improve share it.
"""
