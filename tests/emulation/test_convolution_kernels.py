"""Convolutions, channel norms and the LSTM against double precision, thread by thread on the host."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from emulator import Argument, Changes, Kernel, from_bf16, to_bf16

Floats = npt.NDArray[np.float64]

RANDOM = np.random.default_rng(11)


class Shape(NamedTuple):
    """As ConvolutionShape of convolution_index.cuh."""

    batch: int = 1
    channels: int = 1
    height: int = 1
    width: int = 1
    filters: int = 1
    kernel_height: int = 1
    kernel_width: int = 1
    stride_height: int = 1
    stride_width: int = 1
    pad_height: int = 0
    pad_width: int = 0
    dilation_height: int = 1
    dilation_width: int = 1
    groups: int = 1
    out_height: int = 1
    out_width: int = 1

    def sized(self, after: int = 0) -> "Shape":
        """With the extents of the result; `after` are columns of zeros behind x beyond the padding."""

        def outputs(extent: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
            return (extent + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1

        height = (self.height, self.kernel_height, self.stride_height, self.pad_height)
        width = (self.width + after, self.kernel_width, self.stride_width, self.pad_width)
        return self._replace(
            out_height=outputs(*height, self.dilation_height),
            out_width=outputs(*width, self.dilation_width),
        )


def expected_convolution(s: Shape, x: Floats, weight: Floats) -> Floats:
    out = np.zeros((s.batch, s.filters, s.out_height, s.out_width))
    padded = np.zeros(
        (s.batch, s.channels, s.height + 2 * s.pad_height + 40, s.width + 2 * s.pad_width + 40)
    )
    padded[:, :, s.pad_height : s.pad_height + s.height, s.pad_width : s.pad_width + s.width] = x
    channels, filters = s.channels // s.groups, s.filters // s.groups
    for group, kh, kw in itertools.product(
        range(s.groups), range(s.kernel_height), range(s.kernel_width)
    ):
        down, right = kh * s.dilation_height, kw * s.dilation_width
        taken = padded[
            :, group * channels : (group + 1) * channels,
            down : down + s.out_height * s.stride_height : s.stride_height,
            right : right + s.out_width * s.stride_width : s.stride_width,
        ]  # fmt: skip
        some = slice(group * filters, (group + 1) * filters)
        out[:, some] += np.einsum("fc,nchw->nfhw", weight[some, :, kh, kw], taken)
    return out


def expected_transposed(s: Shape, x: Floats, weight: Floats) -> Floats:
    channels, filters = s.channels // s.groups, s.filters // s.groups
    whole = np.zeros(
        (
            s.batch,
            s.filters,
            s.width * s.stride_width + s.dilation_width * s.kernel_width + s.out_width,
        )
    )
    for group, t, k in itertools.product(range(s.groups), range(s.width), range(s.kernel_width)):
        some, these = (
            slice(group * channels, (group + 1) * channels),
            slice(group * filters, (group + 1) * filters),
        )
        whole[:, these, t * s.stride_width + k * s.dilation_width] += (
            x[:, some, t] @ weight[some, :, k]
        )
    return whole[:, :, s.pad_width : s.pad_width + s.out_width]


class Pipeline(NamedTuple):
    """Options of convolution_tf32.cu."""

    products: int = 3
    filters: int = 64
    stages: int = 3
    changes: Changes = ()

    def run(
        self, s: Shape, *arguments: Argument, late: Sequence[npt.NDArray[Any]] = (),
        backward: bool = False, early_copies: bool = False, **options: object,
    ) -> None:  # fmt: skip
        kernel = Kernel(
            "convolution_tf32.cu", self.changes, PRODUCTS=self.products, TILE_FILTERS=self.filters,
            STAGES=self.stages, CTAS_PER_SM=3, **options,
        )  # fmt: skip
        positions = 4096 // self.filters
        grid = (
            -(-s.batch * s.out_height * s.out_width // positions),
            -(-s.filters // s.groups // self.filters),
            s.groups,
        )
        shared = self.stages * (self.filters * 144 + (positions + 8) * 128)
        kernel(
            grid, 128, *arguments, shared=shared, late=late, backward=backward,
            early_copies=early_copies,
        )  # fmt: skip


def check(
    s: Shape, *, direct: bool = False, transposed: bool = False, element: str = "float",
    tensor_cores: int = 0, tile: tuple[int, int] = (64, 64), backward: bool = False,
    plain: bool = False, pipeline: Pipeline | None = None, early_copies: bool = False,
) -> None:  # fmt: skip
    kernel_shape = (
        (s.channels, s.filters // s.groups, s.kernel_width) if transposed
        else (s.filters, s.channels // s.groups, s.kernel_height, s.kernel_width)
    )  # fmt: skip
    x_shape = (
        (s.batch, s.channels, s.width) if transposed else (s.batch, s.channels, s.height, s.width)
    )
    out_shape = (s.batch, s.filters, s.out_height, s.out_width)
    given = [
        RANDOM.standard_normal(shape) for shape in (x_shape, kernel_shape, (s.filters,), out_shape)
    ]
    is_half = element == "bf16"
    stored = [to_bf16(one) if is_half else one.astype(np.float32) for one in given]
    x, weight, bias, residual = (
        from_bf16(one) if is_half else one.astype(np.float64) for one in stored
    )
    sums = (expected_transposed if transposed else expected_convolution)(s, x, weight).reshape(
        out_shape
    )
    expected = sums if plain else np.tanh(sums + bias[:, None, None]) + residual
    out = (
        np.full(out_shape, 0xFFFF, np.uint16) if is_half else np.full(out_shape, np.nan, np.float32)
    )
    options: dict[str, object] = {"ELEMENT": element, "TRANSPOSED": int(transposed)}
    if not plain:
        options["ACTIVATION"] = "Activation::Tanh"
    arguments = (
        *stored[:2],
        *((None, None) if plain else stored[2:]),
        out,
        np.array(s, np.int32).tobytes(),
    )
    if pipeline:
        chosen = {"ACTIVATION": options["ACTIVATION"]} if "ACTIVATION" in options else {}
        pipeline.run(
            s, *arguments, late=[stored[0]], backward=backward, early_copies=early_copies, **chosen
        )
    elif direct:
        kernel = Kernel("direct_convolution.cu", **options)
        grid = (-(-s.out_height * s.out_width // 64), min(s.filters, 2), min(s.batch, 2))
        kernel(grid, 64, *arguments, late=[stored[0]])
    else:
        options |= {
            "TENSOR_CORES": tensor_cores,
            "TILE_FILTERS": tile[0],
            "TILE_POSITIONS": tile[1],
        }
        positions = -(-s.out_width // s.stride_width) if transposed else s.out_height * s.out_width
        phases = s.stride_width if transposed else 1
        grid = (
            -(-s.batch * positions // tile[1]),
            -(-s.filters // s.groups // tile[0]),
            s.groups * phases,
        )
        kernel = Kernel("convolution.cu", **options)
        kernel(grid, 256, *arguments, late=[stored[0]], backward=backward)
    got = from_bf16(out) if is_half else out
    is_rounded = tensor_cores == 1 or (pipeline is not None and pipeline.products == 1)
    tolerance = (1e-2 if is_half else 4e-3 if is_rounded else 3e-6) * np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


SMALL = Shape(batch=2, channels=5, width=37, filters=6, kernel_width=3, pad_width=1).sized()
STRIDED = Shape(
    batch=2, channels=6, height=9, width=14, filters=8, kernel_height=2, kernel_width=3, stride_height=2,
    stride_width=3, pad_height=1, pad_width=2, dilation_height=3, dilation_width=2, groups=2,
).sized(after=1)  # fmt: skip
WIDE = Shape(
    batch=1, channels=9, width=150, filters=70, kernel_width=5, dilation_width=3, pad_width=6
).sized()
RAISED = Shape(
    batch=2, channels=4, width=13, filters=6, kernel_width=7, stride_width=3, pad_width=2, groups=2,
    out_width=12 * 3 - 4 + 7 + 1,
)  # fmt: skip
SPARSE = Shape(
    channels=3, width=5, filters=2, kernel_width=2, stride_width=4, out_width=4 * 4 + 2 + 1
)

# Steps in multiples of four: groups in strides, more tiles than stages over samples that share a tile, a whole tile
# whose results go in pairs, and as many taps as a mask has.
PIPELINED = (
    STRIDED._replace(channels=8),
    Shape(
        batch=2, channels=12, height=9, width=7, filters=70, kernel_height=3, kernel_width=3,
        pad_height=1, pad_width=1,
    ).sized(),
    Shape(channels=132, width=90, filters=33).sized(),
    Shape(batch=3, channels=2, width=40, filters=40, kernel_width=32, pad_width=9).sized(after=1),
)  # fmt: skip


@pytest.mark.parametrize("tensor_cores", [0, 3])
def test_convolution_by_tiles(tensor_cores: int) -> None:
    check(STRIDED, tensor_cores=tensor_cores)


@pytest.mark.parametrize("tensor_cores", [0, 3])
def test_infinities_and_nan_of_either_operand_are_those_of_single_precision(
    tensor_cores: int,
) -> None:
    """A product a channel: of upper parts without a lower one, with one of either sign, and with infinities."""
    special = [np.inf, -np.inf, np.nan, 1.0, 1 + 2**-14, 1 - 2**-14, -1 - 2**-14, 0.0, 3e38]
    factors = np.array(special, np.float32)
    s = Shape(channels=1, width=len(factors), filters=len(factors)).sized()
    out = np.full((s.filters, s.width), 7, np.float32)
    kernel = Kernel(
        "convolution.cu", ELEMENT="float", TRANSPOSED=0, TENSOR_CORES=tensor_cores, TILE_FILTERS=64,
        TILE_POSITIONS=64,
    )  # fmt: skip
    kernel(1, 256, factors, factors.copy(), None, None, out, np.array(s, np.int32).tobytes())
    with np.errstate(all="ignore"):
        expected = factors[:, None] * factors
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_infinities_and_nan_in_the_pipeline_are_those_of_single_precision() -> None:
    """The same, with products of zero beside them: a tile has four steps at least."""
    special = [np.inf, -np.inf, np.nan, 1.0, 1 + 2**-14, 1 - 2**-14, -1 - 2**-14, 0.0, 3e38]
    factors = np.array(special, np.float32)
    count = len(factors)
    s = Shape(channels=4, width=count, filters=count).sized()
    x, weight = np.ones((4, count), np.float32), np.zeros((count, 4), np.float32)
    x[0], weight[:, 0] = factors, factors
    out = np.full((count, count), 7, np.float32)
    Pipeline().run(s, x, weight, None, None, out, np.array(s, np.int32).tobytes())
    with np.errstate(all="ignore"):
        expected = factors[:, None] * factors
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_convolution_through_the_pipeline() -> None:
    check(PIPELINED[1], pipeline=Pipeline())


@pytest.mark.slow
@pytest.mark.parametrize("products", [1, 3])
@pytest.mark.parametrize("filters", [32, 64])
@pytest.mark.parametrize(
    ("backward", "early_copies"), [(False, False), (True, True), (False, True)]
)
def test_all_pipelines(products: int, filters: int, backward: bool, early_copies: bool) -> None:
    for shape in PIPELINED:
        for plain in (False, True):
            check(shape, pipeline=Pipeline(products, filters), plain=plain, backward=backward,
                  early_copies=early_copies)  # fmt: skip
    check(PIPELINED[1], pipeline=Pipeline(products, filters, stages=2), backward=backward,
          early_copies=early_copies)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("cp_async_wait<STAGES - 2>();", "cp_async_wait<STAGES - 1>();"),
        ("load(tile + STAGES - 1);", "load(tile + STAGES);"),
        ("find_steps(tile + STAGES);", "find_steps(tile + STAGES - 1);"),
        ("    wait_on_dependency();\n", ""),
    ],
)
def test_a_bug_in_the_pipeline_is_found(text: str, instead: str) -> None:
    changes = (("convolution_tf32.cu", text, instead),)
    orders = itertools.product((False, True), repeat=2)

    def fails(backward: bool, early_copies: bool) -> bool:
        try:
            check(
                PIPELINED[1], pipeline=Pipeline(changes=changes), backward=backward,
                early_copies=early_copies,
            )  # fmt: skip
        except AssertionError:
            return True
        return False

    assert any(fails(*order) for order in orders)


@pytest.mark.slow
@pytest.mark.parametrize("tile", [(64, 64), (128, 128), (64, 128)])
@pytest.mark.parametrize(
    ("element", "tensor_cores"), [("float", 0), ("float", 1), ("float", 3), ("bf16", 1)]
)
@pytest.mark.parametrize("backward", [False, True])
def test_all_tiles(tile: tuple[int, int], element: str, tensor_cores: int, backward: bool) -> None:
    for shape in (SMALL, STRIDED, WIDE):
        check(shape, element=element, tensor_cores=tensor_cores, tile=tile, backward=backward)
    for shape in (RAISED, SPARSE):
        check(shape, element=element, tensor_cores=tensor_cores, tile=tile, backward=backward, transposed=True,
              plain=backward)  # fmt: skip


@pytest.mark.slow
def test_direct() -> None:
    for shape in (SMALL, STRIDED, WIDE._replace(filters=3)):
        check(shape, direct=True)
        check(shape, direct=True, element="bf16", plain=True)
    for shape in (RAISED, SPARSE, RAISED._replace(dilation_width=2, out_width=40)):
        check(shape, direct=True, transposed=True)


def normalized(
    x: Floats, groups: int, weight: Floats, bias: Floats, alpha: Floats | None, slope: float
) -> Floats:
    rows = x.reshape(len(x), groups, -1)
    rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    y = rows.reshape(x.shape) * weight[..., None] + bias[..., None]
    y = np.where(y < 0, slope * y, y)
    return y if alpha is None else y + np.sin(alpha[:, None] * y) ** 2 / alpha[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("per_sample", [False, True])
def test_group_norm(groups: int, per_sample: bool) -> None:
    x = RANDOM.standard_normal((3, 6, 70)).astype(np.float32) + 3
    of = (3, 6) if per_sample else (6,)
    weight, bias = (RANDOM.standard_normal(of).astype(np.float32) for _ in range(2))
    alpha = np.abs(RANDOM.standard_normal(6)).astype(np.float32) + 0.1
    out = np.full(x.shape, np.nan, np.float32)
    given = alpha if per_sample else None
    Kernel("group_norm.cu", THREADS=64)(
        (groups, 3), 64, x, weight, bias, given, out, 6, 70, 6 // groups, int(per_sample), 1.0, 1e-5, 0.2, late=[x],
    )  # fmt: skip
    exact = [one.astype(np.float64) for one in (x, weight + 1, bias)]
    expected = normalized(exact[0], groups, exact[1], exact[2], given, 0.2)
    np.testing.assert_allclose(out, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


@pytest.mark.slow
def test_activate_channels() -> None:
    x = RANDOM.standard_normal((2, 3, 77)).astype(np.float32)
    alpha = np.array([0.5, 1.0, 3.0], np.float32)
    out = np.full(x.shape, np.nan, np.float32)
    kernel = Kernel("activate_channels.cu")
    kernel((1, 4), 32, x, alpha, out, 6, 3, 77, 0.1, late=[x])
    y = np.where(x < 0, 0.1 * x, x).astype(np.float64)
    np.testing.assert_allclose(
        out, y + np.sin(alpha[:, None] * y) ** 2 / alpha[:, None], rtol=0, atol=1e-6
    )
    kernel((1, 4), 32, x, None, out, 6, 3, 77, 1.0)
    np.testing.assert_array_equal(out, x)


def lstm_reference(
    gates: Floats, weights: list[Floats], biases: list[Floats], h: Floats, c: Floats, reverse: bool
) -> tuple[Floats, Floats, Floats]:
    directions, steps, batch, four = gates.shape
    hidden = four // 4
    out = np.zeros((steps, batch, directions, hidden))
    h, c = h.copy(), c.copy()
    for direction in range(directions):
        order = range(steps - 1, -1, -1) if direction or reverse else range(steps)
        for t in order:
            z = gates[direction, t] + h[direction] @ weights[direction].T + biases[direction]
            i, f, g, o = np.split(z, 4, axis=-1)
            i, f, o = (1 / (1 + np.exp(-one)) for one in (i, f, o))
            c[direction] = f * c[direction] + i * np.tanh(g)
            h[direction] = o * np.tanh(c[direction])
            out[t, :, direction] = h[direction]
    return out, h, c


def check_lstm(
    hidden: int, batch: int, directions: int, *, cluster: int = 0, threads: int = 64, together: int = 2,
    reverse: bool = False, steps: int = 5, backward: bool = False,
) -> None:  # fmt: skip
    random = np.random.default_rng(hidden)
    gates = random.standard_normal((directions, steps, batch, 4 * hidden)).astype(np.float32)
    weights = [
        (random.standard_normal((4 * hidden, hidden)) / 4).astype(np.float32)
        for _ in range(directions)
    ]
    biases = [random.standard_normal(4 * hidden).astype(np.float32) for _ in range(directions)]
    h, c = (
        random.standard_normal((directions, batch, hidden)).astype(np.float32) for _ in range(2)
    )
    exact = [np.asarray(one, np.float64) for one in (gates, h, c)]
    expected = lstm_reference(exact[0], [one.astype(float) for one in weights],
                              [one.astype(float) for one in biases], exact[1], exact[2], reverse)  # fmt: skip
    out = np.full((steps, batch, directions, hidden), np.nan, np.float32)
    second = (weights[1], biases[1]) if directions == 2 else (None, None)
    arguments = (gates, weights[0], biases[0], *second, h, c, out, steps, batch, int(reverse))
    if cluster:
        kernel = Kernel(
            "lstm_cluster.cu", HIDDEN=hidden, CLUSTER_SIZE=cluster, THREADS=threads, BATCH=together
        )
        grid = (cluster * directions, -(-batch // together))
        kernel(grid, threads, *arguments, cluster=cluster, late=[gates, h, c], backward=backward)
    else:
        for step in range(steps + 1):
            Kernel("lstm_step.cu")(
                (-(-hidden // 2), batch, directions), 64, *arguments, hidden, step
            )
    np.testing.assert_allclose(out, expected[0], rtol=0, atol=2e-6)
    np.testing.assert_allclose(h, expected[1], rtol=0, atol=2e-6)
    np.testing.assert_allclose(c, expected[2], rtol=0, atol=4e-6)


def test_lstm_in_a_cluster() -> None:
    check_lstm(16, 3, 2, cluster=4, threads=64)


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
def test_lstms(backward: bool) -> None:
    check_lstm(16, 3, 2, cluster=4, threads=64, backward=backward)
    check_lstm(32, 1, 1, cluster=2, threads=256, together=1, reverse=True, backward=backward)
    check_lstm(64, 5, 2, cluster=8, threads=128, together=4, backward=backward)
    check_lstm(33, 2, 2)
    check_lstm(7, 1, 1, reverse=True)
