"""The HTTP status of each kind of error."""

import pytest

from assay.engine.core.admission import OverloadedError
from assay.engine.core.worker import StoppedError
from assay.engine.server.errors import ApiError, as_api_error
from assay.errors import DeviceError, InputError, ModelError, OutOfMemoryError

KINDS = [
    (ApiError("no", status=404, code="model_not_found"), 404, "model_not_found"),
    (InputError("prompt: expected tokens, got none"), 400, None),
    (OverloadedError("full"), 429, "rate_limit_exceeded"),
    (StoppedError("shutting down"), 503, "unavailable"),
    (OutOfMemoryError("kv_cache: expected room, got none"), 503, "out_of_memory"),
    (ModelError("only NaN"), 500, "model_error"),
    (DeviceError("the device is lost"), 500, "internal_error"),
    (RuntimeError("a fault of our own"), 500, "internal_error"),
]


@pytest.mark.parametrize(("error", "status", "code"), KINDS, ids=lambda value: str(value))
def test_each_kind_of_error_has_its_status(error, status, code, caplog):
    api_error = as_api_error(error)
    assert (api_error.status, api_error.code) == (status, code)
    # Internal errors are logged and not disclosed.
    hidden = code == "internal_error"
    assert bool(caplog.records) is hidden
    assert (str(error) in api_error.message) is not hidden
