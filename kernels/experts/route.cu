// The experts of each token and their weights, from the logits of a router.
//
// Algorithm, options: as route.cuh. Tiling: a warp a token, scores in shared memory; each of the top_k experts is one
//   argmax over the warp, ties to the lower index.
//
// Launch: grid rows, CTA of 32, shared bytes 4 * (2 * experts_count + groups).
// Arguments: logits (rows x experts_count, float), bias (experts_count, float, may be null), slots (rows, int32, may be
//   null: a row of a negative slot is padding), experts (rows x top_k, int32), weights (rows x top_k, float),
//   experts_count, top_k, groups, top_groups, factor.
#include "route.cuh"

KERNEL __launch_bounds__(32)
route(const float* logits, const float* bias, const int* slots, int* experts, float* weights, int experts_count,
      int top_k, int groups, int top_groups, float factor TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ float scores[];
    u32 *keys = reinterpret_cast<u32*>(scores + experts_count), *group_keys = keys + experts_count;
    launch_dependents();
    wait_on_dependency();
    const i64 row = blockIdx.x;
    if (slots && slots[row] < 0)
        return route_nowhere(experts + row * top_k, weights + row * top_k, top_k);
    for (int i = threadIdx.x; i < experts_count; i += 32)
        scores[i] = logits[row * experts_count + i];
    __syncwarp();
    route_token(scores, keys, group_keys, bias, experts + row * top_k, weights + row * top_k, experts_count, top_k,
                groups, top_groups, factor);
}
