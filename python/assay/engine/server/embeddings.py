"""/v1/embeddings: vectors of length one.

The last token's hidden state of a decoder; an encoder's hidden states, pooled as its folder says.
"""

from __future__ import annotations

import base64
import math
from array import array
from collections.abc import Sequence

from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import EmbeddingRequest
from assay.engine.server.response_schemas import Embedding, Embeddings, EmbeddingUsage
from assay.engine.server.service import Service


async def embeddings(service: Service, body: EmbeddingRequest) -> Embeddings:
    """Respond to an embedding request."""
    prompts = await service.prompts(body.input)
    for prompt in prompts:
        service.check_prompt(prompt, 0, "input")
    data = []
    for index, values in enumerate(await service.embed(prompts)):
        if body.dimensions is not None:
            values = _first(values, body.dimensions)
        if body.normalize is not False:
            values = _normalized(values)
        is_base64 = body.encoding_format == "base64"
        data.append(
            Embedding(index=index, embedding=_base64(values) if is_base64 else list(values))
        )
    tokens = sum(map(len, prompts))
    usage = EmbeddingUsage(prompt_tokens=tokens, total_tokens=tokens)
    return Embeddings(data=data, model=service.model.name, usage=usage)


def _first(values: Sequence[float], count: int) -> Sequence[float]:
    """The first numbers of a vector; what is left is normalized as whole vectors are."""
    if count > len(values):
        raise ApiError(
            f"dimensions: expected at most {len(values)}, the numbers of a vector, got {count}",
            param="dimensions",
        )
    return values[:count]


def _normalized(values: Sequence[float]) -> Sequence[float]:
    length = math.hypot(*values)
    return [value / length for value in values] if length else values


def _base64(values: Sequence[float]) -> str:
    packed = array("f", values)
    return base64.b64encode(packed.tobytes()).decode()
