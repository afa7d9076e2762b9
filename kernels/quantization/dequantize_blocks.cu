// Dequantizes GGML blocks, as GGUF files hold them, to floats.
//
// Algorithm: the block formats of llama.cpp's ggml: Q8_0, Q4_0, Q4_1 and the k-quants Q4_K and Q6_K.
// Tiling: one weight a thread.
// Departures: products and sums are rounded separately, without FMA, so that results equal the CPU's.
//
// Options: BLOCK_FORMAT (80: Q8_0, 40: Q4_0, 41: Q4_1, 45: Q4_K, 65: Q6_K), OUTPUT (float, bf16, fp16).
// Launch: grid ceil(count / CTA), CTA of any size.
// Arguments: blocks (contiguous), out, count (a multiple of the weights of a block).
#include "prelude.cuh"

constexpr bool K_QUANT = BLOCK_FORMAT == 45 || BLOCK_FORMAT == 65;
constexpr int BLOCK_WEIGHTS = K_QUANT ? 256 : 32;
constexpr int K_QUANT_BYTES = BLOCK_FORMAT == 45 ? 144 : 210;
constexpr int SIMPLE_BYTES = BLOCK_FORMAT == 80 ? 34 : BLOCK_FORMAT == 40 ? 18 : 20;
constexpr int BLOCK_BYTES = K_QUANT ? K_QUANT_BYTES : SIMPLE_BYTES;

DEVICE float read_half(const u8* p) { return to_float(fp16{u16(p[0] | p[1] << 8)}); }

// Q8_0, Q4_0 and Q4_1: one scale; in 4 bits, weight i is in byte i % 16, the lower half first.
DEVICE float dequantize_simple(const u8* block, int i) {
    const float scale = read_half(block);
    if (BLOCK_FORMAT == 80)
        return float(i8(block[2 + i])) * scale;
    const int code = block[(BLOCK_FORMAT == 41 ? 4 : 2) + i % 16] >> i / 16 * 4 & 15;
    return BLOCK_FORMAT == 41 ? __fadd_rn(__fmul_rn(float(code), scale), read_half(block + 2))
                              : float(code - 8) * scale;
}

// Eight sub-blocks of 32 weights, each with a 6-bit scale and a 6-bit minimum, packed in twelve bytes.
DEVICE float dequantize_q4_k(const u8* block, int i) {
    const u8 *packed = block + 4, *codes = block + 16;
    const int sub_block = i / 32;
    int scale, minimum;
    if (sub_block < 4) {
        scale = packed[sub_block] & 63;
        minimum = packed[sub_block + 4] & 63;
    } else {
        scale = (packed[sub_block + 4] & 15) | packed[sub_block - 4] >> 6 << 4;
        minimum = packed[sub_block + 4] >> 4 | packed[sub_block] >> 6 << 4;
    }
    const int code = codes[sub_block / 2 * 32 + i % 32] >> sub_block % 2 * 4 & 15;
    const float scaled = __fmul_rn(__fmul_rn(read_half(block), float(scale)), float(code));
    return __fsub_rn(scaled, __fmul_rn(read_half(block + 2), float(minimum)));
}

// The lower four bits of all weights, then the upper two, then sixteen 8-bit scales, then the fp16 scale of those.
DEVICE float dequantize_q6_k(const u8* block, int i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const int lower = block[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
    const int upper = block[128 + half * 32 + at] >> quarter * 2 & 3;
    const float scale = read_half(block + 208) * float(i8(block[192 + i / 16]));
    return scale * float((lower | upper << 4) - 32);
}

KERNEL dequantize_blocks(const u8* blocks, OUTPUT* out, int count TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const u8* block = blocks + i64(i / BLOCK_WEIGHTS) * BLOCK_BYTES;
    float v;
    if constexpr (BLOCK_FORMAT == 45)
        v = dequantize_q4_k(block, i % BLOCK_WEIGHTS);
    else if constexpr (BLOCK_FORMAT == 65)
        v = dequantize_q6_k(block, i % BLOCK_WEIGHTS);
    else
        v = dequantize_simple(block, i % BLOCK_WEIGHTS);
    out[i] = from_float<OUTPUT>(v);
}
