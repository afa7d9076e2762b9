"""What measured steps differ from predicted ones by: factors of 1 in the median.

Their spreads are fitted so that 90 % of the steps of a source that no fit has seen lie in their 90 %
interval. Attention and the exchanges of sharded states have errors of their own, so that a step is
the less certain the more of it they take; the other factors are of whole steps.
"""

from __future__ import annotations

from assay.model import POSITIVE, Expression, at_least, exp, fitted, log, maximum, number, where
from assay.stack import parallelism
from assay.stack.architecture import shapes
from assay.stack.fits import approximate
from assay.stack.training.job import gpus, scope

_FITTED = fitted("docs/design/model-error.md", "published steps of sources left out")
fit_error = scope.declare(
    "model_error.fit, e_f: model error: measured over predicted step time",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
transfer_error = scope.declare(
    "model_error.transfer, e_t: further model error on accelerators that no fit has seen",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
scale_error = scope.declare(
    "model_error.scale, e_s: further model error for each e-fold of GPUs beyond those of the fit",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
fitted_gpus = scope.declare(
    "model_error.fitted_gpus, N_f [GPU]: GPUs of the largest job that the fit has seen",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
experts_error = scope.declare(
    "model_error.experts, e_x: further model error of models with experts",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
sharded_error = scope.declare(
    "model_error.sharded, e_z: further model error of exchanges of sharded gradients or weights (FSDP, ZeRO-2 and 3)",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
attention_error = scope.declare(
    "model_error.attention, e_a: further model error of the time of attention",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
mixed_error = scope.declare(
    "model_error.mixed, e_m: further model error of shards that tensor or context parallelism splits again",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
unstated_error = scope.declare(
    "model_error.unstated, e_u: further model error of one input that is assumed",
    bounds=POSITIVE,
    reference=_FITTED,
    boundary="needs-source",
)
unstated_inputs = scope.declare(
    "model_error.unstated_inputs, n_u: inputs that a description leaves open and a default stands for",
    bounds=(0, None),
    reference=_FITTED,
    boundary="needs-source",
)
_is_sharded = parallelism.zero_stage.is_at_least("gradients")
_is_mixed = _is_sharded & at_least(parallelism.tensor * parallelism.context, 2)


exchange_error = where(_is_sharded, sharded_error, number("1"))
"""Factor of the time that exchanges between replicas add to a step."""


def _raised(error: Expression, power: Expression) -> Expression:
    return exp(log(error) * power)


model_error = approximate(
    scope,
    "model_error, e: model error: 1 in the median",
    fit_error
    * transfer_error
    * _raised(scale_error, maximum(log(gpus / fitted_gpus), 0))
    * where(shapes.experts > 0, experts_error, number("1"))
    * where(_is_mixed, mixed_error, number("1"))
    * _raised(unstated_error, log(1 + unstated_inputs)),
    valid=gpus <= fitted_gpus,
    reference=_FITTED,
)
