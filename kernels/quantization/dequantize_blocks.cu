// Dequantizes GGML blocks, as GGUF files hold them, to floats.
//
// Algorithm: the block formats of llama.cpp's ggml (ggml_blocks.cuh). Tiling: one weight a thread.
// Departures: none; products of scales and codes are exact or rounded once, so that results equal the CPU's.
//
// Options: BLOCK_FORMAT (as ggml_blocks.cuh), WEIGHT_FORMAT, GROUP_SIZE, SCALE_FORMAT, ZERO_POINT (as
//   packed_layout.cuh, of that format), OUTPUT (float, bf16, fp16).
// Launch: grid ceil(count / CTA), CTA of any size.
// Arguments: blocks (contiguous), out, count (a multiple of the weights of a block).
#include "ggml_blocks.cuh"

KERNEL dequantize_blocks(const u8* blocks, OUTPUT* out, int count TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const u8* block = blocks + i64(i / BLOCK_WEIGHTS) * BLOCK_BYTES;
    const int group = i % BLOCK_WEIGHTS / GROUP_SIZE;
    float scale = SCALE_FORMAT == ScaleFormat::Exponent ? 0.0f : to_float(block_scale(block));
    float minimum = to_float(block_minimum(block));
    if constexpr (NESTED_SCALES) {
        scale *= float(group_scale(block, group));
        minimum = SCALE_FORMAT == ScaleFormat::NestedMinimum ? -minimum * float(group_minimum(block, group)) : -0.0f;
    } else if constexpr (SCALE_FORMAT == ScaleFormat::Exponent) {
        scale = exponent_scale(group_scale(block, group));
    }
    out[i] = from_float<OUTPUT>(dequantized(block_code(block, i % BLOCK_WEIGHTS), scale, minimum));
}
