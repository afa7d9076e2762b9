// The next token of each row of scores: the best, or drawn after temperature, min-p, top-k and top-p.
//
// Options: NUMBER (of the scores), THREADS, CLUSTER (blocks that share a row; 1 below compute capability 9.0).
// Launch: grid (CLUSTER, rows), block THREADS, no dynamic shared memory; cluster dimension (CLUSTER, 1, 1).
// Arguments: scores (rows x vocabulary), temperature, top_k (int32), top_p, min_p (float), seeds, steps (int64),
//   tokens (int32, out), logprobs (float, out; may be null), chances (rows x vocabulary floats of working memory),
//   vocabulary. Parameters are per row; temperature 0 takes the best token, the first of several; top_k 0,
//   top_p 1 and min_p 0 keep all tokens. NaN is never chosen; a row of nothing but NaN gives -1 and NaN.
//   The log-probability is at temperature 1 among all tokens.
//
// The kept tokens are always the first of an order: by falling chance, equals by number. So top-k, top-p
// and the draw are one search each over that order, two bits of the key at a time. Without top-k and
// top-p the draw goes by number alone. Chances are added as whole numbers of 2^-40: such sums do not
// depend on their order. The generator is SplitMix64 of seed and step.
#include "prelude.cuh"

constexpr int WARPS_HERE = THREADS / 32;

struct Best {
    float score;
    int token;
};
DEVICE Best better(Best a, Best b) {
    const bool first = a.score > b.score || (a.score == b.score && u32(a.token) < u32(b.token));
    return first ? a : b;
}

#if CLUSTER > 1
DEVICE void wait_for_row() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
DEVICE u64 read_block(const u64* p, u32 block) {
    u32 address;
    u64 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(block));
    asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(address) : "memory");
    return v;
}
#else
DEVICE void wait_for_row() { __syncthreads(); }
DEVICE u64 read_block(const u64* p, u32) { return *p; }
#endif

// Sums over all threads of all blocks of a row, three at a time.
struct Exchange {
    u64 parts[2][WARPS_HERE][3];
    u64 sums[2][3];

    // Two places by turns: nobody can be two calls ahead of a reader, so one barrier is enough.
    DEVICE void add(u64 (&v)[3], int turn) {
#pragma unroll
        for (int i = 0; i < 3; i++) {
#pragma unroll
            for (int offset = 16; offset; offset >>= 1)
                v[i] += __shfl_xor_sync(~0u, v[i], offset);
            if (threadIdx.x % 32 == 0)
                parts[turn][threadIdx.x / 32][i] = v[i];
        }
        __syncthreads();
        if (threadIdx.x < 3) {
            u64 sum = 0;
            for (int w = 0; w < WARPS_HERE; w++)
                sum += parts[turn][w][threadIdx.x];
            sums[turn][threadIdx.x] = sum;
        }
        wait_for_row();
#pragma unroll
        for (int i = 0; i < 3; i++) {
            v[i] = 0;
            for (u32 block = 0; block < CLUSTER; block++)
                v[i] += read_block(&sums[turn][i], block);
        }
    }
};

DEVICE u64 mix(u64 seed, u64 step) {
    u64 v = seed + (step + 1) * 0x9E3779B97F4A7C15ull;
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ull;
    v = (v ^ (v >> 27)) * 0x94D049BB133111EBull;
    return v ^ (v >> 31);
}

DEVICE u64 units(float chance) { return u64(chance * 1099511627776.0f); }

// What is searched: keys from high to low, each token with an amount.
enum Order { COUNT_BY_CHANCE, UNITS_BY_CHANCE, UNITS_BY_NUMBER, EQUALS_BY_NUMBER };
struct Place {
    u32 key;    // the first at which the amounts so far reach what was wanted
    u64 above;  // the amounts before that key
};
constexpr u32 KEYS = 1u << 30;

struct Tokens {
    const float* chances;
    int first, last;  // of this thread, 32 apart
    float least;      // chances below this are out
    Exchange* exchange;
    int turn;

    DEVICE void add(u64 (&v)[3]) {
        exchange->add(v, turn);
        turn ^= 1;
    }

    template <Order ORDER> DEVICE Place search(u64 wanted, u32 equal = 0) {
        Place place = {0, 0};
        for (int shift = 28; shift >= 0; shift -= 2) {
            u64 sums[3] = {0, 0, 0};
            for (int i = first; i < last; i += 32) {
                const float chance = chances[i];
                const u32 bits = __float_as_uint(chance);
                const bool by_chance = ORDER == COUNT_BY_CHANCE || ORDER == UNITS_BY_CHANCE;
                const u32 key = by_chance ? bits : KEYS - 1 - i;
                const bool in = ORDER == EQUALS_BY_NUMBER ? bits == equal : chance >= least;
                const bool units_wanted = ORDER == UNITS_BY_CHANCE || ORDER == UNITS_BY_NUMBER;
                const u64 amount = !in ? 0 : units_wanted ? units(chance) : 1;
#pragma unroll
                for (u32 d = 1; d < 4; d++)
                    sums[d - 1] += key >= (place.key | d << shift) ? amount : 0;
            }
            add(sums);
            u32 digit = 0;
#pragma unroll
            for (u32 d = 1; d < 4; d++)
                digit = sums[d - 1] >= wanted ? d : digit;
            place.above = digit == 3 ? place.above : sums[digit];
            place.key |= digit << shift;
        }
        return place;
    }
};

