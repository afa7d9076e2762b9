// searchsorted: how many of some sorted elements come before each of others; NaN is the largest, as in NumPy.
//
// Algorithm: binary search. Tiling: one search a thread.
//
// Options: TYPE (storage), COMPUTE_TYPE (the type compared in), RIGHT (0, 1: equal ones come before).
// Launch: grid ceil(count / CTA), CTA of any size.
// Arguments: sorted, sorter (int64: the indices that sort `sorted`; null: it is in order), x, out (int64), length,
//   count (64 bits each).
#include "expressions.cuh"

DEVICE bool less_than(COMPUTE_TYPE a, COMPUTE_TYPE b) { return a < b || (isnan_(b) && !isnan_(a)); }

KERNEL searchsorted(const TYPE* sorted, const i64* sorter, const TYPE* x, i64* out, i64 length, i64 count) {
    launch_dependents();
    wait_on_dependency();
    const i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    const COMPUTE_TYPE v = load_cast<COMPUTE_TYPE>(x[at]);
    i64 low = 0, high = length;
    while (low < high) {
        const i64 middle = low + (high - low) / 2, index = sorter ? sorter[middle] : middle;
        // An index of the sorter that is out of bounds compares equal, and reads nothing.
        const COMPUTE_TYPE other = index >= 0 && index < length ? load_cast<COMPUTE_TYPE>(sorted[index]) : v;
        if (RIGHT ? !less_than(v, other) : less_than(other, v))
            low = middle + 1;
        else
            high = middle;
    }
    out[at] = low;
}
