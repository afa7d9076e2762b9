// Plain numbers to blocks of 32 as files hold them (GGUF).
//
// Options: SOURCE (80: Q8_0, 40: Q4_0, 41: Q4_1), TYPE (float, bf16, fp16).
// Launch: grid ceil(count / block), block a multiple of 32; a warp makes a block of numbers.
// Arguments: x, blocks, count (a multiple of 32). A block with a number that is not finite has a scale that is none.
#include "prelude.cuh"

constexpr int BYTES = SOURCE == 80 ? 34 : SOURCE == 40 ? 18 : 20;

// Blocks have an even number of bytes, so that their scales lie at even places.
DEVICE void write_half(u8* p, float v) { *reinterpret_cast<u16*>(p) = from_float<fp16>(v).bits; }

KERNEL quantize_blocks(const TYPE* x, u8* blocks, int count) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    if (i >= count)
        return;
    u8* block = blocks + i64(i / 32) * BYTES;
    const float v = to_float(x[i]), spoilt = reduce_warp<Sum>(v * 0.0f);
    const float largest = reduce_warp<Maximum>(fabsf(v));
    float scale, least = 0.0f;
    if (SOURCE == 80) {
        scale = largest / 127.0f;
    } else if (SOURCE == 40) {
        // The number of largest magnitude, the first of equals, becomes -8.
        const u32 lanes = __ballot_sync(~0u, fabsf(v) == largest);
        scale = __shfl_sync(~0u, v, lanes ? __ffs(lanes) - 1 : 0) / -8.0f;
    } else {
        least = -reduce_warp<Maximum>(-v);
        scale = (reduce_warp<Maximum>(v) - least) / 15.0f;
    }
    const float factor = scale == 0.0f ? 0.0f : 1.0f / scale;
    if (lane == 0) {
        write_half(block, scale + spoilt);
        if (SOURCE == 41)
            write_half(block + 2, least);
    }
    if (SOURCE == 80) {
        block[2 + lane] = u8(i8(int(roundf(__fmul_rn(v, factor)))));
        return;
    }
    const float shifted = SOURCE == 40 ? __fmul_rn(v, factor) : __fmul_rn(__fsub_rn(v, least), factor);
    const int code = min(max(int(__fadd_rn(shifted, SOURCE == 40 ? 8.5f : 0.5f)), 0), 15);
    const int upper = __shfl_down_sync(~0u, code, 16);
    if (lane < 16)
        block[(SOURCE == 41 ? 4 : 2) + lane] = u8(code | upper << 4);
}
