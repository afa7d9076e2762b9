"""Telemetry: samples of what a machine is like, from sources to sinks."""

from assay.observe.telemetry.sample import Missing, Reading, Sample
from assay.observe.telemetry.session import State, telemetry
from assay.observe.telemetry.sinks.sink import RejectedError, Sink
from assay.observe.telemetry.sources.source import Source
from assay.observe.telemetry.throttle import Throttle

__all__ = [
    "Missing",
    "Reading",
    "RejectedError",
    "Sample",
    "Sink",
    "Source",
    "State",
    "Throttle",
    "telemetry",
]
