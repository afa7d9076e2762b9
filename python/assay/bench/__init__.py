"""One harness behind every performance claim."""

from assay.bench.harness import Row, run, suites

__all__ = ["Row", "run", "suites"]
