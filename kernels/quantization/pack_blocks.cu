// Blocks of 32 quantized weights as files hold them (GGUF), to the order of gemv.cu with GROUP 32.
//
// Options: SOURCE (80: Q8_0, 40: Q4_0, 41: Q4_1), WEIGHT (8 for Q8_0, else 4), GROUP 32.
// Launch: grid (ceil(padded / 32 / block), outputs), any block, a block of weights each; padded is inputs rounded
//   up to whole pieces of 1024 / bits weights.
// Arguments: blocks (outputs x inputs / 32, without gaps), weights, scales (both out), inputs (a multiple of 32).
#include "packed_layout.cuh"

constexpr int SOURCE_BYTES = SOURCE == 80 ? 34 : SOURCE == 40 ? 18 : 20;
constexpr int HEADER = SOURCE == 41 ? 4 : 2;

DEVICE fp16 read_fp16(const u8* p) { return fp16{u16(p[0] | p[1] << 8)}; }

KERNEL pack_blocks(const u8* blocks, u8* weights, fp16* scales, int inputs) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int block = blockIdx.x * blockDim.x + threadIdx.x;
    const i64 row = blockIdx.y;
    if (block * 32 >= round_up(inputs, PIECE))
        return;
    const bool live = block * 32 < inputs;
    const u8* from = blocks + (row * (inputs / 32) + block) * SOURCE_BYTES;
    // Weight i of a block of 4 bits is in byte i % 16, the lower half first.
    auto code = [&](int i) {
        const u8* codes = from + HEADER;
        return !live ? 0 : SOURCE == 80 ? int(codes[i]) : codes[i % 16] >> i / 16 * 4 & 15;
    };
    for (int k = 0; k < 32; k += 8) {
        u8* to = weights + row * row_bytes(inputs) + place_of(block * 32 + k);
        for (int i = 0; i < BITS; i++)
            to[i] = u8(SOURCE == 80 ? code(k + i % 8) : code(k + i % 4 * 2) | code(k + i % 4 * 2 + 1) << 4);
    }
    if (live) {
        fp16* pair = scales + (row * (inputs / 32) + block) * 2;
        pair[0] = read_fp16(from);
        // Q4_0 counts from 8.
        const float shift = SOURCE == 40 ? -8.0f * to_float(pair[0]) : 0.0f;
        pair[1] = SOURCE == 41 ? read_fp16(from + 2) : from_float<fp16>(shift);
    }
}
