// The block formats of llama.cpp's ggml (ggml-common.h), as GGUF files hold them: codes and scales of one block.
//
// Options: BLOCK_FORMAT (`BlockFormat` in codes.cuh: blocks of 32 weights or, of k-quants and IQ4_XS, 256). A weight is
// scale * (code - zero point) + minimum; codes of IQ4_NL, IQ4_XS and MXFP4 are indices into a table.
#pragma once
#include "packed_layout.cuh"

constexpr int BLOCK_WEIGHTS = BLOCK_SIZES[int(BLOCK_FORMAT)].weights;
constexpr int BLOCK_BYTES = BLOCK_SIZES[int(BLOCK_FORMAT)].bytes;

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
    case BlockFormat::Q8_0:
        return i8(block[2 + i]);
    case BlockFormat::Q4_1:
        return simple(4);
    case BlockFormat::Mxfp4:
        return simple(1);
    case BlockFormat::Q5_0:
        return simple(6) | (block[2 + i / 8] >> i % 8 & 1) << 4;
    case BlockFormat::Q5_1:
        return simple(8) | (block[4 + i / 8] >> i % 8 & 1) << 4;
    case BlockFormat::Q2K:
        return pair(16);
    case BlockFormat::Q3K:
        return pair(32) | (block[at] >> sub_block & 1) << 2;
    case BlockFormat::Q4K:
        return nibble(16);
    case BlockFormat::Q5K:
        return nibble(48) | (block[16 + at] >> sub_block & 1) << 4;
    case BlockFormat::Q6K: {
        const int half = i / 128, quarter = i % 128 / 32;
        const int lower = block[half * 64 + quarter % 2 * 32 + at] >> quarter / 2 * 4 & 15;
        return lower | (block[128 + half * 32 + at] >> quarter * 2 & 3) << 4;
    }
    case BlockFormat::Iq4Xs:
        return block[8 + sub_block * 16 + i % 16] >> i % 32 / 16 * 4 & 15;
    case BlockFormat::Q4_0:
    case BlockFormat::Iq4Nl:
        return simple(2);
    }
}

// Where scales are nested, the integer scale of a group of weights; for MXFP4 the exponent of the block.
DEVICE int group_scale(const u8* block, int group) {
    switch (BLOCK_FORMAT) {
    case BlockFormat::Mxfp4:
        return block[0];
    case BlockFormat::Q2K:
        return block[group] & 15;
    case BlockFormat::Q3K: {
        const u8* packed = block + 96;
        const int lower = packed[group % 8] >> group / 8 * 4 & 15;
        return (lower | (packed[8 + group % 4] >> group / 4 * 2 & 3) << 4) - 32;
    }
    case BlockFormat::Q4K:
    case BlockFormat::Q5K: {
        // Eight 6-bit scales and minimums in twelve bytes.
        const u8* packed = block + 4;
        return group < 4 ? packed[group] & 63 : (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    }
    case BlockFormat::Q6K:
        return i8(block[192 + group]);
    case BlockFormat::Iq4Xs:
        return ((block[4 + group / 2] >> group % 2 * 4 & 15) | (read_u16(block + 2) >> group * 2 & 3) << 4) - 32;
    default:
        return 0;
    }
}

// Where SCALE_FORMAT is NestedMinimum, the integer minimum of a group of weights.
DEVICE int group_minimum(const u8* block, int group) {
    if (BLOCK_FORMAT == BlockFormat::Q2K)
        return block[group] >> 4;
    const u8* packed = block + 4;
    return group < 4 ? packed[group + 4] & 63 : packed[group + 4] >> 4 | packed[group] >> 6 << 4;
}

// The fp16 scale of a block.
DEVICE fp16 block_scale(const u8* block) {
    constexpr int at = BLOCK_FORMAT == BlockFormat::Q2K   ? 80
                       : BLOCK_FORMAT == BlockFormat::Q3K ? 108
                       : BLOCK_FORMAT == BlockFormat::Q6K ? 208
                                                          : 0;
    return fp16{read_u16(block + at)};
}

// The fp16 minimum of a block. Without one -0, which keeps the sign of a zero product.
DEVICE fp16 block_minimum(const u8* block) {
    constexpr bool has_minimum = BLOCK_FORMAT == BlockFormat::Q4_1 || BLOCK_FORMAT == BlockFormat::Q5_1 ||
                                 SCALE_FORMAT == ScaleFormat::NestedMinimum;
    return fp16{has_minimum ? read_u16(block + (BLOCK_FORMAT == BlockFormat::Q2K ? 82 : 2)) : u16(0x8000)};
}
