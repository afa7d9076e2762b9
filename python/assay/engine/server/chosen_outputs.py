"""Outputs that are chosen from more than are sent: the best of several samples, and beam search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from assay.engine.requests.beams import BeamSearch
from assay.engine.requests.outputs import Chunk
from assay.engine.requests.sampling_params import MAX_LOGPROBS, SamplingParams
from assay.engine.server.access_log import CLIENT_CLOSED_REQUEST
from assay.engine.server.errors import ApiError
from assay.engine.server.output_delta import OutputDelta
from assay.engine.server.request_schemas import Sampling
from assay.engine.server.response_schemas import Usage
from assay.engine.server.responses import ResponseFormatter
from assay.engine.server.service import GenerationRequest, Service
from assay.engine.server.streaming import ClientDisconnectedError, cancel_on_disconnect

Chosen = tuple[list[OutputDelta], Usage]


def check(body: Sampling) -> bool:
    """Whether a request asks for chosen outputs; refuses what cannot be combined with it."""
    field = "use_beam_search" if body.use_beam_search else "best_of"
    wanted = body.n or 1
    if body.best_of is not None and body.best_of < wanted:
        raise ApiError(
            f"best_of: expected at least n {wanted}, got {body.best_of}", param="best_of"
        )
    if not body.use_beam_search:
        if body.length_penalty is not None:
            raise ApiError("length_penalty needs use_beam_search", param="length_penalty")
        if (body.best_of or 1) <= wanted:
            return False
    if body.stream:
        raise ApiError(f"{field}: expected a whole response, got stream", param=field)
    if body.use_beam_search:
        given = {
            "stop": body.stop,
            "response_format": body.response_format,
            "structured_outputs": body.structured_outputs,
            "logit_bias": body.logit_bias,
            "min_tokens": body.min_tokens,
            "bad_words": body.bad_words,
            "logprobs": getattr(body, "logprobs", None),
        }
        for name, value in given.items():
            if value:
                raise ApiError(f"{field}: expected no {name} beside it, got one", param=name)
        if 2 * max(wanted, body.best_of or 1) > MAX_LOGPROBS:
            raise ApiError(
                f"n: expected at most {MAX_LOGPROBS // 2} beams, got {body.best_of or wanted}",
                param="n",
            )
    return True


async def respond_chosen(
    service: Service,
    generation: GenerationRequest,
    formatter: ResponseFormatter,
    body: Sampling,
    request: Request,
) -> Response:
    """Respond with the chosen outputs."""
    try:
        outputs, usage = await cancel_on_disconnect(
            request.receive, chosen_outputs(service, generation, body)
        )
    except ClientDisconnectedError:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return JSONResponse(formatter.full(outputs, usage).model_dump())


async def chosen_outputs(service: Service, generation: GenerationRequest, body: Sampling) -> Chosen:
    """The `n` best outputs of each prompt, best first, and the tokens that all took."""
    if body.use_beam_search:
        return await _beams(service, generation, body)
    return await _best_of(service, generation, body)


async def _best_of(service: Service, generation: GenerationRequest, body: Sampling) -> Chosen:
    """Samples in the order of their mean log-probability, as OpenAI's API chooses."""
    wanted, tried = body.n or 1, body.best_of or 1
    prompts = generation.prompts[:: generation.choices_per_prompt]
    params: list[SamplingParams] = []
    for first in generation.params[:: generation.choices_per_prompt]:
        for index in range(tried):
            seed = None if first.seed is None else (first.seed + index) % 2**63
            params.append(replace(first, seed=seed, logprobs=first.logprobs or 0))
    repeated = [prompt for prompt in prompts for _ in range(tried)]
    every = replace(generation, prompts=repeated, params=params, choices_per_prompt=tried)
    with service.open(every) as stream:
        outputs = await stream.collect()
    chosen: list[OutputDelta] = []
    for first_index in range(0, len(outputs), tried):
        samples = outputs[first_index : first_index + tried]
        chosen += sorted(samples, key=_mean_logprob, reverse=True)[:wanted]
    tokens = sum(output.token_count for output in outputs)
    cached = sum(stream.cached_tokens[::tried])
    return chosen, Usage.of(generation.prompt_tokens, tokens, cached)


def _mean_logprob(output: OutputDelta) -> float:
    values = [logprob for _, logprob, _ in output.logprobs]
    return sum(values) / max(len(values), 1)


async def _beams(service: Service, generation: GenerationRequest, body: Sampling) -> Chosen:
    """Beams of all prompts, one token a round; the prefix cache keeps what was computed."""
    wanted = body.n or 1
    width = max(wanted, body.best_of or 1)
    prompts = generation.prompts[:: generation.choices_per_prompt]
    params = generation.params[:: generation.choices_per_prompt]
    penalty = 1.0 if body.length_penalty is None else body.length_penalty
    ends = frozenset((*service.model.stop_ids, *(body.stop_token_ids or ())))
    searches = [
        BeamSearch(
            prompt, width, frozenset() if body.ignore_eos else ends, each.max_tokens, penalty
        )
        for prompt, each in zip(prompts, params, strict=True)
    ]
    one = SamplingParams(max_tokens=1, temperature=0.0, logprobs=2 * width, ignore_eos=True)
    tokens = cached = 0
    while live := [(search, beam) for search in searches for beam in search.live]:
        round_ = replace(
            generation,
            prompts=[search.tokens_of(beam) for search, beam in live],
            params=[one] * len(live),
            choices_per_prompt=1,
        )
        with service.open(round_) as stream:
            outputs = await stream.collect()
        tokens += len(live)
        likely = [next(iter(output.logprobs))[2] for output in outputs]
        for search in searches:
            mine = [each for (owner, _), each in zip(live, likely, strict=True) if owner is search]
            if mine:
                search.expand(mine)
    chosen = [_delta(service, best) for search in searches for best in search.best(wanted)]
    return chosen, Usage.of(generation.prompt_tokens, tokens, cached)


def _delta(service: Service, best: tuple[Sequence[int], str]) -> OutputDelta:
    tokens, reason = best
    delta = OutputDelta()
    text = service.model.decode(tokens)
    delta.add_chunks([Chunk(text, None, finish_reason="stop" if reason == "stop" else "length")])
    return delta
