// Fragments and accumulators of gemv.cu and gemv_hopper.cu: x in tensor core layout, dot products on the diagonal of
// the accumulators.
#pragma once
#include "packed_layout.cuh"

#ifndef GROUPED
#define GROUPED 0
#endif
#ifndef NO_TAIL
#define NO_TAIL 0
#endif
#ifndef RELOAD_ROWS
#define RELOAD_ROWS 0
#endif
#ifndef STAGES  // of the circular buffer in shared memory through which weights go; 0: none
#define STAGES 0
#endif
#include "epilogue.cuh"
#include "gemv_combine.cuh"

typedef ELEMENT Element;
template <WeightFormat FORMAT> struct MmaOperand {
    typedef fp16 Type;
};
template <> struct MmaOperand<WeightFormat::Float16> {
    typedef Element Type;
};
typedef MmaOperand<WEIGHT_FORMAT>::Type MmaElement;  // the operand type of the tensor core, where not INTEGER_MMA
constexpr bool SCALED_X = WEIGHT_FORMAT != WeightFormat::Float16;
constexpr bool INTEGER_MMA = SCALED_X && WEIGHT_FORMAT != WeightFormat::E4m3;
constexpr int WEIGHTS_PER_CHUNK = 128 / BITS;  // a chunk is 16 bytes of a weight row
constexpr int K_STEPS = WEIGHTS_PER_CHUNK / 8;  // k-steps of 32 weights, 8 from each of four lanes
constexpr int K_STEPS_PER_GROUP =
    SPLIT_UNITS ? 1 : GROUP_SIZE == 0 || GROUP_SIZE / 32 > K_STEPS ? K_STEPS : GROUP_SIZE / 32;
// Quantization groups in the chunks of four lanes.
constexpr int GROUPS_PER_CHUNK = SPLIT_UNITS ? 2 * K_STEPS : K_STEPS / K_STEPS_PER_GROUP;
constexpr int ROW_PAIRS = (MAX_ROWS + 1) / 2;
constexpr int WARPS = THREADS / 32;
constexpr int PARTIALS = ROWS_PER_CTA * MAX_ROWS;
constexpr int OUTPUTS_PER_CTA = GATED ? ROWS_PER_CTA / 2 : ROWS_PER_CTA;  // outputs of a tile

// A lane's part of a weight row: 16 bytes of codes, and the upper bits of codes of 5 and 6 bits.
struct WeightChunk {
    uint4 codes;
    u32 upper[UPPER_BITS ? UPPER_BITS : 1];
};

// A load of what no kernel writes: from global memory or, where there is a circular buffer, from there.
template <class T> DEVICE T load_constant(const T* p) { return STAGES ? *p : __ldg(p); }

// The upper bits of a chunk: a word, or two.
DEVICE uint2 load_upper(const u8* p) {
    return UPPER_BITS == 2 ? load_constant(reinterpret_cast<const uint2*>(p))
                           : make_uint2(load_constant(reinterpret_cast<const u32*>(p)), 0);
}

// The scales of the chunks of four lanes: a pair for each group, or packed bytes and the pair of their block.
struct GroupScales {
    static constexpr int BLOCK_WORD = SCALE_BYTES_128 / 4;  // where NESTED_SCALES, after the bytes
    u32 words[SCALE_FORMAT == ScaleFormat::Pair ? GROUPS_PER_CHUNK : BLOCK_WORD + NESTED_SCALES];

