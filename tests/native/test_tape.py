"""Expression tapes through the binding: accuracy, buffers, errors, threads."""

import array
import math
import struct
import threading
from collections.abc import Callable, Sequence

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay._native import TAPE_OPS, Tape, TapeBlock, TapeError

Word = tuple[str, int, int, int]


def packed(code: Sequence[Word]) -> bytes:
    return b"".join(struct.pack("<4I", TAPE_OPS[op], a, b, c) for op, a, b, c in code)


def tape_of(op: str, operands: int) -> Tape:
    """A tape of one operation on inputs."""
    return Tape(operands, [], packed([(op, 0, min(1, operands - 1), 0)]), [operands])


def computed(op: str, *columns: np.ndarray) -> np.ndarray:
    out = np.empty((1, len(columns[0])))
    tape_of(op, len(columns)).evaluate(columns, len(columns[0]), out)
    return out[0]


def furthest(got: np.ndarray, exact: Sequence[mpmath.mpf]) -> float:
    """The largest error in units in the last place."""
    errors = [
        abs(mpmath.mpf(float(value)) - want) / math.ulp(float(want))
        for value, want in zip(got, exact, strict=True)
    ]
    return float(max(errors))


def spread(low: float, high: float, count: int = 4000) -> np.ndarray:
    return np.random.default_rng(5).uniform(low, high, count)


def logarithmic(low: float, high: float, count: int = 4000) -> np.ndarray:
    return np.exp(spread(math.log(low), math.log(high), count))


@pytest.mark.parametrize(
    ("op", "columns", "exact", "ulps"),
    [
        ("exp", [spread(-1, 1)], mpmath.exp, 0.8),
        ("exp", [spread(-744, 709)], mpmath.exp, 0.8),
        ("log", [spread(0.5, 2)], mpmath.log, 0.9),
        ("log", [logarithmic(1e-320, 1e308)], mpmath.log, 0.9),
        ("log2", [logarithmic(1e-308, 1e308)], lambda x: mpmath.log(x, 2), 0.51),
        ("log10", [spread(0.9, 1.1)], lambda x: mpmath.log(x, 10), 0.51),
        ("pow", [logarithmic(1e-3, 1e3), spread(-5, 5)], mpmath.power, 0.8),
        ("pow", [spread(0.9, 1.1), spread(-5000, 5000)], mpmath.power, 0.8),
        ("pow", [-logarithmic(0.1, 10), np.round(spread(-9, 9))], mpmath.power, 1.0),
        ("expm1", [spread(-1, 1)], mpmath.expm1, 1.0),
        ("log1p", [spread(-0.9, 3)], mpmath.log1p, 1.0),
        ("sin", [spread(-40, 40)], mpmath.sin, 1.0),
        ("cos", [spread(-40, 40)], mpmath.cos, 1.0),
        ("tan", [spread(-40, 40)], mpmath.tan, 1.0),
        ("atan", [spread(-40, 40)], mpmath.atan, 1.0),
        ("tanh", [spread(-4, 4)], mpmath.tanh, 2.0),
        ("erf", [spread(-5, 5)], mpmath.erf, 1.0),
    ],
)
def test_functions_against_high_precision(
    op: str, columns: list[np.ndarray], exact: Callable[..., mpmath.mpf], ulps: float
) -> None:
    with mpmath.workprec(140):
        points = zip(*(column.tolist() for column in columns), strict=True)
        expected = [exact(*map(mpmath.mpf, point)) for point in points]
        assert furthest(computed(op, *columns), expected) < ulps


def test_logarithms_of_powers_are_exact() -> None:
    assert computed("log2", 2.0 ** np.arange(-1000, 1000)).tolist() == list(range(-1000, 1000))
    tens = np.array([float(f"1e{exponent}") for exponent in range(-20, 23)])
    assert computed("log10", tens).tolist() == list(range(-20, 23))


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -3.0, 1e300, 5e-324, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("op", ["exp", "log", "log2", "log10", "sqrt", "tanh", "floor", "expm1"])
def test_special_values_match_numpy(op: str) -> None:
    values = np.array(SPECIAL)
    with np.errstate(all="ignore"):
        expected = getattr(np, op)(values)
    np.testing.assert_allclose(computed(op, values), expected, rtol=1e-15)


