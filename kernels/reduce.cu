// Joins the elements of an axis: x is outer x length x inner, out is outer x parts x inner.
//
// Options: TYPE (in memory), COMPUTED (the type joined in), OUTPUT, EXPRESSION (of a0, applied first: positive(a0),
//   square(a0)), JOIN (add, multiply, maximum, minimum, logical_or, logical_and, bitwise_xor ...: of
//   expressions.cuh), START (what joining begins with), ROWS (1: inner is 1 and a block joins a row; 0: a thread
//   joins a column).
// Launch: ROWS: grid (parts, outer), block a multiple of 32; else grid (ceil(inner / block), parts, outer), any block.
//   Part p joins elements p * ceil(length / parts) on: a long axis in two launches, the second over the parts.
// Arguments: x, out, length, inner, parts (64 bits each). Every result is joined in one order alone.
#include "expressions.cuh"

constexpr int AHEAD = 8;

KERNEL reduce(const TYPE* x, OUTPUT* out, i64 length, i64 inner, i64 parts) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 part = ROWS ? blockIdx.x : blockIdx.y, outer = ROWS ? blockIdx.y : blockIdx.z;
    const i64 each = (length + parts - 1) / parts, first = part * each;
    const i64 last = first + each < length ? first + each : length;
    const i64 column = ROWS ? 0 : i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (column >= inner)
        return;
    x += outer * length * inner + column;
    const int step = ROWS ? blockDim.x : 1;
    // Several loads are under way at once; each has a sum of its own.
    COMPUTED sums[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++)
        sums[j] = COMPUTED(START);
    i64 i = first + (ROWS ? threadIdx.x : 0);
    for (; i + (AHEAD - 1) * step < last; i += AHEAD * step) {
        TYPE v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = x[(i + j * step) * inner];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const COMPUTED a0 = computed<COMPUTED>(v[j]);
            sums[j] = COMPUTED(JOIN(sums[j], COMPUTED(EXPRESSION)));
        }
    }
    for (; i < last; i += step) {
        const COMPUTED a0 = computed<COMPUTED>(x[i * inner]);
        sums[0] = COMPUTED(JOIN(sums[0], COMPUTED(EXPRESSION)));
    }
#pragma unroll
    for (int half = AHEAD / 2; half; half /= 2)
#pragma unroll
        for (int j = 0; j < half; j++)
            sums[j] = COMPUTED(JOIN(sums[j], sums[j + half]));
    OUTPUT* to = out + (outer * parts + part) * inner + column;
    if constexpr (!ROWS) {
        *to = Stored<OUTPUT>::from(sums[0]);
    } else {
        __shared__ COMPUTED joined[1024];
        joined[threadIdx.x] = sums[0];
        __syncthreads();
        int count = blockDim.x;
        while (count > 1) {
            const int half = (count + 1) / 2;
            if (threadIdx.x + half < count)
                joined[threadIdx.x] = COMPUTED(JOIN(joined[threadIdx.x], joined[threadIdx.x + half]));
            __syncthreads();
            count = half;
        }
        if (threadIdx.x == 0)
            *to = Stored<OUTPUT>::from(joined[0]);
    }
}
