// Sets the logits of tokens that may not be sampled to minus infinity, in place.
//
// Tiling: one thread a token; a warp shares the word of its tokens. Nothing is read of logits.
//
// Options: ELEMENT (of the logits).
// Launch: grid (ceil(vocabulary / CTA), rows), CTA of a multiple of 32.
// Arguments: logits (rows x vocabulary), allowed (rows x ceil(vocabulary / 32) words, bit t % 32 of word t / 32 is set
//   where token t may be sampled), vocabulary.
#include "prelude.cuh"

KERNEL mask_logits(ELEMENT* logits, const u32* allowed, int vocabulary TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int token = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (token >= vocabulary)
        return;
    const int words = (vocabulary + 31) / 32;
    if (!(allowed[i64(row) * words + token / 32] >> (token % 32) & 1))
        logits[i64(row) * vocabulary + token] = from_float<ELEMENT>(MINUS_INFINITY);
}
