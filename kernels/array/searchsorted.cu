// How many of some sorted elements come before each of others; NaN counts as the largest, as in NumPy.
//
// Options: TYPE (in memory), COMPUTED (the type compared in), RIGHT (0, 1: equal ones come before).
// Launch: grid ceil(count / block), any block.
// Arguments: sorted, order (int64: the place of each in `sorted`; null: they are in order), x, out (int64), length,
//   count (64 bits each).
#include "expressions.cuh"

DEVICE bool less_than(COMPUTED a, COMPUTED b) { return a < b || (isnan_(b) && !isnan_(a)); }

KERNEL searchsorted(const TYPE* sorted, const i64* order, const TYPE* x, i64* out, i64 length, i64 count) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count)
        return;
    const COMPUTED v = computed<COMPUTED>(x[at]);
    i64 low = 0, high = length;
    while (low < high) {
        const i64 middle = low + (high - low) / 2, place = order ? order[middle] : middle;
        // An order that names what is not there finds nothing wrong.
        const COMPUTED other = place >= 0 && place < length ? computed<COMPUTED>(sorted[place]) : v;
        if (RIGHT ? !less_than(v, other) : less_than(other, v))
            low = middle + 1;
        else
            high = middle;
    }
    out[at] = low;
}
