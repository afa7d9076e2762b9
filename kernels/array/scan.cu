// Prefix scan along rows: out[r][i] combines x[r][0..i], or x[r][0..i-1] where EXCLUSIVE. The last row may be shorter.
//
// Algorithm: reduce-then-scan [Merrill & Grimshaw 2009]: a long row is cut into many short ones; a launch computes
//   their totals, one scans the totals EXCLUSIVE, and one scans again with those as carries. Warp scans are
//   Hillis-Steele [Hillis & Steele 1986] by shuffles.
// Tiling: a CTA a row, ITEMS_PER_THREAD consecutive elements a thread, a carry from tile to tile.
// Departures: no decoupled look-back: its order of combination varies, and float results have to be reproducible.
//
// Options: TYPE, COMPUTE_TYPE, OUTPUT, COMBINE (as in reduce.cu), EXCLUSIVE (0, 1), VECTOR (elements loaded and stored
//   at once: 1 to 8; x, out and length are aligned to as many), THREADS.
// Launch: grid rows, CTA of THREADS. Arguments: x, carries (one of COMPUTE_TYPE per row, combined first; null: none),
//   out (null: none; may be x), totals (one of COMPUTE_TYPE per row; null: none), length of a row, total (of all rows;
//   64 bits each).
#include "expressions.cuh"

constexpr int ITEMS_PER_THREAD = 8;

#define PASTE_(A, B) A##B
#define PASTE(A, B) PASTE_(A, B)
DEVICE COMPUTE_TYPE identity() { return PASTE(COMBINE, _identity)<COMPUTE_TYPE>(); }
DEVICE COMPUTE_TYPE combine(COMPUTE_TYPE a, COMPUTE_TYPE b) { return COMPUTE_TYPE(COMBINE(a, b)); }

KERNEL __launch_bounds__(THREADS)
scan(const TYPE* x, const COMPUTE_TYPE* carries, OUTPUT* out, COMPUTE_TYPE* totals, i64 row_length, i64 total) {
    __shared__ COMPUTE_TYPE warp_totals[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    launch_dependents();
    wait_on_dependency();
    const i64 row_begin = blockIdx.x * row_length;
    const i64 length = total - row_begin < row_length ? total - row_begin : row_length;
    x += row_begin;
    out += out ? row_begin : 0;
    COMPUTE_TYPE carry = carries ? carries[blockIdx.x] : identity();
    for (i64 base = 0; base < length; base += THREADS * ITEMS_PER_THREAD) {
        const i64 first = base + threadIdx.x * ITEMS_PER_THREAD;
        COMPUTE_TYPE v[ITEMS_PER_THREAD], thread_total = identity();
#pragma unroll
        for (int i = 0; i < ITEMS_PER_THREAD; i += VECTOR) {
            // The length is a multiple of VECTOR: a vector is valid as a whole or not at all.
            typedef AlignedArray<TYPE, VECTOR> Vector;
            const bool valid = first + i < length;
            const Vector vector = valid ? *reinterpret_cast<const Vector*>(x + first + i) : Vector();
#pragma unroll
            for (int j = 0; j < VECTOR; j++) {
                v[i + j] = valid ? load_cast<COMPUTE_TYPE>(vector.v[j]) : identity();
                thread_total = combine(thread_total, v[i + j]);
            }
        }
        COMPUTE_TYPE inclusive = thread_total;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const COMPUTE_TYPE other = __shfl_up_sync(~0u, inclusive, offset);
            if (lane >= offset)
                inclusive = combine(other, inclusive);
        }
        if (lane == 31)
            warp_totals[warp] = inclusive;
        const COMPUTE_TYPE exclusive = __shfl_up_sync(~0u, inclusive, 1);
        __syncthreads();
        COMPUTE_TYPE prefix = carry;
        for (int w = 0; w < THREADS / 32; w++) {
            if (w < warp)
                prefix = combine(prefix, warp_totals[w]);
            carry = combine(carry, warp_totals[w]);
        }
        prefix = lane ? combine(prefix, exclusive) : prefix;
#pragma unroll
        for (int i = 0; i < ITEMS_PER_THREAD; i += VECTOR) {
            AlignedArray<OUTPUT, VECTOR> vector;
#pragma unroll
            for (int j = 0; j < VECTOR; j++) {
                const COMPUTE_TYPE inclusive_value = combine(prefix, v[i + j]);
                vector.v[j] = StoreCast<OUTPUT>::from(EXCLUSIVE ? prefix : inclusive_value);
                prefix = inclusive_value;
            }
            if (out && first + i < length)
                *reinterpret_cast<AlignedArray<OUTPUT, VECTOR>*>(out + first + i) = vector;
        }
        __syncthreads();
    }
    if (totals && threadIdx.x == 0)
        totals[blockIdx.x] = carry;
}
