// Reads memory once and keeps nothing: what a kernel that streams its operand can reach at most.
//
// Launch: a few blocks per multiprocessor, block 512.
// Arguments: data, count (of 16-byte pieces, 64 bits), out (one word).
#include "prelude.cuh"

KERNEL __launch_bounds__(512) read_all(const uint4* data, u64 count, u32* out) {
    const u64 stride = u64(gridDim.x) * blockDim.x;
    u32 mixed = 0;
    start_next_kernel();
    wait_for_previous_kernel();
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i + 7 * stride < count; i += 8 * stride) {
        uint4 v[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = load16_once(data + i + j * stride);
#pragma unroll
        for (int j = 0; j < 8; j++)
            mixed ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
    }
    // Practically never true, and the compiler cannot know.
    if (mixed == 0x12345678u)
        *out = mixed;
}
