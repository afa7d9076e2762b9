// Decode attention for Hopper: as attention_decode.cu, over tiles that TMA copies to shared memory.
//
// Algorithm: that of attention_decode.cu.
// Tiling: a CTA is one split of one KV head of one sequence; a warp takes tiles of 16 tokens, strided by WARPS. A tile
//   of a head is contiguous in the cache: one bulk copy for its keys and one for its values bring it, as it is, to a
//   ring of STAGES tiles that is the warp's own, with an mbarrier for each stage. Warps wait for no other warp before
//   their partials meet. So many bytes are in flight as the ring holds, whatever the registers: elements of 8 bits need
//   twice the tiles in flight of 16, which registers do not hold.
// Departures: lanes read rows from shared memory in the order of fragments, with bank conflicts of two (keys) and four
//   (values): a tile is read once, which shared memory has the bandwidth for. The new token is written to the tile in
//   shared memory, and to the cache.
//
// Options and arguments: those of attention_decode.cuh, and RING_STAGES. HEAD_DIM is 64 or 128; tokens of a head are
//   contiguous (token_stride is HEAD_DIM), and blocks and heads are aligned to 16 bytes.
// Launch: grid (splits, kv_heads, sequences), CTA of WARPS * 32, dynamic shared memory of the larger of
//   WARPS * RING_STAGES * TILE_BYTES and sizeof(DecodePartials); with CLUSTER the cluster dimension is (splits, 1, 1).
#include "decode_combine.cuh"
#include "hopper.cuh"

// Half of a tile, its keys or its values, as the cache stores it: the elements of 16 tokens, then their scales.
constexpr int ELEMENT_BYTES = 16 * HEAD_DIM * int(sizeof(CacheElement));
constexpr int SCALE_BYTES = 16 * CacheTraits<CacheElement>::SCALE_BYTES, HALF_BYTES = ELEMENT_BYTES + SCALE_BYTES;
constexpr int TILE_BYTES = 2 * HALF_BYTES;

// Reads the chunks of one row of a tile whose first elements are at element(c).
template <int CHUNKS, class Element>
DEVICE void read_chunks(Chunk (&chunks)[CHUNKS], const CacheElement* row, Element element) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c += 1 + PAIRED_CHUNKS) {
        if constexpr (QUANTIZED && !PAIRED_CHUNKS) {
            const uint2 v = *reinterpret_cast<const uint2*>(row + element(c));
            chunks[c].words[0] = v.x, chunks[c].words[1] = v.y;
        } else {
            const uint4 v = load16(row + element(c));
            chunks[c].words[0] = v.x, chunks[c].words[1] = v.y;
            Chunk& upper = chunks[c + PAIRED_CHUNKS];
            upper.words[CHUNK_WORDS - 2] = v.z, upper.words[CHUNK_WORDS - 1] = v.w;
        }
    }
}

