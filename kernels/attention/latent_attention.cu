// Multi-head latent attention in its absorbed form: queries in latent space over a paged cache of latents.
//
// Algorithm: weight absorption [DeepSeek-AI 2024]: every head has the same keys, the rows of the cache, and the same
//   values, the latents at their beginning, so that attention is multi-query with heads of RANK + ROTARY for keys and
//   of RANK for values. FlashAttention-2 [Dao 2023] with online softmax [Milakov & Gimelshein 2018], and Flash-Decoding
//   [Dao et al. 2023] where the context is split.
// Tiling: a CTA is QUERIES rows of the queries of one sequence, (token, head) pairs in that order, and one split of its
//   context: heads share the rows that are in shared memory, and so do tokens of prefill. Tiles of TILE_TOKENS rows
//   come by cp.async, padded by 16 bytes where ldmatrix would conflict. A warp computes the scores of 16 queries with
//   TILE_TOKENS / N_WARPS tokens, and then 16 queries times RANK / N_WARPS columns of the output: weights pass from one
//   to the other through shared memory, as the N_WARPS warps of 16 queries have different tokens.
// Departures: one row of the cache is loaded once, for keys and values.
//
// Options: ELEMENT (bf16, fp16), RANK (a multiple of 16 N_WARPS), ROTARY (RANK + ROTARY is a multiple of 32), QUERIES
//   (16, 32, 64), N_WARPS (of each 16 queries; RANK / N_WARPS is at most 256), TILE_TOKENS (a multiple of 8 N_WARPS and
//   of 16), STAGES (1, 2), SPLIT (1: partial results go to `partials`, for latent_combine.cu).
// Launch: grid (ceil(most queries of a sequence / QUERIES), sequences, splits), CTA of QUERIES / 16 * N_WARPS * 32,
//   shared bytes (QUERIES + STAGES * TILE_TOKENS) * ROW_BYTES + QUERIES * (WEIGHT_BYTES + 4 N_WARPS).
// Arguments: q_latent (rows x heads x RANK), q_rope (rows x heads x ROTARY), cache (blocks x block_tokens x (RANK +
//   ROTARY)), block_tables (sequences x table_width, int32), query_start_loc, seq_lens (int32), out (as q_latent),
//   partials (splits x rows x heads x RANK floats), statistics (splits x rows x heads x 2 floats: the maximum in base 2
//   and the sum of weights relative to it), rows, heads, block_tokens, table_width, split_tiles (tiles of a split),
//   scale. A sequence of length 0 gives zeros.
#include "prelude.cuh"

constexpr int WIDTH = RANK + ROTARY, CHUNKS = WIDTH / 8;
constexpr int ROW_BYTES = (CHUNKS | 1) * 16, WEIGHT_BYTES = TILE_TOKENS * 2 + 16;
constexpr int M_TILES = QUERIES / 16, THREADS = M_TILES * N_WARPS * 32;
constexpr int WARP_TOKENS = TILE_TOKENS / N_WARPS, WARP_COLUMNS = RANK / N_WARPS;

