// A search over all tokens of a row, two bits of the key at a time: where the list does not hold enough.
#pragma once
#include "sorted_candidates.cuh"

constexpr int AHEAD = 8;  // loads in flight

// What is searched: keys from high to low, each token with an amount.
enum Order { COUNT_BY_CHANCE, UNITS_BY_CHANCE, UNITS_ABOVE, EQUALS_BY_NUMBER };
struct Place {
    u32 key;    // the first at which the amounts so far reach what was wanted
    u64 above;  // the amounts before that key
};
constexpr u32 KEYS = 1u << 30;

// The tokens of the whole row that a thread looks at.
struct Tokens {
    const float* chances;
    int first, last;
    float least;  // chances below this are out
    Exchange* exchange;
    int turn;

    DEVICE void add(u64 (&v)[3]) {
        exchange->add(v, turn);
        turn ^= 1;
    }
    template <Order ORDER> DEVICE void count(u64 (&sums)[3], u32 from, u32 step, u32 equal) {
        for (int base = first; base < last; base += 32 * AHEAD) {
            float chance[AHEAD];
#pragma unroll
            for (int j = 0; j < AHEAD; j++)
                chance[j] = base + j * 32 < last ? chances[base + j * 32] : -1.0f;
#pragma unroll
            for (int j = 0; j < AHEAD; j++) {
                const u32 bits = __float_as_uint(chance[j]);
                const u32 key = ORDER == EQUALS_BY_NUMBER ? KEYS - 1 - (base + j * 32) : bits;
                const bool in = ORDER == EQUALS_BY_NUMBER ? bits == equal : chance[j] >= least;
                const bool counted = ORDER == COUNT_BY_CHANCE || ORDER == EQUALS_BY_NUMBER;
                const u64 amount = !in ? 0 : counted ? 1 : units(chance[j]);
#pragma unroll
                for (u32 d = 0; d < 3; d++)
                    sums[d] += key >= from + d * step ? amount : 0;
            }
        }
        add(sums);
    }
    template <Order ORDER> DEVICE Place search(u64 wanted, u32 equal = 0) {
        Place place = {0, 0};
        for (int shift = 28; shift >= 0; shift -= 2) {
            u64 sums[3] = {0, 0, 0};
            count<ORDER>(sums, place.key + (1u << shift), 1u << shift, equal);
            u32 digit = 0;
#pragma unroll
            for (u32 d = 1; d < 4; d++)
                digit = sums[d - 1] >= wanted ? d : digit;
            place.above = digit == 3 ? place.above : digit == 2 ? sums[2] : digit == 1 ? sums[1] : sums[0];
            place.key |= digit << shift;
        }
        return place;
    }
    // The token that the number `uniform` means among the first `kept` tokens and, of those, the first
    // that together have the part `part` of their chances; `total` is the sum of all chances.
    DEVICE int draw(u64 kept, u64 present, float part, u64 total, double uniform) {
        auto each_of = [](u32 key) { return max(1ull, units(__uint_as_float(key))); };
        if (kept < present) {
            const Place place = search<COUNT_BY_CHANCE>(kept);
            u64 sums[3] = {0, 0, 0};
            count<UNITS_ABOVE>(sums, place.key + 1, 0, 0);
            total = sums[0] + (kept - place.above) * units(__uint_as_float(place.key));
        }
        if (part < 1.0f) {
            const u64 enough = max(1ull, u64(ceil(double(part) * double(total))));
            const Place place = search<UNITS_BY_CHANCE>(enough);
            const u64 each = each_of(place.key), equals = (enough - place.above + each - 1) / each;
            total = min(total, place.above + equals * each);
        }
        const u64 target = min(u64(uniform * double(total)), total - 1) + 1;
        const Place place = search<UNITS_BY_CHANCE>(target);
        const u64 each = each_of(place.key), rank = (target - place.above + each - 1) / each;
        return int(KEYS - 1 - search<EQUALS_BY_NUMBER>(rank, place.key).key);
    }
};