    // `row` is the row of scales, `chunk` one of the four chunks; zeros where not valid.
    DEVICE void load(const u8* row, int chunk, bool valid) {
        if constexpr (SCALE_FORMAT == ScaleFormat::Pair) {
#pragma unroll
            for (int i = 0; i < GROUPS_PER_CHUNK; i++) {
                constexpr int group_size = GROUP_SIZE ? GROUP_SIZE : 1;
                const int group = chunk / 4 * (WEIGHTS_PER_CHUNK * 4) / group_size + i;
                const u32* pair = reinterpret_cast<const u32*>(row) + group;
                words[i] = valid && group < ceil_divide(INPUTS, group_size) ? load_constant(pair) : 0;
            }
        } else {
            const u8* from = row + chunk / 4 * SCALE_BYTES_128;
            if constexpr (BLOCK_WORD == 4) {
                const uint4 v = valid ? load_constant(reinterpret_cast<const uint4*>(from)) : zero16();
                words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
            } else if constexpr (BLOCK_WORD == 2) {
                const uint2 v = valid ? load_constant(reinterpret_cast<const uint2*>(from)) : make_uint2(0, 0);
                words[0] = v.x, words[1] = v.y;
            } else {
                words[0] = valid ? load_constant(reinterpret_cast<const u32*>(from)) : 0;
            }
            if constexpr (NESTED_SCALES) {
                const u32* blocks = reinterpret_cast<const u32*>(row + block_scale_offset(INPUTS));
                words[BLOCK_WORD] = valid ? load_constant(blocks + chunk / 8) : 0;
            }
        }
    }
    DEVICE u32 byte(int i) const { return __byte_perm(words[i / 4], 0, 0x4440 + i % 4); }
    // The integer scale and minimum of a group, where NESTED_SCALES.
    DEVICE int scale_code(int group) const {
        return SCALE_FORMAT == ScaleFormat::NestedMinimum ? int(byte(group)) : signed_byte(words[group / 4], group % 4);
    }
    // The scale and minimum of a group.
    DEVICE float2 pair(int group) const {
        if (SCALE_FORMAT == ScaleFormat::Exponent)
            return make_float2(exponent_scale(byte(group)), 0.0f);
        const float2 v = unpack<fp16>(words[SCALE_FORMAT == ScaleFormat::Pair ? group : 0]);
        return make_float2(v.x, ZERO_POINT ? fmaf(-float(ZERO_POINT), v.x, v.y) : v.y);
    }
};

// The A fragments of the tensor core: x at the inputs that a lane's chunk of weights covers, 8 for each k-step.
struct XFragments {
    uint4 k_steps[MAX_ROWS][K_STEPS];
    float scale[MAX_ROWS];                         // x is stored in multiples of this, where SCALED_X
    float group_sums[MAX_ROWS][GROUPS_PER_CHUNK];  // sums of x over quantization groups, for the minimum
    int code_sums[MAX_ROWS][GROUPS_PER_CHUNK];     // the same in multiples of the scale
    u32 sum_bytes[MAX_ROWS][3][ceil_divide(GROUPS_PER_CHUNK, 4)];  // their bytes, of four groups in a word
};

