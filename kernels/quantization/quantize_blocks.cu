// Quantizes floats to GGML blocks of 32 weights, as GGUF files hold them.
//
// Algorithm: the reference quantizers of llama.cpp's ggml for Q8_0, Q4_0 and Q4_1. Tiling: a warp a block.
//
// Options: BLOCK_FORMAT (codes.cuh: Q8_0, Q4_0, Q4_1), TYPE (float, bf16, fp16).
// Launch: grid ceil(count / CTA), CTA a multiple of 32.
// Arguments: x, blocks, count (a multiple of 32). A block with a number that is not finite gets a NaN scale.
#include "codes.cuh"
#include "prelude.cuh"

constexpr int BLOCK_BYTES = BLOCK_SIZES[int(BLOCK_FORMAT)].bytes;
constexpr bool IS_Q8_0 = BLOCK_FORMAT == BlockFormat::Q8_0, IS_Q4_0 = BLOCK_FORMAT == BlockFormat::Q4_0,
               IS_Q4_1 = BLOCK_FORMAT == BlockFormat::Q4_1;

// Blocks have an even number of bytes, so that their scales are aligned.
DEVICE void write_half(u8* p, float v) { *reinterpret_cast<u16*>(p) = from_float<fp16>(v).bits; }

KERNEL quantize_blocks(const TYPE* x, u8* blocks, int count) {
    launch_dependents();
    wait_on_dependency();
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    if (i >= count)
        return;
    u8* block = blocks + i64(i / 32) * BLOCK_BYTES;
    const float v = to_float(x[i]), nan_or_zero = reduce_warp<Sum>(v * 0.0f);
    const float largest = reduce_warp<Maximum>(fabsf(v));
    float scale, minimum = 0.0f;
    if (IS_Q8_0) {
        scale = largest / 127.0f;
    } else if (IS_Q4_0) {
        // The weight of largest magnitude, the first of equals, becomes -8.
        const u32 lanes = __ballot_sync(~0u, fabsf(v) == largest);
        scale = __shfl_sync(~0u, v, lanes ? __ffs(lanes) - 1 : 0) / -8.0f;
    } else {
        minimum = -reduce_warp<Maximum>(-v);
        scale = (reduce_warp<Maximum>(v) - minimum) / 15.0f;
    }
    const float factor = scale == 0.0f ? 0.0f : 1.0f / scale;
    if (lane == 0) {
        write_half(block, scale + nan_or_zero);
        if (IS_Q4_1)
            write_half(block + 2, minimum);
    }
    if (IS_Q8_0) {
        block[2 + lane] = u8(i8(int(roundf(__fmul_rn(v, factor)))));
        return;
    }
    const float shifted = IS_Q4_0 ? __fmul_rn(v, factor) : __fmul_rn(__fsub_rn(v, minimum), factor);
    const int code = min(max(int(__fadd_rn(shifted, IS_Q4_0 ? 8.5f : 0.5f)), 0), 15);
    const int upper = __shfl_down_sync(~0u, code, 16);
    if (lane < 16)
        block[(IS_Q4_1 ? 4 : 2) + lane] = u8(code | upper << 4);
}
