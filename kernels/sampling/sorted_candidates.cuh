// The likeliest tokens of a row, sorted in shared memory: they mostly contain all that top-k and top-p keep.
#pragma once
#include "cluster_reduce.cuh"

constexpr int MAX_CANDIDATES = 2048;

// Probabilities are summed as integers in units of 2^-40: integer sums do not depend on their order.
DEVICE u64 fixed_point(float probability) { return u64(probability * 1099511627776.0f); }

// Keys hold the probability in the upper half and the complement of the token in the lower, so that a descending sort
// breaks ties by the lower token.
struct SortedCandidates {
    u64 keys[MAX_CANDIDATES];
    u64 cumulative[MAX_CANDIDATES];  // inclusive prefix sums of the probabilities
    u64 warp_sums[CTA_WARPS];
    int count;

    DEVICE static u64 key(float probability, int token) {
        return u64(__float_as_uint(probability)) << 32 | u32(~token);
    }
    DEVICE int token(int i) const { return ~int(u32(keys[i])); }
    DEVICE float probability(int i) const { return __uint_as_float(u32(keys[i] >> 32)); }

    // Bitonic sort [Batcher 1968], descending. Every thread of the CTA calls this, after a barrier.
    DEVICE void sort() {
        int size = 32;
        while (size < count)
            size *= 2;
        for (int i = count + threadIdx.x; i < size; i += THREADS)
            keys[i] = 0;
        __syncthreads();
        for (int run_length = 2; run_length <= size; run_length *= 2)
            for (int distance = run_length / 2; distance; distance /= 2) {
                for (int i = threadIdx.x; i < size / 2; i += THREADS) {
                    const int low = i / distance * distance * 2 + i % distance, high = low + distance;
                    const u64 a = keys[low], b = keys[high];
                    if ((a < b) == ((low & run_length) == 0)) {
                        keys[low] = b;
                        keys[high] = a;
                    }
                }
                __syncthreads();
            }
    }
    DEVICE void inclusive_scan() {
        constexpr int items_per_thread = MAX_CANDIDATES / THREADS;
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = threadIdx.x * items_per_thread;
        u64 sum = 0;
#pragma unroll
        for (int i = 0; i < items_per_thread; i++) {
            sum += first + i < count ? fixed_point(probability(first + i)) : 0;
            cumulative[first + i] = sum;
        }
        u64 prefix = sum;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const u64 other = __shfl_up_sync(~0u, prefix, offset);
            prefix += lane >= offset ? other : 0;
        }
        if (lane == 31)
            warp_sums[warp] = prefix;
        __syncthreads();
        prefix -= sum;
        for (int w = 0; w < warp; w++)
            prefix += warp_sums[w];
#pragma unroll
        for (int i = 0; i < items_per_thread; i++)
            cumulative[first + i] += prefix;
        __syncthreads();
    }
    // Binary search: the first candidate whose cumulative probability reaches the target.
    DEVICE int lower_bound(u64 target) const {
        int low = 0, high = count - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (cumulative[middle] >= target)
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }
    DEVICE int sample(u64 top_k, float top_p, u64 total, double uniform) const {
        total = top_k < count ? cumulative[top_k - 1] : total;
        if (top_p < 1.0f)
            total = min(total, cumulative[lower_bound(max(1ull, u64(ceil(double(top_p) * double(total)))))]);
        return token(lower_bound(min(u64(uniform * double(total)), total - 1) + 1));
    }
};