DEVICE u32 pack_bytes(int a, int b, int c, int d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// Writes row m of the fragments, quantized where SCALED_X.
DEVICE void store_fragments(XFragments& fragments, int m, const float (&v)[K_STEPS][8]) {
    float inverse = 1.0f;
    if constexpr (SCALED_X) {
        float max_abs = 0.0f;
#pragma unroll
        for (int s = 0; s < K_STEPS; s++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                max_abs = Maximum::combine(max_abs, fabsf(v[s][i]));
        max_abs = Maximum::combine(max_abs, __shfl_xor_sync(~0u, max_abs, 1));
        max_abs = Maximum::combine(max_abs, __shfl_xor_sync(~0u, max_abs, 2));
        // The scale is the power of two above the largest magnitude, so that fp16 keeps every bit of a bf16.
        const float power = __uint_as_float((__float_as_uint(max_abs) & 0x7f800000u) + 0x00800000u);
        const float scale = max_abs == 0.0f ? 1.0f : INTEGER_MMA ? max_abs * (1.0f / 32512.0f) : power;
        inverse = reciprocal_approx(scale);  // 32767 is far enough for its error
        fragments.scale[m] = scale;
    }
#pragma unroll
    for (int s = 0; s < K_STEPS; s++) {
        if constexpr (!INTEGER_MMA) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                words[i] = pack<MmaElement>(v[s][i * 2] * inverse, v[s][i * 2 + 1] * inverse);
            fragments.k_steps[m][s] = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
            // All warps of an SM prepare x while memory waits: adding 1.5 * 2^23 rounds to an integer, which the lower
            // bits of the sum then are. The low byte is signed, so the high one is that of 128 more.
            int high[8], low[8], sums[2] = {};
#pragma unroll
            for (int i = 0; i < 8; i++) {
                low[i] = __float_as_int(fmaf(v[s][i], inverse, 12582912.0f));
                high[i] = (low[i] + 128) >> 8;
                sums[SPLIT_UNITS ? i / 4 : 0] += low[i] - __float_as_int(12582912.0f);
            }
            // Codes of 4 to 6 bits are unpacked as the even ones, then the odd ones; split units have x in that order.
            constexpr bool even_first = BITS == 4 && !CODES_ARE_INDICES && !SPLIT_UNITS;
            constexpr int step = even_first ? 2 : 1, other = even_first ? 1 : 4;
            fragments.k_steps[m][s] =
                make_uint4(pack_bytes(high[0], high[step], high[2 * step], high[3 * step]),
                           pack_bytes(low[0], low[step], low[2 * step], low[3 * step]),
                           pack_bytes(high[other], high[other + step], high[other + 2 * step], high[other + 3 * step]),
                           pack_bytes(low[other], low[other + step], low[other + 2 * step], low[other + 3 * step]));
#pragma unroll
            for (int half = 0; half <= SPLIT_UNITS; half++) {
                int sum = sums[half];
                sum += __shfl_xor_sync(~0u, sum, 1);
                sum += __shfl_xor_sync(~0u, sum, 2);
                const int group = SPLIT_UNITS ? s * 2 + half : s / K_STEPS_PER_GROUP;
                const float before = s % K_STEPS_PER_GROUP ? fragments.group_sums[m][group] : 0.0f;
                fragments.group_sums[m][group] = fmaf(fragments.scale[m], float(sum), before);
                fragments.code_sums[m][group] = sum;  // groups of nested scales are k-steps, or half of one
            }
        }
    }
}

// Four codes of k-step s as bytes, of which the tensor core takes the first (half 0) or the last (half 1).
DEVICE u32 unpack_codes(const WeightChunk& w, int s, int half) {
    if constexpr (BITS == 8)
        return word(w.codes, (s * 2 + half) % 4);
    const u32 codes = word(w.codes, s);
    if constexpr (CODES_ARE_INDICES) {
        // A byte permutation looks up four indices in eight bytes; the highest bit of an index chooses between two.
        const u32 indices = half ? codes >> 16 : codes;
        const u32 lower = __byte_perm(table_word(0), table_word(1), indices & 0x7777u);
        const u32 upper = __byte_perm(table_word(2), table_word(3), indices & 0x7777u);
        return __byte_perm(lower, upper, 0x3210u | (indices & 0x8888u) >> 1);
    }
    u32 bytes = (half ? codes >> 4 : codes) & 0x0f0f0f0fu;
    if constexpr (UPPER_BITS != 0) {
        constexpr u32 mask = UPPER_BITS == 1 ? 0x10101010u : 0x30303030u;
        const u32 upper = w.upper[UPPER_BITS == 2 ? s / 2 : 0];
        const int shift = 4 - upper_shift(s, half);  // of the bits of code 0, or 1, to bit 4
        bytes |= (shift >= 0 ? upper << shift : upper >> -shift) & mask;
    }
    return bytes;
}

// Splits the sums of row m into bytes, for dot products with the minimums of four groups at a time.
DEVICE void split_sums(XFragments& fragments, int m) {
#pragma unroll
    for (int i = 0; i < ceil_divide(GROUPS_PER_CHUNK, 4); i++) {
        int rest[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            rest[j] = fragments.code_sums[m][(i * 4 + j) % GROUPS_PER_CHUNK];
#pragma unroll
        for (int plane = 0; plane < 3; plane++) {
            fragments.sum_bytes[m][plane][i] = pack_bytes(rest[0], rest[1], rest[2], rest[3]);
#pragma unroll
            for (int j = 0; j < 4; j++)
                rest[j] = (rest[j] - ((rest[j] << 24) >> 24)) >> 8;  // bytes are signed
        }
    }
}

// Accumulators, of which the diagonal is used: in floats, two rows of x at a time; in integers, the high and the low
// bytes of one row.
struct Accumulators {
    float floats[ROW_PAIRS][4];
    int integers[MAX_ROWS][4];
    DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int p = 0; p < ROW_PAIRS; p++)
                floats[p][i] = 0.0f;
#pragma unroll
            for (int m = 0; m < MAX_ROWS; m++)
                integers[m][i] = 0;
        }
    }
    // The dot product of row m of x, in the lane that holds the diagonal.
    DEVICE float value(int m, bool odd) const {
        if constexpr (INTEGER_MMA) {
            const int* v = integers[m];
            return float((odd ? v[1] : v[0]) * 256 + (odd ? v[3] : v[2]));
        }
        const float* v = floats[m / 2] + m % 2 * 2;
        return odd ? v[1] : v[0];
    }
    DEVICE void accumulate(const XFragments& x, int s, int half, u32 w0, u32 w1) {
#pragma unroll
        for (int p = 0; p < ROW_PAIRS; p++) {
            constexpr bool single = MAX_ROWS == 1;
            const uint4 a = x.k_steps[p * 2][s];
            const uint4 b = p * 2 + 1 < MAX_ROWS ? x.k_steps[single ? 0 : p * 2 + 1][s] : zero16();
            mma_16x8x16<MmaElement>(floats[p], half ? a.z : a.x, half ? b.z : b.x, half ? a.w : a.y,
                                    half ? b.w : b.y, w0, w1);
        }
    }
    DEVICE void accumulate_step(const WeightChunk& w, int s, const XFragments& x) {
        const uint4 chunk = w.codes;
        if constexpr (WEIGHT_FORMAT == WeightFormat::Float16) {
            accumulate(x, s, 0, chunk.x, chunk.y);
            accumulate(x, s, 1, chunk.z, chunk.w);
        } else if constexpr (WEIGHT_FORMAT == WeightFormat::E4m3) {
            const u32 a = word(chunk, s * 2), b = word(chunk, s * 2 + 1);
            accumulate(x, s, 0, e4m3_pair(a, 0), e4m3_pair(a, 1));
            accumulate(x, s, 1, e4m3_pair(b, 0), e4m3_pair(b, 1));
        } else {
            const u32 w0 = unpack_codes(w, s, 0), w1 = unpack_codes(w, s, 1);
#pragma unroll
            for (int m = 0; m < MAX_ROWS; m++) {
                const uint4 v = x.k_steps[m][s];
                mma_16x8x32(integers[m], v.x, v.y, v.z, v.w, w0, w1);
            }
        }
    }
    // The first or the second half of a split unit.
    DEVICE void accumulate_half(const WeightChunk& w, int s, int half, const XFragments& x) {
        const u32 codes = unpack_codes(w, s, half);
#pragma unroll
        for (int m = 0; m < MAX_ROWS; m++) {
            const uint4 v = x.k_steps[m][s];
            mma_16x8x16_s8(integers[m], half ? v.z : v.x, half ? v.w : v.y, codes);
        }
    }
};

