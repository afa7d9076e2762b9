// The next token of each row of scores: the best, or drawn after temperature, min-p, top-k and top-p.
//
// Options: NUMBER (of the scores), VECTOR (numbers loaded at once: 8, for float 4, where scores and vocabulary are
//   aligned to as many; else 1), THREADS, CLUSTER (blocks that share a row; 1 below compute capability 9.0).
// Launch: grid rows * CLUSTER, block THREADS, no dynamic shared memory; cluster dimension (CLUSTER, 1, 1).
// Arguments: scores (rows x vocabulary), temperature, top_k (int32), top_p, min_p (float), seeds, steps (SEED, STEP: i64 or int),
//   tokens (int32, out), logprobs (float, out; may be null), chances (rows x vocabulary floats of working memory),
//   vocabulary. Parameters are per row; temperature 0 takes the best token, the first of several; top_k 0,
//   top_p 1 and min_p 0 keep all tokens, min_p of 1 or more the best. NaN is never chosen; a row of nothing but NaN
//   gives -1 and NaN. The log-probability is at temperature 1 among all tokens.
//
// The kept tokens are always the first of an order: by falling chance, equals by number. So top-k, top-p
// and the draw are one search each over that order: in a sorted list where the likeliest tokens hold all
// that is kept, as they mostly do (sorted_candidates.cuh), and otherwise over all tokens (radix_select.cuh).
// Without top-k and top-p the draw goes by number. The generator is SplitMix64 of seed and step.
#include "vectorization.cuh"
#include "radix_select.cuh"

#ifndef SEED
#define SEED i64
#define STEP i64
#endif

constexpr float LIKELY = 0x1p-10f;  // of the best token's chance: what is listed
// Scores that a lane has in flight: many where little is done with each, else as few as keep the code short.
constexpr int MANY = VECTOR == 1 ? 8 : 32, FEW = 8;

struct Best {
    float score;
    int token;
};
DEVICE Best better(Best a, Best b) {
    const bool first = a.score > b.score || (a.score == b.score && u32(a.token) < u32(b.token));
    return first ? a : b;
}

// Takes the scores of a warp from start to last, a lane's tokens in rising order.
template <int IN_FLIGHT, class Take>
DEVICE void for_each_score(const NUMBER* scores, int start, int last, Take take) {
    constexpr int PIECES = IN_FLIGHT / VECTOR, step = 32 * VECTOR;
    for (int base = start + threadIdx.x % 32 * VECTOR; base < last; base += step * PIECES) {
        float v[PIECES][VECTOR];
#pragma unroll
        for (int j = 0; j < PIECES; j++)
            if (base + j * step < last)
                Row<NUMBER, VECTOR>::load(scores + base + j * step, v[j]);
#pragma unroll
        for (int j = 0; j < PIECES; j++)
            if (base + j * step < last) {
#pragma unroll
                for (int i = 0; i < VECTOR; i++)
                    take(v[j][i], base + j * step + i);
            }
    }
}

DEVICE u64 mix(u64 seed, u64 step) {
    u64 v = seed + (step + 1) * 0x9E3779B97F4A7C15ull;
    v = (v ^ (v >> 30)) * 0xBF58476D1CE4E5B9ull;
    v = (v ^ (v >> 27)) * 0x94D049BB133111EBull;
    return v ^ (v >> 31);
}

