"""/v1/rerank and /v1/score: how close documents are to a query, by the cosine of their embeddings.

Bodies and answers are those of Jina, Cohere and vLLM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI
from pydantic import BaseModel, Field, StrictBool

from assay.engine.server.errors import ApiError
from assay.engine.server.request_schemas import Count, Strict, Text
from assay.engine.server.response_schemas import EmbeddingUsage
from assay.engine.server.service import Service, new_response_id
from assay.engine.server.services import Services, from_request

Texts = Annotated[list[Text], Field(min_length=1, max_length=1024)]


class DocumentText(Strict):
    """A document as an object."""

    text: Text


Documents = Annotated[list[Text | DocumentText], Field(min_length=1, max_length=1024)]


class RerankRequest(Strict):
    """The body of /v1/rerank."""

    model: Text
    query: Text
    documents: Documents
    top_n: Count | None = None
    return_documents: StrictBool | None = None


class RerankResult(BaseModel):
    """A document and how close it is to the query."""

    index: int
    relevance_score: float
    document: dict[str, str] | None = None


class Reranked(BaseModel):
    """The response of /v1/rerank: documents, the closest first."""

    id: str
    model: str
    usage: EmbeddingUsage
    results: list[RerankResult]


class ScoreRequest(Strict):
    """The body of /v1/score: one text against several, or pairs."""

    model: Text
    text_1: Text | Texts
    text_2: Text | Texts


class Score(BaseModel):
    """The score of one pair."""

    object: Literal["score"] = "score"
    index: int
    score: float


class Scores(BaseModel):
    """The response of /v1/score."""

    id: str
    object: Literal["list"] = "list"
    model: str
    data: list[Score]
    usage: EmbeddingUsage


def add_rerank_routes(app: FastAPI, responses: dict[int | str, Any]) -> None:
    """Serve both paths, and Cohere's second version of the first."""

    @app.post("/rerank", responses=responses, include_in_schema=False)
    @app.post("/v2/rerank", responses=responses, include_in_schema=False)
    @app.post("/v1/rerank", responses=responses)
    async def reranked(
        body: RerankRequest, services: Annotated[Services, Depends(from_request)]
    ) -> Reranked:
        """Order documents by how close they are to a query."""
        return await rerank(services.named(body.model), body)

    @app.post("/score", responses=responses, include_in_schema=False)
    @app.post("/v1/score", responses=responses)
    async def scored(
        body: ScoreRequest, services: Annotated[Services, Depends(from_request)]
    ) -> Scores:
        """The cosine of the embeddings of pairs of texts."""
        return await score(services.named(body.model), body)


async def rerank(service: Service, body: RerankRequest) -> Reranked:
    """Respond to a rerank request."""
    texts = [each if isinstance(each, str) else each.text for each in body.documents]
    cosines, usage = await _cosines(service, [body.query] * len(texts), texts)
    order = sorted(range(len(texts)), key=lambda index: -cosines[index])
    shown = body.return_documents is not False
    results = [
        RerankResult(
            index=index,
            relevance_score=cosines[index],
            document={"text": texts[index]} if shown else None,
        )
        for index in order[: body.top_n]
    ]
    return Reranked(
        id=new_response_id("rerank"), model=service.model.name, usage=usage, results=results
    )


async def score(service: Service, body: ScoreRequest) -> Scores:
    """Respond to a score request."""
    left = [body.text_1] if isinstance(body.text_1, str) else body.text_1
    right = [body.text_2] if isinstance(body.text_2, str) else body.text_2
    if len(left) == 1:
        left = left * len(right)
    if len(left) != len(right):
        raise ApiError(
            f"text_2: expected {len(left)} texts, as text_1 has, got {len(right)}", param="text_2"
        )
    cosines, usage = await _cosines(service, left, right)
    data = [Score(index=index, score=cosine) for index, cosine in enumerate(cosines)]
    return Scores(id=new_response_id("score"), model=service.model.name, data=data, usage=usage)


async def _cosines(
    service: Service, left: Sequence[str], right: Sequence[str]
) -> tuple[list[float], EmbeddingUsage]:
    """The cosines of pairs; a text that occurs several times is embedded once."""
    texts = list(dict.fromkeys((*left, *right)))
    prompts = await service.prompts(texts)
    for prompt in prompts:
        service.check_prompt(prompt, 0, "documents")
    vectors = dict(zip(texts, await service.embed(prompts), strict=True))
    tokens = sum(map(len, prompts))
    cosines = [_cosine(vectors[a], vectors[b]) for a, b in zip(left, right, strict=True)]
    return cosines, EmbeddingUsage(prompt_tokens=tokens, total_tokens=tokens)


def _cosine(left: Sequence[float], right: Sequence[float]) -> float:
    lengths = math.hypot(*left) * math.hypot(*right)
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / lengths if lengths else 0.0
