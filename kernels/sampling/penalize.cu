// Scores of tokens that were already there are lowered, in place.
//
// Options: NUMBER (of the scores).
// Launch: grid (ceil(vocabulary / block), rows), any block.
// Arguments: scores (rows x vocabulary), counts (int32, generated so far), prompt_mask (bytes, in the prompt; may be null),
//   repetition, presence, frequency (float per row), vocabulary.
#include "prelude.cuh"

KERNEL penalize(NUMBER* scores, const int* counts, const u8* prompt_mask, const float* repetition,
                const float* presence, const float* frequency, int vocabulary) {
    start_next_kernel();
    wait_for_previous_kernel();
    const int token = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (token >= vocabulary)
        return;
    const i64 at = i64(row) * vocabulary + token;
    const int count = counts[at];
    if (count == 0 && !(prompt_mask && prompt_mask[at]))
        return;
    float score = to_float(scores[at]);
    score = score > 0.0f ? score / repetition[row] : score * repetition[row];
    score -= frequency[row] * count + (count > 0 ? presence[row] : 0.0f);
    scores[at] = from_float<NUMBER>(score);
}
