"""The kernel of batched replay: compiled for GPUs, and run on the host, a thread a block."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import xp
from assay.errors import InputError
from assay.runtime import cuda
from assay.workloads.order_book.books import Tops
from assay.workloads.order_book.cuda_replay import KERNEL, Layout, check
from assay.workloads.order_book.cuda_source import SOURCE, WIDTH
from assay.workloads.order_book.events import ADD, CANCEL, MARKET, REDUCE, Events, generate
from assay.workloads.order_book.plain import plain_tops

# One thread a block: what the threads of a block fetch for each other it fetches alone.
HOST = r"""
#include <cmath>
#define __global__
#define __device__
#define __shared__ static
#define __syncthreads()
struct Three { unsigned x; };
static Three blockIdx, threadIdx{0}, blockDim{1};
static int __clz(int bits) { return __builtin_clz((unsigned)bits); }
static int __ffs(int bits) { return __builtin_ffs(bits); }
static double __dadd_rn(double left, double right) { return left + right; }
static double __dmul_rn(double left, double right) { return left * right; }
"""
LOOP = """
extern "C" void run(unsigned blocks, void** a) {
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) CALL;
}
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_it_compiles(architecture: str) -> None:
    compiled = cuda.compile(SOURCE, architecture, "replay_order_books.cu", [f"-DWIDTH={WIDTH}"])
    assert compiled.startswith(b"\x7fELF")


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder: Path = tmp_path_factory.mktemp("order-book")
    arguments = ", ".join(
        f"({'const ' * (not parameter.writes)}{parameter.type}*)a[{place}]"
        for place, parameter in enumerate(KERNEL.signature.parameters)
    )
    call = f"{KERNEL.name}({arguments})"
    text = HOST + f"#define WIDTH {WIDTH}\n" + SOURCE + LOOP.replace("CALL", call)
    (folder / "replay.cpp").write_text(text, encoding="utf-8")
    command = [compiler, "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-o", "replay.so"]
    subprocess.run([*command, "replay.cpp"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "replay.so"))


def replay(library: Any, events: Events, instruments: int) -> tuple[Tops, Any, Any]:
    columns = (events.instrument, events.order, events.price)
    layout = Layout(*(xp.asarray(column, copy=True) for column in columns), instruments)
    tops = Tops.empty(len(events))
    orders = np.zeros(4 * layout.orders, np.uint32)
    rows, row_starts, order_starts, bases = (
        part.to_numpy()
        for part in (layout.rows, layout.row_starts, layout.order_starts, layout.bases)
    )
    levels = np.full(2 * WIDTH * instruments, 9, np.uint64)
    rejected, outside = np.full(instruments, 9, np.uint32), np.full(instruments, 9, np.int32)
    arrays = [
        *(events.kind, events.side, events.order, events.price, events.quantity),
        *(rows, row_starts, orders, order_starts, levels, bases),
        *(*tops.columns, rejected, outside),
    ]
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    library.run(instruments, pointers)
    return tops, rejected, outside


def test_the_kernel_gives_what_the_plain_book_gives(on_host: Any) -> None:
    events = generate(21, 6_000, instruments=5, resting=100)
    tops, rejected, outside = replay(on_host, events, 5)
    expected, _ = plain_tops(events, 5)
    assert (outside == -1).all()
    assert not rejected.any()
    for name, column in tops.arrays.items():
        np.testing.assert_array_equal(column, expected[name], err_msg=name)


def test_the_kernel_rejects_what_the_plain_book_rejects(on_host: Any) -> None:
    events = generate(22, 3_000, instruments=2, resting=50)
    kinds, quantities = events.kind.copy(), events.quantity.copy()
    # Each tenth event becomes one that cancels, trades, reduces, or has no meaning.
    kinds[::10] = np.resize([CANCEL, MARKET, REDUCE, 5], len(kinds[::10]))
    quantities[::50] = 0
    arrays = {**events.arrays, "kind": kinds, "quantity": quantities}
    damaged = Events.of(arrays)
    tops, rejected, outside = replay(on_host, damaged, 2)
    expected, refused = plain_tops(damaged, 2)
    assert (outside == -1).all()
    assert int(rejected.sum()) == refused
    assert refused > 50
    for name, column in tops.arrays.items():
        np.testing.assert_array_equal(column, expected[name], err_msg=name)


def test_prices_beyond_the_ladder_are_named(on_host: Any) -> None:
    columns = {"kind": [ADD] * 2, "side": [0] * 2, "instrument": [0] * 2, "quantity": [5] * 2}
    events = Events.of({**columns, "order": [0, 1], "price": [100, 100 + WIDTH // 2]})
    tops, rejected, outside = replay(on_host, events, 1)
    assert outside.tolist() == [1]
    assert rejected.tolist() == [0]
    assert tops.bid_quantity.tolist() == [5, 5]
    with pytest.raises(InputError, match="instrument: expected below 1, got 1"):
        check(Events.of({**events.arrays, "instrument": [0, 1]}), 1)
    with pytest.raises(InputError, match="order: expected ids below"):
        check(Events.of({**events.arrays, "order": [0, 1 << 40]}), 1)


def test_events_and_orders_of_each_instrument_have_a_place() -> None:
    instrument, order = [2, 0, 2, 4, 0], [7, 3, 9, 0, 1]
    columns = (
        np.array(instrument, np.uint16),
        np.array(order, np.uint64),
        np.arange(5, dtype=np.int32),
    )
    layout = Layout(*(xp.asarray(column, copy=True) for column in columns), 6)
    assert layout.rows.tolist() == [1, 4, 0, 2, 3]
    assert layout.row_starts.tolist() == [0, 2, 2, 4, 4, 5, 5]
    assert layout.order_starts.tolist() == [0, 4, 4, 14, 14, 15, 15]
    assert layout.bases.tolist() == [1 - WIDTH // 2, 0, -WIDTH // 2, 0, 3 - WIDTH // 2, 0]
    assert layout.orders == 15
