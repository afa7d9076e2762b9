// Elements along an axis by their numbers: out[o][j][i] = x[o][indices[j]][i], and the other way round.
//
// Options: UNIT (bytes of an element, or of several of the inner axis where they are aligned: 1, 2, 4, 8, 16), PUT (0:
//   take; 1: out[o][indices[j]][i] = x[o][j][i]; of equal indices one wins, which one is not said).
// Launch: grid (ceil(inner / block), count, outer), any block.
// Arguments: x, indices (int64), out, axis (length of the axis that is indexed), count, inner (in units; 64 bits
//   each). A negative index counts from the end; one that is out of bounds gives zeros, or puts nothing.
#include "prelude.cuh"

typedef Unit<UNIT>::Type Piece;

KERNEL take(const Piece* x, const i64* indices, Piece* out, i64 axis, i64 count, i64 inner) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x, j = blockIdx.y, o = blockIdx.z;
    if (i >= inner)
        return;
    i64 index = indices[j];
    index += index < 0 ? axis : 0;
    const bool inside = index >= 0 && index < axis;
    const i64 indexed = (o * axis + index) * inner + i, counted = (o * count + j) * inner + i;
#if PUT
    if (inside)
        out[indexed] = x[counted];
#else
    out[counted] = inside ? x[indexed] : Piece();
#endif
}
