"""`/about`: which Assay answers."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from assay import __version__
from assay.paths import scratch
from assay.ui.api.reports import REFUSALS

router = APIRouter(tags=["about"], responses=REFUSALS)


class About(BaseModel):
    """The program behind the pages."""

    version: str
    scratch: str
    """The folder of runs, traces and caches."""


@router.get("/about")
def about() -> About:
    """The release of Assay, and where it keeps runs and traces."""
    return About(version=__version__, scratch=str(scratch()))
