"""What an experiment may spend and what it has to show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from assay.answers import data_of
from assay.errors import InputError
from assay.improve.experiments.confidence_sequence import ALPHA
from assay.improve.experiments.outputs.judging import LEAST_NEAR_TIE
from assay.improve.experiments.starts import UNKNOWN_START_SD

PRACTICAL_THRESHOLD: Final = 0.01
"""A change of less than 1 % is not worth a different configuration."""
LEAST_STARTED_PAIRS: Final = 4
"""Pairs before a verdict where starts differ: of servers that start in one of two modes, two pairs
agree to the last digit by chance in every eighth comparison of equal settings."""


@dataclass(frozen=True, slots=True)
class ExperimentSettings:
    """Limits of one experiment."""

    budget_s: float = 60.0
    """Most seconds, restarts included."""
    block_s: float = 0.5
    """About how long a block takes; the number of requests follows from it."""
    block_requests: int | None = None
    """Requests of a block; None measures how many fit into `block_s`."""
    first_request: int = 0
    """The first request of the workload that is asked: experiments go on where the last one ended, so
    that as many as possible of its requests are compared."""
    practical_threshold: float = PRACTICAL_THRESHOLD
    alpha: float = ALPHA
    least_pairs: int = 3
    """Pairs before the first verdict; `LEAST_STARTED_PAIRS` where each pair costs a restart."""
    most_pairs: int = 400
    warmup_requests: int = 0
    """Requests after each change of settings that are not counted."""
    most_warmup_blocks: int = 5
    """Blocks that may be dropped while the treatment is still settling."""
    visit_blocks: int = 3
    """Blocks of a visit between restarts; their mean is one value."""
    switch_s: float = 0.0
    """How long a change of settings takes, where that is known before; restarts need longer
    blocks."""
    noise_sd: float | None = None
    """Spread of A/A log-ratios of pairs (`noise.floor`); tells warm-up from noise."""
    least_sd: float = 0.0
    """Spread of pairs that is taken as known, whatever two pairs say; see `NoiseFloor.least_sd`."""
    start_half: float = 0.0
    """Half-width in nats for what differs between two starts; see `Design.start_half`."""
    start_sd: float = UNKNOWN_START_SD
    """Spread of starts of equal settings, where each change is a restart; see `StartNoise.assumed_sd`."""
    batch: int = 1
    """2 makes A B B A one pair, where the noise floor found an effect of the place."""
    baseline_repeats: bool = False
    """Whether A/A blocks gave equal outputs: then a bitwise lever has to as well."""
    probe_tokens: int = 12
    """Tokens of each answer that the correctness gate compares."""
    hold_s: float = 0.0
    """Most seconds that a treatment with a gain is held under the workload; 0 does not hold it."""
    near_tie: float = LEAST_NEAR_TIE
    """Gap in nats up to which two tokens are a near tie: what the engine differs from itself."""
    most_changed: float | None = None
    """Rate of wrongly changed answers that a promotion must exclude; None asks for no bound."""
    least_requests: int = 0
    """Different requests whose answers a promotion must compare."""
    answer_rows: int = 1
    """Rows of an answer, each of which counts in that bound: of a data set; 1 of an answer of a model."""
    answer_confidence: float = 0.95
    """Of the bound on wrongly changed answers."""
    allow_lossy: bool = False
    slo_share: float = 0.99
    """Requests that have to hold the SLO; less where the baseline holds it less often."""
    seed: int = 0
    """Of the order of arms."""

    def __post_init__(self) -> None:
        """Check the limits."""
        positive = {**data_of(self, "budget_s block_s least_pairs most_pairs visit_blocks")}
        for name, value in positive.items():
            if not value > 0:
                raise InputError(f"{name}: expected a number above 0, got {value}")
        for name, share in (
            ("practical_threshold", self.practical_threshold),
            ("alpha", self.alpha),
        ):
            if not 0.0 < share < 1.0:
                raise InputError(f"{name}: expected a share between 0 and 1, got {share}")
        if self.batch not in (1, 2):
            raise InputError(f"batch: expected 1 or 2 pairs, got {self.batch}")
