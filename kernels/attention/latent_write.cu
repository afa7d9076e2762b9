// Multi-head latent attention: norms latents, applies RoPE, and writes latents and shared keys to the paged cache.
//
// Algorithm: RMSNorm [Zhang & Sennrich 2019] of the latent, rotary position embedding [Su et al. 2021] of the shared
//   key and of the rotary part of each query head [DeepSeek-AI 2024]. Tiling: a CTA a row.
//
// Options: ELEMENT (bf16, fp16), INTERLEAVED (as rope_write.cu), THREADS (a multiple of 32).
// Launch: grid rows, CTA of THREADS.
// Arguments: kv (rows x (rank + rotary_dim)), positions, slot_mapping (int32), cos_sin_table (as rope_write.cu), norm
//   (rank), q_rope (rows x heads x rotary_dim, rotated in place), cache (blocks x block_tokens x (rank + rotary_dim)),
//   heads, rank, rotary_dim, epsilon. A slot of -1 is a padding row, which is skipped.
#include "prelude.cuh"

KERNEL __launch_bounds__(THREADS)
latent_write(const ELEMENT* kv, const int* positions, const int* slot_mapping, const float* cos_sin_table,
             const ELEMENT* norm, ELEMENT* q_rope, ELEMENT* cache, int heads, int rank, int rotary_dim,
             float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const int row = blockIdx.x, slot = slot_mapping[row], pairs = rotary_dim / 2;
    if (slot < 0)
        return;
    const ELEMENT* latent = kv + i64(row) * (rank + rotary_dim);
    ELEMENT* to = cache + i64(slot) * (rank + rotary_dim);
    const float* cosines = cos_sin_table + i64(positions[row]) * rotary_dim;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < rank; i += THREADS) {
        const float v = to_float(latent[i]);
        sum = fmaf(v, v, sum);
    }
    const float inverse_rms = rsqrtf(reduce_cta<Sum>(sum) / rank + epsilon);
    for (int i = threadIdx.x; i < rank; i += THREADS)
        to[i] = from_float<ELEMENT>(to_float(latent[i]) * inverse_rms * to_float(norm[i]));
    // Head `heads` is the shared key.
    for (int i = threadIdx.x; i < (heads + 1) * pairs; i += THREADS) {
        const int head = i / pairs, pair = i % pairs;
        ELEMENT* query = q_rope + (i64(row) * heads + head) * rotary_dim;
        const ELEMENT* from = head < heads ? query : latent + rank;
        ELEMENT* out = head < heads ? query : to + rank;
        const int first = INTERLEAVED ? 2 * pair : pair, second = INTERLEAVED ? 2 * pair + 1 : pair + pairs;
        const float a = to_float(from[first]), b = to_float(from[second]);
        const float cosine = cosines[pair], sine = cosines[pairs + pair];
        out[first] = from_float<ELEMENT>(a * cosine - b * sine);
        out[second] = from_float<ELEMENT>(b * cosine + a * sine);
    }
}
