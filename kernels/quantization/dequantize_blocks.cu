// Blocks of quantized numbers as files hold them (GGUF) to plain numbers.
//
// Options: SOURCE (80: Q8_0, 40: Q4_0, 41: Q4_1, 45: Q4_K, 65: Q6_K), OUTPUT (float, bf16, fp16).
// Launch: grid ceil(count / block), any block, a number each.
// Arguments: blocks (without gaps), out, count (a multiple of the numbers in a block).
#include "prelude.cuh"

constexpr bool LONG = SOURCE == 45 || SOURCE == 65;
constexpr int NUMBERS = LONG ? 256 : 32;
constexpr int BYTES = SOURCE == 80 ? 34 : SOURCE == 40 ? 18 : SOURCE == 41 ? 20 : SOURCE == 45 ? 144 : 210;

DEVICE float read_half(const u8* p) { return to_float(fp16{u16(p[0] | p[1] << 8)}); }

// Q8_0, Q4_0 and Q4_1: one scale; of 4 bits, number i is in byte i % 16, the lower half first.
DEVICE float of_short(const u8* block, int i) {
    const float scale = read_half(block);
    if (SOURCE == 80)
        return float(i8(block[2 + i])) * scale;
    const int code = block[(SOURCE == 41 ? 4 : 2) + i % 16] >> i / 16 * 4 & 15;
    return SOURCE == 41 ? __fadd_rn(__fmul_rn(float(code), scale), read_half(block + 2)) : float(code - 8) * scale;
}

// Eight parts of 32, each with a scale and a minimum of 6 bits in twelve bytes.
DEVICE float of_q4_k(const u8* block, int i) {
    const u8 *packed = block + 4, *codes = block + 16;
    const int part = i / 32;
    int scale, least;
    if (part < 4) {
        scale = packed[part] & 63;
        least = packed[part + 4] & 63;
    } else {
        scale = (packed[part + 4] & 15) | packed[part - 4] >> 6 << 4;
        least = packed[part + 4] >> 4 | packed[part] >> 6 << 4;
    }
    const int code = codes[part / 2 * 32 + i % 32] >> part % 2 * 4 & 15;
    const float size = __fmul_rn(__fmul_rn(read_half(block), float(scale)), float(code));
    return __fsub_rn(size, __fmul_rn(read_half(block + 2), float(least)));
}

// Four lower bits, then two upper ones, then sixteen scales, then the scale of those.
DEVICE float of_q6_k(const u8* block, int i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const int lower = block[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
    const int upper = block[128 + half * 32 + at] >> quarter * 2 & 3;
    const float scale = read_half(block + 208) * float(i8(block[192 + i / 16]));
    return scale * float((lower | upper << 4) - 32);
}

KERNEL dequantize_blocks(const u8* blocks, OUTPUT* out, int count) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const u8* block = blocks + i64(i / NUMBERS) * BYTES;
    float v;
    if constexpr (SOURCE == 45)
        v = of_q4_k(block, i % NUMBERS);
    else if constexpr (SOURCE == 65)
        v = of_q6_k(block, i % NUMBERS);
    else
        v = of_short(block, i % NUMBERS);
    out[i] = from_float<OUTPUT>(v);
}
