"""`reasoning_effort` as a variable of the chat template, where the template reads one."""

from __future__ import annotations

from typing import Any

from assay.engine.server.errors import ApiError
from assay.engine.server.served_model import ServedModel


def effort_variables(model: ServedModel, effort: str | None) -> dict[str, Any]:
    """The variables of the chat template that ask for this effort.

    gpt-oss's template reads `reasoning_effort`; those of Qwen 3 and others can only be told to
    think or not to.
    """
    if effort is None:
        return {}
    if "reasoning_effort" in model.template_variables:
        return {"reasoning_effort": effort}
    if "enable_thinking" in model.template_variables:
        return {"enable_thinking": effort != "none"}
    raise ApiError(
        f'reasoning_effort: expected a chat template that reads it, got that of "{model.name}"',
        param="reasoning_effort",
        code="unsupported_parameter",
    )
