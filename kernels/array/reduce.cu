// Reduces an axis: x is outer x length x inner, out is outer x splits x inner.
//
// Algorithm: a tree reduction in a fixed order; the variance is two-pass (mean, then squared deviations) with the row
//   in registers where it fits. A long axis is split over CTAs (as split-K), and a second launch reduces the partials.
// Tiling: along a contiguous axis blockDim.x threads share a row, with vectorized loads, shuffles, then shared memory;
//   along another axis a thread reduces a column, so that a warp's loads are coalesced.
// Departures: no atomics: every result is combined in one order, so that equal inputs give equal bits.
//
// Options: TYPE (storage), TRANSFORM_TYPE (the type that TRANSFORM is computed in), TRANSFORM (an expression of a0,
//   applied to every element: a0, square(a0), nonzero(a0); and of its result's center a1 where CENTERED is not 0),
//   COMPUTE_TYPE (the accumulator), COMBINE (add, multiply, maximum, minimum, logical_or, logical_and), EPILOGUE (an
//   expression of a0 and the scalar a1, applied to the result), OUTPUT, CONTIGUOUS_AXIS (1: inner is 1 and blockDim.x
//   threads reduce a row; 0: a thread reduces a column), VECTOR (elements that a thread loads at once where
//   CONTIGUOUS_AXIS; x and length are aligned to as many), CENTERED (0: no; 1: by given centers; 2: by the mean of the
//   row; CONTIGUOUS_AXIS, one split, COMBINE is add), REGISTER_VECTORS (vectors of a row that a thread keeps in
//   registers, a power of two, where CONTIGUOUS_AXIS, one split, and blockDim.x threads so hold a row; 0: each is read
//   where it is needed, which is twice where CENTERED is 2).
// Launch: CONTIGUOUS_AXIS: grid (ceil(outer / blockDim.y), splits), CTA (a power of two, rows of a CTA), up to 1024
//   threads, a multiple of 32; else grid (outer * ceil(inner / CTA), splits), CTA of any size.
//   Split s reduces elements s * split_length on, split_length being a multiple of VECTOR.
// Arguments: x, centers (outer x inner of COMPUTE_TYPE; null where none are given), out, outer, length, inner, splits,
//   split_length (64 bits each), a1 (double).
#include "expressions.cuh"

constexpr int LOADS_IN_FLIGHT = 8 / VECTOR > 4 ? 8 / VECTOR : 4;

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
DEVICE COMPUTE_TYPE identity() { return PASTE(COMBINE, _identity)<COMPUTE_TYPE>(); }
DEVICE COMPUTE_TYPE combine(COMPUTE_TYPE a, COMPUTE_TYPE b) { return COMPUTE_TYPE(COMBINE(a, b)); }
DEVICE COMPUTE_TYPE transform(TYPE v, [[maybe_unused]] TRANSFORM_TYPE a1) {
    [[maybe_unused]] const TRANSFORM_TYPE a0 = load_cast<TRANSFORM_TYPE>(v);
    return COMPUTE_TYPE(TRANSFORM);
}
DEVICE OUTPUT epilogue(COMPUTE_TYPE a0, [[maybe_unused]] double scalar) {
    [[maybe_unused]] const COMPUTE_TYPE a1 = COMPUTE_TYPE(scalar);
    return StoreCast<OUTPUT>::from(EPILOGUE);
}

#if CONTIGUOUS_AXIS

typedef AlignedArray<TYPE, VECTOR> Vector;

// Accumulates a vector: each element is transformed first, unless RAW.
template <bool RAW> DEVICE void accumulate(COMPUTE_TYPE& sum, const Vector& vector, TRANSFORM_TYPE center) {
#pragma unroll
    for (int k = 0; k < VECTOR; k++)
        sum = combine(sum, RAW ? COMPUTE_TYPE(load_cast<TRANSFORM_TYPE>(vector.v[k])) : transform(vector.v[k], center));
}

// Reduces over the threads of a row; every thread gets the result.
template <int COUNT> DEVICE COMPUTE_TYPE reduce_threads(COMPUTE_TYPE (&sums)[COUNT]) {
#pragma unroll
    for (int half = COUNT / 2; half; half /= 2)
#pragma unroll
        for (int j = 0; j < half; j++)
            sums[j] = combine(sums[j], sums[j + half]);
    COMPUTE_TYPE reduced = sums[0];
    const int lanes = blockDim.x < 32 ? blockDim.x : 32;
    for (int offset = lanes / 2; offset; offset /= 2)
        reduced = combine(reduced, COMPUTE_TYPE(__shfl_xor_sync(~0u, reduced, offset)));
    if (blockDim.x > 32) {
        __shared__ COMPUTE_TYPE warps[32];
        const int warp = (threadIdx.y * blockDim.x + threadIdx.x) / 32;
        const int row_warps = blockDim.x / 32, first_warp = warp / row_warps * row_warps;
        if (threadIdx.x % 32 == 0)
            warps[warp] = reduced;
        __syncthreads();
        reduced = warps[first_warp];
        for (int w = 1; w < row_warps; w++)
            reduced = combine(reduced, warps[first_warp + w]);
    }
    return reduced;
}

