// Combines the partials of decode attention: those of the warps of a CTA, then those of the splits of a head.
//
// Algorithm: Flash-Decoding [Dao et al. 2023]: accumulators and sums are brought to a common maximum and added, in
//   the order of warps and splits, so that results do not depend on which CTA finishes last. The splits of a cluster
//   meet in distributed shared memory; else the last CTA to arrive combines what all left in global memory.
#pragma once
#include "attention_decode.cuh"
#include "cluster.cuh"

// Aligned for stores of two floats and more, wherever the compiler places it.
struct alignas(16) DecodePartials {
    float accumulators[WARPS][QUERY_HEADS][HEAD_DIM + 4];
    float row_max[WARPS][QUERY_HEADS], row_sum[WARPS][QUERY_HEADS];
};

DEVICE void store_partials(DecodePartials& shared, const DecodeState& state) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float v = state.row_sum[n][i];
#pragma unroll
            for (int lanes = 4; lanes < 32; lanes <<= 1)
                v += __shfl_xor_sync(~0u, v, lanes);
            if (g == 0) {
                shared.row_max[warp][n * 8 + t * 2 + i] = state.row_max[n][i];
                shared.row_sum[warp][n * 8 + t * 2 + i] = v;
            }
#pragma unroll
            for (int m = 0; m < HEAD_DIM / 16; m++)
                *reinterpret_cast<float2*>(
                    &shared.accumulators[warp][n * 8 + t * 2 + i][value_element(m / 4, g) + m % 4 * 2]) =
                    make_float2(state.accumulators[n][m][i] / PROBABILITY_SCALE,
                                state.accumulators[n][m][i + 2] / PROBABILITY_SCALE);
        }
    }
}

// Stores the output of a task's query heads at `out`; `partials` and `counters` are those of the kernel's arguments.
DEVICE void combine_partials(DecodePartials& shared, const DecodeState& state, const DecodeTask& task,
                             const ScoreOptions& options, float* partials, u32* counters, ELEMENT* out) {
    const int split = task.split, splits = task.splits;
    store_partials(shared, state);
    __syncthreads();
    auto factor = [](float row_max, float local_max) {
        return row_max == MINUS_INFINITY ? 0.0f : exp2_approx(local_max - row_max);
    };
    auto store_output = [&](int e, float sum, float row_sum, float row_max) {
        if constexpr (HAS_SINKS) {
            // A sink is a key without a value: it takes part in the maximum and in the sum.
            const float sink = options.sinks[task.kv_head * task.group_heads + e / HEAD_DIM] * LOG2_E;
            const float new_max = fmaxf(row_max, sink), rescale = factor(new_max, row_max);
            sum *= rescale;
            row_sum = row_max == MINUS_INFINITY ? 0.0f : fmaf(row_sum, rescale, factor(new_max, sink));
        }
        if (task.has_query)
            out[e] = from_float<ELEMENT>(row_sum > 0.0f ? sum / row_sum : 0.0f);
    };
    const i64 first_partial = ((i64(task.sequence) * task.kv_heads + task.kv_head) * splits + split) * QUERY_HEADS;
    float* own_partials = partials + first_partial * (HEAD_DIM + 2);
    for (int e = threadIdx.x; e < task.group_heads * HEAD_DIM; e += WARPS * 32) {
        const int head = e / HEAD_DIM, d = e % HEAD_DIM;
        float row_max = MINUS_INFINITY, row_sum = 0.0f, sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            row_max = fmaxf(row_max, shared.row_max[w][head]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float f = factor(row_max, shared.row_max[w][head]);
            row_sum = fmaf(f, shared.row_sum[w][head], row_sum);
            sum = fmaf(f, shared.accumulators[w][head][d], sum);
        }
        if (splits == 1)
            store_output(e, sum, row_sum, row_max);
        float* to = CLUSTER ? shared.accumulators[0][head] : own_partials + head * (HEAD_DIM + 2);
        if (splits > 1)
            to[d] = sum;
        if (splits > 1 && d == 0) {
            to[HEAD_DIM] = row_max;
            to[HEAD_DIM + 1] = row_sum;
        }
    }
    if (splits == 1)
        return;
    // A partial of split z: row `head` holds HEAD_DIM accumulators, then the row maximum and the row sum.
    auto partial_of = [&](int z, int head, int d) {
#if CLUSTER
        return load_dsmem(&shared.accumulators[0][head][d], z);
#else
        return __ldcg(own_partials + (i64(z - split) * QUERY_HEADS + head) * (HEAD_DIM + 2) + d);
#endif
    };
    // Several partials at a time, so that their loads are in flight together.
    auto combine = [&](int e) {
        constexpr int batch = 8;
        const int head = e / HEAD_DIM;
        float row_max = MINUS_INFINITY, row_sum = 0.0f, sum = 0.0f;
        for (int first = 0; first < splits; first += batch) {
            float maxima[batch], sums[batch], accumulated[batch];
#pragma unroll
            for (int i = 0; i < batch; i++) {
                const int z = min(first + i, splits - 1);
                maxima[i] = partial_of(z, head, HEAD_DIM);
                sums[i] = partial_of(z, head, HEAD_DIM + 1);
                accumulated[i] = partial_of(z, head, e % HEAD_DIM);
            }
            float new_max = row_max;
#pragma unroll
            for (int i = 0; i < batch; i++)
                new_max = fmaxf(new_max, maxima[i]);
            const float rescale = factor(new_max, row_max);
            row_sum *= rescale, sum *= rescale;
#pragma unroll
            for (int i = 0; i < batch; i++) {
                const float f = first + i < splits ? factor(new_max, maxima[i]) : 0.0f;
                row_sum = fmaf(f, sums[i], row_sum);
                sum = fmaf(f, accumulated[i], sum);
            }
            row_max = new_max;
        }
        store_output(e, sum, row_sum, row_max);
    };
#if CLUSTER
    cluster_sync();
    for (int e = split * WARPS * 32 + threadIdx.x; e < task.group_heads * HEAD_DIM; e += splits * WARPS * 32)
        combine(e);
    cluster_sync();  // a CTA may not exit before others have read its shared memory
#else
    __shared__ u32 finished_splits;
    __threadfence();
    __syncthreads();
    u32* counter = counters + task.sequence * task.kv_heads + task.kv_head;
    if (threadIdx.x == 0)
        finished_splits = atomicAdd(counter, 1u);
    __syncthreads();
    if (finished_splits != splits - 1)
        return;
    __threadfence();
    if (threadIdx.x == 0)
        *counter = 0;
    for (int e = threadIdx.x; e < task.group_heads * HEAD_DIM; e += WARPS * 32)
        combine(e);
#endif
}
