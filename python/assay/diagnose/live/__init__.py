"""A server that is already running, diagnosed from its metrics and a few probes."""

from assay.diagnose.live.session import diagnose_server

__all__ = ["diagnose_server"]