#if REGISTER_VECTORS

typedef Vector RowRegisters[REGISTER_VECTORS];

template <bool RAW> DEVICE COMPUTE_TYPE reduce_row(const RowRegisters& registers, i64 vectors, TRANSFORM_TYPE center) {
    COMPUTE_TYPE sums[REGISTER_VECTORS];
#pragma unroll
    for (int j = 0; j < REGISTER_VECTORS; j++) {
        sums[j] = identity();
        if (threadIdx.x + j * blockDim.x < vectors)
            accumulate<RAW>(sums[j], registers[j], center);
    }
    return reduce_threads(sums);
}

#else

template <bool RAW> DEVICE COMPUTE_TYPE reduce_row(const Vector* from, i64 vectors, TRANSFORM_TYPE center) {
    // Several loads are in flight at once, each with its own accumulator.
    COMPUTE_TYPE sums[LOADS_IN_FLIGHT];
#pragma unroll
    for (int j = 0; j < LOADS_IN_FLIGHT; j++)
        sums[j] = identity();
    const int step = blockDim.x;
    i64 i = threadIdx.x;
    for (; i + (LOADS_IN_FLIGHT - 1) * step < vectors; i += LOADS_IN_FLIGHT * step) {
        Vector v[LOADS_IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
            v[j] = from[i + j * step];
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
            accumulate<RAW>(sums[j], v[j], center);
    }
    for (; i < vectors; i += step)
        accumulate<RAW>(sums[0], from[i], center);
    return reduce_threads(sums);
}

#endif

KERNEL reduce(const TYPE* x, const COMPUTE_TYPE* centers, OUTPUT* out, i64 outer, i64 length, i64 inner, i64 splits,
              i64 split_length, double scalar) {
    launch_dependents();
    wait_on_dependency();
    const i64 row = i64(blockIdx.x) * blockDim.y + threadIdx.y, split = blockIdx.y;
    const i64 begin = split * split_length, end = begin + split_length < length ? begin + split_length : length;
    const i64 vectors = row < outer && begin < end ? (end - begin) / VECTOR : 0;
    const Vector* from = reinterpret_cast<const Vector*>(x + row * length + begin);
#if REGISTER_VECTORS
    RowRegisters row_registers;
#pragma unroll
    for (int j = 0; j < REGISTER_VECTORS; j++)
        if (threadIdx.x + j * blockDim.x < vectors)
            row_registers[j] = from[threadIdx.x + j * blockDim.x];
    const RowRegisters& elements = row_registers;
#else
    const Vector* elements = from;
#endif
    TRANSFORM_TYPE center = TRANSFORM_TYPE();
    if constexpr (CENTERED == 1) {
        center = row < outer ? TRANSFORM_TYPE(centers[row]) : TRANSFORM_TYPE();
    } else if constexpr (CENTERED == 2) {
        center = TRANSFORM_TYPE(reduce_row<true>(elements, vectors, TRANSFORM_TYPE()) / COMPUTE_TYPE(length));
        __syncthreads();
    }
    const COMPUTE_TYPE reduced = reduce_row<false>(elements, vectors, center);
    if (threadIdx.x == 0 && row < outer)
        out[row * splits + split] = epilogue(reduced, scalar);
}

#else

KERNEL reduce(const TYPE* x, const COMPUTE_TYPE* centers, OUTPUT* out, i64 outer, i64 length, i64 inner, i64 splits,
              i64 split_length, double scalar) {
    launch_dependents();
    wait_on_dependency();
    const i64 ctas_per_row = (inner + blockDim.x - 1) / blockDim.x, row = blockIdx.x / ctas_per_row, split = blockIdx.y;
    const i64 column = (blockIdx.x % ctas_per_row) * blockDim.x + threadIdx.x;
    if (column >= inner)
        return;
    const i64 end = (split + 1) * split_length < length ? (split + 1) * split_length : length;
    const TRANSFORM_TYPE center = CENTERED ? TRANSFORM_TYPE(centers[row * inner + column]) : TRANSFORM_TYPE();
    x += row * length * inner + column;
    COMPUTE_TYPE sums[LOADS_IN_FLIGHT];
#pragma unroll
    for (int j = 0; j < LOADS_IN_FLIGHT; j++)
        sums[j] = identity();
    i64 i = split * split_length;
    for (; i + LOADS_IN_FLIGHT - 1 < end; i += LOADS_IN_FLIGHT) {
        TYPE v[LOADS_IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
            v[j] = x[(i + j) * inner];
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
            sums[j] = combine(sums[j], transform(v[j], center));
    }
    for (; i < end; i++)
        sums[0] = combine(sums[0], transform(x[i * inner], center));
#pragma unroll
    for (int half = LOADS_IN_FLIGHT / 2; half; half /= 2)
#pragma unroll
        for (int j = 0; j < half; j++)
            sums[j] = combine(sums[j], sums[j + half]);
    out[(row * splits + split) * inner + column] = epilogue(sums[0], scalar);
}

#endif
