// Fragments and accumulators of gemv.cu: x in tensor core layout, dot products on the diagonal of the accumulators.
#pragma once
#include "prelude.cuh"

#ifndef GROUP_SIZE
#define GROUP_SIZE 0
#endif
#ifndef GROUPED
#define GROUPED 0
#endif
#ifndef NO_TAIL
#define NO_TAIL 0
#endif
#include "epilogue.cuh"

typedef ELEMENT Element;
template <int FORMAT> struct MmaOperand {
    typedef fp16 Type;
};
template <> struct MmaOperand<16> {
    typedef Element Type;
};
typedef MmaOperand<WEIGHT_FORMAT>::Type MmaElement;  // the operand type of the tensor core, where not INTEGER_MMA
constexpr int BITS = WEIGHT_FORMAT == 80 ? 8 : WEIGHT_FORMAT;
constexpr bool INTEGER_MMA = WEIGHT_FORMAT == 8 || WEIGHT_FORMAT == 4, SCALED_X = WEIGHT_FORMAT != 16;
constexpr int WEIGHTS_PER_CHUNK = 128 / BITS;  // a chunk is 16 bytes of a weight row
constexpr int K_STEPS = WEIGHTS_PER_CHUNK / 8;  // k-steps of 32 weights, 8 from each of four lanes
constexpr int K_STEPS_PER_GROUP = GROUP_SIZE == 0 || GROUP_SIZE / 32 > K_STEPS ? K_STEPS : GROUP_SIZE / 32;
constexpr int GROUPS_PER_CHUNK = K_STEPS / K_STEPS_PER_GROUP;  // quantization groups in the chunks of four lanes
constexpr int ROW_PAIRS = (MAX_ROWS + 1) / 2;
constexpr int WARPS = THREADS / 32;
constexpr int PARTIALS = ROWS_PER_CTA * MAX_ROWS;
constexpr int OUTPUTS_PER_CTA = GATED ? ROWS_PER_CTA / 2 : ROWS_PER_CTA;  // outputs of a tile

DEVICE u32 multiply_fp16(u32 a, u32 b) {
    u32 out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

// Converts two of the four e4m3 weights of a word to fp16: 0 and 1, or 2 and 3.
DEVICE u32 e4m3_pair(u32 w, int second) {
#if __CUDA_ARCH__ >= 890
    u32 out;
    if (second)
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, high;\n}" : "=r"(out) : "r"(w));
    else
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}" : "=r"(out) : "r"(w));
    return out;
#else
    // Shifts the exponent into fp16's field, then corrects for the difference of the biases.
    const u32 spread = __byte_perm(w, 0, second ? 0x3424 : 0x1404);
    return multiply_fp16(((spread & 0x7f007f00u) >> 1) | (spread & 0x80008000u), 0x5c005c00u);  // 2^8
#endif
}

// The A fragments of the tensor core: x at the inputs that a lane's chunk of weights covers, 8 for each k-step.
struct XFragments {
    uint4 k_steps[MAX_ROWS][K_STEPS];
    float scale[MAX_ROWS];                         // x is stored in multiples of this, where SCALED_X
    float group_sums[MAX_ROWS][GROUPS_PER_CHUNK];  // sums of x over quantization groups, for the zero point
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
        const float scale = max_abs == 0.0f ? 1.0f : INTEGER_MMA ? max_abs / 32512.0f : power;
        inverse = 1.0f / scale;
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
            int high[8], low[8], sum = 0;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int quantized = __float2int_rn(v[s][i] * inverse);
                low[i] = (quantized << 24) >> 24;
                high[i] = (quantized - low[i]) >> 8;
                sum += quantized;
            }
            // int4 weights are unpacked as the even ones, then the odd ones.
            constexpr int step = WEIGHT_FORMAT == 4 ? 2 : 1, other = WEIGHT_FORMAT == 4 ? 1 : 4;
            fragments.k_steps[m][s] =
                make_uint4(pack_bytes(high[0], high[step], high[2 * step], high[3 * step]),
                           pack_bytes(low[0], low[step], low[2 * step], low[3 * step]),
                           pack_bytes(high[other], high[other + step], high[other + 2 * step], high[other + 3 * step]),
                           pack_bytes(low[other], low[other + step], low[other + 2 * step], low[other + 3 * step]));
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            const int group = s / K_STEPS_PER_GROUP;
            const float before = s % K_STEPS_PER_GROUP ? fragments.group_sums[m][group] : 0.0f;
            fragments.group_sums[m][group] = fmaf(fragments.scale[m], float(sum), before);
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
    DEVICE void accumulate_step(uint4 chunk, int s, const XFragments& x) {
        if constexpr (WEIGHT_FORMAT == 16) {
            accumulate(x, s, 0, chunk.x, chunk.y);
            accumulate(x, s, 1, chunk.z, chunk.w);
        } else if constexpr (WEIGHT_FORMAT == 80) {
            const u32 a = word(chunk, s * 2), b = word(chunk, s * 2 + 1);
            accumulate(x, s, 0, e4m3_pair(a, 0), e4m3_pair(a, 1));
            accumulate(x, s, 1, e4m3_pair(b, 0), e4m3_pair(b, 1));
        } else {
            const u32 w = word(chunk, s);
            const u32 w0 = WEIGHT_FORMAT == 8 ? word(chunk, s * 2) : w & 0x0f0f0f0fu;
            const u32 w1 = WEIGHT_FORMAT == 8 ? word(chunk, s * 2 + 1) : (w >> 4) & 0x0f0f0f0fu;
#pragma unroll
            for (int m = 0; m < MAX_ROWS; m++) {
                const uint4 v = x.k_steps[m][s];
                mma_16x8x32(integers[m], v.x, v.y, v.z, v.w, w0, w1);
            }
        }
    }
};

