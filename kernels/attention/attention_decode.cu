// Decode attention: one query token per sequence over a paged KV cache, grouped-query heads, split KV.
//
// Algorithm: Flash-Decoding [Dao et al. 2023]: the context is split over CTAs, each runs FlashAttention-2's online
//   softmax [Milakov & Gimelshein 2018; Dao 2023] over its tokens, and the split-KV partials are combined by their row
//   maxima and sums. The paged KV cache and its block tables are PagedAttention's [Kwon et al. 2023]. With FUSED_ROPE,
//   the RMS norm of queries and keys, RoPE [Su et al. 2021] and the cache write of the new token run in the same
//   kernel.
// Tiling: a CTA is one split of one KV head of one sequence; a warp takes tiles of 16 tokens, strided by WARPS,
//   straight from global memory to mma.sync fragments, without shared memory. S^T = K Q^T and O^T = V^T P^T, so that
//   the query heads of one KV head fill the n = 8 columns of the mma (GQA packing). The next tile's keys are loaded
//   during the softmax, its values after the second product. Partials meet in distributed shared memory where the
//   splits of a head are one thread block cluster, else in global memory, where the last CTA to arrive combines them.
// Departures: no shared-memory staging: the order of elements within a head is free as long as q (or out) follows it,
//   so 16-byte loads are fragments as they are. Elements of 8 bits are converted to fp16 in registers, which holds them
//   exactly, and the products are of fp16; scales of tokens multiply the logits and the probabilities. Splits are
//   combined in the same kernel, in the order of the splits, so that results do not depend on which CTA finishes last.
//
// Options and arguments: those of attention_decode.cuh. HEAD_DIM is 64, 128, 192 or 256.
// Launch: grid (splits, kv_heads, sequences), CTA of WARPS * 32, no dynamic shared memory; with CLUSTER the cluster
//   dimension is (splits, 1, 1).
//   Fastest on an H200, heads of 128: WARPS 8, CTAS_PER_SM 1 where no SM then gets a second CTA or contexts are long
//   (1 x 200: 8 splits, 8 x 200: 1, 1 x 8192: 16, 8 x 12000: 2, 64 x 4096: 1), else WARPS 4, CTAS_PER_SM 4 or 3, and
//   WARPS 2, CTAS_PER_SM 6 in many waves (256 x 200). In 8 bits, 8 x 12000: CTAS_PER_SM 2, 4
//   splits, WARPS 6 (e4m3) or 8 (int8).
#include "decode_combine.cuh"

// Loads the chunks of one row whose first elements are at element(c); zeros where not valid.
template <int CHUNKS, class Element>
DEVICE void load_chunks(Chunk (&chunks)[CHUNKS], const CacheElement* row, Element element, bool valid) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c += 1 + PAIRED_CHUNKS) {
        if constexpr (QUANTIZED && !PAIRED_CHUNKS) {
            const uint2 v = load8_streaming(row + element(c), valid);
            chunks[c].words[0] = v.x, chunks[c].words[1] = v.y;
        } else {
            // Four lanes read 64 bytes of a key; the other half of its line is asked for next.
            const CacheElement* at = row + element(c);
            const uint4 v = QUANTIZED ? load16_streaming(at, valid) : load16_of_line(at, valid);
            chunks[c].words[0] = v.x, chunks[c].words[1] = v.y;
            Chunk& upper = chunks[c + PAIRED_CHUNKS];
            upper.words[CHUNK_WORDS - 2] = v.z, upper.words[CHUNK_WORDS - 1] = v.w;
        }
    }
}

