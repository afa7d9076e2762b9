// Attention of one new token per sequence over a paged cache; grouped heads; the context is split.
//
// Options: NUMBER (bf16, fp16: of q, cache and out), HEAD (numbers in a head: 64, 128, 192, 256),
//   HEAD_TILES (ceil(heads / kv_heads / 8)), WARPS, BLOCKS (per multiprocessor),
//   CLUSTER (1: the splits of one head are one cluster of at most 8 blocks; 0: they meet in global memory),
//   SETTLED (1: lengths, query_starts and block_tables are not written by the kernel before; they are read, and the
//   cache asked for, while that one ends), ROTATES (1: q holds queries, keys and values of the new tokens, as
//   rope_write.cu takes them; they are turned here, and the last token of a sequence is written to the cache),
//   NEIGHBORS (as rope_write.cu, whose numbers that turn are all of a head here).
// Launch: grid (splits, kv_heads, sequences), block WARPS * 32, no dynamic shared memory; with CLUSTER
//   the launch attribute cluster dimension is (splits, 1, 1).
//   Quickest on an H200, heads of 128: WARPS 8, BLOCKS 1 where that gives no multiprocessor a second block or contexts
//   are long (1 x 200: 8 splits, 8 x 12000: 2, 64 x 4096: 1), else WARPS 4, BLOCKS 3.
// Arguments: q (rows x heads x HEAD), keys, values, block_tables (sequences x table_width, int32),
//   lengths (sequences, int32), query_starts (int32; null: row s is of sequence s), out (as q),
//   parts, counters (where not CLUSTER and splits > 1, else null), heads, kv_heads, block_tokens, table_width,
//   block_stride, head_stride, token_stride (in numbers), scale; with ROTATES q is rows x (heads + 2 kv_heads) x HEAD,
//   and there are more: table (as rope_write.cu; null: nothing turns), query_norm, key_norm, epsilon.
//   parts: sequences * kv_heads * splits * 8 HEAD_TILES * (HEAD + 2) floats; counters: sequences * kv_heads
//   zeros, which the kernel leaves at zero. block_tokens is a multiple of 16. Keys and values of token j
//   of a sequence lie at table[j / block_tokens] * block_stride + head * head_stride + j % block_tokens * token_stride;
//   a length of 0 is a padding row and gives zeros.
//
// A warp takes 16 tokens at a time straight from memory to the registers of the matrix unit: the order of
// the numbers within a head is free as long as q (or out) follows it. S^T = K Q^T and O^T = V^T P^T, so
// that the query heads of one key head fill the 8 columns.
#include "prelude.cuh"

#ifndef SETTLED
#define SETTLED 0
#endif
#ifndef ROTATES
#define ROTATES 0
#endif
#ifndef NEIGHBORS
#define NEIGHBORS 0
#endif

constexpr int CHUNKS = HEAD / 32;  // of 16 bytes in a key, by each of 4 lanes
constexpr int PARTS = HEAD / 64;   // of 16 bytes in a value, by each of 8 lanes
constexpr int COLUMNS = HEAD_TILES * 8;

#if CLUSTER
DEVICE void wait_for_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
DEVICE float read_block(const float* p, u32 block) {
    u32 address;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
    return v;
}
#endif

