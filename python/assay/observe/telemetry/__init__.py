"""Telemetry: samples of what a machine is like, from sources to sinks."""

from assay.observe.telemetry.sample import Missing as Missing, Reading as Reading, Sample as Sample
from assay.observe.telemetry.session import State as State, telemetry as telemetry
from assay.observe.telemetry.sinks.sink import RejectedError as RejectedError, Sink as Sink
from assay.observe.telemetry.sources.source import Source as Source
from assay.observe.telemetry.throttle import Throttle as Throttle
