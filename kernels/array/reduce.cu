// Joins the elements of an axis: x is outer x length x inner, out is outer x parts x inner.
//
// Options: TYPE (in memory), LOADED (the type that FIRST is computed in), FIRST (an expression of a0, applied to every
//   element: a0, square(a0), nonzero(a0); and of its result's center a1 where CENTERED is not 0), COMPUTED (the type
//   joined in), JOIN (add, multiply, maximum, minimum, logical_or, logical_and), LAST (an expression of a0 and the number
//   a1, applied to what comes out), OUTPUT, ROWS (1: inner is 1 and blockDim.x threads join a row; 0: a thread joins a
//   column), TOGETHER (elements that a thread loads at once where ROWS; x and length are aligned to as many), CENTERED (0:
//   not; 1: by given centers; 2: by the mean of the row; ROWS, one part, JOIN is add), HELD (pieces of TOGETHER elements that
//   a thread holds in registers, a power of two, where ROWS, one part, and blockDim.x threads so hold a row; 0: each is
//   read where it is needed, which is twice where CENTERED is 2).
// Launch: ROWS: grid (ceil(outer / blockDim.y), parts), block (a power of two, rows of a block), up to 1024 threads,
//   a multiple of 32; else grid (outer * ceil(inner / block), parts), any block.
//   Part p joins elements p * each on, `each` being a multiple of TOGETHER: a long axis is two launches, the second
//   over the parts.
// Arguments: x, centers (outer x inner of COMPUTED; null where none are given), out, outer, length, inner, parts, each (64
//   bits each), a1 (double). Every result is joined in one order alone.
#include "expressions.cuh"

constexpr int AHEAD = 8 / TOGETHER > 4 ? 8 / TOGETHER : 4;

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
DEVICE COMPUTED start() { return PASTE(JOIN, _start)<COMPUTED>(); }
DEVICE COMPUTED join(COMPUTED a, COMPUTED b) { return COMPUTED(JOIN(a, b)); }
DEVICE COMPUTED first(TYPE v, [[maybe_unused]] LOADED a1) {
    [[maybe_unused]] const LOADED a0 = computed<LOADED>(v);
    return COMPUTED(FIRST);
}
DEVICE OUTPUT last(COMPUTED a0, [[maybe_unused]] double number) {
    [[maybe_unused]] const COMPUTED a1 = COMPUTED(number);
    return Stored<OUTPUT>::from(LAST);
}

#if ROWS

typedef Several<TYPE, TOGETHER> Piece;

// Takes elements in: each goes through FIRST, or stays as it is where PLAIN.
template <bool PLAIN> DEVICE void take(COMPUTED& sum, const Piece& piece, LOADED center) {
#pragma unroll
    for (int k = 0; k < TOGETHER; k++)
        sum = join(sum, PLAIN ? COMPUTED(computed<LOADED>(piece.v[k])) : first(piece.v[k], center));
}

// What the sums of a row's threads come to; every one of them gets it.
template <int COUNT> DEVICE COMPUTED join_threads(COMPUTED (&sums)[COUNT]) {
#pragma unroll
    for (int half = COUNT / 2; half; half /= 2)
#pragma unroll
        for (int j = 0; j < half; j++)
            sums[j] = join(sums[j], sums[j + half]);
    COMPUTED joined = sums[0];
    const int lanes = blockDim.x < 32 ? blockDim.x : 32;
    for (int offset = lanes / 2; offset; offset /= 2)
        joined = join(joined, COMPUTED(__shfl_xor_sync(~0u, joined, offset)));
    if (blockDim.x > 32) {
        __shared__ COMPUTED warps[32];
        const int warp = (threadIdx.y * blockDim.x + threadIdx.x) / 32, each = blockDim.x / 32, row = warp / each * each;
        if (threadIdx.x % 32 == 0)
            warps[warp] = joined;
        __syncthreads();
        joined = warps[row];
        for (int w = 1; w < each; w++)
            joined = join(joined, warps[row + w]);
    }
    return joined;
}