// A head of a new token as lane t of four holds it: numbers 32 c + 8 t to 7 more. Every lane of a warp takes part.
DEVICE void rotate(uint4 (&head)[CHUNKS], const NUMBER* gain, const float* turn, float epsilon) {
    const int t = threadIdx.x % 4;
    float v[CHUNKS][8];
    float square = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 pair = unpack<NUMBER>(word(head[c], i));
            v[c][i * 2] = pair.x, v[c][i * 2 + 1] = pair.y;
            square = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, square));
        }
    if (gain) {
        square += __shfl_xor_sync(~0u, square, 1);
        square += __shfl_xor_sync(~0u, square, 2);
        const float by = rsqrtf(square / HEAD + epsilon);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const uint4 times = load16(gain + c * 32 + t * 8);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 pair = unpack<NUMBER>(word(times, i));
                v[c][i * 2] *= by * pair.x, v[c][i * 2 + 1] *= by * pair.y;
            }
        }
    }
    if (turn) {
        // Pairs of a lane: of numbers side by side, or of chunks half a head apart.
        constexpr int in_row = NEIGHBORS ? 4 : 8;
#pragma unroll
        for (int c = 0; c < (NEIGHBORS ? CHUNKS : CHUNKS / 2); c++)
#pragma unroll
            for (int i = 0; i < in_row; i += 4) {
                const float* at = turn + (c * 4 + t) * in_row + i;
                const float4 cosine = *reinterpret_cast<const float4*>(at);
                const float4 sine = *reinterpret_cast<const float4*>(at + HEAD / 2);
                const float cosines[4] = {cosine.x, cosine.y, cosine.z, cosine.w};
                const float sines[4] = {sine.x, sine.y, sine.z, sine.w};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const int at_first = NEIGHBORS ? j * 2 : i + j, at_second = NEIGHBORS ? j * 2 + 1 : i + j;
                    const int other = NEIGHBORS ? c : c + CHUNKS / 2;
                    const float first = v[c][at_first], second = v[other][at_second];
                    v[c][at_first] = first * cosines[j] - second * sines[j];
                    v[other][at_second] = second * cosines[j] + first * sines[j];
                }
            }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        head[c] = make_uint4(pack<NUMBER>(v[c][0], v[c][1]), pack<NUMBER>(v[c][2], v[c][3]),
                             pack<NUMBER>(v[c][4], v[c][5]), pack<NUMBER>(v[c][6], v[c][7]));
}

struct Shared {
    float sums[WARPS][COLUMNS][HEAD + 4];
    float most[WARPS][COLUMNS], weight[WARPS][COLUMNS];
};

KERNEL __launch_bounds__(WARPS * 32, BLOCKS)
attention_decode(const NUMBER* q, NUMBER* keys, NUMBER* values, const int* block_tables, const int* lengths,
                 const int* query_starts, NUMBER* out, float* parts, u32* counters, int heads, int kv_heads,
                 int block_tokens, int table_width, i64 block_stride, int head_stride, int token_stride, float scale
#if ROTATES
                 , const float* table_of_turns, const NUMBER* query_norm, const NUMBER* key_norm, float epsilon
#endif
) {
    __shared__ Shared shared;
#if !CLUSTER
    __shared__ u32 arrived;
#endif
    const int split = blockIdx.x, splits = gridDim.x, kv_head = blockIdx.y, sequence = blockIdx.z;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int share = heads / kv_heads;
    start_next_kernel();
    if constexpr (!SETTLED)
        wait_for_previous_kernel();

    const int length = lengths[sequence];
    const int row = query_starts ? query_starts[sequence] : sequence;
    const bool written = !query_starts || query_starts[sequence + 1] > row;
    const int tiles = ceil_divide(length, 16);
    const int chunk = ceil_divide(tiles, splits);
    const int last = min(tiles, (split + 1) * chunk);
    const int* table = block_tables + i64(sequence) * table_width;
    keys += kv_head * head_stride;
    values += kv_head * head_stride;
    // Keys and values of the new token, the last one, lie behind the queries.
    const NUMBER* fresh = q + (i64(row) * (heads + 2 * kv_heads) + heads + kv_head) * HEAD;
    q += i64(row) * (ROTATES ? heads + 2 * kv_heads : heads) * HEAD + kv_head * share * HEAD;
    out += i64(row) * heads * HEAD + kv_head * share * HEAD;

    uint4 key[2][CHUNKS], value[4][PARTS];
    auto origin = [&](int tile) {
        const int token = tile * 16;
        return table[token / block_tokens] * block_stride + token % block_tokens * token_stride;
    };
    // Tokens beyond the length may hold anything, so they are not read.
    auto fetch_keys = [&](int tile, i64 from) {
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const bool valid = tile < last && tile * 16 + h * 8 + g < length;
                const NUMBER* at = keys + from + (h * 8 + g) * token_stride;
                if (ROTATES && tile * 16 + h * 8 + g == length - 1)
                    at = fresh;
                key[h][c] = valid ? load16_streamed(at + c * 32 + t * 8) : zero16();
            }
    };
    auto fetch_values = [&](int tile, i64 from) {
#pragma unroll
        for (int h = 0; h < 4; h++)
#pragma unroll
            for (int c = 0; c < PARTS; c++) {
                const int token = h / 2 * 8 + t * 2 + h % 2;
                const bool valid = tile < last && tile * 16 + token < length;
                const NUMBER* at = values + from + token * token_stride;
                if (ROTATES && tile * 16 + token == length - 1)
                    at = fresh + kv_heads * HEAD;
                value[h][c] = valid ? load16_streamed(at + c * 64 + g * 8) : zero16();
            }
    };

    int tile = split * chunk + warp;
    const i64 here = tile < last ? origin(tile) : 0;
    i64 now = here, next = tile + WARPS < last ? origin(tile + WARPS) : 0;
    if constexpr (SETTLED) {
        constexpr int lines = HEAD / 64;
        for (int i = lane; i < 16 * lines && tile < last; i += 32) {
            prefetch(keys + here + i / lines * token_stride + i % lines * 64);
            prefetch(values + here + i / lines * token_stride + i % lines * 64);
        }
        wait_for_previous_kernel();
    }
    fetch_keys(tile, here);
    fetch_values(tile, here);

    uint4 query[HEAD_TILES][CHUNKS];
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const bool valid = n * 8 + g < share && written;
            query[n][c] = valid ? load16(q + (n * 8 + g) * HEAD + c * 32 + t * 8) : zero16();
        }