KERNEL __launch_bounds__(THREADS)
latent_attention(const ELEMENT* q_latent, const ELEMENT* q_rope, const ELEMENT* cache, const int* block_tables,
                 const int* query_start_loc, const int* seq_lens, ELEMENT* out, float* partials, float2* statistics,
                 int rows, int heads, int block_tokens, int table_width, int split_tiles, float scale TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ uint4 dynamic[];
    launch_dependents();
    wait_on_dependency();
    const int sequence = blockIdx.y, split = blockIdx.z;
    const int first_row = query_start_loc[sequence], own_rows = query_start_loc[sequence + 1] - first_row;
    const int seq_len = seq_lens[sequence], own_queries = own_rows * heads;
    // The last queries see the most tokens: their CTAs launch first, which balances the load.
    const int first_query = (gridDim.x - 1 - blockIdx.x) * QUERIES;
    if (first_query >= own_queries)
        return;
    const int queries = min(QUERIES, own_queries - first_query);
    const i64 base_query = i64(first_row) * heads + first_query;
    // What the last query of the tile sees, within this split.
    const int visible_end = seq_len - own_rows + (first_query + queries - 1) / heads + 1;
    const int token_begin = SPLIT ? split * split_tiles * TILE_TOKENS : 0;
    const int token_end = seq_len <= 0 ? 0 : SPLIT ? min(visible_end, token_begin + split_tiles * TILE_TOKENS)
                                                   : visible_end;
    const int tiles = token_end > token_begin ? ceil_divide(token_end - token_begin, TILE_TOKENS) : 0;
    const i64 statistics_base = i64(split) * rows * heads + base_query;
    if (tiles == 0) {
        for (int i = threadIdx.x; i < queries; i += THREADS)
            if (SPLIT)
                statistics[statistics_base + i] = make_float2(MINUS_INFINITY, 0.0f);
        for (int i = threadIdx.x; !SPLIT && i < queries * RANK; i += THREADS)
            out[base_query * RANK + i] = from_float<ELEMENT>(0.0f);
        return;
    }

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int m = warp / N_WARPS, n = warp % N_WARPS;
    const int low = lane / 8 % 2, high = lane / 16, inner = lane % 8;
    const u32 q_tile = shared_address(dynamic);
    const u32 kv_tiles = q_tile + QUERIES * ROW_BYTES, weight_tile = kv_tiles + STAGES * TILE_TOKENS * ROW_BYTES;
    float* exchange = reinterpret_cast<float*>(reinterpret_cast<u8*>(dynamic) +
                                               (QUERIES + STAGES * TILE_TOKENS) * ROW_BYTES + QUERIES * WEIGHT_BYTES);
    auto at = [](u32 tile, int row, int chunk) { return tile + row * ROW_BYTES + chunk * 16; };

    for (int i = threadIdx.x; i < QUERIES * CHUNKS; i += THREADS) {
        const int row = i / CHUNKS, chunk = i % CHUNKS;
        const i64 query = base_query + min(row, queries - 1);
        const ELEMENT* from = chunk * 8 < RANK ? q_latent + query * RANK + chunk * 8
                                               : q_rope + query * ROTARY + (chunk * 8 - RANK);
        cp_async_16(at(q_tile, row, chunk), from, row < queries);
    }
    const int* table = block_tables + i64(sequence) * table_width;
    auto load_tile = [&](int tile) {
        if (tile < tiles) {
            const u32 to = kv_tiles + tile % STAGES * TILE_TOKENS * ROW_BYTES;
            const int from = token_begin + tile * TILE_TOKENS;
            for (int i = threadIdx.x; i < TILE_TOKENS * CHUNKS; i += THREADS) {
                const int row = i / CHUNKS, chunk = i % CHUNKS, token = min(from + row, seq_len - 1);
                const i64 slot = i64(table[token / block_tokens]) * block_tokens + token % block_tokens;
                cp_async_16(at(to, row, chunk), cache + slot * WIDTH + chunk * 8, from + row < seq_len);
            }
        }
        cp_async_commit();
    };
    load_tile(0);

    // The queries of this lane's two rows of the score fragments: the end of what they see.
    int visible[2];
#pragma unroll
    for (int h = 0; h < 2; h++)
        visible[h] = seq_len - own_rows + (first_query + min(m * 16 + h * 8 + g, queries - 1)) / heads + 1;
    const float scale_log2 = scale * LOG2_E;
    float accumulators[WARP_COLUMNS / 8][4] = {}, row_max[2] = {MINUS_INFINITY, MINUS_INFINITY}, row_sum[2] = {};
    for (int tile = 0; tile < tiles; tile++) {
        cp_async_wait<0>();
        __syncthreads();  // the tile has arrived, and all warps are done with the one before
        if (STAGES == 2)
            load_tile(tile + 1);
        const u32 kv = kv_tiles + tile % STAGES * TILE_TOKENS * ROW_BYTES;
        float logits[WARP_TOKENS / 8][4] = {};
#pragma unroll 6
        for (int k = 0; k < WIDTH / 32; k++) {
            u32 a[2][4];
#pragma unroll
            for (int step = 0; step < 2; step++)
                ldmatrix_x4(a[step], at(q_tile, m * 16 + low * 8 + inner, k * 4 + step * 2 + high));
#pragma unroll
            for (int j = 0; j < WARP_TOKENS / 8; j++) {
                u32 b[4];
                ldmatrix_x4(b, at(kv, n * WARP_TOKENS + j * 8 + inner, k * 4 + lane / 8));
                mma_16x8x16<ELEMENT>(logits[j], a[0][0], a[0][1], a[0][2], a[0][3], b[0], b[1]);
                mma_16x8x16<ELEMENT>(logits[j], a[1][0], a[1][1], a[1][2], a[1][3], b[2], b[3]);
            }
        }
        const int from = token_begin + tile * TILE_TOKENS + n * WARP_TOKENS;
        float own_max[2] = {MINUS_INFINITY, MINUS_INFINITY};
#pragma unroll
        for (int j = 0; j < WARP_TOKENS / 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int token = from + j * 8 + t * 2 + i % 2;
                logits[j][i] = token < visible[i / 2] ? logits[j][i] * scale_log2 : MINUS_INFINITY;
                own_max[i / 2] = fmaxf(own_max[i / 2], logits[j][i]);
            }
        // The maximum of a row over the warps that have its tokens.
#pragma unroll
        for (int h = 0; h < 2; h++) {
            own_max[h] = fmaxf(own_max[h], __shfl_xor_sync(~0u, own_max[h], 1));
            own_max[h] = fmaxf(own_max[h], __shfl_xor_sync(~0u, own_max[h], 2));
            if (t == 0)
                exchange[(m * 16 + h * 8 + g) * N_WARPS + n] = own_max[h];
        }
        __syncthreads();
        float rescale[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float new_max = row_max[h];
#pragma unroll
            for (int other = 0; other < N_WARPS; other++)
                new_max = fmaxf(new_max, exchange[(m * 16 + h * 8 + g) * N_WARPS + other]);
            // A row without an unmasked key yet: -inf minus -inf would be NaN.
            const float shift = new_max == MINUS_INFINITY ? 0.0f : new_max;
            rescale[h] = exp2_approx(row_max[h] - shift);
            row_max[h] = new_max;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < WARP_TOKENS / 8; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    logits[j][h * 2 + i] = exp2_approx(logits[j][h * 2 + i] - shift);
                    sum += logits[j][h * 2 + i];
                }
                const u32 to =
                    weight_tile + (m * 16 + h * 8 + g) * WEIGHT_BYTES + (n * WARP_TOKENS + j * 8 + t * 2) * 2;
                store4_shared(to, pack<ELEMENT>(logits[j][h * 2], logits[j][h * 2 + 1]));
            }
            row_sum[h] = fmaf(row_sum[h], rescale[h], sum);
        }
