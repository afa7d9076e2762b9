"""The equations of the stack, from device physics to cost per token."""

from assay.stack.loading import SCOPE_MODULES, load_registry, registry

__all__ = ["SCOPE_MODULES", "load_registry", "registry"]