// Sums over 128 weights of a row with nested scales, in integers: of the high and of the low bytes of x by the scales,
// and of x by the minimums. They do not overflow: products of 128 codes and bytes below 129 and scales below 129 are
// below 2^29, and so are those of 128 values of x below 2^15 and minimums below 129.
struct NestedSums {
    int products[MAX_ROWS][4] = {}, minimum[MAX_ROWS] = {};
    DEVICE void add(const GroupScales& scales, int group, const Accumulators& accumulators, const XFragments& x) {
        const int scale = scales.scale_code(group);
#pragma unroll
        for (int m = 0; m < MAX_ROWS; m++) {
            // Both columns of the lane: the diagonal is selected once, in value().
#pragma unroll
            for (int i = 0; i < 4; i++)
                products[m][i] += scale * accumulators.integers[m][i];
            if (SCALE_FORMAT == ScaleFormat::Nested)
                minimum[m] += scale * x.code_sums[m][group];
        }
    }
    // The sum of x by the minimums of all groups, in multiples of the scale of x: below 2^29.
    DEVICE static int minimums(const GroupScales& scales, const XFragments& x, int m) {
        int sum = 0;
#pragma unroll
        for (int plane = 2; plane >= 0; plane--) {
            sum <<= 8;
#pragma unroll
            for (int i = 0; i < ceil_divide(GROUPS_PER_CHUNK, 4); i++)
                sum = dot_bytes(scales.words[GroupScales::BLOCK_WORD / 2 + i], x.sum_bytes[m][plane][i], sum);
        }
        return sum;
    }
    DEVICE float value(const GroupScales& scales, const XFragments& x, int m, bool odd) const {
        constexpr int block_word = SCALE_FORMAT == ScaleFormat::Pair ? 0 : GroupScales::BLOCK_WORD;
        const float2 block = unpack<fp16>(scales.words[block_word]);
        const int* v = products[m];
        const float product = fmaf(float(odd ? v[1] : v[0]), 256.0f, float(odd ? v[3] : v[2]));
        if (SCALE_FORMAT == ScaleFormat::NestedMinimum)
            return fmaf(block.x, product, -block.y * float(minimums(scales, x, m)));
        return block.x * (ZERO_POINT ? fmaf(float(minimum[m]), -float(ZERO_POINT), product) : product);
    }
};

// The input at which k-step s of this thread's chunk c begins. Ungrouped weights are consecutive in a chunk; grouped
// ones are interleaved, four lanes sharing k-steps of 32.
DEVICE int input_index(int c, int s) {
    const int chunk = c * THREADS + int(threadIdx.x);
    return GROUP_SIZE ? chunk / 4 * (WEIGHTS_PER_CHUNK * 4) + s * 32 + chunk % 4 * (SPLIT_UNITS ? 4 : 8)
                      : chunk * WEIGHTS_PER_CHUNK + s * 8;
}

