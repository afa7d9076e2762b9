// The same numbers in other memory: what a kernel that reads and writes as much can reach at most.
//
// Launch: grid ceil(count / 4 / 512 / 4), block 512.
// Arguments: x, out (16-byte aligned, apart), count (64 bits).
#include "prelude.cuh"

constexpr int AHEAD = 4;  // loads under way at once

KERNEL __launch_bounds__(512) stream_copy(const float* x, float* out, u64 count) {
    const uint4* from = reinterpret_cast<const uint4*>(x);
    uint4* to = reinterpret_cast<uint4*>(out);
    const u64 pieces = count / 4, first = u64(blockIdx.x) * (512 * AHEAD) + threadIdx.x;
    start_next_kernel();
    wait_for_previous_kernel();
    if (first < count % 4)
        out[pieces * 4 + first] = x[pieces * 4 + first];
    uint4 v[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        v[j] = first + j * 512 < pieces ? load16_streamed(from + first + j * 512) : zero16();
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        if (first + j * 512 < pieces)
            __stcs(to + first + j * 512, v[j]);
}
