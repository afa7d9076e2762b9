"""`assay gate`: whether a commit, an image or a command serves faster or slower than another.

Two sides (`sides.py`, `commits.py`) are started afresh in pairs (`servers.py`, `comparison.py`) until
the pairs are enough (`judging.py`, `noise.py`); `bisection.py` finds the commit, `claims.py` and
`reporting.py` write the report.
"""