// The eight elements of a unit of inputs: consecutive or, where units are split, four and four more 16 further on.
DEVICE uint4 load_unit(const Element* p) {
    if constexpr (!SPLIT_UNITS)
        return load16(p);
    const uint2 first = *reinterpret_cast<const uint2*>(p), second = *reinterpret_cast<const uint2*>(p + 16);
    return make_uint4(first.x, first.y, second.x, second.y);
}

// Loads the rows of x for this thread's chunks, multiplies by the norm's gain, and sums squares for the RMS norm.
DEVICE void load_fragments(XFragments (&fragments)[CHUNKS_PER_THREAD], float (&square)[MAX_ROWS], const Element* x,
                           const Element* gain, int rows) {
#pragma unroll
    for (int m = 0; m < MAX_ROWS; m++)
        square[m] = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        uint4 loaded[MAX_ROWS][K_STEPS], gains[K_STEPS];
#pragma unroll
        for (int s = 0; s < K_STEPS; s++) {
            const int k = input_index(c, s);
            gains[s] = NORM && k < INPUTS ? load_unit(gain + k) : zero16();
#pragma unroll
            for (int m = 0; m < MAX_ROWS; m++)
                loaded[m][s] = k < INPUTS && m < rows ? load_unit(x + i64(m) * INPUTS + k) : zero16();
        }
#pragma unroll
        for (int m = 0; m < MAX_ROWS; m++) {
            float v[K_STEPS][8];
#pragma unroll
            for (int s = 0; s < K_STEPS; s++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float2 pair = unpack<Element>(word(loaded[m][s], i));
                    const float2 factor = unpack<Element>(word(gains[s], i));
                    square[m] = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square[m]));
                    v[s][i * 2] = NORM ? pair.x * factor.x : pair.x;
                    v[s][i * 2 + 1] = NORM ? pair.y * factor.y : pair.y;
                }
            store_fragments(fragments[c], m, v);
            if constexpr (SCALE_FORMAT == ScaleFormat::NestedMinimum)
                split_sums(fragments[c], m);
        }
    }
}

// This thread's part of the dot products of a weight row with each row of x: `chunk_at(c)` is chunk c of the row,
// `scales_at(c)` its scales.
template <class Chunk, class Scales>
DEVICE void dot_row(float* partials, const XFragments (&fragments)[CHUNKS_PER_THREAD], Chunk chunk_at,
                    Scales scales_at) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    const bool diagonal = lane % 4 == g / 2, odd = g % 2;
    Accumulators accumulators;
    accumulators.clear();
    float total[MAX_ROWS] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const WeightChunk& w = chunk_at(c);
        const GroupScales& scales = scales_at(c);
        NestedSums nested;
#pragma unroll
        for (int s = 0; s < K_STEPS; s++) {
            if constexpr (SPLIT_UNITS) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    accumulators.accumulate_half(w, s, half, fragments[c]);
                    nested.add(scales, s * 2 + half, accumulators, fragments[c]);
                    accumulators.clear();
                }
                continue;
            }
            accumulators.accumulate_step(w, s, fragments[c]);
            if (!SCALED_X || s % K_STEPS_PER_GROUP != K_STEPS_PER_GROUP - 1)
                continue;
            const int group = s / K_STEPS_PER_GROUP;
            if constexpr (NESTED_SCALES) {
                nested.add(scales, group, accumulators, fragments[c]);
            } else {
                const float2 scale_min = GROUP_SIZE ? scales.pair(group) : make_float2(1.0f, 0.0f);
#pragma unroll
                for (int m = 0; m < MAX_ROWS; m++) {
                    if (GROUP_SIZE && SCALE_FORMAT == ScaleFormat::Pair)
                        total[m] = fmaf(scale_min.y, fragments[c].group_sums[m][group], total[m]);
                    total[m] = fmaf(scale_min.x * fragments[c].scale[m], accumulators.value(m, odd), total[m]);
                }
            }
            accumulators.clear();
        }
        if constexpr (NESTED_SCALES) {
#pragma unroll
            for (int m = 0; m < MAX_ROWS; m++)
                total[m] = fmaf(fragments[c].scale[m], nested.value(scales, fragments[c], m, odd), total[m]);
        }
    }
#pragma unroll
    for (int m = 0; m < MAX_ROWS; m++)
        partials[m] = diagonal ? (SCALED_X ? total[m] : accumulators.value(m, odd)) : 0.0f;
}
