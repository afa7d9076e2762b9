// What kernels over pairs share: LayerNorm of rows into shared memory, and slices of weights by cp.async.
//
// Weights and norms are arrays like any other, which the kernel before may have just written: they are read behind
// wait_on_dependency(), and no pointer is __restrict__, whose loads ptxas may hoist above it.
#pragma once
#include "prelude.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int SLICE_K = 64, SLICE_CHUNKS = SLICE_K / 8;

// Bytes of a row of so many elements in shared memory: an odd number of 16 bytes, so that ldmatrix does not conflict.
__device__ constexpr int row_bytes(int elements) { return elements * 2 + 16; }

// One operation of the special function unit where an exponential and a reciprocal are two. Its absolute error, 2^-12,
// is that of rounding a gate between 0.5 and 1 to fp16; gates near zero have fewer exact bits.
DEVICE float logistic(float v) { return fmaf(tanh_approx(0.5f * v), 0.5f, 0.5f); }

// Sums of eight elements and eight.
template <class T> DEVICE uint4 add_elements(uint4 a, uint4 b) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 left = unpack<T>(word(a, i)), right = unpack<T>(word(b, i));
        words[i] = pack<T>(left.x + right.x, left.y + right.y);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Where 16 bytes of a tile are in shared memory. Rows one after another, as ldmatrix reads them:
template <int WIDTH> struct PaddedTile {
    DEVICE static u32 at(int row, int chunk) { return row * row_bytes(WIDTH) + chunk * 16; }
};
// Blocks of 64 columns one after another, each with the 128-byte swizzle, as wgmma reads them:
template <int ROWS> struct SwizzledTile {
    DEVICE static u32 at(int row, int chunk) {
        return (chunk / 8 * ROWS + row) * 128 + ((chunk % 8) ^ (row % 8)) * 16;
    }
};

// Copies a slice of SLICE_K inputs of ROWS rows of weights, of WIDTH inputs each; the caller commits.
template <class T, int ROWS, int WIDTH, class Tile = PaddedTile<SLICE_K>>
DEVICE void copy_slice(u32 to, const T* weights, int slice) {
    for (int i = threadIdx.x; i < ROWS * SLICE_CHUNKS; i += THREADS) {
        const int row = i / SLICE_CHUNKS, chunk = i % SLICE_CHUNKS;
        const T* from = weights + i64(row) * WIDTH + slice * SLICE_K + chunk * 8;
        cp_async_16(to + Tile::at(row, chunk), from, true);
    }
}

// LayerNorm of `rows` rows of x into shared memory: row r is that of `source(r)`, and zero from `count` on. The
// variance is the two-pass one, in single precision.
template <class T, int WIDTH, class Tile = PaddedTile<WIDTH>, class Source>
DEVICE void normalize_rows(u32 tile, int rows, int count, const T* x, const T* weight, const T* bias, float epsilon,
                           Source source) {
    // Narrow rows share a warp.
    constexpr int LANES = WIDTH == 64 ? 8 : WIDTH == 128 ? 16 : 32;
    constexpr int CHUNKS = ceil_divide(WIDTH / 8, LANES);
    const int lane = threadIdx.x % LANES;
#pragma unroll 2
    for (int row = threadIdx.x / LANES; row < rows; row += THREADS / LANES) {
        const T* from = x + i64(source(min(row, count - 1))) * WIDTH;
        float v[CHUNKS][8], sum = 0.0f, square = 0.0f;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = (c * LANES + lane) * 8;
            const uint4 words = at < WIDTH ? load16(from + at) : zero16();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 pair = unpack<T>(word(words, i));
                v[c][2 * i] = pair.x;
                v[c][2 * i + 1] = pair.y;
                sum += pair.x + pair.y;
            }
        }
#pragma unroll
        for (int offset = LANES / 2; offset; offset >>= 1)
            sum += __shfl_xor_sync(~0u, sum, offset);
        const float mean = sum / WIDTH;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float distance = (c * LANES + lane) * 8 < WIDTH ? v[c][i] - mean : 0.0f;
                square = fmaf(distance, distance, square);
            }
