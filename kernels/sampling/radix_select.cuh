// Threshold search over all tokens of a row, for rows whose sorted candidates do not contain all that is kept.
//
// Algorithm: radix select (most significant digit first) [Alabi et al. 2012], two bits of the key a pass, with weighted
// counts: the threshold is where the accumulated count (top-k) or probability mass (top-p, the sample) reaches a
// target.
#pragma once
#include "sorted_candidates.cuh"

constexpr int LOADS_IN_FLIGHT = 8;

// What select() accumulates, over keys from high to low: the number of tokens, or their probability mass.
enum Order { COUNT_BY_PROBABILITY, MASS_BY_PROBABILITY, MASS_ABOVE, EQUALS_BY_TOKEN };
struct Threshold {
    u32 key;    // the first at which the accumulated amount reaches the target
    u64 above;  // the amount of all higher keys
};
constexpr u32 KEYS = 1u << 30;

// Radix select over all tokens of a row; a thread holds every 32nd token of its warp's range.
struct RadixSelect {
    const float* probabilities;
    int first, last;
    float min_probability;  // min-p: tokens below this are excluded
    ClusterSum* cluster_sum;
    int buffer;

    DEVICE void all_reduce(u64 (&v)[3]) {
        cluster_sum->all_reduce(v, buffer);
        buffer ^= 1;
    }
    template <Order ORDER> DEVICE void count(u64 (&sums)[3], u32 from, u32 step, u32 equal) {
        for (int base = first; base < last; base += 32 * LOADS_IN_FLIGHT) {
            float probability[LOADS_IN_FLIGHT];
#pragma unroll
            for (int j = 0; j < LOADS_IN_FLIGHT; j++)
                probability[j] = base + j * 32 < last ? probabilities[base + j * 32] : -1.0f;
#pragma unroll
            for (int j = 0; j < LOADS_IN_FLIGHT; j++) {
                const u32 bits = __float_as_uint(probability[j]);
                const u32 key = ORDER == EQUALS_BY_TOKEN ? KEYS - 1 - (base + j * 32) : bits;
                const bool included = ORDER == EQUALS_BY_TOKEN ? bits == equal : probability[j] >= min_probability;
                const bool counted = ORDER == COUNT_BY_PROBABILITY || ORDER == EQUALS_BY_TOKEN;
                const u64 amount = !included ? 0 : counted ? 1 : fixed_point(probability[j]);
#pragma unroll
                for (u32 d = 0; d < 3; d++)
                    sums[d] += key >= from + d * step ? amount : 0;
            }
        }
        all_reduce(sums);
    }
    template <Order ORDER> DEVICE Threshold select(u64 target, u32 equal = 0) {
        Threshold threshold = {0, 0};
        for (int shift = 28; shift >= 0; shift -= 2) {
            u64 sums[3] = {0, 0, 0};
            count<ORDER>(sums, threshold.key + (1u << shift), 1u << shift, equal);
            u32 digit = 0;
#pragma unroll
            for (u32 d = 1; d < 4; d++)
                digit = sums[d - 1] >= target ? d : digit;
            threshold.above = digit == 3 ? threshold.above : digit == 2 ? sums[2] : digit == 1 ? sums[1] : sums[0];
            threshold.key |= digit << shift;
        }
        return threshold;
    }
    // Inverse-CDF sampling: the token at the quantile `uniform` among the `top_k` likeliest tokens and, of those, the
    // smallest set of the likeliest with the share `top_p` of their mass; `total` is the mass of all tokens.
    DEVICE int sample(u64 top_k, u64 present, float top_p, u64 total, double uniform) {
        auto mass_of = [](u32 key) { return max(1ull, fixed_point(__uint_as_float(key))); };
        if (top_k < present) {
            const Threshold threshold = select<COUNT_BY_PROBABILITY>(top_k);
            u64 sums[3] = {0, 0, 0};
            count<MASS_ABOVE>(sums, threshold.key + 1, 0, 0);
            total = sums[0] + (top_k - threshold.above) * fixed_point(__uint_as_float(threshold.key));
        }
        if (top_p < 1.0f) {
            const u64 nucleus = max(1ull, u64(ceil(double(top_p) * double(total))));
            const Threshold threshold = select<MASS_BY_PROBABILITY>(nucleus);
            const u64 mass = mass_of(threshold.key), ties = (nucleus - threshold.above + mass - 1) / mass;
            total = min(total, threshold.above + ties * mass);
        }
        const u64 target = min(u64(uniform * double(total)), total - 1) + 1;
        const Threshold threshold = select<MASS_BY_PROBABILITY>(target);
        const u64 mass = mass_of(threshold.key), rank = (target - threshold.above + mass - 1) / mass;
        return int(KEYS - 1 - select<EQUALS_BY_TOKEN>(rank, threshold.key).key);
    }
};