KERNEL __launch_bounds__(WARPS * 32, CTAS_PER_SM)
attention_decode_hopper(const ELEMENT* q, CacheElement* keys, CacheElement* values, const int* block_tables,
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
    extern __shared__ __align__(128) u8 ring[];
    __shared__ u64 barriers[WARPS][RING_STAGES];
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
    u8* stages = ring + warp * RING_STAGES * TILE_BYTES;
    if (lane < RING_STAGES)
        mbarrier_init(shared_address(&barriers[warp][lane]), 1);
    fence_mbarrier_init();
    __syncwarp();
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

    auto cache_offset = [&](int tile) {
        const int token = tile * 16;
        return table[token / block_tokens] * block_stride + token % block_tokens * token_stride;
    };
    auto load_tile = [&](int tile, int stage, i64 from) {
        const u32 barrier = shared_address(&barriers[warp][stage]), to = shared_address(stages + stage * TILE_BYTES);
        mbarrier_arrive_expect_tx(barrier, TILE_BYTES);
        bulk_load(to, keys + from, ELEMENT_BYTES, barrier);
        bulk_load(to + HALF_BYTES, values + from, ELEMENT_BYTES, barrier);
        if constexpr (HAS_SCALES) {
            // Those of a head follow the elements of its block.
            const int inner = tile * 16 % block_tokens;
            const i64 scales = from - inner * token_stride + block_tokens * HEAD_DIM + inner * SCALE_BYTES / 16;
            bulk_load(to + ELEMENT_BYTES, keys + scales, SCALE_BYTES, barrier);
            bulk_load(to + HALF_BYTES + ELEMENT_BYTES, values + scales, SCALE_BYTES, barrier);
        }
    };

    // Lane s looks up and issues the first tile of stage s.
    int tile = task.tile_begin + warp;
    const int first_tile = tile + lane * WARPS;
    const bool has_tile = lane < RING_STAGES && first_tile < tile_end;
    const i64 first_offset = has_tile ? cache_offset(first_tile) : 0;
    if constexpr (METADATA_READY) {
        if (has_tile) {
            bulk_prefetch_l2(keys + first_offset, ELEMENT_BYTES);
            bulk_prefetch_l2(values + first_offset, ELEMENT_BYTES);
        }
        wait_on_dependency();
    }
    if (has_tile)
        load_tile(first_tile, lane, first_offset);
    i64 next_offset = tile + RING_STAGES * WARPS < tile_end ? cache_offset(tile + RING_STAGES * WARPS) : 0;

    const float* cos_sin = cos_sin_table && seq_len ? cos_sin_table + i64(seq_len - 1) * HEAD_DIM : nullptr;
    uint4 query[HEAD_TILES][KEY_CHUNKS];
    load_queries(query, q, task, query_norm, cos_sin, epsilon);

    DecodeState state;
    PipelineState<RING_STAGES> pipeline;
    for (; tile < tile_end; tile += WARPS) {
        u8* own = stages + pipeline.index * TILE_BYTES;
        CacheElement* tile_keys = reinterpret_cast<CacheElement*>(own);
        CacheElement* tile_values = reinterpret_cast<CacheElement*>(own + HALF_BYTES);
        mbarrier_wait(shared_address(&barriers[warp][pipeline.index]), pipeline.phase);
#if FUSED_ROPE
        if (tile == task.tiles - 1) {
            // The copy has the new token's slot as it was before.
            const int token = (seq_len - 1) % 16;
            const i64 slot = cache_offset(tile) + token * token_stride;
            uint4 head[KEY_CHUNKS];
            float v[KEY_CHUNKS][8];
#pragma unroll
            for (int c = 0; c < KEY_CHUNKS; c++)
                head[c] = load16(new_kv + key_element(c, t));
            normalize_and_rotate(v, head, key_norm, cos_sin, epsilon);
#pragma unroll
            for (int c = 0; c < KEY_CHUNKS; c++)
                if (g == 0) {
                    const Chunk rotated = stored_chunk(v[c]);
                    store_chunk(tile_keys + token * HEAD_DIM + key_element(c, t), rotated);
                    if (task.has_query)
                        store_chunk(keys + slot + key_element(c, t), rotated);
                }
            if (lane * 8 < HEAD_DIM) {
                float v[8];
                unpack8(v, load16(new_kv + kv_heads * HEAD_DIM + lane * 8));
                const Chunk stored = stored_chunk(v);
                store_chunk(tile_values + token * HEAD_DIM + lane * 8, stored);
                if (task.has_query)
                    store_chunk(values + slot + lane * 8, stored);
            }
            __syncwarp();
        }
#endif
        Chunk key[2][KEY_CHUNKS], value[4][VALUE_CHUNKS];
        float key_scale[2] = {1.0f, 1.0f}, value_scale[2] = {1.0f, 1.0f};  // of tokens g and g + 8
#pragma unroll
        for (int h = 0; h < 2; h++) {
            read_chunks(key[h], tile_keys + (h * 8 + g) * HEAD_DIM, [&](int c) { return key_element(c, t); });
            if constexpr (HAS_SCALES) {
                const bool valid = tile * 16 + h * 8 + g < seq_len;
                key_scale[h] = reinterpret_cast<const float*>(own + ELEMENT_BYTES)[h * 8 + g];
                const float of_value = reinterpret_cast<const float*>(own + HALF_BYTES + ELEMENT_BYTES)[h * 8 + g];
                value_scale[h] = valid ? of_value : 0.0f;
            }
        }
#pragma unroll
        for (int h = 0; h < 4; h++)
            read_chunks(value[h], tile_values + value_token(h, t) * HEAD_DIM,
                        [&](int c) { return value_element(c, g); });
        if (tile == task.tiles - 1) {
            // Slots past the sequence's end are uninitialized: their probabilities are zero, times NaN they are not.
#pragma unroll
            for (int h = 0; h < 4; h++)
#pragma unroll
                for (int i = 0; i < VALUE_CHUNKS * CHUNK_WORDS; i++)
                    if (tile * 16 + value_token(h, t) >= seq_len)
                        value[h][i / CHUNK_WORDS].words[i % CHUNK_WORDS] = 0;
        }
        // Two chains of dependent products, which are added.
        float logits[HEAD_TILES][4] = {}, odd_logits[HEAD_TILES][4] = {};
#pragma unroll
        for (int c = 0; c < KEY_CHUNKS; c++) {
            const uint4 a = key[0][c].operand(), b = key[1][c].operand();
#pragma unroll
            for (int n = 0; n < HEAD_TILES; n++) {
                const uint4& x = query[n][c];
                mma_16x8x16<MmaElement>(logits[n], a.x, b.x, a.y, b.y, x.x, x.y);
                mma_16x8x16<MmaElement>(odd_logits[n], a.z, b.z, a.w, b.w, x.z, x.w);
            }
        }
#pragma unroll
        for (int i = 0; i < HEAD_TILES * 4; i++)
            logits[i / 4][i % 4] = (logits[i / 4][i % 4] + odd_logits[i / 4][i % 4]) * key_scale[i % 4 / 2];
        // All lanes have read the stage.
        __syncwarp();
        if (lane == 0 && tile + RING_STAGES * WARPS < tile_end)
            load_tile(tile + RING_STAGES * WARPS, pipeline.index, next_offset);
        const int ahead = tile + (RING_STAGES + 1) * WARPS;
        next_offset = ahead < tile_end ? cache_offset(ahead) : 0;
        pipeline.advance();
        u32 probabilities[HEAD_TILES][2];
        state.softmax(probabilities, logits, tile, task, options, value_scale);
        state.accumulate(value, probabilities);
    }
    __syncthreads();  // partials take the place of the tiles
    combine_partials(*reinterpret_cast<DecodePartials*>(ring), state, task, options, partials, counters, out);
}