#if ROTATES
    const float* turn = table_of_turns && length ? table_of_turns + i64(length - 1) * HEAD : nullptr;
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++)
        rotate(query[n], query_norm, turn, epsilon);
#endif

    float sums[HEAD_TILES][HEAD / 16][4] = {};
    float most[HEAD_TILES][2], weight[HEAD_TILES][2] = {};
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++)
        most[n][0] = most[n][1] = MINUS_INFINITY;
    const float by = scale * LOG2_E;

    for (; tile < last; tile += WARPS) {
#if ROTATES
        if (tile == tiles - 1) {
            const int token = (length - 1) % 16;
            const bool upper = token >= 8, holds = g == token % 8 && written;
            uint4 turned[CHUNKS];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                turned[c] = upper ? key[1][c] : key[0][c];
            rotate(turned, key_norm, turn, epsilon);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                key[0][c] = holds && !upper ? turned[c] : key[0][c];
                key[1][c] = holds && upper ? turned[c] : key[1][c];
                if (holds)
                    store16(keys + now + token * token_stride + c * 32 + t * 8, turned[c]);
            }
#pragma unroll
            for (int h = 0; h < 4; h++)
#pragma unroll
                for (int c = 0; c < PARTS; c++)
                    if (h / 2 * 8 + t * 2 + h % 2 == token && written)
                        store16(values + now + token * token_stride + c * 64 + g * 8, value[h][c]);
        }
#endif
        float scores[HEAD_TILES][4] = {};
#pragma unroll
        for (int n = 0; n < HEAD_TILES; n++)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const uint4 &a = key[0][c], &b = key[1][c], &x = query[n][c];
                multiply_16x8x16<NUMBER>(scores[n], a.x, b.x, a.y, b.y, x.x, x.y);
                multiply_16x8x16<NUMBER>(scores[n], a.z, b.z, a.w, b.w, x.z, x.w);
            }
        fetch_keys(tile + WARPS, next);
        u32 chances[HEAD_TILES][2];
#pragma unroll
        for (int n = 0; n < HEAD_TILES; n++) {
            float lower[2];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const bool valid = tile * 16 + i / 2 * 8 + g < length;
                scores[n][i] = valid ? scores[n][i] * by : MINUS_INFINITY;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float v = fmaxf(scores[n][i], scores[n][i + 2]);
#pragma unroll
                for (int offset = 4; offset < 32; offset <<= 1)
                    v = fmaxf(v, __shfl_xor_sync(~0u, v, offset));
                const float now = fmaxf(most[n][i], v);
                lower[i] = exp2_fast(most[n][i] - now);
                most[n][i] = now;
                scores[n][i] = exp2_fast(scores[n][i] - now);
                scores[n][i + 2] = exp2_fast(scores[n][i + 2] - now);
                weight[n][i] = fmaf(weight[n][i], lower[i], scores[n][i] + scores[n][i + 2]);
            }
            chances[n][0] = transpose_8x8(pack<NUMBER>(scores[n][0], scores[n][1]));
            chances[n][1] = transpose_8x8(pack<NUMBER>(scores[n][2], scores[n][3]));
#pragma unroll
            for (int m = 0; m < HEAD / 16; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sums[n][m][i] *= lower[i % 2];
        }
