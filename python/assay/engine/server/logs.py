"""The log of a server: lines with times on stderr."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class LogSettings:
    """What is logged; processes of one server log alike."""

    quiet: bool = False
    """Whether only warnings and errors are."""
    access: bool = True
    """Whether every request is."""

    def apply(self) -> None:
        """Log to stderr from now on."""
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
        logger = logging.getLogger("assay")
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING if self.quiet else logging.INFO)
        if not self.access:
            logging.getLogger("assay.access").setLevel(logging.WARNING)
