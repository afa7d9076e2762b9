// Repacks GGML blocks of 32 weights, as GGUF files hold them, to the interleaved layout of gemv.cu with GROUP_SIZE 32.
//
// Algorithm: a permutation of codes (packed_layout.cuh); none published. Tiling: a block a thread.
//
// Options: BLOCK_FORMAT (80: Q8_0, 40: Q4_0, 41: Q4_1), WEIGHT_FORMAT (8 for Q8_0, else 4), GROUP_SIZE 32.
// Launch: grid (ceil(padded / 32 / CTA), outputs), CTA of any size; padded is inputs rounded up to lines of 1024 / bits
//   weights.
// Arguments: blocks (outputs x inputs / 32, contiguous), weights, scales (both out), inputs (a multiple of 32).
#include "packed_layout.cuh"

constexpr int BLOCK_BYTES = BLOCK_FORMAT == 80 ? 34 : BLOCK_FORMAT == 40 ? 18 : 20;
constexpr int HEADER = BLOCK_FORMAT == 41 ? 4 : 2;

DEVICE fp16 read_fp16(const u8* p) { return fp16{u16(p[0] | p[1] << 8)}; }

KERNEL pack_blocks(const u8* blocks, u8* weights, fp16* scales, int inputs) {
    launch_dependents();
    wait_on_dependency();
    const int block = blockIdx.x * blockDim.x + threadIdx.x;
    const i64 row = blockIdx.y;
    if (block * 32 >= round_up(inputs, LINE_WEIGHTS))
        return;
    const bool valid = block * 32 < inputs;
    const u8* source = blocks + (row * (inputs / 32) + block) * BLOCK_BYTES;
    // Weight i of a 4-bit block is in byte i % 16, the lower half first.
    auto code = [&](int i) {
        const u8* codes = source + HEADER;
        return !valid ? 0 : BLOCK_FORMAT == 80 ? int(codes[i]) : codes[i % 16] >> i / 16 * 4 & 15;
    };
    for (int k = 0; k < 32; k += 8) {
        u8* packed = weights + row * row_bytes(inputs) + weight_offset(block * 32 + k);
        for (int i = 0; i < BITS; i++)
            packed[i] = u8(BLOCK_FORMAT == 80 ? code(k + i % 8) : code(k + i % 4 * 2) | code(k + i % 4 * 2 + 1) << 4);
    }
    if (valid) {
        fp16* pair = scales + (row * (inputs / 32) + block) * 2;
        pair[0] = read_fp16(source);
        // Q4_0 codes have an offset of 8.
        const float shift = BLOCK_FORMAT == 40 ? -8.0f * to_float(pair[0]) : 0.0f;
        pair[1] = BLOCK_FORMAT == 41 ? read_fp16(source + 2) : from_float<fp16>(shift);
    }
}
