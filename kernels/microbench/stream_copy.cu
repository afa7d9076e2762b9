// Copies memory: the peak bandwidth of reading and writing.
//
// Algorithm: the Copy kernel of STREAM [McCalpin 1995]. Tiling: four 16-byte vectors a thread, streaming loads and
//   stores.
//
// Launch: grid ceil(count / 4 / 512 / 4), CTA of 512.
// Arguments: x, out (16-byte aligned, not overlapping), count (64 bits).
#include "prelude.cuh"

constexpr int LOADS_IN_FLIGHT = 4;

KERNEL __launch_bounds__(512) stream_copy(const float* x, float* out, u64 count) {
    const uint4* from = reinterpret_cast<const uint4*>(x);
    uint4* to = reinterpret_cast<uint4*>(out);
    const u64 vectors = count / 4, first = u64(blockIdx.x) * (512 * LOADS_IN_FLIGHT) + threadIdx.x;
    launch_dependents();
    wait_on_dependency();
    if (first < count % 4)
        out[vectors * 4 + first] = x[vectors * 4 + first];
    uint4 v[LOADS_IN_FLIGHT];
#pragma unroll
    for (int j = 0; j < LOADS_IN_FLIGHT; j++)
        v[j] = first + j * 512 < vectors ? load16_streaming(from + first + j * 512) : zero16();
#pragma unroll
    for (int j = 0; j < LOADS_IN_FLIGHT; j++)
        if (first + j * 512 < vectors)
            __stcs(to + first + j * 512, v[j]);
}
