// Prefill attention: many queries per sequence over a paged or contiguous KV cache, from compute capability 8.0 on.
//
// Algorithm: FlashAttention-2 [Dao 2023], forward pass, with online softmax [Milakov & Gimelshein 2018] and a paged KV
//   cache [Kwon et al. 2023].
// Tiling: a CTA is 64 queries of one head, a warp 16 of them; tiles of 64 tokens (32 for heads above 128) of keys and
//   values are double-buffered in shared memory by cp.async, XOR-swizzled, and read by ldmatrix for mma.sync m16n8k16.
//   Q stays in registers for heads up to 128.
// Departures: none but paging. As in the authors' code, KV tiles are visited from the last to the first, so that masked
//   tiles come first.
//
// Options: ELEMENT (bf16, fp16), CACHE_ELEMENT (as ELEMENT, e4m3 or int8 with a scale for each token of a head, as
//   cache_element.cuh: converted to ELEMENT on the way to shared memory), HEAD_DIM (64, 128, 256; any multiple of 64),
//   CAUSAL (0, 1), SCORE_OPTIONS (as attention_decode.cu; needs CAUSAL).
// Launch: grid (ceil(most queries of a sequence / 64), heads, sequences), CTA of 128, shared bytes
//   4 * TILE_TOKENS * HEAD_DIM * 2, and 64 * HEAD_DIM * 2 more for HEAD_DIM above 128; TILE_TOKENS = 64, above 128 32.
// Arguments: those of attention_prefill_hopper.cu, but pointers and strides (in elements) instead of tensor maps; with
//   SCORE_OPTIONS those of attention_decode.cu behind them.
#include "cache_element.cuh"

#ifndef CACHE_ELEMENT
#define CACHE_ELEMENT ELEMENT
#endif

#ifndef SCORE_OPTIONS
#define SCORE_OPTIONS 0
#endif

constexpr bool HAS_WINDOW = SCORE_OPTIONS & 1, HAS_SOFTCAP = SCORE_OPTIONS & 2, HAS_SINKS = SCORE_OPTIONS & 4;
constexpr bool HAS_ALIBI = SCORE_OPTIONS & 8;
constexpr int TILE_QUERIES = 64, TILE_TOKENS = HEAD_DIM > 128 ? 32 : 64;
constexpr bool Q_IN_REGISTERS = HEAD_DIM <= 128;

// The address of a 16-byte chunk, swizzled (XOR with the row) so that ldmatrix reads eight rows without bank conflicts.
DEVICE u32 swizzled(u32 tile, int row, int chunk) { return tile + row * HEAD_DIM * 2 + (chunk ^ row % 8) * 16; }

template <int ROWS, class From> DEVICE void load_tile(u32 to, int valid_rows, From from) {
    constexpr int chunks = HEAD_DIM / 8;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * chunks; i += 128) {
        const int row = i / chunks, chunk = i % chunks;
        cp_async_16(swizzled(to, row, chunk), from(min(row, valid_rows - 1)) + chunk * 8, row < valid_rows);
    }
}

typedef CACHE_ELEMENT CacheElement;

// Loads a tile of a quantized cache through registers; `scale(row)` is that of a token.
template <int ROWS, class From, class Scale>
DEVICE void convert_tile(u32 to, int valid_rows, From from, Scale scale) {
    constexpr int chunks = HEAD_DIM / 8;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * chunks; i += 128) {
        const int row = i / chunks, chunk = i % chunks;
        u32 words[4] = {};
        if (row < valid_rows) {
            const uint4 v = cache_chunk<CacheElement>(*reinterpret_cast<const uint2*>(from(row) + chunk * 8));
            const float factor = scale(row);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float2 pair = unpack<fp16>(word(v, j));
                words[j] = pack<ELEMENT>(pair.x * factor, pair.y * factor);
            }
        }
        store16_shared(swizzled(to, row, chunk), make_uint4(words[0], words[1], words[2], words[3]));
    }
}

