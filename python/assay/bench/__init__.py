"""One harness behind every performance claim.

- `harness/` measures cases and stores, compares and prints results; `suites/` holds the cases,
  `rivals/` the libraries and programs to compare with.
- `claims/` reads a `bench.toml` (`reading.py`), runs it with its seeds (`running.py`), judges its gates
  (`judging.py`), measures a kept result again (`rerunning.py`, `reproducing.py`), stages its data
  (`staging.py`, `manifest.py`) and traces its calls (`profiling.py`).
- `own/` has the functions and commands that a claim brings along.
"""

from assay.bench.harness.case import Case as Case, Settings as Settings, Suite as Suite
from assay.bench.harness.comparison import Comparison as Comparison, compare as compare
from assay.bench.harness.result import Figure as Figure, Result as Result, load as load
from assay.bench.harness.session import run as run, settings as settings
from assay.bench.suites.registry import SUITES as SUITES, suite as suite