KERNEL __launch_bounds__(THREADS)
sample(const NUMBER* scores, const float* temperature, const int* top_k, const float* top_p, const float* min_p,
       const SEED* seeds, const STEP* steps, int* tokens, float* logprobs, float* __restrict__ chances, int vocabulary) {
    __shared__ Exchange exchange;
    __shared__ Best bests[WARPS_HERE];
    [[maybe_unused]] __shared__ u64 best_here;
    __shared__ u64 listed_here;
    __shared__ List list;
    const int row = blockIdx.x / CLUSTER, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Every warp of every block has a stretch of the vocabulary.
    const int stretch = round_up(ceil_divide(vocabulary, CLUSTER * WARPS_HERE), 32 * VECTOR);
    const int start = min(vocabulary, int(block_here() * WARPS_HERE + warp) * stretch);
    const int last = min(vocabulary, start + stretch), first = start + lane;
    if (threadIdx.x == 0)
        list.count = 0;
    start_next_kernel();
    wait_for_previous_kernel();
    scores += i64(row) * vocabulary;
    chances += i64(row) * vocabulary;
    const float nothing = __int_as_float(0x7fffffff);

    // Parameters are under way while the scores come.
    const float heat = temperature[row], given_part = top_p[row], given_least = min_p[row];
    const int given_kept = top_k[row];
    Best best = {MINUS_INFINITY, -1};
    for_each_score<MANY>(scores, start, last, [&](float score, int token) {
        if (score > best.score || (best.token < 0 && score == score))
            best = {score, token};
    });
#pragma unroll
    for (int offset = 16; offset; offset >>= 1)
        best = better(best, {__shfl_xor_sync(~0u, best.score, offset), __shfl_xor_sync(~0u, best.token, offset)});
    if (lane == 0)
        bests[warp] = best;
    __syncthreads();
    best = bests[0];
    for (int w = 1; w < WARPS_HERE; w++)
        best = better(best, bests[w]);
#if CLUSTER > 1
    if (threadIdx.x == 0)
        best_here = u64(__float_as_uint(best.score)) << 32 | u32(best.token);
    wait_for_row();
    for (u32 block = 0; block < CLUSTER; block++) {
        const u64 other = read_block(&best_here, block);
        best = better(best, {__uint_as_float(u32(other >> 32)), int(u32(other))});
    }
#endif

    const bool certain = !(heat > 0.0f) || best.token < 0 || best.score == -MINUS_INFINITY;
    const float part = certain ? 1.0f : given_part, least = certain ? 0.0f : fminf(given_least, 1.0f);
    const float sharpness = certain ? 1.0f : 1.0f / heat;
    const u64 kept = !certain && given_kept > 0 ? given_kept : ~0ull;
    // Relative to the best token's, so between 0 and 1, where the bits of numbers are in their order.
    auto chance_of = [&](float score, float sharpness) {
        const float chance = fminf(expf((score - best.score) * sharpness), 1.0f);
        return !(score == score) ? 0.0f : score == best.score ? 1.0f : chance;
    };
    const bool cut = !certain && (kept != ~0ull || part < 1.0f);
    u64 sums[3] = {0, 0, 0}, likely[3] = {0, 0, 0};
    if (!certain || logprobs)
        for_each_score<FEW>(scores, start, last, [&](float score, int token) {
            sums[2] += logprobs ? units(chance_of(score, 1.0f)) : 0;
            if (certain)
                return;
            const float chance = chance_of(score, sharpness);
            if (chance < least)
                return;
            sums[0] += units(chance);
            sums[1] += 1;
            if (cut && chance >= LIKELY) {
                likely[0] += units(chance);
                likely[1] += 1;
                const int at = atomicAdd(&list.count, 1);
                if (at < LISTED)
                    list.keys[at] = List::key(chance, token);
            }
        });
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
        if (block_here() == 0 && threadIdx.x == 0)
            write(best.token);
    } else if (!cut) {
        // By number: one warp has the token in its stretch, and one lane in its share of that.
        auto units_of = [&](int token) {
            const float chance = chance_of(to_float(scores[token]), sharpness);
            return chance < least ? 0 : units(chance);
        };
        const u64 target = min(u64(uniform * double(sums[0])), sums[0] - 1) + 1;
        u64 sum = exchange.before(0, warp);
        if (sum < target && target <= sum + exchange.parts[0][warp][0]) {
            const int share = ceil_divide(last - start, 32);
            const int begin = min(last, start + lane * share), end = min(last, begin + share);
            u64 own = 0;
#pragma unroll 8
            for (int i = begin; i < end; i++)
                own += units_of(i);
            u64 through = own;
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const u64 other = __shfl_up_sync(~0u, through, offset);
                through += lane >= offset ? other : 0;
            }
            sum += through - own;
            const bool here = sum < target && target <= sum + own;
            for (int i = begin; here && i < end && sum < target; i++) {
                sum += units_of(i);
                if (sum >= target)
                    write(i);
            }
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
            if (block_here() == 0) {
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
            // The search reads them many times, each lane what it wrote.
#pragma unroll 8
            for (int i = first; i < last; i += 32)
                chances[i] = chance_of(to_float(scores[i]), sharpness);
            Tokens all = {chances, first, last, least, &exchange, turn};
            const int token = all.draw(kept, sums[1], part, sums[0], uniform);
            if (block_here() == 0 && threadIdx.x == 0)
                write(token);
        }
    }
#if CLUSTER > 1
    wait_for_row();  // a block's shared memory lives until all have read it
#endif
}
