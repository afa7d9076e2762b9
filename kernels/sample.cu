// The next token of each row of scores: the best, or drawn after temperature, min-p, top-k and top-p.
//
// Options: NUMBER (of the scores), THREADS, CLUSTER (blocks that share a row; 1 below compute capability 9.0).
// Launch: grid (CLUSTER, rows), block THREADS, no dynamic shared memory; cluster dimension (CLUSTER, 1, 1).
// Arguments: scores (rows x vocabulary), temperature, top_k (int32), top_p, min_p (float), seeds, steps (SEED, STEP: i64 or int),
//   tokens (int32, out), logprobs (float, out; may be null), chances (rows x vocabulary floats of working memory),
//   vocabulary. Parameters are per row; temperature 0 takes the best token, the first of several; top_k 0,
//   top_p 1 and min_p 0 keep all tokens. NaN is never chosen; a row of nothing but NaN gives -1 and NaN.
//   The log-probability is at temperature 1 among all tokens.
//
// The kept tokens are always the first of an order: by falling chance, equals by number. So top-k, top-p
// and the draw are one search each over that order: in a sorted list where the likeliest tokens hold all
// that is kept, as they mostly do, and otherwise over all tokens, two bits of the key at a time. Without
// top-k and top-p the draw goes by number. Chances are added as whole numbers of 2^-40: such sums do not
// depend on their order. The generator is SplitMix64 of seed and step.
#include "prelude.cuh"

#ifndef SEED
#define SEED i64
#define STEP i64
#endif

constexpr int WARPS_HERE = THREADS / 32;
constexpr int LISTED = 2048;        // tokens that may be listed
constexpr float LIKELY = 0x1p-10f;  // of the best token's chance: what is listed
constexpr int AHEAD = 8;            // loads in flight

struct Best {
    float score;
    int token;
};
DEVICE Best better(Best a, Best b) {
    const bool first = a.score > b.score || (a.score == b.score && u32(a.token) < u32(b.token));
    return first ? a : b;
}

#if CLUSTER > 1
DEVICE void wait_for_row() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
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
    // What the warps before this one of the row added as their first number.
    DEVICE u64 before(int turn, int warp) {
        u64 sum = 0;
        for (u32 block = 0; block < blockIdx.x; block++)
            sum += read_block(&sums[turn][0], block);
        for (int w = 0; w < warp; w++)
            sum += parts[turn][w][0];
        return sum;
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
enum Order { COUNT_BY_CHANCE, UNITS_BY_CHANCE, UNITS_ABOVE, EQUALS_BY_NUMBER };
struct Place {
    u32 key;    // the first at which the amounts so far reach what was wanted
    u64 above;  // the amounts before that key
};
constexpr u32 KEYS = 1u << 30;

// The likeliest tokens: chance in the upper half, and a number that falls as the token's rises.
struct List {
    u64 keys[LISTED];
    u64 running[LISTED];  // sums of the chances up to here
    u64 warps[WARPS_HERE];
    int count;

    DEVICE static u64 key(float chance, int token) { return u64(__float_as_uint(chance)) << 32 | u32(~token); }
    DEVICE int token(int i) const { return ~int(u32(keys[i])); }
    DEVICE float chance(int i) const { return __uint_as_float(u32(keys[i] >> 32)); }

    // Highest first. Every thread of the block calls this, after a barrier.
    DEVICE void sort() {
        int size = 32;
        while (size < count)
            size *= 2;
        for (int i = count + threadIdx.x; i < size; i += THREADS)
            keys[i] = 0;
        __syncthreads();
        for (int run = 2; run <= size; run *= 2)
            for (int apart = run / 2; apart; apart /= 2) {
                for (int i = threadIdx.x; i < size / 2; i += THREADS) {
                    const int low = i / apart * apart * 2 + i % apart, high = low + apart;
                    const u64 a = keys[low], b = keys[high];
                    if ((a < b) == ((low & run) == 0)) {
                        keys[low] = b;
                        keys[high] = a;
                    }
                }
                __syncthreads();
            }
    }
    DEVICE void add_up() {
        constexpr int each = LISTED / THREADS;
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = threadIdx.x * each;
        u64 sum = 0;
#pragma unroll
        for (int i = 0; i < each; i++) {
            sum += first + i < count ? units(chance(first + i)) : 0;
            running[first + i] = sum;
        }
        u64 before = sum;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const u64 other = __shfl_up_sync(~0u, before, offset);
            before += lane >= offset ? other : 0;
        }
        if (lane == 31)
            warps[warp] = before;
        __syncthreads();
        before -= sum;
        for (int w = 0; w < warp; w++)
            before += warps[w];
#pragma unroll
        for (int i = 0; i < each; i++)
            running[first + i] += before;
        __syncthreads();
    }
    // The first place at which the chances reach what is wanted.
    DEVICE int reached(u64 wanted) const {
        int low = 0, high = count - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (running[middle] >= wanted)
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }
    DEVICE int draw(u64 kept, float part, u64 total, double uniform) const {
        total = kept < count ? running[kept - 1] : total;
        if (part < 1.0f)
            total = min(total, running[reached(max(1ull, u64(ceil(double(part) * double(total)))))]);
        return token(reached(min(u64(uniform * double(total)), total - 1) + 1));
    }
};

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

