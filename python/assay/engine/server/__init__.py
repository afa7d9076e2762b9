"""An OpenAI-compatible HTTP server over the engine."""

from assay.engine.server.app import Limits, create_app
from assay.engine.server.guards import check_key
from assay.engine.server.http_server import listen, serve
from assay.engine.server.service import ServedModel, served_encoder, served_model
from assay.engine.server.services import HostedModel

__all__ = [
    "HostedModel",
    "Limits",
    "ServedModel",
    "check_key",
    "create_app",
    "listen",
    "serve",
    "served_encoder",
    "served_model",
]