KERNEL __launch_bounds__(WARPS * 32, CTAS_PER_SM)
attention_decode(const ELEMENT* q, CacheElement* keys, CacheElement* values, const int* block_tables,
                 const int* seq_lens, const int* query_start_loc, ELEMENT* out, float* partials, u32* counters,
                 int heads, int kv_heads, int block_tokens, int table_width, i64 block_stride, int head_stride,
                 int token_stride, float scale
#if FUSED_ROPE
                 , const float* cos_sin_table, const ELEMENT* query_norm, const ELEMENT* key_norm, float epsilon
#endif
#if SCORE_OPTIONS
                 , int window, float softcap, const float* sinks, const float* alibi_slopes
#endif
                 TRACE_PARAMETER
) {
    TRACE_SPAN(0);
    __shared__ DecodePartials shared;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
#if !SCORE_OPTIONS
    constexpr int window = 0;
    const ScoreOptions options = {scale, 0.0f, nullptr, nullptr};
#else
    const ScoreOptions options = {scale, softcap, sinks, alibi_slopes};
#endif
#if !FUSED_ROPE
    constexpr const float* cos_sin_table = nullptr;
    constexpr const ELEMENT* query_norm = nullptr;
    constexpr float epsilon = 0.0f;
#endif
    launch_dependents();
    if constexpr (!METADATA_READY)
        wait_on_dependency();

    const DecodeTask task(seq_lens, query_start_loc, heads, kv_heads, window);
    const int seq_len = task.seq_len, kv_head = task.kv_head, tile_end = task.tile_end;
    const int* table = block_tables + i64(task.sequence) * table_width;
    keys += kv_head * head_stride;
    values += kv_head * head_stride;
    // The new token's keys and values follow the queries in qkv; it is the last token of the sequence.
    const ELEMENT* new_kv = q + (i64(task.row) * (heads + 2 * kv_heads) + heads + kv_head) * HEAD_DIM;
    q += i64(task.row) * (FUSED_ROPE ? heads + 2 * kv_heads : heads) * HEAD_DIM + kv_head * task.group_heads * HEAD_DIM;
    out += i64(task.row) * heads * HEAD_DIM + kv_head * task.group_heads * HEAD_DIM;

    Chunk key[2][KEY_CHUNKS], value[4][VALUE_CHUNKS];
    float key_scale[2] = {1.0f, 1.0f}, value_scale[2] = {1.0f, 1.0f};  // of tokens g and g + 8 of a tile
    // A division takes long, and most blocks are one tile.
    const u32 block_tiles = block_tokens / 16;
    auto cache_offset = [&](int tile) {
        u32 block = tile;
        if (block_tiles != 1)
            block = u32(tile) / block_tiles;
        return table[block] * block_stride + (tile - block * block_tiles) * 16 * token_stride;
    };
    // The scale of a token of a tile whose elements are at `from`: behind the elements of the head's block.
    auto scale_of = [&](const CacheElement* cache, int tile, i64 from, int token) {
        const int inner = tile * 16 % block_tokens;
        const CacheElement* scales = cache + from - inner * token_stride + block_tokens * HEAD_DIM;
        return __ldcg(reinterpret_cast<const float*>(scales) + inner + token);
    };
    // Cache slots past the sequence's end are uninitialized, so they are not read.
    auto load_keys = [&](int tile, i64 from) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            bool valid = tile < tile_end && tile * 16 + h * 8 + g < seq_len;
            const CacheElement* at = keys + from + (h * 8 + g) * token_stride;
            if (FUSED_ROPE && tile * 16 + h * 8 + g == seq_len - 1) {
                valid = valid && !QUANTIZED;  // the new token is converted below
                at = reinterpret_cast<const CacheElement*>(new_kv);
            }
            load_chunks(key[h], at, [&](int c) { return key_element(c, t); }, valid);
            if constexpr (HAS_SCALES)
                key_scale[h] = valid ? scale_of(keys, tile, from, h * 8 + g) : 0.0f;
        }
    };
    auto load_values = [&](int tile, i64 from) {
#pragma unroll
        for (int h = 0; h < 4; h++) {
            const int token = value_token(h, t);
            bool valid = tile < tile_end && tile * 16 + token < seq_len;
            const CacheElement* at = values + from + token * token_stride;
            if (FUSED_ROPE && tile * 16 + token == seq_len - 1) {
                valid = valid && !QUANTIZED;
                at = reinterpret_cast<const CacheElement*>(new_kv + kv_heads * HEAD_DIM);
            }
            load_chunks(value[h], at, [&](int c) { return value_element(c, g); }, valid);
        }
#pragma unroll
        for (int h = 0; HAS_SCALES && h < 2; h++) {
            const bool valid = tile < tile_end && tile * 16 + h * 8 + g < seq_len;
            value_scale[h] = valid ? scale_of(values, tile, from, h * 8 + g) : 0.0f;
        }
    };

    int tile = task.tile_begin + warp;
    const i64 first_offset = tile < tile_end ? cache_offset(tile) : 0;
    i64 offset = first_offset, next_offset = tile + WARPS < tile_end ? cache_offset(tile + WARPS) : 0;
    if constexpr (METADATA_READY) {
        constexpr int line = 128 / sizeof(CacheElement), lines = ceil_divide(HEAD_DIM, line);
        for (int i = lane; i < 16 * lines && tile < tile_end; i += 32) {
            prefetch_l2(keys + first_offset + i / lines * token_stride + i % lines * line);
            prefetch_l2(values + first_offset + i / lines * token_stride + i % lines * line);
        }
        wait_on_dependency();
    }
    load_keys(tile, first_offset);
    load_values(tile, first_offset);

    const float* cos_sin = cos_sin_table && seq_len ? cos_sin_table + i64(seq_len - 1) * HEAD_DIM : nullptr;
    uint4 query[HEAD_TILES][KEY_CHUNKS];
    load_queries(query, q, task, query_norm, cos_sin, epsilon);

    DecodeState state;
    for (; tile < tile_end; tile += WARPS) {
#if FUSED_ROPE
        if (tile == task.tiles - 1) {
            const int token = (seq_len - 1) % 16;
            const bool upper = token >= 8, has_token = g == token % 8 && task.has_query;
            uint4 head[KEY_CHUNKS];
            float v[KEY_CHUNKS][8];
#pragma unroll
            for (int c = 0; c < KEY_CHUNKS; c++)
                head[c] = QUANTIZED ? load16(new_kv + key_element(c, t))
                          : upper   ? key[1][c].operand()
                                    : key[0][c].operand();
            normalize_and_rotate(v, head, key_norm, cos_sin, epsilon);
#pragma unroll
            for (int c = 0; c < KEY_CHUNKS; c++) {
                const Chunk rotated = stored_chunk(v[c]);
#pragma unroll
                for (int i = 0; i < CHUNK_WORDS; i++) {
                    key[0][c].words[i] = has_token && !upper ? rotated.words[i] : key[0][c].words[i];
                    key[1][c].words[i] = has_token && upper ? rotated.words[i] : key[1][c].words[i];
                }
                if (has_token)
                    store_chunk(keys + offset + token * token_stride + key_element(c, t), rotated);
            }
#pragma unroll
            for (int h = 0; h < 4; h++)
#pragma unroll
                for (int c = 0; c < VALUE_CHUNKS; c++)
                    if (value_token(h, t) == token && task.has_query) {
                        if constexpr (QUANTIZED) {
                            float v[8];
                            unpack8(v, load16(new_kv + kv_heads * HEAD_DIM + value_element(c, g)));
                            value[h][c] = stored_chunk(v);
                        }
                        store_chunk(values + offset + token * token_stride + value_element(c, g), value[h][c]);
                    }
        }
#endif
        float logits[HEAD_TILES][4] = {};
#pragma unroll
        for (int c = 0; c < KEY_CHUNKS; c++) {
            const uint4 a = key[0][c].operand(), b = key[1][c].operand();
#pragma unroll
            for (int n = 0; n < HEAD_TILES; n++) {
                const uint4& x = query[n][c];
                mma_16x8x16<MmaElement>(logits[n], a.x, b.x, a.y, b.y, x.x, x.y);
                mma_16x8x16<MmaElement>(logits[n], a.z, b.z, a.w, b.w, x.z, x.w);
            }
        }
#pragma unroll
        for (int i = 0; HAS_SCALES && i < HEAD_TILES * 4; i++)
            logits[i / 4][i % 4] *= key_scale[i % 4 / 2];
        load_keys(tile + WARPS, next_offset);
        u32 probabilities[HEAD_TILES][2];
        state.softmax(probabilities, logits, tile, task, options, value_scale);
        state.accumulate(value, probabilities);
        load_values(tile + WARPS, next_offset);
        offset = next_offset;
        next_offset = tile + 2 * WARPS < tile_end ? cache_offset(tile + 2 * WARPS) : 0;
    }
    combine_partials(shared, state, task, options, partials, counters, out);
}
