// Samples the next token of each row of logits: argmax, or temperature with min-p, top-k and top-p.
//
// Algorithm: inverse-CDF sampling with a uniform number from SplitMix64 [Steele et al. 2014] of seed and step. Tokens
//   are ordered by descending probability, ties by token; min-p, top-k and top-p [Holtzman et al. 2020] each keep a
//   prefix of that order, so each is a threshold search in it: a binary search in the bitonic-sorted likeliest tokens
//   where they contain the prefix (sorted_candidates.cuh), else radix select over all tokens (radix_select.cuh).
//   Without top-k and top-p the CDF is in token order.
// Tiling: a row is one thread block cluster of CLUSTER_SIZE CTAs, which exchange sums and candidates through
//   distributed shared memory; each warp has a contiguous range of the vocabulary, read with 16-byte loads.
// Departures: probabilities are summed as 64-bit integers in units of 2^-40, so that sums, and with them the sampled
//   token, do not depend on the order of threads. They are recomputed from the logits where needed; only radix select
//   keeps them in memory. Greedy rows are read once.
//
// Options: ELEMENT (of the logits), VECTOR (elements loaded at once: 8, for float 4, where logits and vocabulary are
//   aligned to as many; else 1), THREADS, CLUSTER_SIZE (CTAs of a row; 1 below compute capability 9.0).
// Launch: grid rows * CLUSTER_SIZE, CTA of THREADS, no dynamic shared memory; cluster dimension (CLUSTER_SIZE, 1, 1).
// Arguments: logits (rows x vocabulary), temperature, top_k (int32), top_p, min_p (float), seeds, steps (SEED, STEP:
//   i64 or int), tokens (int32, out), logprobs (float, out; may be null), probabilities (rows x vocabulary floats of
//   scratch), vocabulary. Parameters are per row; temperature 0 is greedy: the largest logit, the first of equals;
//   top_k 0, top_p 1 and min_p 0 keep all tokens, min_p of 1 or more the best. NaN is never sampled; a row of nothing
//   but NaN gives -1 and NaN. The log-probability is at temperature 1 among all tokens.
#include "vectorization.cuh"
#include "radix_select.cuh"

#ifndef SEED
#define SEED i64
#define STEP i64
#endif

constexpr float CANDIDATE_THRESHOLD = 0x1p-10f;  // of the best token's probability
// Logits that a lane has in flight: many in the memory-bound argmax, few where each costs an exponential.
constexpr int ARGMAX_LOADS = VECTOR == 1 ? 8 : 32, SUM_LOADS = 8;

struct ArgMax {
    float logit;
    int token;
};
DEVICE ArgMax combine(ArgMax a, ArgMax b) {
    const bool first = a.logit > b.logit || (a.logit == b.logit && u32(a.token) < u32(b.token));
    return first ? a : b;
}

// Visits the logits of a warp from start to last, each lane's tokens in ascending order.
template <int IN_FLIGHT, class Visit>
DEVICE void for_each_logit(const ELEMENT* logits, int start, int last, Visit visit) {
    constexpr int LOADS = IN_FLIGHT / VECTOR, step = 32 * VECTOR;
    for (int base = start + threadIdx.x % 32 * VECTOR; base < last; base += step * LOADS) {
        float v[LOADS][VECTOR];
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (base + j * step < last)
                VectorAccess<ELEMENT, VECTOR>::load(logits + base + j * step, v[j]);
#pragma unroll
        for (int j = 0; j < LOADS; j++)
            if (base + j * step < last) {
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    visit(v[j][i], base + j * step + i);
            }
    }
}

DEVICE u64 split_mix_64(u64 seed, u64 step) {
    u64 v = seed + (step + 1) * 0x9E3779B97F4A7C15ull;
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ull;
    v = (v ^ (v >> 27)) * 0x94D049BB133111EBull;
    return v ^ (v >> 31);
}

