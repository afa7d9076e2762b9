// Top-k routing of one token by a warp: scores from logits, the choice of experts, and their weights.
//
// Algorithm: top-k routing [Shazeer et al. 2017] by softmax, or by sigmoid with a bias for the choice only
//   (auxiliary-loss-free balancing [Wang et al. 2024]), of the best groups of experts (DeepSeek-V2 and V3).
//
// Options: SIGMOID (0: softmax of all logits, 1: sigmoid of each), NORMALIZE (1: weights are divided by their sum),
//   TOP_TWO_GROUPS (1: groups rank by the sum of their two best experts, 0: by the best one).
#pragma once
#include "prelude.cuh"

// A word that orders as the float does; 0 for NaN, and for what is excluded.
DEVICE u32 order_key(float v) {
    const u32 bits = __float_as_uint(v + 0.0f);  // -0 becomes +0, which it equals
    return v != v ? 0 : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The index of the largest key of shared memory, the lowest among equals; -1 where all are 0.
DEVICE int warp_argmax(const u32* keys, int count) {
    u32 best = 0;
    int index = 0x7fffffff;
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < count; i += 32)
        if (keys[i] > best) {
            best = keys[i];
            index = i;
        }
    const u32 largest = __reduce_max_sync(~0u, best);
    const int first = __reduce_min_sync(~0u, best == largest ? index : 0x7fffffff);
    return largest == 0 ? -1 : first;
}

// Padding has no expert, -1, and weights of 0. Called by a whole warp.
DEVICE void route_nowhere(int* experts, float* weights, int top_k) {
    for (int i = threadIdx.x % 32; i < top_k; i += 32) {
        experts[i] = -1;
        weights[i] = 0.0f;
    }
}

// Routes one token. `scores` holds the logits; it, `keys` (experts_count words) and `group_keys` (groups words) are in
// shared memory. Called by a whole warp.
DEVICE void route_token(float* scores, u32* keys, u32* group_keys, const float* bias, int* experts, float* weights,
                        int experts_count, int top_k, int groups, int top_groups, float factor) {
    const int lane = threadIdx.x % 32;
    float row_max = MINUS_INFINITY, row_sum = 0.0f;
    if (!SIGMOID) {
#pragma unroll 1
        for (int i = lane; i < experts_count; i += 32)
            row_max = fmaxf(row_max, scores[i]);
        row_max = reduce_warp<Maximum>(row_max);
    }
#pragma unroll 1
    for (int i = lane; i < experts_count; i += 32) {
        scores[i] = SIGMOID ? 1.0f / (1.0f + expf(-scores[i])) : expf(scores[i] - row_max);
        row_sum += scores[i];
    }
    row_sum = SIGMOID ? 1.0f : reduce_warp<Sum>(row_sum);
#pragma unroll 1
    for (int i = lane; i < experts_count; i += 32) {
        scores[i] /= row_sum;
        keys[i] = order_key(scores[i] + (bias ? bias[i] : 0.0f));
    }
    __syncwarp();
    if (groups > 1) {
        const int size = experts_count / groups;
#pragma unroll 1
        for (int group = lane; group < groups; group += 32) {
            float first = MINUS_INFINITY, second = MINUS_INFINITY;
#pragma unroll 1
            for (int i = group * size; i < (group + 1) * size; i++) {
                const float rank = scores[i] + (bias ? bias[i] : 0.0f);
                second = fmaxf(second, fminf(first, rank));
                first = fmaxf(first, rank);
            }
            group_keys[group] = order_key(TOP_TWO_GROUPS && size > 1 ? first + second : first);
        }
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < top_groups; i++) {
            const int best = warp_argmax(group_keys, groups);
            __syncwarp();
            if (lane == 0)
                group_keys[max(best, 0)] = 0;
            __syncwarp();
        }
        // Keys of 0 are now the chosen groups.
#pragma unroll 1
        for (int i = lane; i < experts_count; i += 32)
            if (group_keys[i / size] != 0)
                keys[i] = 0;
        __syncwarp();
    }
    // Lane i keeps the score of choice i; of more than 32 choices, the others are read back.
    float sum = 0.0f, own = 0.0f;
#pragma unroll 1
    for (int i = 0; i < top_k; i++) {
        // Without a number left, any expert serves: its weight is NaN.
        const int found = warp_argmax(keys, experts_count), best = found < 0 ? i : found;
        sum += scores[best];
        __syncwarp();
        if (lane == 0) {
            experts[i] = best;
            keys[best] = 0;
            if (i >= 32)
                weights[i] = scores[best];
        }
        own = lane == i ? scores[best] : own;
        __syncwarp();
    }
    const float scale = NORMALIZE ? factor / sum : factor;
    if (lane < top_k)
        weights[lane] = own * scale;
#pragma unroll 1
    for (int i = 32; lane == 0 && i < top_k; i++)
        weights[i] *= scale;
}
