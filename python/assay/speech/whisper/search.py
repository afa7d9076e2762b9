"""The text of 30 seconds: greedy or beam search, or sampling at a temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from assay.lazy_import import np
from assay.speech.whisper.beam_steps import BeamSteps
from assay.speech.whisper.decoder import Decoder, Encoded, TextCache
from assay.speech.whisper.steps import GraphBeams, GraphDecoder
from assay.speech.whisper.token_rules import NEVER, TokenRules, log_softmax
from assay.speech.whisper.vocabulary import Vocabulary

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How the next tokens are chosen."""

    beam_size: int = 5
    best_of: int = 5
    """Texts sampled at a temperature, of which the likeliest is taken."""
    patience: float = 1.0
    """Texts that a beam search ends with, as a multiple of its beams."""
    length_penalty: float = 1.0
    """The power of a text's length that its log-probability is divided by."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A text and how likely it is."""

    tokens: tuple[int, ...]
    log_probability: float
    """Of all tokens and of the end."""

    @property
    def average(self) -> float:
        """The mean log-probability of its tokens and its end."""
        return self.log_probability / (len(self.tokens) + 1)

    def score(self, length_penalty: float) -> float:
        """What hypotheses are ordered by."""
        return self.log_probability / float(max(len(self.tokens), 1) ** length_penalty)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best text, and the probability that nobody speaks."""

    best: Hypothesis
    no_speech: float


@dataclass(frozen=True, slots=True)
class _Beam:
    tokens: tuple[int, ...]
    table: Integers
    log_probability: float


class Steps(Protocol):
    """Steps of beams that hear the same 30 seconds; a table says where the text of a beam is."""

    def begin(self, prompt: Sequence[int], rows: Sequence[int]) -> tuple[Floats, Integers]:
        """Logits after rows of a prompt, and its table."""

    def run(
        self, tokens: Sequence[int], tables: Sequence[Integers]
    ) -> tuple[Floats, list[Integers]]:
        """Write a token of each beam: logits of the next ones, and the tables with it."""


class Search:
    """Searches texts for one model."""

    def __init__(self, decoder: Decoder, vocabulary: Vocabulary, options: SearchOptions) -> None:
        """Search with these options."""
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._options: Final = options
        self._caches: dict[int, TextCache] = {}
        self._graphs: dict[int, GraphDecoder] = {}
        self._random = np.random.default_rng(options.seed)

    def run(
        self, encoded: Encoded, prompt: Sequence[int], rules: TokenRules, temperature: float
    ) -> SearchResult:
        """Continue a prompt, which ends with the task and has the start of the transcript once."""
        options = self._options
        sequences = options.best_of if temperature > 0 else options.beam_size
        steps = self._steps(encoded, sequences)
        start = list(prompt).index(self._vocabulary.transcript_start)
        logits, table = steps.begin(prompt, sorted({start, len(prompt) - 1}))
        no_speech = float(np.exp(log_softmax(logits[:1])[0, self._vocabulary.no_speech]))
        first = rules.apply(np.array(logits[-1:]), [()])
        # The task's last token is of the text: half of the context at most is written.
        context = self._decoder.context
        most = min(context // 2, context - len(prompt) + 1)
        beam = _Beam((), table, 0.0)
        if temperature > 0:
            best = self._sampled(steps, rules, beam, first, most, temperature)
        elif options.beam_size == 1:
            best = self._greedy(steps, rules, beam, first, most)
        else:
            best = self._beams(steps, rules, beam, first, most)
        return SearchResult(best, no_speech)

    def _steps(self, encoded: Encoded, sequences: int) -> Steps:
        """Steps of so many beams, in memory that is kept."""
        decoder = self._decoder
        if decoder.takes_single_tokens:
            if sequences not in self._caches:
                self._caches[sequences] = decoder.cache(sequences)
            return BeamSteps(decoder, encoded, self._caches[sequences])
        if sequences not in self._graphs:
            self._graphs[sequences] = GraphDecoder(decoder, sequences)
        return GraphBeams(self._graphs[sequences], encoded)

    def _next(
        self, beams: Sequence[_Beam], steps: Steps, rules: TokenRules
    ) -> tuple[list[_Beam], Floats]:
        """Write the last token of each beam; log-probabilities of the next ones."""
        logits, tables = steps.run(
            [beam.tokens[-1] for beam in beams], [beam.table for beam in beams]
        )
        scores = rules.apply(logits, [beam.tokens for beam in beams])
        written = [replace(beam, table=table) for beam, table in zip(beams, tables, strict=True)]
        return written, scores

    def _greedy(
        self, steps: Steps, rules: TokenRules, beam: _Beam, scores: Floats, most: int
    ) -> Hypothesis:
        while True:
            token = int(scores[0].argmax())
            total = beam.log_probability + float(scores[0, token])
            if token == self._vocabulary.transcript_end:
                return Hypothesis(beam.tokens, total)
            beam = _Beam((*beam.tokens, token), beam.table, total)
            if len(beam.tokens) == most:
                return Hypothesis(beam.tokens, total)
            [beam], scores = self._next([beam], steps, rules)

    def _sampled(
        self,
        steps: Steps,
        rules: TokenRules,
        beam: _Beam,
        scores: Floats,
        most: int,
        temperature: float,
    ) -> Hypothesis:
        beams = [beam] * self._options.best_of
        scores = np.repeat(scores, len(beams), axis=0)
        ended: list[Hypothesis] = []
        while beams:
            going = []
            for beam, row in zip(beams, scores, strict=True):
                # The largest of the scores with noise of Gumbel's distribution is a sample.
                noise = self._random.gumbel(size=row.size).astype(np.float32)
                token = int(np.where(row > NEVER / 2, row / temperature + noise, NEVER).argmax())
                total = beam.log_probability + float(row[token])
                if token == self._vocabulary.transcript_end:
                    ended.append(Hypothesis(beam.tokens, total))
                    continue
                tokens = (*beam.tokens, token)
                if len(tokens) == most:
                    ended.append(Hypothesis(tokens, total))
                else:
                    going.append(_Beam(tokens, beam.table, total))
            beams = going
            if beams:
                beams, scores = self._next(beams, steps, rules)
        return self._best(ended)

    def _beams(
        self, steps: Steps, rules: TokenRules, beam: _Beam, scores: Floats, most: int
    ) -> Hypothesis:
        """Beam search; where a beam ends, one of the next best goes on in its place."""
        size = self._options.beam_size
        needed = max(1, round(size * self._options.patience))
        beams, ended = [beam], list[Hypothesis]()
        while True:
            totals = (
                scores + np.array([beam.log_probability for beam in beams], np.float32)[:, None]
            )
            candidates = _best_candidates(totals, 2 * size)
            is_last = len(beams[0].tokens) + 1 == most
            going: list[_Beam] = []
            spare = iter(candidates[size:])
            for row, token, total in candidates[:size]:
                chosen: tuple[int, int, float] | None = (row, token, total)
                if token == self._vocabulary.transcript_end or is_last:
                    end = () if token == self._vocabulary.transcript_end else (token,)
                    ended.append(Hypothesis((*beams[row].tokens, *end), total))
                    chosen = next(
                        (beam for beam in spare if beam[1] != self._vocabulary.transcript_end), None
                    )
                if chosen is not None:
                    source, token, total = chosen
                    tokens = (*beams[source].tokens, token)
                    going.append(_Beam(tokens, beams[source].table, total))
            if is_last or len(ended) >= needed or not going:
                return self._best(ended)
            beams, scores = self._next(going, steps, rules)

    def _best(self, ended: Sequence[Hypothesis]) -> Hypothesis:
        return max(ended, key=lambda text: text.score(self._options.length_penalty))


def _best_candidates(totals: Floats, count: int) -> list[tuple[int, int, float]]:
    """Beam, token and log-probability of the best continuations, the best first."""
    flat = totals.reshape(-1)
    places = np.argpartition(flat, flat.size - count)[-count:]
    places = places[np.argsort(-flat[places], kind="stable")]
    width = totals.shape[1]
    return [(int(place) // width, int(place) % width, float(flat[place])) for place in places]
