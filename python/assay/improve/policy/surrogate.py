"""A surrogate of the objective over settings: Gaussian processes with main effects and interactions.

The kernel is the ANOVA kernel, a product of (1 + share * similarity) over knobs: its expansion has a
term for each knob, each pair and so on (Stitson et al., 1999; Durrande et al., 2013). How much each
knob matters, and how far measurements are off, is not optimized but averaged over: some dozens of
draws of the kernel's parameters are weighed by their marginal likelihood, which stays calm where few
trials have been made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.array_types import Floats, Ints
from assay.lazy_import import np
from assay.load.workloads.measurement import Setting

if TYPE_CHECKING:
    pass

DRAWS: Final = 64
"""Draws of the kernel's parameters."""
LENGTH: Final = 0.6
"""Length scale of ordered knobs, as a share of their range."""
NEGLIGIBLE: Final = 1e-3
"""Weight below which a draw is left out."""
SPREAD: Final = 0.3
"""Prior standard deviation of the logarithm of a ratio that one knob makes: a factor of 1.35."""
UNTOLD_NOISE: Final = (0.03, 0.8)
"""Noise beyond what intervals tell, of the logarithm of a ratio: median, and spread of its logarithm."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A knob of the space; numbers are ordered by size, words are alike or not."""

    knob: str
    values: tuple[Setting, ...]

    def similarities(self) -> Floats:
        """The kernel of this knob alone, between any two of its values."""
        count = len(self.values)
        if not all(type(value) in (int, float) for value in self.values):
            return np.eye(count)
        ranks = np.argsort(np.argsort(np.array(self.values, float)))
        places = ranks / max(count - 1, 1)
        apart = places[:, None] - places[None, :]
        return np.exp(-0.5 * (apart / LENGTH) ** 2)


@dataclass(frozen=True, slots=True)
class Trials:
    """What was measured: settings as codes, log ratios with their variances, and what was predicted."""

    codes: Ints
    logs: Floats
    variances: Floats
    prior: Floats


class Surrogate:
    """What trials say of all settings, as mean and standard deviation of the log ratio."""

    def __init__(self, axes: Sequence[Axis], seed: int = 0) -> None:
        """Draw the kernel's parameters."""
        self._axes = tuple(axes)
        self._kernels = [axis.similarities() for axis in axes]
        random = np.random.default_rng(seed)
        # Shares of knobs are log-normal: most matter little, some much.
        self._shares = np.exp(random.normal(-1.0, 1.2, (DRAWS, len(self._axes))))
        spread = (SPREAD * np.exp(random.normal(0.0, 0.5, DRAWS))) ** 2
        # The constant of the expansion cancels in ratios: the spread is of the rest.
        self._scales = spread * len(self._axes) / (np.prod(1.0 + self._shares, axis=1) - 1.0)
        middle, wide = UNTOLD_NOISE
        self._extra = (middle * np.exp(random.normal(0.0, wide, DRAWS))) ** 2

    def codes(self, settings: Sequence[Mapping[str, Setting]]) -> Ints:
        """Each setting as places in the values of the knobs."""
        return np.array(
            [
                [axis.values.index(setting[axis.knob]) for axis in self._axes]
                for setting in settings
            ],
            dtype=np.int64,
        ).reshape(len(settings), len(self._axes))

    def kernel(self, left: Ints, right: Ints, draws: Ints | slice = slice(None)) -> Floats:
        """Covariances by draw."""
        shares, scales = self._shares[draws], self._scales[draws]
        covariances = np.broadcast_to(
            scales[:, None, None], (len(shares), len(left), len(right))
        ).copy()
        for place, kernel in enumerate(self._kernels):
            alike = kernel[left[:, place][:, None], right[:, place][None, :]]
            covariances *= 1.0 + shares[:, place][:, None, None] * alike[None]
        return covariances

    def variances(self, draws: Ints) -> Floats:
        """The prior variance of any setting, by draw."""
        variances: Floats = self._scales[draws] * np.prod(1.0 + self._shares[draws], axis=1)
        return variances

    def fit(self, trials: Trials) -> Posterior:
        """Weigh the draws by how likely they make the trials.

        The prior of the trials is what predictions of levers say; the process models what they miss.
        """
        between = self.kernel(trials.codes, trials.codes)
        places = np.arange(len(trials.codes))
        between[:, places, places] += trials.variances[None, :] + self._extra[:, None] + 1e-9
        factor = np.linalg.cholesky(between)
        half = np.linalg.solve(factor, (trials.logs - trials.prior)[None, :, None])[:, :, 0]
        evidence = -0.5 * np.sum(half**2, axis=1) - np.sum(
            np.log(factor[:, places, places]), axis=1
        )
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        # Draws that the trials all but rule out are left out of the costly part.
        kept = np.flatnonzero(weights > NEGLIGIBLE)
        return Posterior(
            self,
            trials.codes,
            kept,
            weights[kept] / weights[kept].sum(),
            np.linalg.inv(factor[kept]),
            half[kept],
        )


@dataclass(frozen=True, slots=True)
class Posterior:
    """The processes of the likely draws, given the trials."""

    surrogate: Surrogate
    tried: Ints
    draws: Ints
    weights: Floats
    inverse: Floats
    """Of the Cholesky factor of the trials' covariance, by draw."""
    half: Floats

    def at(self, asked: Ints, prior: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation at settings, averaged over the draws."""
        across = self.inverse @ self.surrogate.kernel(self.tried, asked, self.draws)
        means = (self.half[:, None, :] @ across)[:, 0] + prior
        norm = self.surrogate.variances(self.draws)
        spread = np.maximum(norm[:, None] - np.sum(across**2, axis=1), 1e-10)
        mean = self.weights @ means
        variance = self.weights @ (spread + (means - mean) ** 2)
        return mean, np.sqrt(variance)
