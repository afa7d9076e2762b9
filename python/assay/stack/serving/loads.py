"""Iterations behind the latencies: decode only, mixed decode and prefill, prefill only."""

from __future__ import annotations

from assay.model import cited, maximum, minimum, where
from assay.stack import works
from assay.stack.serving import deployment as d, engine, iteration, memory
from assay.stack.serving.deployment import ONE_REQUEST, ONE_TOKEN, scope
from assay.stack.serving.load import Load

_CHUNKED = cited(works.SARATHI_SERVE, "sec. 4")
_ORCA = cited(works.ORCA, "sec. 3 and 4")
_LITTLE = cited(works.LITTLES_LAW)

budget = scope.declare(
    "iteration_budget, n_b: most tokens per iteration, all replicas",
    equals=d.prompt_budget * d.attention_replicas / ONE_TOKEN,
    reference=_CHUNKED,
)
prompt_per_output = d.prompt / d.output
_mixes = (1 - d.separate) * (1 - d.static)
_places = memory.batch / (ONE_REQUEST * d.pipeline)
others_share = 1 - ONE_REQUEST / memory.batch
# In steady state, prefill matches the rate of completions within the token budget.
steady_decoding = budget / (1 + prompt_per_output * _mixes)
room = scope.declare(
    "prompt_room, n_o: prefill tokens that fit in an iteration beside the other requests' tokens",
    equals=maximum(budget - _mixes * minimum(_places * others_share, steady_decoding), 1),
    reference=_CHUNKED,
)
chunks = scope.declare(
    "prompt_chunks, n_k: iterations over which a prompt is spread that has them for itself",
    equals=maximum(d.prompt / ONE_TOKEN / room, 1),
    reference=_CHUNKED,
)
# A request holds its place for the iterations of its prompt and of every token but the first, which
# the last of those gives.
_stay = d.output / ONE_TOKEN - 1 + where(_mixes > 0, chunks, 1)
most_decoding = scope.declare(
    "most_decoding, B_m: requests that an iteration of one pipeline stage gives a token when every place is taken",
    equals=minimum(_places * (d.output / ONE_TOKEN) / _stay, steady_decoding),
    reference=_LITTLE,
)
# Among others a request also waits, and gains no token meanwhile: half an iteration when it comes, for prompts
# ahead of its own where they fill iterations, and until its tokens are seen.
_filled = minimum(most_decoding * prompt_per_output / minimum(d.prompt / ONE_TOKEN, room), 1)
_waits = 0.5 + engine.queue_factor * _filled * chunks + engine.first_iterations
_apart = where(_mixes > 0, _waits * others_share, 0)
decoding = scope.declare(
    "decoding, B_d: requests that an iteration of one pipeline stage gives a token",
    equals=minimum(
        most_decoding, d.concurrency / (ONE_REQUEST * d.pipeline) * (d.output / ONE_TOKEN) / (_stay + _apart)
    ),
    reference=_LITTLE,
)
prompt_rate = scope.declare(
    "prompt_rate, n_p: prefill tokens per iteration at the rate of completions",
    equals=decoding * prompt_per_output,
    reference=_LITTLE,
)
chunk = scope.declare(
    "chunk, n_c: prefill tokens of a mixed iteration",
    equals=minimum(maximum(prompt_rate, minimum(d.prompt / ONE_TOKEN, room)), room),
    reference=_CHUNKED,
)
prompt_share = scope.declare(
    "prompt_share, rho: share of iterations with prefill tokens",
    bounds=(0, 1),
    equals=minimum(prompt_rate / chunk, 1),
    reference=_LITTLE,
)
context = scope.declare(
    "context, s_c [token]: average context length of a decoding request",
    equals=d.prompt + d.output_share * d.output,
    reference=_ORCA,
)

decode = iteration.declare("decode.", "a decode iteration", Load(decoding, context, None, d.prompt))
others = decoding * (1 - d.separate) * others_share
prompts = maximum(chunk * ONE_TOKEN / d.prompt, 1)
mixed = iteration.declare("mixed.", "a mixed iteration", Load(others, context, chunk, d.prompt))
burst_tokens = scope.declare(
    "burst_tokens, n_f: prefill tokens of an iteration when all requests arrive at once",
    equals=minimum(memory.batch / ONE_REQUEST * d.prompt / ONE_TOKEN, budget),
    reference=_CHUNKED,
)
burst = iteration.declare("burst.", "a prefill iteration", Load(None, d.prompt, burst_tokens, d.prompt))