KERNEL __launch_bounds__(THREADS)
sample(const ELEMENT* logits, const float* temperature, const int* top_k, const float* top_p, const float* min_p,
       const SEED* seeds, const STEP* steps, int* tokens, float* logprobs, float* __restrict__ probabilities,
       int vocabulary TRACE_PARAMETER) {
    TRACE_SPAN(0);
    __shared__ ClusterSum cluster_sum;
    __shared__ ArgMax warp_bests[CTA_WARPS];
    [[maybe_unused]] __shared__ u64 cta_best;
    __shared__ u64 cta_candidates;
    __shared__ SortedCandidates candidates;
    const int row = blockIdx.x / CLUSTER_SIZE, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Each warp of the cluster has a contiguous range of the vocabulary.
    const int tokens_per_warp = round_up(ceil_divide(vocabulary, CLUSTER_SIZE * CTA_WARPS), 32 * VECTOR);
    const int start = min(vocabulary, int(cta_rank() * CTA_WARPS + warp) * tokens_per_warp);
    const int last = min(vocabulary, start + tokens_per_warp), first = start + lane;
    if (threadIdx.x == 0)
        candidates.count = 0;
    launch_dependents();
    wait_on_dependency();
    logits += i64(row) * vocabulary;
    probabilities += i64(row) * vocabulary;
    const float nan = __int_as_float(0x7fffffff);

    // Loads the parameters early, to overlap their latency with the logits'.
    const float row_temperature = temperature[row], row_top_p = top_p[row], row_min_p = min_p[row];
    const int row_top_k = top_k[row];
    ArgMax best = {MINUS_INFINITY, -1};
    for_each_logit<ARGMAX_LOADS>(logits, start, last, [&](float logit, int token) {
        if (logit > best.logit || (best.token < 0 && logit == logit))
            best = {logit, token};
    });
#pragma unroll
    for (int offset = 16; offset; offset >>= 1)
        best = combine(best, {__shfl_xor_sync(~0u, best.logit, offset), __shfl_xor_sync(~0u, best.token, offset)});
    if (lane == 0)
        warp_bests[warp] = best;
    __syncthreads();
    best = warp_bests[0];
    for (int w = 1; w < CTA_WARPS; w++)
        best = combine(best, warp_bests[w]);
#if CLUSTER_SIZE > 1
    if (threadIdx.x == 0)
        cta_best = u64(__float_as_uint(best.logit)) << 32 | u32(best.token);
    cluster_sync();
    for (u32 rank = 0; rank < CLUSTER_SIZE; rank++) {
        const u64 other = load_dsmem(&cta_best, rank);
        best = combine(best, {__uint_as_float(u32(other >> 32)), int(u32(other))});
    }
#endif

    const bool greedy = !(row_temperature > 0.0f) || best.token < 0 || best.logit == -MINUS_INFINITY;
    const float effective_top_p = greedy ? 1.0f : row_top_p, effective_min_p = greedy ? 0.0f : fminf(row_min_p, 1.0f);
    const float inverse_temperature = greedy ? 1.0f : 1.0f / row_temperature;
    const u64 effective_top_k = !greedy && row_top_k > 0 ? row_top_k : ~0ull;
    // Relative to the best token's: between 0 and 1, where floats compare as their bits do.
    auto probability_of = [&](float logit, float inverse_temperature) {
        const float probability = fminf(expf((logit - best.logit) * inverse_temperature), 1.0f);
        return !(logit == logit) ? 0.0f : logit == best.logit ? 1.0f : probability;
    };
    const bool truncates = !greedy && (effective_top_k != ~0ull || effective_top_p < 1.0f);
    u64 sums[3] = {0, 0, 0}, candidate_sums[3] = {0, 0, 0};
    if (!greedy || logprobs)
        for_each_logit<SUM_LOADS>(logits, start, last, [&](float logit, int token) {
            sums[2] += logprobs ? fixed_point(probability_of(logit, 1.0f)) : 0;
            if (greedy)
                return;
            const float probability = probability_of(logit, inverse_temperature);
            if (probability < effective_min_p)
                return;
            sums[0] += fixed_point(probability);
            sums[1] += 1;
            if (truncates && probability >= CANDIDATE_THRESHOLD) {
                candidate_sums[0] += fixed_point(probability);
                candidate_sums[1] += 1;
                const int at = atomicAdd(&candidates.count, 1);
                if (at < MAX_CANDIDATES)
                    candidates.keys[at] = SortedCandidates::key(probability, token);
            }
        });
    int buffer = 0;
    if (!greedy || logprobs) {
        cluster_sum.all_reduce(sums, buffer);
        buffer ^= 1;
    }
    // One thread of the row calls this.
    auto store_result = [&](int token) {
        tokens[row] = token;
        if (logprobs) {
            const float difference = token == best.token ? 0.0f : to_float(logits[max(token, 0)]) - best.logit;
            logprobs[row] = token < 0 ? nan : difference - float(log(double(sums[2]) * 0x1p-40));
        }
    };
    const double uniform = greedy ? 0.0 : double(split_mix_64(seeds[row], steps[row]) >> 11) * 0x1p-53;
    if (greedy) {
        if (cta_rank() == 0 && threadIdx.x == 0)
            store_result(best.token);
    } else if (!truncates) {
        // Inverse CDF in token order: one warp's range contains the target, and in it one lane's.
        auto mass_of = [&](int token) {
            const float probability = probability_of(to_float(logits[token]), inverse_temperature);
            return probability < effective_min_p ? 0 : fixed_point(probability);
        };
        const u64 target = min(u64(uniform * double(sums[0])), sums[0] - 1) + 1;
        u64 sum = cluster_sum.exclusive_sum(0, warp);
        if (sum < target && target <= sum + cluster_sum.warp_sums[0][warp][0]) {
            const int tokens_per_lane = ceil_divide(last - start, 32);
            const int begin = min(last, start + lane * tokens_per_lane), end = min(last, begin + tokens_per_lane);
            u64 lane_mass = 0;
#pragma unroll 8
            for (int i = begin; i < end; i++)
                lane_mass += mass_of(i);
            u64 inclusive = lane_mass;
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const u64 other = __shfl_up_sync(~0u, inclusive, offset);
                inclusive += lane >= offset ? other : 0;
            }
            sum += inclusive - lane_mass;
            const bool has_token = sum < target && target <= sum + lane_mass;
            for (int i = begin; has_token && i < end && sum < target; i++) {
                sum += mass_of(i);
                if (sum >= target)
                    store_result(i);
            }
        }
    } else {
        cluster_sum.all_reduce(candidate_sums, buffer);
        buffer ^= 1;
        const u64 nucleus = u64(ceil(double(effective_top_p) * double(sums[0])));
        const u64 count = candidate_sums[1];
        const bool sufficient = effective_top_k != ~0ull ? count >= effective_top_k || count == sums[1]
                                                         : candidate_sums[0] >= nucleus;
        if (sufficient && count <= MAX_CANDIDATES) {
            if (threadIdx.x == 0)
                cta_candidates = candidates.count;
            cluster_sync();
            if (cta_rank() == 0) {
                int gathered = int(load_dsmem(&cta_candidates, 0));
                for (u32 rank = 1; rank < CLUSTER_SIZE; rank++) {
                    const int remote_count = int(load_dsmem(&cta_candidates, rank));
                    for (int i = threadIdx.x; i < remote_count; i += THREADS)
                        candidates.keys[gathered + i] = load_dsmem(&candidates.keys[i], rank);
                    gathered += remote_count;
                }
                __syncthreads();
                if (threadIdx.x == 0)
                    candidates.count = gathered;
                __syncthreads();
                candidates.sort();
                candidates.inclusive_scan();
                if (threadIdx.x == 0)
                    store_result(candidates.sample(effective_top_k, effective_top_p, sums[0], uniform));
            }
        } else {
            // Radix select reads them many times, each lane what it wrote.
#pragma unroll 8
            for (int i = first; i < last; i += 32)
                probabilities[i] = probability_of(to_float(logits[i]), inverse_temperature);
            RadixSelect all = {probabilities, first, last, effective_min_p, &cluster_sum, buffer};
            const int token = all.sample(effective_top_k, sums[1], effective_top_p, sums[0], uniform);
            if (cta_rank() == 0 && threadIdx.x == 0)
                store_result(token);
        }
    }
#if CLUSTER_SIZE > 1
    cluster_sync();  // a CTA may not exit before others have read its shared memory
#endif
}
