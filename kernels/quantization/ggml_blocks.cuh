// The block formats of llama.cpp's ggml (ggml-common.h), as GGUF files hold them: codes and scales of one block.
//
// BLOCK_FORMAT is 80: Q8_0, 40: Q4_0, 41: Q4_1, 50: Q5_0, 51: Q5_1, 42: IQ4_NL, 44: MXFP4 (blocks of 32 weights), 25:
// Q2_K, 35: Q3_K, 45: Q4_K, 55: Q5_K, 65: Q6_K, 43: IQ4_XS (blocks of 256). A weight is scale * (code - zero point) +
// minimum; codes of IQ4_NL, IQ4_XS and MXFP4 are indices into a table.
#pragma once
#include "packed_layout.cuh"

constexpr bool K_QUANT = BLOCK_FORMAT % 10 == 5 || BLOCK_FORMAT == 43;
constexpr int BLOCK_WEIGHTS = K_QUANT ? 256 : 32;
__device__ constexpr int block_bytes() {
    switch (BLOCK_FORMAT) {
    case 80:
        return 34;
    case 41:
        return 20;
    case 50:
        return 22;
    case 51:
        return 24;
    case 44:
        return 17;
    case 25:
        return 84;
    case 35:
        return 110;
    case 45:
        return 144;
    case 55:
        return 176;
    case 65:
        return 210;
    case 43:
        return 136;
    default:
        return 18;
    }
}
constexpr int BLOCK_BYTES = block_bytes();

DEVICE u16 read_u16(const u8* p) { return u16(p[0] | p[1] << 8); }

// The code of weight i of a block.
DEVICE int block_code(const u8* block, int i) {
    const int sub_block = i / 32, at = i % 32;
    // In simple blocks of 4 bits, weight i is in byte i % 16, the lower half first.
    auto simple = [&](int header) { return block[header + i % 16] >> i / 16 * 4 & 15; };
    // 2-bit codes: 32 bytes hold 128 weights.
    auto pair = [&](int header) { return block[header + i / 128 * 32 + at] >> i % 128 / 32 * 2 & 3; };
    // 4-bit codes of k-quants: 32 bytes hold 64 weights.
    auto nibble = [&](int header) { return block[header + sub_block / 2 * 32 + at] >> sub_block % 2 * 4 & 15; };
    switch (BLOCK_FORMAT) {
    case 80:
        return i8(block[2 + i]);
    case 41:
        return simple(4);
    case 44:
        return simple(1);
    case 50:
        return simple(6) | (block[2 + i / 8] >> i % 8 & 1) << 4;
    case 51:
        return simple(8) | (block[4 + i / 8] >> i % 8 & 1) << 4;
    case 25:
        return pair(16);
    case 35:
        return pair(32) | (block[at] >> sub_block & 1) << 2;
    case 45:
        return nibble(16);
    case 55:
        return nibble(48) | (block[16 + at] >> sub_block & 1) << 4;
    case 65: {
        const int half = i / 128, quarter = i % 128 / 32;
        const int lower = block[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
        return lower | (block[128 + half * 32 + at] >> quarter * 2 & 3) << 4;
    }
    case 43:
        return block[8 + sub_block * 16 + i % 16] >> i % 32 / 16 * 4 & 15;
    default:
        return simple(2);
    }
}

// Where scales are nested, the integer scale of a group of weights; for MXFP4 the exponent of the block.
DEVICE int group_scale(const u8* block, int group) {
    switch (BLOCK_FORMAT) {
    case 44:
        return block[0];
    case 25:
        return block[group] & 15;
    case 35: {
        const u8* packed = block + 96;
        const int lower = packed[group % 8] >> group / 8 * 4 & 15;
        return (lower | (packed[8 + group % 4] >> group / 4 * 2 & 3) << 4) - 32;
    }
    case 45:
    case 55: {
        // Eight 6-bit scales and minimums in twelve bytes.
        const u8* packed = block + 4;
        return group < 4 ? packed[group] & 63 : (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    }
    case 65:
        return i8(block[192 + group]);
    case 43:
        return ((block[4 + group / 2] >> group % 2 * 4 & 15) | (read_u16(block + 2) >> group * 2 & 3) << 4) - 32;
    default:
        return 0;
    }
}

// Where SCALE_FORMAT is 1, the integer minimum of a group of weights.
DEVICE int group_minimum(const u8* block, int group) {
    if (BLOCK_FORMAT == 25)
        return block[group] >> 4;
    const u8* packed = block + 4;
    return group < 4 ? packed[group + 4] & 63 : packed[group + 4] >> 4 | packed[group] >> 6 << 4;
}

// The fp16 scale of a block.
DEVICE fp16 block_scale(const u8* block) {
    constexpr int at = BLOCK_FORMAT == 25 ? 80 : BLOCK_FORMAT == 35 ? 108 : BLOCK_FORMAT == 65 ? 208 : 0;
    return fp16{read_u16(block + at)};
}

// The fp16 minimum of a block. Without one -0, which keeps the sign of a zero product.
DEVICE fp16 block_minimum(const u8* block) {
    constexpr bool has_minimum = BLOCK_FORMAT == 41 || BLOCK_FORMAT == 51 || SCALE_FORMAT == 1;
    return fp16{has_minimum ? read_u16(block + (BLOCK_FORMAT == 25 ? 82 : 2)) : u16(0x8000)};
}
