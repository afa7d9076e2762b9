"""Reports whose every claim can be re-derived from the rows it names."""

from assay.report.claim import Claim, Evidence, Provenance
from assay.report.markdown import write

__all__ = ["Claim", "Evidence", "Provenance", "write"]
