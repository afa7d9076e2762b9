"""Drafts by prompt lookup: what the workload's own answers would have accepted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from assay.engine.speculation.ngram import PromptLookup
from assay.improve.levers.lever import Candidate
from assay.improve.policy.known import Known, Sample
from assay.improve.policy.prediction import Prediction, Unpredictable, amdahl, between
from assay.improve.policy.step_ratio import step_ratio
from assay.intervals import Interval
from assay.load.workloads.measurement import Setting

DEPTHS: Final = ("speculation_depth", "speculative_config", "spec_type")
"""Knobs that set how many tokens are drafted."""
_DRAFTED_BY_DEFAULT: Final = 16
"""Draft tokens of llama.cpp's n-gram drafts where nothing else is said (--draft-max)."""


class Replay(NamedTuple):
    """What drafts of one depth would have done to recorded answers."""

    tokens_per_step: float
    """Accepted drafts and the model's own token."""
    drafted_per_step: float


def replay(samples: Sequence[Sample], depth: int) -> Replay:
    """Decode recorded answers again with drafts: greedy verification accepts what was generated.

    >>> replay([Sample((1, 2, 3, 4, 5), (1, 2, 3, 4))], 4).tokens_per_step
    2.0
    """
    steps = tokens = drafted = 0
    for sample in samples:
        lookup = PromptLookup(list(sample.prompt))
        place = 0
        while place < len(sample.output):
            draft = lookup.propose(depth) if depth > 0 else []
            accepted = 0
            for drafted_token, token in zip(draft, sample.output[place:], strict=False):
                if drafted_token != token:
                    break
                accepted += 1
            # The model's own token follows the accepted ones, if the answer goes on.
            made = min(accepted + 1, len(sample.output) - place)
            lookup.extend(list(sample.output[place : place + made]))
            place += made
            steps += 1
            tokens += made
            drafted += len(draft)
    return Replay(tokens / max(steps, 1), drafted / max(steps, 1))


def predict(candidate: Candidate, known: Known) -> Prediction | Unpredictable | str:
    """The ratio for another depth; a text says why there is none.

    Without answers no other model can say what drafts do: the text decides.
    """
    knob = next((depth for depth in DEPTHS if depth in candidate.changes), None)
    if knob is None or len(candidate.changes) > 1:
        return "not a change of the drafts"
    if not known.samples:
        return Unpredictable("no recorded answers to replay drafts on")
    if known.description.synthetic:
        return Unpredictable("the answers of random weights repeat by chance")
    before = replay(known.samples, _depth(known.settings.get(knob)))
    after = replay(known.samples, _depth(candidate.changes[knob]))
    batch = known.batch()
    step = step_ratio(known, batch * (1 + before.drafted_per_step),
                      batch * (1 + after.drafted_per_step))  # fmt: skip
    tokens = after.tokens_per_step / before.tokens_per_step
    ratio = Interval(tokens / step.ratio.value, tokens / step.ratio.hi, tokens / step.ratio.lo)
    share = known.decode_share()
    by = (
        f"drafts on {len(known.samples)} recorded answers: {after.tokens_per_step:.2f} tokens a step "
        f"for {after.drafted_per_step:.1f} drafted; step by {step.by}"
    )
    return Prediction(amdahl(ratio, share) if share is not None else between(1.0, ratio.hi), by)


def _depth(value: Setting) -> int:
    """Draft tokens of a setting: a number, vLLM's configuration, or the name of a kind of draft."""
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.startswith("{"):
        configuration = json.loads(value)
        return (
            int(configuration.get("num_speculative_tokens", 0))
            if isinstance(configuration, dict)
            else 0
        )
    return 0 if value in (None, "", "none") else _DRAFTED_BY_DEFAULT