// Transposing warp reduction of COUNT values: lane l ends with the sum of value l / (32 / COUNT), in element 0.
template <int COUNT> DEVICE void reduce_partials(float (&v)[COUNT]) {
    const int lane = threadIdx.x % 32;
    int remaining = COUNT;
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) {
        const bool high = lane & offset;
        if (remaining > 1) {
            remaining /= 2;
#pragma unroll
            for (int i = 0; i < COUNT / 2; i++)
                if (i < remaining) {
                    const float own = high ? v[i + remaining] : v[i], other = high ? v[i] : v[i + remaining];
                    v[i] = own + __shfl_xor_sync(~0u, other, offset);
                }
        } else {
            v[0] += __shfl_xor_sync(~0u, v[0], offset);
        }
    }
}

// The input at which k-step s of this thread's chunk c begins. Ungrouped weights are consecutive in a chunk; grouped
// ones are interleaved, four lanes sharing k-steps of 32.
DEVICE int input_index(int c, int s) {
    const int chunk = c * THREADS + int(threadIdx.x);
    return GROUP_SIZE ? chunk / 4 * (WEIGHTS_PER_CHUNK * 4) + s * 32 + chunk % 4 * 8
                      : chunk * WEIGHTS_PER_CHUNK + s * 8;
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
            gains[s] = NORM && k < INPUTS ? load16(gain + k) : zero16();
#pragma unroll
            for (int m = 0; m < MAX_ROWS; m++)
                loaded[m][s] = k < INPUTS && m < rows ? load16(x + i64(m) * INPUTS + k) : zero16();
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
        }
    }
}

// This thread's part of the dot products of a weight row with each row of x: `chunk_at(c)` is chunk c of the row,
// `pair(c, i)` the scale and the minimum of its quantization group i.
template <class Chunk, class ScalePair>
DEVICE void dot_row(float* partials, const XFragments (&fragments)[CHUNKS_PER_THREAD], Chunk chunk_at, ScalePair pair) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    const bool diagonal = lane % 4 == g / 2, odd = g % 2;
    Accumulators accumulators;
    accumulators.clear();
    float total[MAX_ROWS] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS_PER_THREAD; c++) {
        const uint4 w = chunk_at(c);
#pragma unroll
        for (int s = 0; s < K_STEPS; s++) {
            accumulators.accumulate_step(w, s, fragments[c]);
            if (!SCALED_X || s % K_STEPS_PER_GROUP != K_STEPS_PER_GROUP - 1)
                continue;
            const int group = s / K_STEPS_PER_GROUP;
            const float2 scale_min = GROUP_SIZE ? unpack<fp16>(pair(c, group)) : make_float2(1.0f, 0.0f);
#pragma unroll
            for (int m = 0; m < MAX_ROWS; m++) {
                if (GROUP_SIZE)
                    total[m] = fmaf(scale_min.y, fragments[c].group_sums[m][group], total[m]);
                total[m] = fmaf(scale_min.x * fragments[c].scale[m], accumulators.value(m, odd), total[m]);
            }
            accumulators.clear();
        }
    }
#pragma unroll
    for (int m = 0; m < MAX_ROWS; m++)
        partials[m] = diagonal ? (SCALED_X ? total[m] : accumulators.value(m, odd)) : 0.0f;
}
