// out[i] = x[rows[i]]: embedding lookup, and gathering the rows whose logits are computed.
//
// Algorithm: a plain gather; none published. Tiling: one access of ACCESS_BYTES a thread, a grid row an output row.
//
// Options: ACCESS_BYTES (bytes moved at once: 16, or 4, 2, 1 where row_bytes is no multiple of more).
// Launch: grid (ceil(row_bytes / ACCESS_BYTES / CTA), number of rows), CTA of any size.
// Arguments: x, rows (int32), sampled_tokens (int32, or null), out, row_bytes, count (rows of x), sampled_count.
//   A row of -2 - n stands for sampled_tokens[n]: a token that the previous step has just sampled on the device need
//   not go through the host. A row of -1, or beyond count, gives zeros.
#include "prelude.cuh"

typedef AccessType<ACCESS_BYTES>::Type Access;

KERNEL gather_rows(const u8* x, const int* rows, const int* sampled_tokens, u8* out, int row_bytes, int count,
                   int sampled_count TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int at = (blockIdx.x * blockDim.x + threadIdx.x) * ACCESS_BYTES;
    if (at >= row_bytes)
        return;
    int row = rows[blockIdx.y];
    if (row < -1)
        row = -2 - row < sampled_count ? sampled_tokens[-2 - row] : -1;
    Access value = {};
    if (row >= 0 && row < count)
        value = *reinterpret_cast<const Access*>(x + i64(row) * row_bytes + at);
    *reinterpret_cast<Access*>(out + i64(blockIdx.y) * row_bytes + at) = value;
}
