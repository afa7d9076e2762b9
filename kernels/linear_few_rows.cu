// y = activate(norm(x) W^T + bias) + residual for 1 to 8 rows of x: one pass over the weights.
//
// Options: ACTIVATION (bf16, fp16: the type of x, gain, bias and residual), OUTPUT (type of y),
//   WEIGHT (16: as ACTIVATION; 8: offset integers; 80: e4m3; 4: unsigned integers of 4 bits),
//   GROUPED (1: a scale and a minimum for every `group` weights of a row, as pairs of fp16; 0: one
//   float scale per row for 8 and 80), NORM (1: RMS norm of x by gain and epsilon),
//   PAIRED (1: outputs n and n + outputs / 2 are gate and up: y = silu(gate) * up),
//   ACTIVATE (0 none, 1 silu, 2 gelu, 3 gelu_tanh, 4 relu), WARPS, DEPTH, BLOCKS (per multiprocessor).
// Launch: grid min(groups, what fits) blocks, groups = ceil(outputs / 16), or ceil(outputs / 16) for
//   PAIRED as well (8 gates and 8 ups; outputs is a multiple of 2); block WARPS * 32; no dynamic shared memory.
// Arguments: weights, scales, x (rows x inputs), gain, bias, residual, y, rows, outputs, inputs, group, epsilon.
//   gain, bias, residual and scales may be null where unused; residual may be y. inputs is a multiple
//   of 8, and of 32 for WEIGHT other than 16. Rows of x, y and residual are dense.
//
// Weights of 16 bits are outputs x inputs, row-major. Others lie in rows of ceil(inputs / TILE)
// pieces of 128 bytes (TILE = 128 or 256 weights); within a piece, 16-byte chunk 4 i + t holds the
// weights 32 s + 8 t + 0..7 of spans s: of 8 bits, s = 2 i and 2 i + 1, each 8 weights as two words
// with bytes 0, 2, 1, 3; of 4 bits, s = 4 i + word, its 4-bit places 0..7 holding weights
// 0, 2, 4, 6, 1, 3, 5, 7. Weights of 8 bits are stored plus 128. Scales: outputs x ceil(inputs / group);
// group is a power of two of at least 32.
#include "prelude.cuh"

#ifndef NORM
#define NORM 0
#endif
#ifndef PAIRED
#define PAIRED 0
#endif
#ifndef ACTIVATE
#define ACTIVATE 0
#endif
#ifndef GROUPED
#define GROUPED 0
#endif

typedef ACTIVATION Number;
constexpr int BITS = WEIGHT == 80 ? 8 : WEIGHT;
constexpr int TILE = 1024 / BITS;  // weights in 128 bytes
constexpr int SPANS = TILE / 32;
constexpr bool OFFSET = WEIGHT == 8 || WEIGHT == 4;

// A small integer put into the lowest bits of this number is added to it, exactly.
template <class T> struct Magic;
template <> struct Magic<bf16> {
    static constexpr u32 pair = 0x43004300u, ones = 0x3f803f80u;
    static constexpr float value = 128.0f;
};
template <> struct Magic<fp16> {
    static constexpr u32 pair = 0x64006400u, ones = 0x3c003c00u;
    static constexpr float value = 1024.0f;
};

struct Piece {
    uint4 low[2], high[2];
    u32 low_scales[2], high_scales[2];  // where GROUPED
};

DEVICE u32 word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
DEVICE u32 nibbles(u32 w) { return (w & 0x000f000fu) | Magic<Number>::pair; }

// Bytes 1 and 3 as numbers of 16 bits: the exponent moves to its place, then its bias is made up for.
DEVICE u32 e4m3_pair(u32 w) {
    if constexpr (sizeof(Number) == 2 && Magic<Number>::value == 128.0f) {
        u32 moved = ((w & 0x7f007f00u) >> 4) | (w & 0x80008000u);
        return multiply_pairs<Number>(moved, 0x7b807b80u);  // 2^120
    } else {
        u32 moved = ((w & 0x7f007f00u) >> 1) | (w & 0x80008000u);
        return multiply_pairs<Number>(moved, 0x5c005c00u);  // 2^8
    }
}

DEVICE float activate(float v) {
#if ACTIVATE == 2
    return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
#elif ACTIVATE == 3
    return 0.5f * v * (1.0f + tanhf(0.79788456080286536f * (v + 0.044715f * v * v * v)));
#elif ACTIVATE == 1
    return silu(v);
#elif ACTIVATE == 4
    return v < 0.0f ? 0.0f : v;
#else
    return v;
#endif
}