KERNEL __launch_bounds__(THREADS)
sample(const NUMBER* scores, const float* temperature, const int* top_k, const float* top_p, const float* min_p,
       const i64* seeds, const i64* steps, int* tokens, float* logprobs, float* chances, int vocabulary) {
    __shared__ Exchange exchange;
    __shared__ Best bests[WARPS_HERE];
    __shared__ u64 best_here;
    const int row = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Every warp of every block has a stretch of the vocabulary.
    const int stretch = round_up(ceil_divide(vocabulary, CLUSTER * WARPS_HERE), 32);
    const int first = min(vocabulary, (int(blockIdx.x) * WARPS_HERE + warp) * stretch) + lane;
    const int last = min(vocabulary, first - lane + stretch);
    start_next_kernel();
    wait_for_previous_kernel();
    scores += i64(row) * vocabulary;
    chances += i64(row) * vocabulary;

    Best best = {MINUS_INFINITY, -1};
    for (int i = first; i < last; i += 32) {
        const float score = to_float(scores[i]);
        if (score == score)
            best = better(best, {score, i});
    }
#pragma unroll
    for (int offset = 16; offset; offset >>= 1)
        best = better(best, {__shfl_xor_sync(~0u, best.score, offset), __shfl_xor_sync(~0u, best.token, offset)});
    if (lane == 0)
        bests[warp] = best;
    __syncthreads();
    best = bests[0];
    for (int w = 1; w < WARPS_HERE; w++)
        best = better(best, bests[w]);
    if (threadIdx.x == 0)
        best_here = u64(__float_as_uint(best.score)) << 32 | u32(best.token);
    wait_for_row();
    for (u32 block = 0; block < CLUSTER; block++) {
        const u64 other = read_block(&best_here, block);
        best = better(best, {__uint_as_float(u32(other >> 32)), int(u32(other))});
    }

    const float heat = temperature[row];
    const bool certain = !(heat > 0.0f) || best.token < 0 || best.score == -MINUS_INFINITY;
    // Relative to the best token's, so between 0 and 1, where the bits of numbers are in their order.
    auto chance_of = [&](float score, float sharpness) {
        if (!(score == score))
            return 0.0f;
        return score == best.score ? 1.0f : fminf(expf((score - best.score) * sharpness), 1.0f);
    };
    Tokens all = {chances, first, last, certain ? 0.0f : min_p[row], &exchange, 0};
    u64 sums[3] = {0, 0, 0};
    for (int i = first; i < last; i += 32) {
        const float score = to_float(scores[i]);
        if (!certain) {
            const float chance = chance_of(score, 1.0f / heat);
            chances[i] = chance;
            sums[0] += chance >= all.least ? units(chance) : 0;
            sums[1] += chance >= all.least ? 1 : 0;
        }
        if (logprobs)
            sums[2] += units(chance_of(score, 1.0f));
    }
    int token = best.token;
    if (!certain || logprobs)
        all.add(sums);
    const u64 powers = sums[2];
    if (!certain) {
        u64 total = sums[0];
        const u64 kept = top_k[row] > 0 ? top_k[row] : ~0ull;
        const float part = top_p[row];
        // Of the amount wanted at a place, what equals take: chances of one size, the first by number.
        auto up_to = [&](Place place, u64 equals) { return place.above + equals * units(__uint_as_float(place.key)); };
        if (kept < sums[1]) {
            const Place place = all.search<COUNT_BY_CHANCE>(kept);
            const u64 equals = kept - place.above;
            u64 above[3] = {0, 0, 0};
            for (int i = first; i < last; i += 32)
                above[0] += __float_as_uint(chances[i]) > place.key ? units(chances[i]) : 0;
            all.add(above);
            total = up_to({place.key, above[0]}, equals);
        }
        if (part < 1.0f) {
            const u64 enough = max(1ull, u64(ceil(double(part) * double(total))));
            const Place place = all.search<UNITS_BY_CHANCE>(enough);
            const u64 each = max(1ull, units(__uint_as_float(place.key)));
            total = min(total, up_to(place, (enough - place.above + each - 1) / each));
        }
        const double uniform = double(mix(seeds[row], steps[row]) >> 11) * 0x1p-53;
        const u64 target = min(u64(uniform * double(total)), total - 1) + 1;
        u64 number = 0;
        if (kept < sums[1] || part < 1.0f) {
            const Place place = all.search<UNITS_BY_CHANCE>(target);
            const u64 each = max(1ull, units(__uint_as_float(place.key)));
            const u64 rank = (target - place.above + each - 1) / each;
            number = all.search<EQUALS_BY_NUMBER>(rank, place.key).key;
        } else {
            number = all.search<UNITS_BY_NUMBER>(target).key;
        }
        token = int(KEYS - 1 - number);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        tokens[row] = token;
        if (logprobs) {
            const float distance = token < 0 ? 0.0f : to_float(scores[token]) - best.score;
            // Nothing but NaN: no probability either.
            logprobs[row] = token < 0 ? __int_as_float(0x7fffffff)
                                      : (token == best.token ? 0.0f : distance) - float(log(double(powers) * 0x1p-40));
        }
    }
#if CLUSTER > 1
    wait_for_row();  // a block's shared memory lives until all have read it
#endif
}
