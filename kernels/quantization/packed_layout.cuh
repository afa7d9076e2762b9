// The layout of quantized weights that gemv.cu reads, shared with the kernels that write or dequantize them.
//
// Options: WEIGHT_FORMAT (codes.cuh: floats of 16 bits; int8; e4m3; unsigned codes of 4, 5 or 6 bits; 4-bit indices
//   into the table of IQ4_NL; e2m1, the 4-bit floats of MXFP4), GROUP_SIZE (0: one float scale per row, for int8 and
//   e4m3; 16, 32, 64, 128: weights that share a scale), SCALE_FORMAT (codes.cuh, of groups. Pair: of fp16, scale and
//   minimum; NestedMinimum: a u8 scale and a u8 minimum, times a pair of fp16 per 256 weights, the minimum subtracted,
//   as Q4_K: of 128 weights the scales, then the minimums; Nested: an i8 scale times an fp16 per 256 weights, as Q6_K;
//   Exponent: of two, as MXFP4), ZERO_POINT (the code that stands for zero).
//
// Rows of weights come first, then rows of scales. Ungrouped rows are row-major. A grouped row is lines of 128 bytes,
// the last one padded with zeros; within a line, 16-byte chunk 4 i + t holds units of 8 weights of k-steps s, which are
// 32 weights each: for 8 bits s = 2 i and then 2 i + 1; for 4 bits s = 4 i + word, the lower half of a byte first.
// Unit t of a k-step is its weights 8 t + 0..7 or, where groups have 16 weights, 4 t + 0..3 and 16 + 4 t + 0..3 in
// turns, so that even and odd codes are of different groups. Codes of 5 and 6 bits have their lower 4 bits there; the
// upper bits follow all lines of the row, a word of 32 bits or two for each chunk.
// A row of scales is that of its groups and then, where there are some, of its blocks of 256 weights.
#pragma once
#include "codes.cuh"
#include "float8.cuh"

#ifndef GROUP_SIZE
#define GROUP_SIZE 0
#endif
#ifndef SCALE_FORMAT
#define SCALE_FORMAT ScaleFormat::Pair
#endif
#ifndef ZERO_POINT
#define ZERO_POINT 0
#endif

constexpr bool BYTES = WEIGHT_FORMAT == WeightFormat::Int8 || WEIGHT_FORMAT == WeightFormat::E4m3;
constexpr int BITS = WEIGHT_FORMAT == WeightFormat::Float16 ? 16 : BYTES ? 8 : 4;  // in the lines
constexpr int UPPER_BITS = WEIGHT_FORMAT == WeightFormat::Uint5 ? 1 : WEIGHT_FORMAT == WeightFormat::Uint6 ? 2 : 0;
constexpr bool CODES_ARE_INDICES = WEIGHT_FORMAT == WeightFormat::Iq4Nl || WEIGHT_FORMAT == WeightFormat::E2m1;
constexpr bool NESTED_SCALES = SCALE_FORMAT == ScaleFormat::NestedMinimum || SCALE_FORMAT == ScaleFormat::Nested;
constexpr bool SPLIT_UNITS = GROUP_SIZE == 16;  // units of weights that are half of one group and half of the next
constexpr int LINE_WEIGHTS = 1024 / BITS;
constexpr int UPPER_BYTES = UPPER_BITS * 4;  // of a chunk of 32 weights
// Bytes of the scales of a group, and of 128 weights, four chunks of 4 bits.
constexpr int SCALE_BYTES = SCALE_FORMAT == ScaleFormat::Pair ? 4 : SCALE_FORMAT == ScaleFormat::NestedMinimum ? 2 : 1;
constexpr int SCALE_BYTES_128 = 128 / (GROUP_SIZE ? GROUP_SIZE : 128) * SCALE_BYTES;

// Chunks of a row of grouped weights.
__device__ constexpr int padded_chunks(int inputs) { return ceil_divide(inputs, LINE_WEIGHTS) * 8; }

__device__ constexpr i64 row_bytes(int inputs) {
    return GROUP_SIZE ? i64(padded_chunks(inputs)) * (16 + UPPER_BYTES) : i64(inputs) * BITS / 8;
}

// Where SCALE_FORMAT is NestedMinimum, the offsets in a row of scales of the scale and the minimum of the group of
// input k.
DEVICE int nested_scale_offset(int k) {
    return k / 128 * SCALE_BYTES_128 + k % 128 / (GROUP_SIZE ? GROUP_SIZE : 1);
}
DEVICE int nested_minimum_offset(int k) { return nested_scale_offset(k) + SCALE_BYTES_128 / 2; }

// The offset of the scales of blocks of 256 weights in a row of scales.
__device__ constexpr int block_scale_offset(int inputs) { return ceil_divide(inputs, 128) * SCALE_BYTES_128; }

__device__ constexpr i64 scale_row_bytes(int inputs) {
    if (GROUP_SIZE == 0 || SCALE_FORMAT == ScaleFormat::Pair)
        return GROUP_SIZE ? i64(ceil_divide(inputs, GROUP_SIZE ? GROUP_SIZE : 1)) * 4 : 4;
    return round_up(block_scale_offset(inputs) + (NESTED_SCALES ? ceil_divide(inputs, 256) * 4 : 0), 16);
}

// The byte offset in a row of the unit of weights k to k + 7; k is a multiple of 8.
DEVICE int weight_offset(int k) {
    if (GROUP_SIZE == 0)
        return k;
    const int k_step = k % LINE_WEIGHTS / 32, t = k % 32 / 8;
    const int chunk = BITS == 8 ? k_step / 2 * 4 + t : k_step / 4 * 4 + t;
    return k / LINE_WEIGHTS * 128 + chunk * 16 + (BITS == 8 ? k_step % 2 * 8 : k_step % 4 * 4);
}

// The input that weight i of the unit at k multiplies.
DEVICE int unit_input(int k, int i) { return SPLIT_UNITS ? k / 32 * 32 + k % 32 / 2 + i / 2 + i % 2 * 16 : k + i; }

// The word of upper bits of the unit at k of a row, counted from the end of its lines.
DEVICE int upper_word(int k) { return (weight_offset(k) / 16) * UPPER_BITS + k % 128 / 32 / (UPPER_BITS == 2 ? 2 : 4); }

// The position in that word of the upper bits of weight i of the unit at k.
__device__ constexpr int upper_shift(int k_step, int i) {
    return i / 2 * 8 + (UPPER_BITS == 1 ? i % 2 * 4 + k_step % 4 : k_step % 2 * 4 + i % 2 * 2);
}

// The tables of 4-bit indices, as signed bytes: IQ4_NL, and twice e2m1.
__device__ constexpr u32 table_word(int i) {
    constexpr u32 iq4_nl[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
    constexpr u32 e2m1[4] = {0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu};
    return WEIGHT_FORMAT == WeightFormat::Iq4Nl ? iq4_nl[i] : e2m1[i];
}

// The scale of an exponent beside doubled e2m1: 2^(exponent - 128), which may be subnormal.
DEVICE float exponent_scale(u32 exponent) {
    return __uint_as_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

// The value of a code. FMA rounds scale * code + minimum once; without a minimum that is the product.
DEVICE float dequantized(int code, float scale, float minimum) {
    const int value = CODES_ARE_INDICES ? i8(table_word(code >> 2 & 3) >> code % 4 * 8) : code - ZERO_POINT;
    return fmaf(scale, float(value), minimum);
}