// The sums of one span of 32 weights: `high` is the upper half of 8-bit weights, `plain` the sum of x.
struct Sums {
    float low[4], high[4], plain[4];
    DEVICE void clear() {
#pragma unroll
        for (int i = 0; i < 4; i++)
            low[i] = high[i] = plain[i] = 0.0f;
    }
    DEVICE float value(int i) const {
        if (WEIGHT == 8)
            return 16.0f * high[i] + low[i] - (17.0f * Magic<Number>::value + 128.0f) * plain[i];
        if (WEIGHT == 4)
            return low[i] - Magic<Number>::value * plain[i];
        return low[i];
    }
};

DEVICE void multiply_span(Sums& sums, const Piece& piece, int s, uint4 x) {
    if constexpr (WEIGHT == 16) {
        const uint4 &a = piece.low[s], &b = piece.high[s];
        multiply_16x8x16<Number>(sums.low, a.x, b.x, a.y, b.y, x.x, x.y);
        multiply_16x8x16<Number>(sums.low, a.z, b.z, a.w, b.w, x.z, x.w);
    } else if constexpr (BITS == 8) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            u32 a = word(piece.low[s / 2], s % 2 * 2 + h), b = word(piece.high[s / 2], s % 2 * 2 + h);
            u32 x0 = h ? x.z : x.x, x1 = h ? x.w : x.y;
            if constexpr (WEIGHT == 80) {
                multiply_16x8x16<Number>(sums.low, e4m3_pair(a << 8), e4m3_pair(b << 8), e4m3_pair(a),
                                         e4m3_pair(b), x0, x1);
            } else {
                multiply_16x8x16<Number>(sums.low, nibbles(a), nibbles(b), nibbles(a >> 8), nibbles(b >> 8), x0, x1);
                multiply_16x8x16<Number>(sums.high, nibbles(a >> 4), nibbles(b >> 4), nibbles(a >> 12),
                                         nibbles(b >> 12), x0, x1);
            }
        }
    } else {
        u32 a = word(piece.low[s / 4], s % 4), b = word(piece.high[s / 4], s % 4);
        multiply_16x8x16<Number>(sums.low, nibbles(a), nibbles(b), nibbles(a >> 4), nibbles(b >> 4), x.x, x.y);
        multiply_16x8x16<Number>(sums.low, nibbles(a >> 8), nibbles(b >> 8), nibbles(a >> 12), nibbles(b >> 12), x.z,
                                 x.w);
    }
    if constexpr (OFFSET || GROUPED) {
        constexpr u32 one = Magic<Number>::ones;
        multiply_16x8x16<Number>(sums.plain, one, one, one, one, x.x, x.y);
        multiply_16x8x16<Number>(sums.plain, one, one, one, one, x.z, x.w);
    }
}

KERNEL __launch_bounds__(WARPS * 32, BLOCKS)
linear_few_rows(const u8* __restrict__ weights, const void* __restrict__ scales, const Number* x,
                const Number* __restrict__ gain, const Number* __restrict__ bias, const Number* residual, OUTPUT* y,
                int rows, int outputs, int inputs, int group, float epsilon) {
    __shared__ float parts[2][WARPS][128];
    __shared__ float squares[WARPS][8];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int tiles = ceil_divide(inputs, TILE);
    const int steps = round_up(ceil_divide(tiles, WARPS), DEPTH);
    const int made = PAIRED ? outputs / 2 : outputs;  // columns of y
    const int columns = PAIRED ? 8 : 16;              // of y, by one group
    const int groups = ceil_divide(made, columns);
    const i64 row_bytes = WEIGHT == 16 ? i64(inputs) * 2 : i64(tiles) * 128;

    // Rows beyond the last are read as the last and not written.
    auto low_row = [&](int of) { return min(of * columns + g, made - 1); };
    auto high_row = [&](int of) { return PAIRED ? made + low_row(of) : min(of * columns + g + 8, made - 1); };
    auto fetch = [&](Piece& piece, int of, int step) {
        const int tile = step * WARPS + warp;
        const u8* low = weights + low_row(of) * row_bytes;
        const u8* high = weights + high_row(of) * row_bytes;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = tile * 128 + (i * 4 + t) * 16;
            const bool valid = of < groups && at < row_bytes;
            piece.low[i] = valid ? load16_once(low + at) : zero16();
            piece.high[i] = valid ? load16_once(high + at) : zero16();
        }
        if constexpr (GROUPED) {
            const int shift = 31 - __clz(group);
            const i64 row_scales = (inputs + group - 1) >> shift;
            const u32* pairs = static_cast<const u32*>(scales);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int at = tile * TILE + (t * 2 + i) * 32;
                const bool valid = of < groups && at < inputs && t * 2 + i < SPANS;
                piece.low_scales[i] = valid ? __ldg(pairs + low_row(of) * row_scales + (at >> shift)) : 0;
                piece.high_scales[i] = valid ? __ldg(pairs + high_row(of) * row_scales + (at >> shift)) : 0;
            }
        }
    };

    start_next_kernel();
    Piece pieces[DEPTH];
    int current = blockIdx.x;