#pragma unroll
        for (int offset = LANES / 2; offset; offset >>= 1)
            square += __shfl_xor_sync(~0u, square, offset);
        const float factor = rsqrtf(square / WIDTH + epsilon);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = (c * LANES + lane) * 8;
            if (at >= WIDTH)
                continue;
            const uint4 gains = load16(weight + at), shifts = load16(bias + at);
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 gain = unpack<T>(word(gains, i)), shift = unpack<T>(word(shifts, i));
                words[i] = pack<T>((v[c][2 * i] - mean) * factor * gain.x + shift.x,
                                   (v[c][2 * i + 1] - mean) * factor * gain.y + shift.y);
            }
            const uint4 normed = make_uint4(words[0], words[1], words[2], words[3]);
            store16_shared(tile + Tile::at(row, at / 8), row < count ? normed : zero16());
        }
    }
}

// Copies sums, channel by channel, of `count` places from `first` on as rows of places; the caller commits.
template <class T, int COUNT, int PLACES>
DEVICE void copy_sums(u32 to, const T* sums, int first, int count, i64 places) {
    for (int i = threadIdx.x; i < COUNT * PLACES / 8; i += THREADS) {
        const int channel = i / (PLACES / 8), place = i % (PLACES / 8) * 8;
        const T* from = sums + channel * places + first + min(place, count - 8);
        cp_async_16(to + PaddedTile<PLACES>::at(channel, place / 8), from, place < count);
    }
}

// LayerNorm of those rows over channels, transposed to a tile of places by channels; `partial` has a float for each
// thread, in shared memory.
template <class T, int COUNT, int PLACES, class Tile>
DEVICE void normalize_sums(u32 tile, const u8* raw, float* partial, const T* weight, const T* bias, float epsilon) {
    // Threads of a place, each with some of its channels.
    constexpr int PARTS = THREADS / PLACES, PART_CHANNELS = COUNT / PARTS;
    const int place = threadIdx.x % PLACES, part = threadIdx.x / PLACES;
    auto over_parts = [&](float v) {
        __syncthreads();
        partial[threadIdx.x] = v;
        __syncthreads();
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < PARTS; other++)
            sum += partial[other * PLACES + place];
        return sum;
    };
    auto value = [&](int channel) {
        return to_float(*reinterpret_cast<const T*>(raw + channel * row_bytes(PLACES) + place * 2));
    };
    const int begin = part * PART_CHANNELS;
    float sum = 0.0f, square = 0.0f;
    for (int channel = begin; channel < begin + PART_CHANNELS; channel++)
        sum += value(channel);
    const float mean = over_parts(sum) / COUNT;
    for (int channel = begin; channel < begin + PART_CHANNELS; channel++) {
        const float distance = value(channel) - mean;
        square = fmaf(distance, distance, square);
    }
    const float factor = rsqrtf(over_parts(square) / COUNT + epsilon);
    for (int channel = begin; channel < begin + PART_CHANNELS; channel += 8) {
        const uint4 gains = load16(weight + channel), shifts = load16(bias + channel);
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 gain = unpack<T>(word(gains, i)), shift = unpack<T>(word(shifts, i));
            words[i] = pack<T>((value(channel + 2 * i) - mean) * factor * gain.x + shift.x,
                               (value(channel + 2 * i + 1) - mean) * factor * gain.y + shift.y);
        }
        store16_shared(tile + Tile::at(place, channel / 8), make_uint4(words[0], words[1], words[2], words[3]));
    }
}

// Fragments of mma m16n8k16 by ldmatrix, from tiles whose rows are contiguous along k.
// The A operand: rows first to first + 15, and 16 elements from k on.
template <int BYTES> DEVICE void load_a(u32 (&a)[4], u32 tile, int first, int k) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4(a, tile + (first + lane % 16) * BYTES + (k + lane / 16 * 8) * 2);
}
// The B operand of two products: columns first to first + 7 in b[0] and b[1], the next eight in b[2] and b[3].
template <int BYTES> DEVICE void load_b(u32 (&b)[4], u32 tile, int first, int k) {
    const int lane = threadIdx.x % 32;
    ldmatrix_x4(b, tile + (first + lane % 8 + lane / 16 * 8) * BYTES + (k + lane / 8 % 2 * 8) * 2);
}
