"""Matrix products: fifteen constants per accelerator, and one product with free shape.

`docs/design/kernel-model.md` says how the constants were fitted and how well they predict.
`declare` states further products, with names of their own, in other scopes.
"""

from __future__ import annotations

from assay.model import POSITIVE, Scope, Variable, by_definition
from assay.stack.kernels.product import Product, ProductConstants, ProductShape, declare_product

scope = Scope("kernels.gemm", "Matrix products")

_FITTED = by_definition("fitted on measured products, docs/design/kernel-model.md")
_SHAPE = by_definition("shape of the product")
_SHARE = (0, 1)

Bounds = tuple[float | str | None, float | str | None]


def _fitted(
    name: str, symbol: str, unit: str, display: str, meaning: str, bounds: Bounds = POSITIVE
) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, display=display, bounds=bounds, reference=_FITTED,
        boundary="needs-source",
    )  # fmt: skip


def _shape(name: str, symbol: str, unit: str, meaning: str, bounds: Bounds = POSITIVE) -> Variable:
    return scope.variable(
        name, symbol, unit, meaning, bounds=bounds, reference=_SHAPE, boundary="scenario"
    )


constants = ProductConstants(
    launch_time=_fitted("launch_time", "t_0", "s", "us", "time of an empty kernel in a graph"),
    tile_rate=_fitted(
        "tile_rate", "R_t", "FLOP/s", "TFLOP/s", "rate of one multiprocessor on a resident tile"
    ),
    sustained_rate=_fitted(
        "sustained_rate", "R_P", "FLOP/s", "TFLOP/s", "rate of one that the power limit leaves"
    ),
    step_time=_fitted("step_time", "tau_k", "s", "ns", "least time of a tile per unit of depth"),
    ingest_bandwidth=_fitted(
        "ingest_bandwidth", "B_SM", "byte/s", "GB/s", "rate at which one takes operands"
    ),
    read_bandwidth=_fitted(
        "read_bandwidth", "B_r", "byte/s", "TB/s", "rate of reading memory for large products"
    ),
    cache_bandwidth=_fitted(
        "cache_bandwidth", "B_L2", "byte/s", "TB/s", "rate of the cache towards all of them"
    ),
    overlap_exponent=_fitted(
        "overlap_exponent", "p", "1", "1", "how well reading hides behind computing"
    ),
    block_time=_fitted("block_time", "tau_b", "s", "ns", "time to start one more block of threads"),
    split_time=_fitted("split_time", "t_s", "s", "us", "time to join the parts of split tiles"),
    write_bandwidth=_fitted(
        "write_bandwidth", "B_w", "byte/s", "TB/s", "rate of writing outputs and parts"
    ),
    write_exposure=_fitted(
        "write_exposure", "o_w", "1", "1", "share of writing that computing does not hide", _SHARE
    ),
    tail_cost=_fitted(
        "tail_cost", "a", "1", "1", "least cost of a part-filled last wave, in waves", _SHARE
    ),
    throttle_depth=_fitted(
        "throttle_depth", "h", "1", "1", "slowdown of kernels so long that the clock sinks"
    ),
    ramp=_fitted("ramp", "x_0", "byte", "kB", "size at which a transfer reaches half its rate"),
    spread=_fitted("spread", "sigma", "1", "1", "logarithmic spread of measured over predicted"),
)

shape = ProductShape(
    rows=_shape("rows", "m", "1", "rows of the activations: tokens"),
    columns=_shape("columns", "n", "1", "columns of the outputs: features out"),
    depth=_shape("depth", "k", "1", "length of the sums: features in"),
    weight_element=_shape("weight_element", "b_W", "byte", "bytes of a weight"),
    activation_element=_shape("activation_element", "b_A", "byte", "bytes of an activation"),
    output_element=_shape("output_element", "b_C", "byte", "bytes of an output"),
    weight_footprint=_shape(
        "weight_footprint", "f_W", "byte", "bytes touched between two uses of the weights"
    ),
    activation_footprint=_shape(
        "activation_footprint", "f_A", "byte", "bytes touched between two uses of the activations"
    ),
    toggling=_shape(
        "toggling", "u", "1", "1 for operands that look random, 0 for constant ones", _SHARE
    ),
)


def declare(into: Scope, prefix: str, product_shape: ProductShape) -> Product:
    """Declare a product in another scope, on the constants of this one."""
    return declare_product(into, prefix, product_shape, constants)


product = declare(scope, "", shape)
