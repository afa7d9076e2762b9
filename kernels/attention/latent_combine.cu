// Combines the splits of latent_attention.cu by their maxima and sums, in the order of the splits.
//
// Algorithm: Flash-Decoding [Dao et al. 2023]. Tiling: a CTA a query, a thread some columns.
//
// Options: ELEMENT (bf16, fp16), THREADS.
// Launch: grid queries (rows x heads), CTA of THREADS.
// Arguments: partials (splits x queries x rank floats), statistics (splits x queries x 2 floats), out (queries x rank),
//   queries, rank, splits. A query whose splits are all empty gives zeros.
#include "prelude.cuh"

KERNEL __launch_bounds__(THREADS)
latent_combine(const float* partials, const float2* statistics, ELEMENT* out, int queries, int rank,
               int splits TRACE_PARAMETER) {
    TRACE_SPAN(0);
    launch_dependents();
    wait_on_dependency();
    const i64 query = blockIdx.x;
    float most = MINUS_INFINITY, total = 0.0f;
    for (int split = 0; split < splits; split++) {
        const float2 one = statistics[i64(split) * queries + query];
        most = one.y > 0.0f ? fmaxf(most, one.x) : most;
    }
    for (int split = 0; split < splits; split++) {
        const float2 one = statistics[i64(split) * queries + query];
        total += one.y > 0.0f ? one.y * exp2_approx(one.x - most) : 0.0f;
    }
    const float inverse_sum = total > 0.0f ? 1.0f / total : 0.0f;
    for (int column = threadIdx.x; column < rank; column += THREADS) {
        float sum = 0.0f;
        for (int split = 0; split < splits; split++) {
            const float2 one = statistics[i64(split) * queries + query];
            if (one.y > 0.0f)
                sum = fmaf(partials[(i64(split) * queries + query) * rank + column], exp2_approx(one.x - most), sum);
        }
        out[query * rank + column] = from_float<ELEMENT>(sum * inverse_sum);
    }
}
