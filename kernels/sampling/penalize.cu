// Lowers the logits of tokens that have already occurred, in place.
//
// Algorithm: the repetition penalty of CTRL [Keskar et al. 2019], then presence and frequency penalties as the OpenAI
//   API defines them. Tiling: one thread a token.
//
// Options: ELEMENT (of the logits).
// Launch: grid (ceil(vocabulary / CTA), rows), CTA of any size.
// Arguments: logits (rows x vocabulary), counts (int32, generated so far), prompt_mask (bytes, in the prompt; may be
//   null), repetition, presence, frequency (float per row), vocabulary.
#include "prelude.cuh"

KERNEL penalize(ELEMENT* logits, const int* counts, const u8* prompt_mask, const float* repetition,
                const float* presence, const float* frequency, int vocabulary TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int token = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (token >= vocabulary)
        return;
    const i64 at = i64(row) * vocabulary + token;
    const int count = counts[at];
    if (count == 0 && !(prompt_mask && prompt_mask[at]))
        return;
    float logit = to_float(logits[at]);
    logit = logit > 0.0f ? logit / repetition[row] : logit * repetition[row];
    logit -= frequency[row] * count + (count > 0 ? presence[row] : 0.0f);
    logits[at] = from_float<ELEMENT>(logit);
}
