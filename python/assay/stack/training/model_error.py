"""What measured steps differ from predicted ones by: a factor of 1 in the median.

Its spread is fitted so that 90 % of the held-out steps lie in their 90 % interval.
"""

from __future__ import annotations

from assay.model import POSITIVE, exp, fitted, log, maximum
from assay.stack.fits import approximate
from assay.stack.training.job import gpus, scope

_FITTED = fitted("docs/design/model-error.md", "held-out published steps")

fit_error = scope.variable(
    "model_error.fit", "e_f", "1", "model error: measured over predicted step time",
    bounds=POSITIVE, reference=_FITTED, boundary="needs-source",
)  # fmt: skip
transfer_error = scope.variable(
    "model_error.transfer", "e_t", "1", "further model error on accelerators that no fit has seen",
    bounds=POSITIVE, reference=_FITTED, boundary="needs-source",
)  # fmt: skip
scale_error = scope.variable(
    "model_error.scale", "e_s", "1",
    "further model error for each e-fold of GPUs beyond those of the fit",
    bounds=POSITIVE, reference=_FITTED, boundary="needs-source",
)  # fmt: skip
fitted_gpus = scope.variable(
    "model_error.fitted_gpus", "N_f", "GPU", "GPUs of the largest job that the fit has seen",
    bounds=POSITIVE, reference=_FITTED, boundary="needs-source",
)  # fmt: skip
model_error = approximate(
    scope, "model_error", "e", "1", "model error: 1 in the median",
    fit_error
    * transfer_error
    * exp(log(scale_error) * maximum(log(gpus / fitted_gpus), 0)),
    valid=gpus <= fitted_gpus, reference=_FITTED,
)  # fmt: skip
