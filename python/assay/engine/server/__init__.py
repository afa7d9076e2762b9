"""An OpenAI-compatible HTTP server over the engine."""

from assay.engine.server.app import (
    Limits as Limits,
    application as application,
    create_app as create_app,
)
from assay.engine.server.guards import check_key as check_key
from assay.engine.server.http_server import listen as listen, serve as serve
from assay.engine.server.model_host import HostedModel as HostedModel, LoadedEngine as LoadedEngine
from assay.engine.server.served_model import (
    ModelFacts as ModelFacts,
    ServedModel as ServedModel,
    bounded_context as bounded_context,
    served_encoder as served_encoder,
    served_model as served_model,
)
