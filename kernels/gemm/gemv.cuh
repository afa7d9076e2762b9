// What gemv.cu multiplies: x at the places of a lane's weights, and sums on the matrix unit's diagonal.
#pragma once
#include "prelude.cuh"

#ifndef GROUP
#define GROUP 0
#endif
#ifndef EVEN
#define EVEN 0
#endif
#include "epilogue.cuh"

typedef ACTIVATION Number;
template <int BITS_OF_WEIGHT> struct Factor {
    typedef fp16 Type;
};
template <> struct Factor<16> {
    typedef Number Type;
};
typedef Factor<WEIGHT>::Type Multiplied;  // what the matrix unit multiplies, where not integers
constexpr int BITS = WEIGHT == 80 ? 8 : WEIGHT;
constexpr bool INTEGERS = WEIGHT == 8 || WEIGHT == 4, UNITS = WEIGHT != 16;
constexpr int HELD = 128 / BITS;  // weights in a chunk
constexpr int SPANS = HELD / 8;   // of 32 weights, that four lanes share
constexpr int GROUP_SPANS = GROUP == 0 || GROUP / 32 > SPANS ? SPANS : GROUP / 32;
constexpr int GROUPS = SPANS / GROUP_SPANS;  // of four lanes' chunks
constexpr int PAIRS = (ROWS + 1) / 2;
constexpr int WARPS = THREADS / 32;
constexpr int VALUES = TAKEN * ROWS;
constexpr int MADE = PAIRED ? TAKEN / 2 : TAKEN;  // outputs of a block at once

DEVICE u32 multiply_fp16(u32 a, u32 b) {
    u32 out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

// Two of the four numbers of a word as fp16: 0 and 1, then 2 and 3.
DEVICE u32 e4m3_pair(u32 w, int second) {
#if __CUDA_ARCH__ >= 890
    u32 out;
    if (second)
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, high;\n}" : "=r"(out) : "r"(w));
    else
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}" : "=r"(out) : "r"(w));
    return out;
#else
    // The exponent moves to its place, then its bias is made up for.
    const u32 apart = __byte_perm(w, 0, second ? 0x3424 : 0x1404);
    return multiply_fp16(((apart & 0x7f007f00u) >> 1) | (apart & 0x80008000u), 0x5c005c00u);  // 2^8
#endif
}

// x at the places of a chunk: 8 numbers of each span, as the matrix unit wants them.
struct Places {
    uint4 spans[ROWS][SPANS];
    float unit[ROWS];           // that x is counted in, where UNITS
    float plain[ROWS][GROUPS];  // sums of x over the groups
};

DEVICE u32 bytes(int a, int b, int c, int d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// Row m of the places, from its numbers.
DEVICE void place(Places& places, int m, const float (&v)[SPANS][8]) {
    float by = 1.0f;
    if constexpr (UNITS) {
        float most = 0.0f;
#pragma unroll
        for (int s = 0; s < SPANS; s++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                most = Maximum::join(most, fabsf(v[s][i]));
        most = Maximum::join(most, __shfl_xor_sync(~0u, most, 1));
        most = Maximum::join(most, __shfl_xor_sync(~0u, most, 2));
        // Numbers are counted in the power of two above the largest, so that fp16 loses nothing of a bf16.
        const float power = __uint_as_float((__float_as_uint(most) & 0x7f800000u) + 0x00800000u);
        const float unit = most == 0.0f ? 1.0f : INTEGERS ? most / 32512.0f : power;
        by = 1.0f / unit;
        places.unit[m] = unit;
    }
#pragma unroll
    for (int s = 0; s < SPANS; s++) {
        if constexpr (!INTEGERS) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                words[i] = pack<Multiplied>(v[s][i * 2] * by, v[s][i * 2 + 1] * by);
            places.spans[m][s] = make_uint4(words[0], words[1], words[2], words[3]);
        } else {
            int upper[8], lower[8], sum = 0;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const int count = __float2int_rn(v[s][i] * by);
                lower[i] = (count << 24) >> 24;
                upper[i] = (count - lower[i]) >> 8;
                sum += count;
            }
            // Weights of 4 bits come as those at even places, then those at odd ones.
            constexpr int step = WEIGHT == 4 ? 2 : 1, other = WEIGHT == 4 ? 1 : 4;
            places.spans[m][s] =
                make_uint4(bytes(upper[0], upper[step], upper[2 * step], upper[3 * step]),
                           bytes(lower[0], lower[step], lower[2 * step], lower[3 * step]),
                           bytes(upper[other], upper[other + step], upper[other + 2 * step], upper[other + 3 * step]),
                           bytes(lower[other], lower[other + step], lower[other + 2 * step], lower[other + 3 * step]));
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            const int of = s / GROUP_SPANS;
            places.plain[m][of] = fmaf(places.unit[m], float(sum), s % GROUP_SPANS ? places.plain[m][of] : 0.0f);
        }
    }
}

