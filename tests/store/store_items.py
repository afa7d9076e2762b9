"""How tests make items to push."""

from collections.abc import Callable

from assay.store.describing import Item

Making = Callable[..., Item]
