"""Workloads that are not language models, each behind the contract of `contract.py`.

The contract is data by seed, a program, a check, settings, rivals and what it computes; `registry.py` has
their names, `planning.py` says what an accelerator of the catalog reaches at the most
(`assay predict-workload`).

- `perception/`: PointPillars from generated lidar scans (`scans.py`, KITTI's format) to boxes:
  `network.py`, `boxes.py`, joined by `detector.py`; `reference.py` is the same in plain NumPy.
- `protein/`: a trunk of AlphaFold's kind: `triangle.py`, `alignment.py`, joined by `trunk.py`;
  `reference.py` as well; `trimul.py` the public shapes of triangle multiplication.
- `order_book/`: order books over `_native`: `events.py` and `feed.py` (what is replayed), `plain.py`
  (the book in Python that others are held against), `rivals.py`, `cuda_replay.py` (on a GPU).
"""
