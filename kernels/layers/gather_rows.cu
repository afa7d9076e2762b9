// out[i] = x[rows[i]]: embedding lookup, and picking the rows whose scores are wanted.
//
// Options: UNIT (bytes moved at once: 16, or 4, 2, 1 where row_bytes is no multiple of more).
// Launch: grid (ceil(row_bytes / UNIT / block), how many), any block.
// Arguments: x, rows (int32), chosen (int32, or null), out, row_bytes, count (rows of x), chosen_count.
//   A row of -2 - n is chosen[n]: what the step before has just sampled need not go through the host. A row of -1,
//   or beyond count, gives zeros.
#include "prelude.cuh"

typedef Unit<UNIT>::Type Piece;

KERNEL gather_rows(const u8* x, const int* rows, const int* chosen, u8* out, int row_bytes, int count,
                   int chosen_count) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) * UNIT;
    if (at >= row_bytes)
        return;
    int row = rows[blockIdx.y];
    if (row < -1)
        row = -2 - row < chosen_count ? chosen[-2 - row] : -1;
    Piece piece = {};
    if (row >= 0 && row < count)
        piece = *reinterpret_cast<const Piece*>(x + i64(row) * row_bytes + at);
    *reinterpret_cast<Piece*>(out + i64(blockIdx.y) * row_bytes + at) = piece;
}