#pragma unroll
    for (int j = 0; j < DEPTH; j++)
        fetch(pieces[j], current, j);
    wait_for_previous_kernel();

    // Thread e of the first 128 finishes output e % 16 of row e / 16.
    const int e = threadIdx.x, finish_row = e / 16, finish_column = e % 16;
    const bool finishes = e < 128 && finish_row < rows && finish_column < columns;
    float square = 0.0f;
    bool first = true;
    for (int turn = 0; current < groups; current += gridDim.x, turn ^= 1) {
        const int output = current * columns + finish_column;
        const bool writes = finishes && output < made;
        const i64 place = i64(finish_row) * made + output;
        const float added = writes && residual ? to_float(residual[place]) : 0.0f;
        Sums sums;
        sums.clear();
        float total[4] = {};
        for (int base = 0; base < steps; base += DEPTH) {
            const bool more = base + DEPTH < steps;
            const int next = more ? current : current + gridDim.x;
#pragma unroll
            for (int j = 0; j < DEPTH; j++) {
                const int tile = (base + j) * WARPS + warp;
#pragma unroll
                for (int s = 0; s < SPANS; s++) {
                    const int k = tile * TILE + s * 32 + t * 8;
                    const bool valid = g < rows && k < inputs;
                    uint4 v = valid ? load16(x + i64(g) * inputs + k) : zero16();
                    if constexpr (NORM) {
                        if (first) {
#pragma unroll
                            for (int i = 0; i < 4; i++) {
                                float2 pair = unpack<Number>(word(v, i));
                                square = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square));
                            }
                        }
                        uint4 by = valid ? load16(gain + k) : zero16();
                        v = make_uint4(multiply_pairs<Number>(v.x, by.x), multiply_pairs<Number>(v.y, by.y),
                                       multiply_pairs<Number>(v.z, by.z), multiply_pairs<Number>(v.w, by.w));
                    }
                    multiply_span(sums, pieces[j], s, v);
                    if constexpr (GROUPED) {
                        const int source = (lane & ~3) | (s / 2);
                        const float2 low = unpack<fp16>(__shfl_sync(~0u, pieces[j].low_scales[s % 2], source));
                        const float2 high = unpack<fp16>(__shfl_sync(~0u, pieces[j].high_scales[s % 2], source));
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const float2 by_group = i < 2 ? low : high;
                            total[i] = fmaf(by_group.x, sums.value(i), fmaf(by_group.y, sums.plain[i], total[i]));
                        }
                        sums.clear();
                    }
                }
                fetch(pieces[j], next, more ? base + DEPTH + j : j);
            }
        }
        if constexpr (!GROUPED) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                total[i] = sums.value(i);
        }
        *reinterpret_cast<float4*>(&parts[turn][warp][lane * 4]) = make_float4(total[0], total[1], total[2], total[3]);
        if (NORM && first) {
            square += __shfl_xor_sync(~0u, square, 1);
            square += __shfl_xor_sync(~0u, square, 2);
            if (t == 0)
                squares[warp][g] = square;
        }
        __syncthreads();
        if (writes) {
            auto sum_of = [&](int column) {
                const int at = (column % 8 * 4 + finish_row / 2) * 4 + column / 8 * 2 + finish_row % 2;
                float sum = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++)
                    sum += parts[turn][w][at];
                return sum;
            };
            float scale = 1.0f;
            if constexpr (NORM) {
                float mean = 0.0f;
#pragma unroll
                for (int w = 0; w < WARPS; w++)
                    mean += squares[w][finish_row];
                scale = rsqrtf(mean / inputs + epsilon);
            }
            auto finished = [&](int column, int of) {
                float v = scale * sum_of(column);
                if (BITS == 8 && !GROUPED)
                    v *= __ldg(static_cast<const float*>(scales) + of);
                return bias ? v + to_float(bias[of]) : v;
            };
            float v = finished(finish_column, output);
            v = PAIRED ? silu(v) * finished(finish_column + 8, made + output) : activate(v);
            y[place] = from_float<OUTPUT>(v + added);
        }
        first = false;
    }
}