def test_special_powers_match_numpy() -> None:
    base, exponent = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        expected = np.power(base, exponent)
    got = computed("pow", base.copy(), exponent.copy())
    np.testing.assert_allclose(got, expected, rtol=4e-16)
    finite = ~np.isnan(expected)
    assert (np.signbit(got) == np.signbit(expected))[finite].all()


@given(st.lists(st.floats(width=64), min_size=1, max_size=9), st.floats(width=64))
def test_elementary_operations_as_python(values: list[float], other: float) -> None:
    column = np.array(values)
    others = np.full(len(values), other)
    with np.errstate(all="ignore"):
        for op, expected in [
            ("add", column + others),
            ("sub", column - others),
            ("mul", column * others),
            ("div", column / others),
            ("minimum", np.minimum(column, others)),
            ("maximum", np.maximum(column, others)),
            ("lt", (column < others).astype(float)),
            ("ge", (column >= others).astype(float)),
            ("ne", (column != others).astype(float)),
        ]:
            np.testing.assert_array_equal(computed(op, column, others), expected, err_msg=op)
        if other != 0 and all(map(math.isfinite, [*values, other])):
            expected = np.array([value % other for value in values])
            np.testing.assert_array_equal(computed("modulo", column, others), expected)
    np.testing.assert_array_equal(computed("round", column), np.rint(column))


def polynomial() -> Tape:
    """x * x + 3 y, and x."""
    code = packed([("mul", 0, 0, 0), ("mul", 1, 2, 0), ("add", 3, 4, 0)])
    return Tape(2, [3.0], code, [5, 0])


def test_properties_and_stored_format() -> None:
    tape = polynomial()
    assert (tape.n_inputs, tape.n_outputs, tape.n_instructions) == (2, 2, 3)
    again = Tape.from_bytes(tape.to_bytes())
    assert again.to_bytes() == tape.to_bytes()
    with pytest.raises(TapeError, match="stored tape, byte 0"):
        Tape.from_bytes(b"nonsense")


def test_kernel_parameters_of_every_kind() -> None:
    tape = polynomial()
    x = np.arange(4.0)
    expected = [[3.0, 4.0, 7.0, 12.0], [0.0, 1.0, 2.0, 3.0]]
    for inputs in ([x, 1.0], (x, np.float64(1)), [array.array("d", x), 1], [memoryview(x), True]):
        out = np.empty((2, 4))
        report = tape.evaluate(inputs, 4, out)
        assert (report.points, report.unconverged) == (4, {})
        assert out.tolist() == expected
    rows = [np.empty(4), array.array("d", bytes(32))]
    tape.evaluate(np.array([2.0, 1.0]), 4, rows)
    assert [list(row) for row in rows] == [[7.0] * 4, [2.0] * 4]
    tape.evaluate([np.empty(0), 1.0], 0, np.empty((2, 0)))
    shared = np.arange(4.0)
    tape.evaluate([shared, shared], 4, out)
    assert out[0].tolist() == [0.0, 4.0, 10.0, 18.0]