KERNEL __launch_bounds__(128)
attention_prefill(const ELEMENT* q, const CacheElement* keys, const CacheElement* values, const int* block_tables,
                  const int* query_start_loc, const int* seq_lens, ELEMENT* out, int queries, int tokens, int heads,
                  int kv_heads, int block_tokens, int table_width, i64 block_stride, int head_stride,
                  int token_stride, float scale
#if SCORE_OPTIONS
                  , int window, float softcap, const float* sinks, const float* alibi_slopes
#endif
                  TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ uint4 dynamic[];
    const int sequence = blockIdx.z, head = blockIdx.y, kv_head = head / (heads / kv_heads);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
#if !SCORE_OPTIONS
    constexpr int window = 0;
    constexpr float softcap = 0.0f;
    constexpr const float *sinks = nullptr, *alibi_slopes = nullptr;
#endif
    launch_dependents();
    wait_on_dependency();
    const int row = query_start_loc ? query_start_loc[sequence] : sequence * queries;
    const int rows = query_start_loc ? query_start_loc[sequence + 1] - row : queries;
    const int seq_len = seq_lens ? seq_lens[sequence] : tokens;
    // The last queries attend to the most keys: their CTAs launch first, which balances the load.
    const int first_query = (gridDim.x - 1 - blockIdx.x) * TILE_QUERIES;
    if (first_query >= rows || seq_len <= 0)
        return;
    const int kv_end = CAUSAL ? min(seq_len, seq_len - rows + first_query + TILE_QUERIES) : seq_len;
    const int last_tile = ceil_divide(kv_end, TILE_TOKENS) - 1;
    // The tile's first query sees the earliest tokens.
    const int first_token = HAS_WINDOW ? max(seq_len - rows + first_query - window + 1, 0) : 0;
    const int tiles = last_tile + 1 - first_token / TILE_TOKENS;

    constexpr int tile_bytes = TILE_TOKENS * HEAD_DIM * 2;
    const u32 base = shared_address(dynamic), q_tile = Q_IN_REGISTERS ? base : base + 4 * tile_bytes;
    auto key_tile = [&](int stage) { return base + stage * tile_bytes; };
    auto value_tile = [&](int stage) { return base + (2 + stage) * tile_bytes; };
    const int* table = block_tables ? block_tables + i64(sequence) * table_width : nullptr;
    const i64 origin = sequence * block_stride + kv_head * head_stride;
    auto token_offset = [&](int token) {
        if (!table)
            return origin + i64(token) * token_stride;
        return table[token / block_tokens] * block_stride + kv_head * head_stride +
               i64(token % block_tokens) * token_stride;
    };
    auto load_cache_tile = [&](u32 to, const CacheElement* cache, int n) {
        const int from = (last_tile - n) * TILE_TOKENS;
        auto row_at = [&](int r) { return cache + token_offset(from + r); };
        if constexpr (CacheTraits<CacheElement>::QUANTIZED) {
            auto scale_at = [&](int r) {
                if (CacheTraits<CacheElement>::SCALE_BYTES == 0)
                    return 1.0f;
                const int inner = (from + r) % block_tokens;
                const CacheElement* scales = row_at(r) - i64(inner) * token_stride + block_tokens * HEAD_DIM;
                return reinterpret_cast<const float*>(scales)[inner];
            };
            convert_tile<TILE_TOKENS>(to, seq_len - from, row_at, scale_at);
        } else {
            load_tile<TILE_TOKENS>(to, seq_len - from, row_at);
        }
    };
    auto load_keys = [&](int n) {
        if (n < tiles)
            load_cache_tile(key_tile(n % 2), keys, n);
        cp_async_commit();
    };
    auto load_values = [&](int n) {
        if (n < tiles)
            load_cache_tile(value_tile(n % 2), values, n);
        cp_async_commit();
    };

    load_tile<TILE_QUERIES>(q_tile, rows - first_query,
                            [&](int r) { return q + (i64(row + first_query + r) * heads + head) * HEAD_DIM; });
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    // The 8 x 8 matrix of ldmatrix.x4 that this lane gives a row address of.
    const int low = lane / 8 % 2, high = lane / 16, inner = lane % 8;
    u32 q_fragments[Q_IN_REGISTERS ? HEAD_DIM / 16 : 1][4];
    if constexpr (Q_IN_REGISTERS) {
#pragma unroll
        for (int k = 0; k < HEAD_DIM / 16; k++)
            ldmatrix_x4(q_fragments[k], swizzled(q_tile, warp * 16 + low * 8 + inner, k * 2 + high));
        __syncthreads();
    }
    load_keys(0);
    load_values(0);

    const int query = warp * 16 + g, position = seq_len - rows + first_query + query;
    // With a softcap or ALiBi, logits are scaled before the softmax.
    const float scale_log2 = HAS_SOFTCAP || HAS_ALIBI ? 1.0f : scale * LOG2_E;
    float accumulators[HEAD_DIM / 8][4] = {}, row_max[2] = {MINUS_INFINITY, MINUS_INFINITY}, row_sum[2] = {};
    for (int n = 0; n < tiles; n++) {
        const int from = (last_tile - n) * TILE_TOKENS;
        cp_async_wait<1>();
        __syncthreads();  // this tile's keys have arrived, and all warps are done with the previous tile
        load_keys(n + 1);
        float logits[TILE_TOKENS / 8][4] = {};
#pragma unroll
        for (int k = 0; k < HEAD_DIM / 16; k++) {
            u32 reloaded[4];
            if constexpr (!Q_IN_REGISTERS)
                ldmatrix_x4(reloaded, swizzled(q_tile, warp * 16 + low * 8 + inner, k * 2 + high));
            u32(&a)[4] = Q_IN_REGISTERS ? q_fragments[Q_IN_REGISTERS ? k : 0] : reloaded;
#pragma unroll
            for (int j = 0; j < TILE_TOKENS / 16; j++) {
                u32 b[4];
                ldmatrix_x4(b, swizzled(key_tile(n % 2), j * 16 + high * 8 + inner, k * 2 + low));
                mma_16x8x16<ELEMENT>(logits[j * 2], a[0], a[1], a[2], a[3], b[0], b[1]);
                mma_16x8x16<ELEMENT>(logits[j * 2 + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
            }
        }
        if constexpr (HAS_SOFTCAP || HAS_ALIBI) {
#pragma unroll
            for (int j = 0; j < TILE_TOKENS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    if constexpr (HAS_SOFTCAP)
                        logits[j][i] = softcap * LOG2_E * tanhf(logits[j][i] * scale / softcap);
                    else
                        logits[j][i] *= scale * LOG2_E;
                    if constexpr (HAS_ALIBI) {
                        const int distance = position + i / 2 * 8 - (from + j * 8 + t * 2 + i % 2);
                        logits[j][i] -= alibi_slopes[head] * LOG2_E * distance;
                    }
                }
        }
        const bool crosses_window = HAS_WINDOW && from <= position - g + 15 - window;
        if (crosses_window || from + TILE_TOKENS > (CAUSAL ? min(seq_len, position - g + 1) : seq_len)) {
#pragma unroll
            for (int j = 0; j < TILE_TOKENS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int token = from + j * 8 + t * 2 + i % 2;
                    const int own = position + i / 2 * 8;
                    const bool in_window = !HAS_WINDOW || token > own - window;
                    const bool valid = token < seq_len && (!CAUSAL || token <= own) && in_window;
                    logits[j][i] = valid ? logits[j][i] : MINUS_INFINITY;
                }
        }
        float rescale[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float new_max = row_max[h];
#pragma unroll
            for (int j = 0; j < TILE_TOKENS / 8; j++)
                new_max = fmaxf(new_max, fmaxf(logits[j][h * 2], logits[j][h * 2 + 1]));
            new_max = fmaxf(new_max, __shfl_xor_sync(~0u, new_max, 1));
            new_max = fmaxf(new_max, __shfl_xor_sync(~0u, new_max, 2));
            // A row without an unmasked key yet: -inf minus -inf would be NaN.
            const float shift = new_max == MINUS_INFINITY ? 0.0f : new_max * scale_log2;
            rescale[h] = exp2_approx(row_max[h] * scale_log2 - shift);
            row_max[h] = new_max;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < TILE_TOKENS / 8; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    logits[j][h * 2 + i] = exp2_approx(fmaf(logits[j][h * 2 + i], scale_log2, -shift));
                    sum += logits[j][h * 2 + i];
                }
            row_sum[h] = fmaf(row_sum[h], rescale[h], sum);
        }
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 8; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                accumulators[d][i] *= rescale[i / 2];
        cp_async_wait<1>();
        __syncthreads();  // this tile's values have arrived, and all warps are done with its keys
        load_values(n + 1);
#pragma unroll
        for (int k = 0; k < TILE_TOKENS / 16; k++) {
            u32 a[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[i] = pack<ELEMENT>(logits[k * 2 + i / 2][i % 2 * 2], logits[k * 2 + i / 2][i % 2 * 2 + 1]);
#pragma unroll
            for (int d = 0; d < HEAD_DIM / 16; d++) {
                u32 b[4];
                ldmatrix_x4_trans(b, swizzled(value_tile(n % 2), k * 16 + low * 8 + inner, d * 2 + high));
                mma_16x8x16<ELEMENT>(accumulators[d * 2], a[0], a[1], a[2], a[3], b[0], b[1]);
                mma_16x8x16<ELEMENT>(accumulators[d * 2 + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
            }
        }
    }
    cp_async_wait<0>();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        row_sum[h] += __shfl_xor_sync(~0u, row_sum[h], 1);
        row_sum[h] += __shfl_xor_sync(~0u, row_sum[h], 2);
        float inverse_sum = row_sum[h] > 0.0f ? 1.0f / row_sum[h] : 0.0f;
        if constexpr (HAS_SINKS) {
            // A sink is a key without a value: it takes part in the maximum and in the sum.
            const float sink = sinks[head] * LOG2_E, own_max = row_max[h] * scale_log2, new_max = fmaxf(own_max, sink);
            const float rescale = exp2_approx(own_max - new_max);
            inverse_sum = row_sum[h] > 0.0f ? rescale / fmaf(row_sum[h], rescale, exp2_approx(sink - new_max)) : 0.0f;
        }
        if (first_query + query + h * 8 >= rows)
            continue;
        ELEMENT* to = out + (i64(row + first_query + query + h * 8) * heads + head) * HEAD_DIM + t * 2;
#pragma unroll
        for (int d = 0; d < HEAD_DIM / 8; d++)
            *reinterpret_cast<u32*>(to + d * 8) =
                pack<ELEMENT>(accumulators[d][h * 2] * inverse_sum, accumulators[d][h * 2 + 1] * inverse_sum);
    }
}
