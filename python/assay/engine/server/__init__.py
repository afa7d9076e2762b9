"""An OpenAI-compatible HTTP server over the engine."""

from assay.engine.server.app import Limits as Limits, create_app as create_app
from assay.engine.server.guards import check_key as check_key
from assay.engine.server.http_server import listen as listen, serve as serve
from assay.engine.server.service import (
    ServedModel as ServedModel,
    served_encoder as served_encoder,
    served_model as served_model,
)
from assay.engine.server.services import HostedModel as HostedModel