def read_only() -> np.ndarray:
    values = np.empty((2, 4))
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    ("inputs", "out", "message"),
    [
        (
            ["x", 1.0],
            np.empty((2, 4)),
            r"input 0: expected a number or a float64 buffer, got .*str",
        ),
        ([np.empty(8)[::2], 1.0], np.empty((2, 4)), r"input 0: expected a C-contiguous buffer"),
        ([1.0, np.empty(4, "f4")], np.empty((2, 4)), r"input 1: expected float64 .* format 'f'"),
        ([1.0, np.empty(4, ">f8")], np.empty((2, 4)), r"input 1: expected float64 .* format '>d'"),
        ([1.0, np.empty(3)], np.empty((2, 4)), r"length of input 1: expected 4, got 3"),
        ([1.0], np.empty((2, 4)), r"length of inputs: expected 2, got 1"),
        ([1.0, 1.0], np.empty((4, 2)), r"out: expected shape \[2, 4\], got \[4, 2\]"),
        ([1.0, 1.0], np.empty(8), r"out: expected shape \[2, 4\], got \[8\]"),
        ([1.0, 1.0], np.empty((4, 2)).T, r"out: expected a C-contiguous buffer"),
        ([1.0, 1.0], [np.empty(4)], r"out: expected 2 buffers, got 1"),
        ([1.0, 1.0], [np.empty(4), np.empty(5)], r"output 1: expected 4 elements, got 5"),
        ([1.0, 1.0], [np.empty(4), 3.0], r"output 1: expected a float64 buffer, got .*float"),
        ([1.0, 1.0], read_only(), r"out: expected a writable buffer, got a read-only one"),
        (
            [np.frombuffer(bytes(33), "u1")[1:].view("f8"), 1.0],
            np.empty((2, 4)),
            r"input 0: expected memory aligned to 8 bytes",
        ),
    ],
)
def test_bad_buffers(inputs: list[object], out: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        polynomial().evaluate(inputs, 4, out)  # type: ignore[arg-type]


def test_outputs_must_not_overlap() -> None:
    memory = np.zeros(20)
    tape = polynomial()
    overlap = "expected memory of its own, got an overlap with"
    for inputs, out in [
        ([memory[:4], 1.0], [memory[3:7], memory[8:12]]),
        ([memory[8:12], memory[:4]], [memory[12:16], memory[2:6]]),
        ([1.0, 1.0], [memory[:4], memory[3:7]]),
        ([memory[4:8], 1.0], memory[:8].reshape(2, 4)),
    ]:
        with pytest.raises(ValueError, match=overlap):
            tape.evaluate(inputs, 4, out)
    tape.evaluate([memory[:4], memory[:4]], 4, [memory[4:8], memory[8:12]])
    with pytest.raises(ValueError, match=overlap):
        tape.jacobian([1.0, 1.0], 1, [0], memory[:2].reshape(2, 1), memory[1:3].reshape(2, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, [], b"123", [0]), "byte 0: expected instructions of 16 bytes, got 3 bytes"),
        (
            (1, [], struct.pack("<4I", 99, 0, 0, 0), [0]),
            "unknown operation at instruction 0: .* 99",
        ),
        ((1, [], packed([("add", 0, 1, 0)]), [0]), "operand b of add at instruction 0"),
        ((1, [], b"", [1]), "output 0: expected a value number below 1, got 1"),
    ],
)
def test_bad_programs(arguments: tuple[int, list[float], bytes, list[int]], message: str) -> None:
    with pytest.raises(TapeError, match=message):
        Tape(*arguments)


def test_jacobian_and_products() -> None:
    tape = polynomial()
    x = np.linspace(-2, 2, 5)
    out, values = np.empty((2, 2, 5)), np.empty((2, 5))
    tape.jacobian([x, 1.0], 5, [1, 0], out, values)
    assert out[0].tolist() == [[3.0] * 5, (2 * x).tolist()]
    assert out[1].tolist() == [[0.0] * 5, [1.0] * 5]
    assert values.tolist() == [(x * x + 3).tolist(), x.tolist()]
    one = np.empty((2, 1))
    tape.jacobian([2.0, 1.0], 1, [0], one)
    assert one.tolist() == [[4.0], [1.0]]
    change = np.empty((2, 5))
    tape.jvp([x, 1.0], 5, [1.0, x], change)
    assert change.tolist() == [(5 * x).tolist(), [1.0] * 5]
    gradient = np.empty((2, 5))
    tape.vjp([x, 1.0], 5, [x, 2.0], gradient)
    assert gradient.tolist() == [(2 * x * x + 2).tolist(), (3 * x).tolist()]
    with pytest.raises(TapeError, match="input 7: expected an input below 2"):
        tape.jacobian([x, 1.0], 5, [7, 0], out)
    with pytest.raises(ValueError, match=r"out: expected shape \[2, 1, 5\], got \[2, 2, 5\]"):
        tape.jacobian([x, 1.0], 5, [0], out)
    with pytest.raises(ValueError, match=r"gradient 0: expected 5 elements, got 4"):
        tape.vjp([x, 1.0], 5, [1.0, 1.0], [np.empty(4), np.empty(5)])


