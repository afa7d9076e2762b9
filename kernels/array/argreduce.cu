// argmin or argmax along an axis: the index of the first smallest or largest element; NaN is both, as in NumPy.
//
// Algorithm: a tree reduction of (value, index) pairs; a long axis is split over CTAs, and a second launch reduces the
//   partials. Tiling: as reduce.cu.
// Departures: ties go to the lower index in every step, so that the order of combination does not matter.
//
// Options: TYPE (storage), COMPUTE_TYPE (the type compared in), LARGEST (0, 1), CONTIGUOUS_AXIS, VECTOR (as reduce.cu).
// Launch: as reduce.cu, with at most 512 threads. Arguments: x (outer x length x inner), indices (int64: of its
//   elements in a longer axis; null: their own), values (of type TYPE: the extreme of each split; null: not stored),
//   out (int64), outer, length, inner, splits, split_length (64 bits each).
#include "expressions.cuh"

constexpr int LOADS_IN_FLIGHT = 8 / VECTOR > 4 ? 8 / VECTOR : 4;

// Whether b is larger (or smaller) than a; nothing is better than NaN.
DEVICE bool is_better(COMPUTE_TYPE a, COMPUTE_TYPE b) { return !(LARGEST ? b <= a : b >= a) && !isnan_(a); }

struct Candidate {
    COMPUTE_TYPE value;
    i64 index;  // -1: none
    // The first of equals wins, so a thread visits its elements in order.
    DEVICE void update(COMPUTE_TYPE other, i64 position) {
        if (is_better(value, other))
            value = other, index = position;
    }
    DEVICE void combine(const Candidate& other) {
        const bool equal = !is_better(value, other.value) && !is_better(other.value, value);
        if (other.index >= 0 && (index < 0 || is_better(value, other.value) || (equal && other.index < index)))
            *this = other;
    }
};

KERNEL argreduce(const TYPE* x, const i64* indices, TYPE* values, i64* out, i64 outer, i64 length, i64 inner,
                 i64 splits, i64 split_length) {
    typedef AlignedArray<TYPE, VECTOR> Vector;
    launch_dependents();
    wait_on_dependency();
    const i64 split = blockIdx.y;
#if CONTIGUOUS_AXIS
    const i64 row = i64(blockIdx.x) * blockDim.y + threadIdx.y, column = 0;
    const int lane = threadIdx.x, step = blockDim.x;
#else
    const i64 ctas_per_row = (inner + blockDim.x - 1) / blockDim.x, row = blockIdx.x / ctas_per_row;
    const i64 column = (blockIdx.x % ctas_per_row) * blockDim.x + threadIdx.x;
    const int lane = 0, step = 1;
#endif
    const bool valid = row < outer && column < inner;
    const i64 begin = split * split_length / VECTOR;
    const i64 last = (split + 1) * split_length < length ? (split + 1) * split_length : length;
    const i64 end = valid ? last / VECTOR : 0;
    const i64 first = row * length * inner + column;
    const Vector* from = reinterpret_cast<const Vector*>(x + first);
    i64 i = begin + lane;
    Candidate best = {COMPUTE_TYPE(), -1};
    if (i < end)
        best = {load_cast<COMPUTE_TYPE>(from[i * inner].v[0]), i * VECTOR};
    // Several loads are in flight at once.
    for (; i + (LOADS_IN_FLIGHT - 1) * step < end; i += LOADS_IN_FLIGHT * step) {
        Vector v[LOADS_IN_FLIGHT];
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
            v[j] = from[(i + j * step) * inner];
#pragma unroll
        for (int j = 0; j < LOADS_IN_FLIGHT; j++)
#pragma unroll
            for (int k = 0; k < VECTOR; k++)
                best.update(load_cast<COMPUTE_TYPE>(v[j].v[k]), (i + j * step) * VECTOR + k);
    }
    for (; i < end; i += step) {
        const Vector v = from[i * inner];
#pragma unroll
        for (int k = 0; k < VECTOR; k++)
            best.update(load_cast<COMPUTE_TYPE>(v.v[k]), i * VECTOR + k);
    }
#if CONTIGUOUS_AXIS
    __shared__ Candidate candidates[512];
    const int position = threadIdx.y * blockDim.x + threadIdx.x;
    candidates[position] = best;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            candidates[position].combine(candidates[position + half]);
        __syncthreads();
    }
    best = candidates[position];
    if (threadIdx.x)
        return;
#endif
    if (!valid)
        return;
    const i64 to = (row * splits + split) * inner + column;
    // A split past the end of the axis reports the first element, which an earlier split reports too.
    const i64 index = best.index < 0 ? 0 : best.index, source = first + index * inner;
    out[to] = indices ? indices[source] : index;
    if (values)
        values[to] = x[source];
}
