// Elements to places along an axis: out[o][indices[j]][i] = x[o][j][i]. Where several have one place the last is there.
//
// Options: UNIT (as in gather.cu).
// Entries, any block:
//   scatter_claim: grid ceil(count / block): the last that names each place. Arguments: indices (int64), claims (u32, one
//     per place, zero before), axis, count (64 bits each).
//   scatter: grid ceil(total / block). Arguments: x, indices, claims (null: no place is named twice), out, axis, count, inner
//     (in units), total (outer * count * inner; 64 bits each).
//   A negative index counts from the end; one that is out of bounds goes nowhere.
#include "prelude.cuh"

typedef Unit<UNIT>::Type Piece;

DEVICE i64 place_of(i64 index, i64 axis) {
    index += index < 0 ? axis : 0;
    return index >= 0 && index < axis ? index : -1;
}

KERNEL scatter_claim(const i64* indices, u32* claims, i64 axis, i64 count) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 j = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    const i64 place = j < count ? place_of(indices[j], axis) : -1;
    if (place >= 0)
        atomicMax(&claims[place], u32(j + 1));
}

KERNEL scatter(const Piece* x, const i64* indices, const u32* claims, Piece* out, i64 axis, i64 count, i64 inner,
           i64 total) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= total)
        return;
    const i64 row = at / inner, i = at - row * inner, o = row / count, j = row - o * count;
    const i64 place = place_of(indices[j], axis);
    if (place >= 0 && (!claims || claims[place] == u32(j + 1)))
        out[(o * axis + place) * inner + i] = x[at];
}
