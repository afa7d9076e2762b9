"""Device("cuda:0"): arrays, transfers, streams, graphs, user kernels and errors."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import assay
from assay import ops, xp
from assay.bench.harness import ceilings
from assay.errors import CompileError, DeviceError, FreedError, OutOfMemoryError
from assay.runtime import Device, cuda

if (missing := cuda.probe().missing) is not None:
    pytest.skip(missing.sentence, allow_module_level=True)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def device() -> Device:
    return Device("cuda:0", pool_bytes=8 << 30)


def test_device_properties_match_the_driver(device: Device) -> None:
    gpu = cuda.probe().gpus[0]
    assert device.name == "cuda:0"
    assert device.description == gpu.name
    assert device.memory_bytes == gpu.memory_bytes
    assert not device.host_memory


@pytest.mark.parametrize("dtype", [xp.float32, xp.bfloat16, xp.int8, xp.float64, xp.bool])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (1000, 777), (3, 5, 7)])
def test_upload_and_download_round_trip(
    device: Device, dtype: object, shape: tuple[int, ...]
) -> None:
    values = (np.random.default_rng(1).normal(size=shape) * 8).astype(np.float32)
    there = xp.asarray(values, dtype=dtype, device=device)
    here = xp.asarray(values, dtype=dtype, device="cpu")
    np.testing.assert_array_equal(there.to_numpy(), here.to_numpy())


def test_large_upload_uses_the_transfer_engine(device: Device) -> None:
    values = np.random.default_rng(2).integers(0, 255, 300_000_001, dtype=np.uint8)
    device.take_records()
    there = xp.asarray(values, device=device)
    back = there.to_numpy()
    assert np.array_equal(back, values)
    kinds = [record.kind for record in device.take_records().records]
    assert "copy to device" in kinds
    assert "copy to host" in kinds


@pytest.mark.parametrize("count", [1, 31, 1024, 32_767, 32_768, 100_003])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_elementwise_kernels_match_numpy_at_all_sizes(
    device: Device, count: int, dtype: type[np.generic]
) -> None:
    random = np.random.default_rng(count)
    hosts = [(random.normal(size=count) * 40).astype(np.int8).astype(dtype) for _ in range(2)]
    a, b = (xp.asarray(host, device=device) for host in hosts)
    for _ in range(2):
        np.testing.assert_array_equal((a + b).to_numpy(), hosts[0] + hosts[1])
        np.testing.assert_array_equal((a * 3).to_numpy(), hosts[0] * dtype(3))
        np.testing.assert_array_equal((7 - a).to_numpy(), dtype(7) - hosts[0])
        np.testing.assert_array_equal(xp.abs(b).to_numpy(), np.abs(hosts[1]))
    np.testing.assert_array_equal((a[: count // 2] + b[: count // 2]).to_numpy(),
                                  hosts[0][: count // 2] + hosts[1][: count // 2])  # fmt: skip


def test_small_operation_uses_the_current_stream(device: Device) -> None:
    a = xp.asarray(np.arange(6, dtype=np.float32), device=device)
    stream = device.stream()
    device.synchronize()
    device.take_records()
    with stream:
        inside = a + a
    outside = inside + a
    np.testing.assert_array_equal(outside.to_numpy(), np.arange(6, dtype=np.float32) * 3)
    stream.synchronize()
    device.synchronize()
    launched = [one for one in device.take_records().records if one.kind == "launch"]
    assert [
        (one.name, one.stream) for one in sorted(launched, key=lambda one: one.submitted_ns)
    ] == [("add", stream.number), ("add", device.default_stream.number)]


def test_small_operation_charges_the_current_tenant() -> None:
    device = Device("cuda:0", pool_bytes=1 << 26)
    a = xp.asarray(np.zeros(1024, np.float32), device=device)
    tenant = device.tenant("tenant", 1 << 20)
    with tenant:
        result = a + 1.0
    assert tenant.usage().used_bytes >= result.nbytes


def test_freed_operand_raises(device: Device) -> None:
    a, b = (xp.asarray(np.zeros(8, np.float32), device=device) for _ in range(2))
    b.free()
    with pytest.raises(FreedError, match="add"):
        a + b


def test_timing_is_recorded_on_request() -> None:
    for timing in (None, True):
        device = Device("cuda:0", pool_bytes=1 << 26, timing=timing)
        a = xp.asarray(np.zeros(8, np.float32), device=device)
        a + a
        device.synchronize()
        [record] = [one for one in device.take_records().records if one.name == "add"]
        assert (record.end_ns is not None) is bool(timing)


def test_allocation_beyond_memory_raises(device: Device) -> None:
    with pytest.raises(OutOfMemoryError):
        device.allocate(device.memory_bytes * 2)


ADD = """
extern "C" __global__ void add(const float* a, const float* b, float* out, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + by * b[i];
}
"""


def test_jit_kernel_in_two_lines(device: Device) -> None:
    values = np.random.default_rng(3).normal(size=1_000_003).astype(np.float32)
    a = xp.asarray(values, device=device)
    out = xp.zeros(a.shape, dtype=xp.float32, device=device)

    add = assay.jit.kernel(ADD)
    add(a, a, out, 0.5, a.size)

    np.testing.assert_array_equal(out.to_numpy(), values + np.float32(0.5) * values)


def test_kernel_with_bf16_and_cpp_linkage(device: Device) -> None:
    source = """
    #include "prelude.cuh"
    __global__ void twice(const bf16* x, bf16* out, unsigned long long n) {
        for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            out[i] = from_float<bf16>(to_float(x[i]) * 2.0f);
    }
    """
    values = np.arange(-50, 50, dtype=np.float32)
    x = xp.asarray(values, dtype=xp.bfloat16, device=device)
    out = xp.zeros(x.shape, dtype=xp.bfloat16, device=device)
    assay.jit.kernel(source)(x, out, x.size, grid=3, block=(32,))
    np.testing.assert_array_equal(xp.astype(out, xp.float32).to_numpy(), values * 2)


def test_compile_error_shows_the_source_line(device: Device) -> None:
    bad = assay.jit.kernel("__global__ void f(float* x) {\n    x[0] = nowhere;\n}")
    with pytest.raises(CompileError) as caught:
        bad(xp.zeros(1, dtype=xp.float32, device=device))
    assert 'f.cu:2: error: identifier "nowhere" is undefined' in caught.value.message
    assert caught.value.message.rstrip().endswith("^")


def test_kernel_cache_survives_and_damage_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    folder = tmp_path / "cache" / "cubins"
    for damaged in (False, False, True, False):
        device = Device("cuda:0", pool_bytes=1 << 26)
        x = xp.asarray(np.ones(4, np.float32), device=device)
        if damaged:
            (file,) = folder.iterdir()
            file.write_bytes(b"damaged")
        caplog.clear()
        assay.jit.kernel(ADD)(x, x, x, 1.0, 4)
        np.testing.assert_array_equal(x.to_numpy(), [2, 2, 2, 2])
        # Only the compiled kernel is in the cache.
        (file,) = folder.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == int(damaged)


def test_damaged_cached_library_kernels_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path))
    folder = tmp_path / "cache" / "cubins"
    for damaged in (False, True, False):
        device = Device("cuda:0", pool_bytes=1 << 26)
        x = xp.asarray(np.ones(100_003, np.float32), device=device)
        cached = list(folder.iterdir()) if folder.exists() else []
        for file in cached if damaged else ():
            file.write_bytes(b"damaged")
        caplog.clear()
        for _ in range(3):
            np.testing.assert_array_equal((x * 2).to_numpy(), np.full(100_003, 2, np.float32))
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == (len(cached) if damaged else 0)
        assert all("is unusable and is compiled again" in one for one in messages)
    assert cached


def test_streams_are_ordered_by_data_dependencies(device: Device) -> None:
    add = assay.jit.kernel(ADD)
    a = xp.ones(1 << 20, dtype=xp.float32, device=device)
    out = xp.zeros(1 << 20, dtype=xp.float32, device=device)
    first, second = device.stream("high"), device.stream()
    for _ in range(50):
        with first:
            add(a, out, out, 1.0, a.size)
        with second:
            add(a, out, out, 1.0, a.size)
    np.testing.assert_array_equal(out.to_numpy(), np.full(1 << 20, 100, np.float32))
    begin = first.record()
    with first:
        add(a, out, out, 1.0, a.size)
    end = first.record()
    end.synchronize()
    assert 0 < end.elapsed_ns(begin) < 50_000_000


def test_graph_replays_captured_work(device: Device) -> None:
    add = assay.jit.kernel(ADD)
    a = xp.ones(1024, dtype=xp.float32, device=device)
    out = xp.zeros(1024, dtype=xp.float32, device=device)
    add(a, out, out, 1.0, 0)

    def work() -> None:
        for _ in range(10):
            add(a, out, out, 1.0, a.size)

    graph = assay.capture_graph(work, device=device)
    assert [node.label for node in graph.nodes] == ["add"] * 10
    # A user kernel is not an operation of the table.
    assert {node.operation for node in graph.nodes} == {None}
    np.testing.assert_array_equal(out.to_numpy(), np.zeros(1024, np.float32))
    for _ in range(3):
        graph.replay()
    np.testing.assert_array_equal(out.to_numpy(), np.full(1024, 30, np.float32))
    graph.close()


def test_launch_is_asynchronous(device: Device) -> None:
    spin = assay.jit.kernel(
        """__global__ void spin(long long* out, long long nanoseconds) {
            long long start, now;
            asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
            do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); }
            while (now - start < nanoseconds);
            out[0] = now - start;
        }"""
    )
    out = xp.zeros(1, dtype=xp.int64, device=device)
    spin(out, 1, grid=1, block=1)
    device.synchronize()
    beginning = time.perf_counter()
    spin(out, 200_000_000, grid=1, block=1)
    queued = time.perf_counter() - beginning
    device.synchronize()
    assert queued < 0.05
    assert time.perf_counter() - beginning > 0.19


def child(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ),
    )


def test_trapping_kernel_raises_a_typed_error(device: Device) -> None:
    outcome = child("""
        import assay
        from assay import xp
        from assay.errors import DeviceError
        x = xp.zeros(1, dtype=xp.float32, device="cuda:0")
        assay.jit.kernel('__global__ void trap(float* x) { asm volatile("trap;"); }')(x)
        for attempt in range(2):
            try:
                x.to_numpy()
            except DeviceError as error:
                print(error.message)
    """)
    assert outcome.returncode == 0, outcome.stderr
    lines = outcome.stdout.splitlines()
    assert len(lines) == 2
    assert "kernel trap of stream 0" in lines[0]
    assert float(xp.sum(xp.ones(8, dtype=xp.float32, device=device))) == 8.0


def test_hanging_kernel_raises_a_typed_error() -> None:
    outcome = child("""
        import os, time
        import assay
        from assay import xp
        from assay.errors import DeviceError
        from assay.runtime import Device
        device = Device("cuda:0", pool_bytes=1 << 26, watchdog_seconds=1.0)
        x = xp.zeros(1, dtype=xp.int64, device=device)
        device.synchronize()
        spin = assay.jit.kernel('''__global__ void spin(long long* x) {
            long long start, now;
            asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
            do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); }
            while (now - start < 3000000000ll);
            x[0] = 1;
        }''')
        spin(x, grid=1, block=1)
        beginning = time.perf_counter()
        try:
            device.synchronize()
        except DeviceError as error:
            print(error.code, error.message, time.perf_counter() - beginning < 2.0)
        os._exit(0)
    """)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.startswith("watchdog")
    assert "kernel spin" in outcome.stdout
    assert outcome.stdout.rstrip().endswith("True")


def test_unknown_gpu_ordinal_raises() -> None:
    with pytest.raises(DeviceError, match="no GPU number 99") as caught:
        Device("cuda:99")
    assert caught.value.code == "no_such_device"


def test_upload_waits_for_queued_reads_of_reused_memory(device: Device) -> None:
    """The pool reuses freed memory in stream order; a copy outside the stream must wait."""
    count = 1 << 20
    busy = xp.asarray(np.ones((4096, 4096), np.float32), device=device)
    outputs = []
    for index in range(20):
        source = xp.asarray(np.full(count, index, np.float32), device=device)
        for _ in range(4):
            ops.batched_matmul(busy, busy)
        out = xp.empty((count,), dtype=xp.float32, device=device)
        ceilings.stream_copy_into(source, out)
        outputs.append(out)
        del source
    for index, out in enumerate(outputs):
        assert (out.to_numpy() == index).all(), index