// Sums on the diagonal: of numbers, two rows of x at a time; of integers, upper and lower bytes of one.
struct Sums {
    float numbers[PAIRS][4];
    int integers[ROWS][4];
    DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int p = 0; p < PAIRS; p++)
                numbers[p][i] = 0.0f;
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                integers[m][i] = 0;
        }
    }
    // Row m of x, in the lane that has the diagonal.
    DEVICE float value(int m, bool odd) const {
        if constexpr (INTEGERS) {
            const int* v = integers[m];
            return float((odd ? v[1] : v[0]) * 256 + (odd ? v[3] : v[2]));
        }
        const float* v = numbers[m / 2] + m % 2 * 2;
        return odd ? v[1] : v[0];
    }
    DEVICE void multiply(const Places& x, int s, int half, u32 w0, u32 w1) {
#pragma unroll
        for (int p = 0; p < PAIRS; p++) {
            const uint4 a = x.spans[p * 2][s], b = p * 2 + 1 < ROWS ? x.spans[ROWS == 1 ? 0 : p * 2 + 1][s] : zero16();
            multiply_16x8x16<Multiplied>(numbers[p], half ? a.z : a.x, half ? b.z : b.x, half ? a.w : a.y,
                                     half ? b.w : b.y, w0, w1);
        }
    }
    DEVICE void multiply_span(uint4 chunk, int s, const Places& x) {
        if constexpr (WEIGHT == 16) {
            multiply(x, s, 0, chunk.x, chunk.y);
            multiply(x, s, 1, chunk.z, chunk.w);
        } else if constexpr (WEIGHT == 80) {
            const u32 a = word(chunk, s * 2), b = word(chunk, s * 2 + 1);
            multiply(x, s, 0, e4m3_pair(a, 0), e4m3_pair(a, 1));
            multiply(x, s, 1, e4m3_pair(b, 0), e4m3_pair(b, 1));
        } else {
            const u32 w = word(chunk, s);
            const u32 w0 = WEIGHT == 8 ? word(chunk, s * 2) : w & 0x0f0f0f0fu;
            const u32 w1 = WEIGHT == 8 ? word(chunk, s * 2 + 1) : (w >> 4) & 0x0f0f0f0fu;
#pragma unroll
            for (int m = 0; m < ROWS; m++) {
                const uint4 v = x.spans[m][s];
                multiply_16x8x32(integers[m], v.x, v.y, v.z, v.w, w0, w1);
            }
        }
    }
};

// Sums over a warp of many values at once: lane l ends with value l / (32 / COUNT), in its first place.
template <int COUNT> DEVICE void reduce_values(float (&v)[COUNT]) {
    const int lane = threadIdx.x % 32;
    int left = COUNT;
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) {
        const bool upper = lane & offset;
        if (left > 1) {
            left /= 2;
#pragma unroll
            for (int i = 0; i < COUNT / 2; i++)
                if (i < left) {
                    const float kept = upper ? v[i + left] : v[i], sent = upper ? v[i] : v[i + left];
                    v[i] = kept + __shfl_xor_sync(~0u, sent, offset);
                }
        } else {
            v[0] += __shfl_xor_sync(~0u, v[0], offset);
        }
    }
}

// The input at which span s of this thread's chunk c begins. Without groups a chunk's weights are in a row; with them
// four lanes share spans of 32.
DEVICE int place_of(int c, int s) {
    const int chunk = c * THREADS + int(threadIdx.x);
    return GROUP ? chunk / 4 * (HELD * 4) + s * 32 + chunk % 4 * 8 : chunk * HELD + s * 8;
}

// Rows of x at the places of each of this thread's chunks, multiplied by the norm's gains, and their sums of squares.
DEVICE void place_rows(Places (&places)[CHUNKS], float (&square)[ROWS], const Number* x, const Number* gain,
                       int rows) {
#pragma unroll
    for (int m = 0; m < ROWS; m++)
        square[m] = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        uint4 loaded[ROWS][SPANS], times[SPANS];
#pragma unroll
        for (int s = 0; s < SPANS; s++) {
            const int k = place_of(c, s);
            times[s] = NORM && k < INPUTS ? load16(gain + k) : zero16();
#pragma unroll
            for (int m = 0; m < ROWS; m++)
                loaded[m][s] = k < INPUTS && m < rows ? load16(x + i64(m) * INPUTS + k) : zero16();
        }
#pragma unroll
        for (int m = 0; m < ROWS; m++) {
            float v[SPANS][8];
#pragma unroll
            for (int s = 0; s < SPANS; s++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float2 pair = unpack<Number>(word(loaded[m][s], i));
                    const float2 by = unpack<Number>(word(times[s], i));
                    square[m] = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square[m]));
                    v[s][i * 2] = NORM ? pair.x * by.x : pair.x;
                    v[s][i * 2 + 1] = NORM ? pair.y * by.y : pair.y;
                }
            place(places[c], m, v);
        }
    }
}

// This thread's share of a row of weights times each row of x: `weight(c)` is chunk c of the row, `pair(c, i)` the scale
// and the minimum of its group i.
template <class Weight, class Pair>
DEVICE void multiply_row(float* values, const Places (&places)[CHUNKS], Weight weight, Pair pair) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    const bool diagonal = lane % 4 == g / 2, odd = g % 2;
    Sums sums;
    sums.clear();
    float total[ROWS] = {};
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const uint4 w = weight(c);
#pragma unroll
        for (int s = 0; s < SPANS; s++) {
            sums.multiply_span(w, s, places[c]);
            if (!UNITS || s % GROUP_SPANS != GROUP_SPANS - 1)
                continue;
            const float2 by = GROUP ? unpack<fp16>(pair(c, s / GROUP_SPANS)) : make_float2(1.0f, 0.0f);
#pragma unroll
            for (int m = 0; m < ROWS; m++) {
                if (GROUP)
                    total[m] = fmaf(by.y, places[c].plain[m][s / GROUP_SPANS], total[m]);
                total[m] = fmaf(by.x * places[c].unit[m], sums.value(m, odd), total[m]);
            }
            sums.clear();
        }
    }
#pragma unroll
    for (int m = 0; m < ROWS; m++)
        values[m] = diagonal ? (UNITS ? total[m] : sums.value(m, odd)) : 0.0f;
}