#if HELD

typedef Piece Held[HELD];

template <bool PLAIN> DEVICE COMPUTED join_row(const Held& held, i64 pieces, LOADED center) {
    COMPUTED sums[HELD];
#pragma unroll
    for (int j = 0; j < HELD; j++) {
        sums[j] = start();
        if (threadIdx.x + j * blockDim.x < pieces)
            take<PLAIN>(sums[j], held[j], center);
    }
    return join_threads(sums);
}

#else

template <bool PLAIN> DEVICE COMPUTED join_row(const Piece* from, i64 pieces, LOADED center) {
    // Several loads are under way at once; each has a sum of its own.
    COMPUTED sums[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        sums[j] = start();
    const int step = blockDim.x;
    i64 i = threadIdx.x;
    for (; i + (AHEAD - 1) * step < pieces; i += AHEAD * step) {
        Piece v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = from[i + j * step];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            take<PLAIN>(sums[j], v[j], center);
    }
    for (; i < pieces; i += step)
        take<PLAIN>(sums[0], from[i], center);
    return join_threads(sums);
}

#endif

KERNEL reduce(const TYPE* x, const COMPUTED* centers, OUTPUT* out, i64 outer, i64 length, i64 inner, i64 parts, i64 each,
              double number) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 row = i64(blockIdx.x) * blockDim.y + threadIdx.y, part = blockIdx.y;
    const i64 begin = part * each, end = begin + each < length ? begin + each : length;
    const i64 pieces = row < outer && begin < end ? (end - begin) / TOGETHER : 0;
    const Piece* from = reinterpret_cast<const Piece*>(x + row * length + begin);
#if HELD
    Held row_held;
#pragma unroll
    for (int j = 0; j < HELD; j++)
        if (threadIdx.x + j * blockDim.x < pieces)
            row_held[j] = from[threadIdx.x + j * blockDim.x];
    const Held& elements = row_held;
#else
    const Piece* elements = from;
#endif
    LOADED center = LOADED();
    if constexpr (CENTERED == 1) {
        center = row < outer ? LOADED(centers[row]) : LOADED();
    } else if constexpr (CENTERED == 2) {
        center = LOADED(join_row<true>(elements, pieces, LOADED()) / COMPUTED(length));
        __syncthreads();
    }
    const COMPUTED joined = join_row<false>(elements, pieces, center);
    if (threadIdx.x == 0 && row < outer)
        out[row * parts + part] = last(joined, number);
}

#else

KERNEL reduce(const TYPE* x, const COMPUTED* centers, OUTPUT* out, i64 outer, i64 length, i64 inner, i64 parts, i64 each,
              double number) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 across = (inner + blockDim.x - 1) / blockDim.x, row = blockIdx.x / across, part = blockIdx.y;
    const i64 column = (blockIdx.x % across) * blockDim.x + threadIdx.x;
    if (column >= inner)
        return;
    const i64 end = (part + 1) * each < length ? (part + 1) * each : length;
    const LOADED center = CENTERED ? LOADED(centers[row * inner + column]) : LOADED();
    x += row * length * inner + column;
    COMPUTED sums[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        sums[j] = start();
    i64 i = part * each;
    for (; i + AHEAD - 1 < end; i += AHEAD) {
        TYPE v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = x[(i + j) * inner];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            sums[j] = join(sums[j], first(v[j], center));
    }
    for (; i < end; i++)
        sums[0] = join(sums[0], first(x[i * inner], center));
#pragma unroll
    for (int half = AHEAD / 2; half; half /= 2)
#pragma unroll
        for (int j = 0; j < half; j++)
            sums[j] = join(sums[j], sums[j + half]);
    out[(row * parts + part) * inner + column] = last(sums[0], number);
}

#endif