KERNEL __launch_bounds__(THREADS)
sample(const NUMBER* scores, const float* temperature, const int* top_k, const float* top_p, const float* min_p,
       const SEED* seeds, const STEP* steps, int* tokens, float* logprobs, float* chances, int vocabulary) {
    __shared__ Exchange exchange;
    __shared__ Best bests[WARPS_HERE];
    __shared__ u64 best_here, listed_here;
    __shared__ List list;
    const int row = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Every warp of every block has a stretch of the vocabulary.
    const int stretch = round_up(ceil_divide(vocabulary, CLUSTER * WARPS_HERE), 32);
    const int start = min(vocabulary, (int(blockIdx.x) * WARPS_HERE + warp) * stretch);
    const int last = min(vocabulary, start + stretch), first = start + lane;
    if (threadIdx.x == 0)
        list.count = 0;
    start_next_kernel();
    wait_for_previous_kernel();
    scores += i64(row) * vocabulary;
    chances += i64(row) * vocabulary;
    const float nothing = __int_as_float(0x7fffffff);

    Best best = {MINUS_INFINITY, -1};
    for (int base = first; base < last; base += 32 * AHEAD) {
        float v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = base + j * 32 < last ? to_float(scores[base + j * 32]) : nothing;
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            best = v[j] == v[j] ? better(best, {v[j], base + j * 32}) : best;
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
    const float part = certain ? 1.0f : top_p[row], least = certain ? 0.0f : min_p[row];
    const u64 kept = !certain && top_k[row] > 0 ? top_k[row] : ~0ull;
    // Relative to the best token's, so between 0 and 1, where the bits of numbers are in their order.
    auto chance_of = [&](float score, float sharpness) {
        const float chance = fminf(expf((score - best.score) * sharpness), 1.0f);
        return !(score == score) ? 0.0f : score == best.score ? 1.0f : chance;
    };
    const bool cut = !certain && (kept != ~0ull || part < 1.0f);
    u64 sums[3] = {0, 0, 0}, likely[3] = {0, 0, 0};
    for (int base = first; (!certain || logprobs) && base < last; base += 32 * AHEAD) {
        float v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = base + j * 32 < last ? to_float(scores[base + j * 32]) : nothing;
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            sums[2] += logprobs ? units(chance_of(v[j], 1.0f)) : 0;
            if (certain || base + j * 32 >= last)
                continue;
            const float chance = chance_of(v[j], 1.0f / heat);
            chances[base + j * 32] = chance;
            if (chance < least)
                continue;
            sums[0] += units(chance);
            sums[1] += 1;
            if (cut && chance >= LIKELY) {
                likely[0] += units(chance);
                likely[1] += 1;
                const int at = atomicAdd(&list.count, 1);
                if (at < LISTED)
                    list.keys[at] = List::key(chance, base + j * 32);
            }
        }
    }
    int turn = 0;
    if (!certain || logprobs) {
        exchange.add(sums, turn);
        turn ^= 1;
    }
    // Written by one thread of the row.
    auto write = [&](int token) {
        tokens[row] = token;
        if (logprobs) {
            const float distance = token == best.token ? 0.0f : to_float(scores[max(token, 0)]) - best.score;
            logprobs[row] = token < 0 ? nothing : distance - float(log(double(sums[2]) * 0x1p-40));
        }
    };
    const double uniform = certain ? 0.0 : double(mix(seeds[row], steps[row]) >> 11) * 0x1p-53;
    if (certain) {
        if (blockIdx.x == 0 && threadIdx.x == 0)
            write(best.token);
    } else if (!cut) {
        // By number: one warp has the token in its stretch.
        const u64 target = min(u64(uniform * double(sums[0])), sums[0] - 1) + 1;
        u64 sum = exchange.before(0, warp);
        const u64 own = exchange.parts[0][warp][0];
        const bool mine = sum < target && target <= sum + own;
        for (int i = first; mine && i - lane < last; i += 32) {
            const float chance = i < last ? chances[i] : 0.0f;
            u64 running = chance >= least ? units(chance) : 0;
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const u64 other = __shfl_up_sync(~0u, running, offset);
                running += lane >= offset ? other : 0;
            }
            const u32 reached = __ballot_sync(~0u, sum + running >= target);
            if (reached) {
                if (lane == __ffs(reached) - 1)
                    write(i);
                break;
            }
            sum += __shfl_sync(~0u, running, 31);
        }
    } else {
        exchange.add(likely, turn);
        turn ^= 1;
        const u64 wanted = u64(ceil(double(part) * double(sums[0])));
        const bool enough = kept != ~0ull ? likely[1] >= kept || likely[1] == sums[1] : likely[0] >= wanted;
        if (enough && likely[1] <= LISTED) {
            if (threadIdx.x == 0)
                listed_here = list.count;
            wait_for_row();
            if (blockIdx.x == 0) {
                int count = int(read_block(&listed_here, 0));
                for (u32 block = 1; block < CLUSTER; block++) {
                    const int theirs = int(read_block(&listed_here, block));
                    for (int i = threadIdx.x; i < theirs; i += THREADS)
                        list.keys[count + i] = read_block(&list.keys[i], block);
                    count += theirs;
                }
                __syncthreads();
                if (threadIdx.x == 0)
                    list.count = count;
                __syncthreads();
                list.sort();
                list.add_up();
                if (threadIdx.x == 0)
                    write(list.draw(kept, part, sums[0], uniform));
            }
        } else {
            Tokens all = {chances, first, last, least, &exchange, turn};
            const int token = all.draw(kept, sums[1], part, sums[0], uniform);
            if (blockIdx.x == 0 && threadIdx.x == 0)
                write(token);
        }
    }
#if CLUSTER > 1
    wait_for_row();  // a block's shared memory lives until all have read it
#endif
}
