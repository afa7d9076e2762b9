// The experts of each token and their weights, from the logits of a router.
//
// Algorithm: top-k routing [Shazeer et al. 2017] by softmax, or by sigmoid with a bias for the choice only
//   (auxiliary-loss-free balancing [Wang et al. 2024]), of the best groups of experts (DeepSeek-V2 and V3).
// Tiling: a warp a token, scores in shared memory; each of the top_k experts is one argmax over the warp, ties to the
//   lower index.
//
// Options: SIGMOID (0: softmax of all logits, 1: sigmoid of each), NORMALIZE (1: weights are divided by their sum),
//   TOP_TWO_GROUPS (1: groups rank by the sum of their two best experts, 0: by the best one).
// Launch: grid rows, CTA of 32, shared bytes 4 * (2 * experts_count + groups).
// Arguments: logits (rows x experts_count, float), bias (experts_count, float, may be null), experts (rows x top_k,
//   int32), weights (rows x top_k, float), experts_count, top_k, groups, top_groups, factor.
#include "prelude.cuh"

// The index of the largest value that is not NaN, the lowest among equals; 0 where all are NaN.
DEVICE int warp_argmax(const float* values, int count) {
    float best = MINUS_INFINITY;
    int index = -1;
    for (int i = threadIdx.x; i < count; i += 32)
        if (values[i] == values[i] && (index < 0 || values[i] > best)) {
            best = values[i];
            index = i;
        }
#pragma unroll
    for (int offset = 16; offset; offset /= 2) {
        const float other = __shfl_xor_sync(~0u, best, offset);
        const int other_index = __shfl_xor_sync(~0u, index, offset);
        const bool better = index < 0 || other > best || (other == best && other_index < index);
        if (other_index >= 0 && better) {
            best = other;
            index = other_index;
        }
    }
    return index;
}

KERNEL __launch_bounds__(32)
route(const float* logits, const float* bias, int* experts, float* weights, int experts_count, int top_k, int groups,
      int top_groups, float factor TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ float dynamic[];
    float *scores = dynamic, *ranks = scores + experts_count, *group_ranks = ranks + experts_count;
    const int lane = threadIdx.x;
    const float not_a_number = __uint_as_float(0x7fffffffu);
    launch_dependents();
    wait_on_dependency();
    logits += i64(blockIdx.x) * experts_count;
    float row_max = MINUS_INFINITY, row_sum = 0.0f;
    if (!SIGMOID) {
        for (int i = lane; i < experts_count; i += 32)
            row_max = fmaxf(row_max, logits[i]);
        row_max = reduce_warp<Maximum>(row_max);
    }
    for (int i = lane; i < experts_count; i += 32) {
        scores[i] = SIGMOID ? 1.0f / (1.0f + expf(-logits[i])) : expf(logits[i] - row_max);
        row_sum += scores[i];
    }
    row_sum = SIGMOID ? 1.0f : reduce_warp<Sum>(row_sum);
    for (int i = lane; i < experts_count; i += 32) {
        scores[i] /= row_sum;
        ranks[i] = scores[i] + (bias ? bias[i] : 0.0f);
    }
    __syncwarp();
    if (groups > 1) {
        const int size = experts_count / groups;
        for (int group = lane; group < groups; group += 32) {
            float first = MINUS_INFINITY, second = MINUS_INFINITY;
            for (int i = group * size; i < (group + 1) * size; i++) {
                second = fmaxf(second, fminf(first, ranks[i]));
                first = fmaxf(first, ranks[i]);
            }
            group_ranks[group] = TOP_TWO_GROUPS && size > 1 ? first + second : first;
        }
        __syncwarp();
        for (int i = 0; i < top_groups; i++) {
            const int best = warp_argmax(group_ranks, groups);
            __syncwarp();
            if (lane == 0)
                group_ranks[max(best, 0)] = not_a_number;
            __syncwarp();
        }
        for (int i = lane; i < experts_count; i += 32)
            if (group_ranks[i / size] == group_ranks[i / size])
                ranks[i] = not_a_number;
        __syncwarp();
    }
    experts += i64(blockIdx.x) * top_k;
    weights += i64(blockIdx.x) * top_k;
    float sum = 0.0f;
    for (int i = 0; i < top_k; i++) {
        // Without a number left, any expert serves: its weight is NaN.
        const int found = warp_argmax(ranks, experts_count), best = found < 0 ? i : found;
        sum += scores[best];
        __syncwarp();
        if (lane == 0) {
            experts[i] = best;
            weights[i] = scores[best];
            ranks[best] = not_a_number;
        }
        __syncwarp();
    }
    const float scale = NORMALIZE ? factor / sum : factor;
    for (int i = lane; i < top_k; i += 32)
        weights[i] *= scale;
}
