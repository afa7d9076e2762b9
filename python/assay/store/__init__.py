"""A store of runs, traces, telemetry, results and calibrations that a team shares.

- Objects, manifests, refs and tags (`layout.py`, `manifest.py`, `refs.py`, `tagging.py`) lie in a folder
  or a bucket (`folder.py`, `bucket.py` behind `backend.py`, chosen by `places.py`).
- What an item is: `describing.py`; without names: `redacting.py`.
- `pushing.py`, `pulling.py` (`pulling_several.py` by a query), `verifying.py`; `collecting.py` with
  `leases.py` frees garbage beside pushes, `retaining.py` says what may go.
- `index.py` (SQLite) answers `finding.py`.
"""