#pragma unroll
        for (int d = 0; d < WARP_COLUMNS / 8; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                accumulators[d][i] *= rescale[i / 2];
        __syncthreads();  // all weights of the tile are there
#pragma unroll
        for (int k = 0; k < TILE_TOKENS / 16; k++) {
            u32 a[4];
            ldmatrix_x4(a, weight_tile + (m * 16 + low * 8 + inner) * WEIGHT_BYTES + (k * 2 + high) * 16);
#pragma unroll
            for (int d = 0; d < WARP_COLUMNS / 16; d++) {
                u32 b[4];
                const int column = n * WARP_COLUMNS / 8 + d * 2 + high;
                ldmatrix_x4_trans(b, at(kv, k * 16 + low * 8 + inner, column));
                mma_16x8x16<ELEMENT>(accumulators[d * 2], a[0], a[1], a[2], a[3], b[0], b[1]);
                mma_16x8x16<ELEMENT>(accumulators[d * 2 + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
            }
        }
        if (STAGES == 1) {
            __syncthreads();
            load_tile(tile + 1);
        }
    }
    cp_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        row_sum[h] += __shfl_xor_sync(~0u, row_sum[h], 1);
        row_sum[h] += __shfl_xor_sync(~0u, row_sum[h], 2);
        if (t == 0)
            exchange[(m * 16 + h * 8 + g) * N_WARPS + n] = row_sum[h];
    }
    __syncthreads();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int query = m * 16 + h * 8 + g;
        if (query >= queries)
            continue;
        float sum = 0.0f;
#pragma unroll
        for (int other = 0; other < N_WARPS; other++)
            sum += exchange[query * N_WARPS + other];
        if constexpr (SPLIT) {
            if (n == 0 && t == 0)
                statistics[statistics_base + query] = make_float2(row_max[h], sum);
            float* to = partials + (statistics_base + query) * RANK + n * WARP_COLUMNS + t * 2;
#pragma unroll
            for (int d = 0; d < WARP_COLUMNS / 8; d++)
                *reinterpret_cast<float2*>(to + d * 8) =
                    make_float2(accumulators[d][h * 2], accumulators[d][h * 2 + 1]);
        } else {
            const float inverse_sum = sum > 0.0f ? 1.0f / sum : 0.0f;
            ELEMENT* to = out + (base_query + query) * RANK + n * WARP_COLUMNS + t * 2;
#pragma unroll
            for (int d = 0; d < WARP_COLUMNS / 8; d++)
                *reinterpret_cast<u32*>(to + d * 8) =
                    pack<ELEMENT>(accumulators[d][h * 2] * inverse_sum, accumulators[d][h * 2 + 1] * inverse_sum);
        }
    }
}