#pragma unroll
        for (int m = 0; m < HEAD / 16; m++) {
            u32 v[4];
#pragma unroll
            for (int h = 0; h < 4; h++)
                v[h] = word(value[h][m / 4], m % 4);
            const u32 a0 = __byte_perm(v[0], v[1], 0x5410), a1 = __byte_perm(v[0], v[1], 0x7632);
            const u32 a2 = __byte_perm(v[2], v[3], 0x5410), a3 = __byte_perm(v[2], v[3], 0x7632);
#pragma unroll
            for (int n = 0; n < HEAD_TILES; n++)
                multiply_16x8x16<NUMBER>(sums[n][m], a0, a1, a2, a3, chances[n][0], chances[n][1]);
        }
        fetch_values(tile + WARPS, next);
        now = next;
        next = tile + 2 * WARPS < last ? origin(tile + 2 * WARPS) : 0;
    }

    // The warps of a block, then the blocks of a head, bring their sums to one scale.
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float v = weight[n][i];
#pragma unroll
            for (int offset = 4; offset < 32; offset <<= 1)
                v += __shfl_xor_sync(~0u, v, offset);
            if (g == 0) {
                shared.most[warp][n * 8 + t * 2 + i] = most[n][i];
                shared.weight[warp][n * 8 + t * 2 + i] = v;
            }
#pragma unroll
            for (int m = 0; m < HEAD / 16; m++)
                *reinterpret_cast<float2*>(
                    &shared.sums[warp][n * 8 + t * 2 + i][m / 4 * 64 + g * 8 + m % 4 * 2]) =
                    make_float2(sums[n][m][i], sums[n][m][i + 2]);
        }
    }
    __syncthreads();
    auto factor = [](float most, float own) { return most == MINUS_INFINITY ? 0.0f : exp2_fast(own - most); };
    auto write = [&](int e, float sum, float weight) {
        if (written)
            out[e] = from_float<NUMBER>(weight > 0.0f ? sum / weight : 0.0f);
    };
    float* mine = parts + ((i64(sequence) * kv_heads + kv_head) * splits + split) * COLUMNS * (HEAD + 2);
    for (int e = threadIdx.x; e < share * HEAD; e += WARPS * 32) {
        const int head = e / HEAD, d = e % HEAD;
        float most = MINUS_INFINITY, weight = 0.0f, sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            most = fmaxf(most, shared.most[w][head]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float f = factor(most, shared.most[w][head]);
            weight = fmaf(f, shared.weight[w][head], weight);
            sum = fmaf(f, shared.sums[w][head][d], sum);
        }
        if (splits == 1)
            write(e, sum, weight);
        float* to = CLUSTER ? shared.sums[0][head] : mine + head * (HEAD + 2);
        if (splits > 1)
            to[d] = sum;
        if (splits > 1 && d == 0) {
            to[HEAD] = most;
            to[HEAD + 1] = weight;
        }
    }
    if (splits == 1)
        return;
    // Another split's sums: row `head` holds HEAD sums, then the largest score and the weight.
    auto sums_of = [&](int z, int head, int d) {
#if CLUSTER
        return read_block(&shared.sums[0][head][d], z);
#else
        return __ldcg(mine + (i64(z - split) * COLUMNS + head) * (HEAD + 2) + d);
#endif
    };
    auto join = [&](int e) {
        const int head = e / HEAD;
        float most = MINUS_INFINITY, weight = 0.0f, sum = 0.0f;
        for (int z = 0; z < splits; z++)
            most = fmaxf(most, sums_of(z, head, HEAD));
        for (int z = 0; z < splits; z++) {
            const float f = factor(most, sums_of(z, head, HEAD));
            weight = fmaf(f, sums_of(z, head, HEAD + 1), weight);
            sum = fmaf(f, sums_of(z, head, e % HEAD), sum);
        }
        write(e, sum, weight);
    };
#if CLUSTER
    wait_for_cluster();
    for (int e = split * WARPS * 32 + threadIdx.x; e < share * HEAD; e += splits * WARPS * 32)
        join(e);
    wait_for_cluster();  // a block's shared memory lives until all have read it
#else
    __threadfence();
    __syncthreads();
    u32* counter = counters + sequence * kv_heads + kv_head;
    if (threadIdx.x == 0)
        arrived = atomicAdd(counter, 1u);
    __syncthreads();
    if (arrived != splits - 1)
        return;
    __threadfence();
    if (threadIdx.x == 0)
        *counter = 0;
    for (int e = threadIdx.x; e < share * HEAD; e += WARPS * 32)
        join(e);
#endif
}