def kepler(**changes: object) -> Tape:
    """Kepler's equation E = M + e sin E, with the true anomaly's cosine as a further member."""
    code = [
        ("sin", 0, 0, 0),
        ("mul", 2, 4, 0),
        ("add", 1, 5, 0),
        ("cos", 0, 0, 0),
        ("sub", 7, 2, 0),
        ("mul", 2, 7, 0),
        ("sub", 3, 9, 0),
        ("div", 8, 10, 0),
    ]
    options: dict[str, object] = {"start": [0], "externals": [0, 1]} | changes
    block = TapeBlock(constants=[1.0], code=packed(code), outputs=[6, 11], **options)  # type: ignore[arg-type]
    outer = packed([("block", 0, 0, 0), ("extract", 2, 0, 0), ("extract", 2, 1, 0)])
    return Tape(2, [], outer, [3, 4], [block])


@pytest.mark.parametrize("method", ["newton", "fixed_point"])
def test_block_solves_keplers_equation(method: str) -> None:
    mean, eccentricity = np.linspace(0.1, 3, 700), 0.6
    out = np.empty((2, 700))
    report = kepler(method=method).evaluate([mean, eccentricity], 700, out)
    assert report.unconverged == {}
    anomaly = out[0]
    np.testing.assert_allclose(anomaly - eccentricity * np.sin(anomaly), mean, rtol=1e-11)
    cosine = (np.cos(anomaly) - eccentricity) / (1 - eccentricity * np.cos(anomaly))
    np.testing.assert_allclose(out[1], cosine, rtol=1e-12)
    slopes = np.empty((2, 2, 700))
    kepler(method=method).jacobian([mean, eccentricity], 700, [0, 1], slopes)
    # From the equation itself: dE/dM = 1 / (1 - e cos E), dE/de = sin E / (1 - e cos E).
    denominator = 1 - eccentricity * np.cos(anomaly)
    np.testing.assert_allclose(slopes[0, 0], 1 / denominator, rtol=1e-10)
    np.testing.assert_allclose(slopes[0, 1], np.sin(anomaly) / denominator, rtol=1e-10)


def test_block_failures_are_counted() -> None:
    out = np.empty((2, 3))
    report = kepler(max_iterations=1).evaluate([np.array([0.0, 1.0, 2.0]), 0.5], 3, out)
    assert report.unconverged == {0: 2}
    assert np.isnan(out[:, 1:]).all()
    assert out[:, 0].tolist() == [0.0, 1.0]
    assert repr(report) == "TapeReport(points=3, unconverged={0: 2})"


def test_bad_blocks() -> None:
    with pytest.raises(TapeError, match='expected "newton" or "fixed_point", got "magic"'):
        kepler(method="magic")
    with pytest.raises(TapeError, match="lower of block 0: expected 1 bounds"):
        kepler(lower=[0.0, 1.0])
    with pytest.raises(TapeError, match="start 0 of block 0 at instruction 0"):
        kepler(start=[2])


def test_threads_run_concurrently() -> None:
    tape = kepler()
    mean = np.linspace(0.1, 3, 2000)
    alone = np.empty((2, 2000))
    tape.evaluate([mean, 0.6], 2000, alone)
    results = [np.empty((2, 2000)) for _ in range(4)]
    threads = [
        threading.Thread(target=tape.evaluate, args=([mean, 0.6], 2000, out)) for out in results
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in results:
        np.testing.assert_array_equal(out, alone)
