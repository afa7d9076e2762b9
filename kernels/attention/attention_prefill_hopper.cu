// Prefill attention on Hopper (sm_90a): many queries per sequence over a paged or contiguous KV cache.
//
// Algorithm: FlashAttention-3 [Shah et al. 2024], forward pass: warp specialization, TMA loads, wgmma, and online
//   softmax [Milakov & Gimelshein 2018] overlapped with the asynchronous products. The paged KV cache is
//   PagedAttention's [Kwon et al. 2023].
// Tiling: persistent CTAs of three warpgroups claim tiles of 128 rows from a dynamic scheduler (tile_scheduler.cuh):
//   128 queries of a head or, with HEADS_PER_TILE above 1, fewer queries of all heads that share a KV head
//   (FlashAttention-3's PackGQA). In the producer warpgroup one warp issues TMA loads of Q and K, one of V, across tile
//   boundaries; each of two consumer warpgroups computes 64 rows. K and V tiles of 128 tokens are double-buffered;
//   each stage has a full and an empty mbarrier. The QK product of the next KV tile and the PV product of the last one
//   are in flight during each softmax.
// Departures: no ping-pong scheduling between the consumer warpgroups: it was slower at most lengths. A row's
//   accumulators are rescaled only when the exponential of its maximum has grown 2^8-fold. A paged block, or the
//   largest power-of-two part of it that divides a tile, is one TMA box; rows of V past the last token are zeroed in
//   shared memory.
//
// Options: ELEMENT (bf16, fp16), HEAD_DIM (64, 128), HEADS_PER_TILE (query heads of a tile; they share a KV head; at
//   most 128), CAUSAL (0, 1), BOX_TOKENS (16, 32, 64, 128: tokens of a TMA box).
// Launch: grid (at most one CTA for each SM), CTA of 384, shared bytes 6 * 128 * HEAD_DIM * 2 + 1024.
// Arguments: tensor maps of q (HEAD_DIM, heads, rows; box 64, HEADS_PER_TILE, 128 / HEADS_PER_TILE), of keys and of
//   values (HEAD_DIM, tokens of a block, kv_heads, blocks; box 64, BOX_TOKENS, 1, 1), all with the 128-byte swizzle;
//   block_tables (sequences x table_width, int32; null: block s holds all tokens of sequence s), query_start_loc
//   (int32; null: `queries` rows each), seq_lens (int32; null: `tokens` each), out (rows x heads x HEAD_DIM),
//   tile_counter (one int32, zero, and zero again at the end), rows, queries, tokens, head_tiles (heads /
//   HEADS_PER_TILE), head_tiles_per_kv_head, sequences, block_tokens, table_width, scale.
//   The rows of a sequence are the last of its tokens. With query_start_loc, rows of no sequence and of sequences
//   without tokens become zeros.
#include "tile_scheduler.cuh"
#include "hopper.cuh"

constexpr int TILE_ROWS = 128, TILE_QUERIES = TILE_ROWS / HEADS_PER_TILE, TILE_TOKENS = 128, STAGES = 2;
constexpr int COLUMN_BLOCKS = HEAD_DIM / 64;  // of 64 elements, 128 bytes: the width of the swizzle
constexpr int TILE_BYTES = TILE_TOKENS * HEAD_DIM * 2;
constexpr int BOXES = TILE_TOKENS / BOX_TOKENS;
constexpr int CONSUMER_WARPS = 8;  // in two warpgroups

KERNEL __launch_bounds__(384, 1)
attention_prefill_hopper(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap keys,
                         const __grid_constant__ TensorMap values, const int* block_tables, const int* query_start_loc,
                         const int* seq_lens, ELEMENT* out, int* tile_counter, int rows, int queries, int tokens,
                         int head_tiles, int head_tiles_per_kv_head, int sequences, int block_tokens, int table_width,
                         float scale TRACE_PARAMETER) {
    TRACE_SPAN(blockDim.x - 1);
    extern __shared__ u8 dynamic[];
    __shared__ u64 barriers[5 + 4 * STAGES];
    __shared__ WorkTile work_tiles[2];
    const int warpgroup = threadIdx.x / 128, lane = threadIdx.x % 32;
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    auto q_tile = [&](int index) { return base + TILE_BYTES * index; };
    auto key_tile = [&](int stage) { return base + TILE_BYTES * (2 + stage); };
    auto value_tile = [&](int stage) { return base + TILE_BYTES * (2 + STAGES + stage); };
    const u32 mask_barrier = shared_address(barriers);
    auto q_full = [&](int index) { return mask_barrier + 8 * (1 + index); };
    auto q_empty = [&](int index) { return mask_barrier + 8 * (3 + index); };
    auto full = [&](int value, int stage) { return mask_barrier + 8 * (5 + value * STAGES + stage); };
    auto empty = [&](int value, int stage) { return mask_barrier + 8 * (5 + (2 + value) * STAGES + stage); };
    if (threadIdx.x == 0) {
        mbarrier_init(mask_barrier, 1);
        for (int index = 0; index < 2; index++) {
            mbarrier_init(q_full(index), 1);
            mbarrier_init(q_empty(index), 32 * (CONSUMER_WARPS + 1));
        }
        for (int value = 0; value < 2; value++)
            for (int stage = 0; stage < STAGES; stage++) {
                mbarrier_init(full(value, stage), 1);
                mbarrier_init(empty(value, stage), CONSUMER_WARPS);
            }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    launch_dependents();
    wait_on_dependency();

    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        // Lane b issues the TMA load of box b of a tile, if it holds a token. The block table is read before the stage
        // is free, which hides its latency.
        auto lookup_block = [&](const WorkTile& work, int from) {
            const int token = from + lane * BOX_TOKENS;
            if (!block_tables || lane >= BOXES || token >= work.seq_len)
                return work.sequence;
            return block_tables[i64(work.sequence) * table_width + token / block_tokens];
        };
        auto load_tile = [&](const TensorMap& map, u32 to, u32 barrier, const WorkTile& work, int from, int block) {
            const int boxes = min(BOXES, ceil_divide(work.seq_len - from, BOX_TOKENS));
            const int token = from + lane * BOX_TOKENS;
            if (lane == 0)
                mbarrier_arrive_expect_tx(barrier, boxes * BOX_TOKENS * HEAD_DIM * 2);
            __syncwarp();
            if (lane < boxes) {
                const int inner = block_tables ? token % block_tokens : token;
                const int kv_head = work.head_tile / head_tiles_per_kv_head;
#pragma unroll
                for (int block_column = 0; block_column < COLUMN_BLOCKS; block_column++)
                    tma_load(to + (block_column * TILE_TOKENS + lane * BOX_TOKENS) * 128, map, barrier,
                             block_column * 64, inner, kv_head, block);
            }
        };
        PipelineState<2> q_stage;
        PipelineState<STAGES> stage;
        const int warp = threadIdx.x / 32;
        if (warp == 0) {
            TileScheduler<TILE_QUERIES> scheduler({query_start_loc, seq_lens, queries, tokens, sequences}, head_tiles);
            // A CTA's first tile is its own index; the next ones come from an atomic counter. The CTA that claims the
            // last index resets the counter.
            auto find = [&](int tile_index) {
                WorkTile work = {};
                if (scheduler.find(tile_index, work)) {
                    const int kv_end = CAUSAL ? min(work.seq_len, work.position + TILE_QUERIES) : work.seq_len;
                    work.kv_tiles = ceil_divide(max(kv_end, 1), TILE_TOKENS);
                } else if (lane == 0 && tile_index - int(gridDim.x) == scheduler.count() - 1) {
                    *tile_counter = 0;
                }
                return work;
            };
            auto claim_tile = [&]() {
                int claimed = 0;
                if (lane == 0)
                    claimed = atomicAdd(tile_counter, 1);
                return int(gridDim.x) + __shfl_sync(~0u, claimed, 0);
            };
            WorkTile next = find(blockIdx.x);
            for (;;) {
                const WorkTile work = next;
                mbarrier_wait(q_empty(q_stage.index), q_stage.phase ^ 1);
                if (lane == 0) {
                    work_tiles[q_stage.index] = work;
                    const u32 barrier = q_full(q_stage.index);
                    constexpr int q_bytes = TILE_QUERIES * HEADS_PER_TILE * HEAD_DIM * 2;
                    mbarrier_arrive_expect_tx(barrier, work.kv_tiles ? q_bytes : 0);
                    for (int block_column = 0; block_column < COLUMN_BLOCKS && work.kv_tiles; block_column++)
                        tma_load(q_tile(q_stage.index) + block_column * TILE_ROWS * 128, q, barrier, block_column * 64,
                                 work.head_tile * HEADS_PER_TILE, work.row);
                }
                __syncwarp();
                if (!work.kv_tiles)
                    break;
                q_stage.advance();
                for (int n = 0; n < work.kv_tiles; n++) {
                    const int from = (work.kv_tiles - 1 - n) * TILE_TOKENS, block = lookup_block(work, from);
                    mbarrier_wait(empty(0, stage.index), stage.phase ^ 1);
                    load_tile(keys, key_tile(stage.index), full(0, stage.index), work, from, block);
                    stage.advance();
                    // Claims the next tile once the stages are full, while the consumers are busy.
                    if (n == min(STAGES, work.kv_tiles) - 1)
                        next = find(claim_tile());
                }
            }
        } else if (warp == 1) {
            u32 masked_tiles = 0;
            for (;;) {
                mbarrier_wait(q_full(q_stage.index), q_stage.phase);
                const WorkTile work = work_tiles[q_stage.index];
                mbarrier_arrive(q_empty(q_stage.index));
                q_stage.advance();
                if (!work.kv_tiles)
                    break;
                for (int n = 0; n < work.kv_tiles; n++) {
                    const int from = (work.kv_tiles - 1 - n) * TILE_TOKENS, valid_tokens = work.seq_len - from;
                    const u32 to = value_tile(stage.index), barrier = full(1, stage.index);
                    const int block = lookup_block(work, from);
                    mbarrier_wait(empty(1, stage.index), stage.phase ^ 1);
                    if (valid_tokens >= TILE_TOKENS) {
                        load_tile(values, to, barrier, work, from, block);
                    } else {
                        // Values past the last token are uninitialized, and 0 * NaN is NaN: overwrite them with zeros.
                        load_tile(values, to, mask_barrier, work, from, block);
                        mbarrier_wait(mask_barrier, masked_tiles++ % 2);
                        for (int i = valid_tokens * 8 + lane; i < TILE_TOKENS * 8; i += 32)
#pragma unroll
                            for (int block_column = 0; block_column < COLUMN_BLOCKS; block_column++)
                                store16_shared(to + block_column * TILE_TOKENS * 128 + i * 16, zero16());
                        fence_proxy_async();
                        __syncwarp();
                        if (lane == 0)
                            mbarrier_arrive(barrier);
                    }
                    stage.advance();
                }
            }
        } else if (warp == 2 && query_start_loc) {
            const int row_elements = head_tiles * HEADS_PER_TILE * HEAD_DIM;
            auto zero_rows = [&](int first, int end) {
                for (int row = first + blockIdx.x; row < end; row += gridDim.x)
                    for (int i = lane * 8; i < row_elements; i += 256)
                        store16(out + i64(row) * row_elements + i, zero16());
            };
            zero_rows(0, query_start_loc[0]);
            zero_rows(query_start_loc[sequences], rows);
            for (int from = 0; from < sequences; from += 32) {
                const int sequence = from + lane;
                const bool is_empty = sequence < sequences && seq_lens[sequence] <= 0;
                const int first = is_empty ? query_start_loc[sequence] : 0;
                const int end = is_empty ? query_start_loc[sequence + 1] : 0;
                for (u32 left = __ballot_sync(~0u, first < end); left; left &= left - 1) {
                    const int source = __ffs(left) - 1;
                    zero_rows(__shfl_sync(~0u, first, source), __shfl_sync(~0u, end, source));
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        const int warp = threadIdx.x % 128 / 32, g = lane / 4, t = lane % 4;
        const int row_offset = (warpgroup - 1) * 64;  // of this warpgroup within the tile
        const int row = row_offset + warp * 16 + g;   // this thread's rows: row and row + 8
        const float scale_log2 = scale * LOG2_E;
        const float margin = 8.0f / scale_log2;  // a factor of 256
        float accumulators[HEAD_DIM / 2], logits[64], row_max[2], row_sum[2], scaled_max[2] = {}, rescale[2] = {};
        bool rescaled = false;
        u32 probabilities[8][4];
        PipelineState<2> q_stage;
        PipelineState<STAGES> key_stage, value_stage;
        WorkTile work = {};

        auto release = [&](u32 barrier) {
            if (lane == 0)
                mbarrier_arrive(barrier);
        };
        auto issue_qk = [&]() {
            mbarrier_wait(full(0, key_stage.index), key_stage.phase);
            const u32 q_rows = q_tile(q_stage.index) + row_offset * 128, k_rows = key_tile(key_stage.index);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < HEAD_DIM / 16; k++) {
                const u32 at = k / 4 * TILE_TOKENS * 128 + k % 4 * 32;  // q tiles have as many rows
                wgmma_ss(logits, smem_descriptor(q_rows + at, 16), smem_descriptor(k_rows + at, 16), k > 0, ELEMENT());
            }
            wgmma_commit();
        };
        auto release_keys = [&]() {
            release(empty(0, key_stage.index));
            key_stage.advance();
        };
        auto issue_pv = [&]() {
            mbarrier_wait(full(1, value_stage.index), value_stage.phase);
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < TILE_TOKENS / 16; k++)
                wgmma_rs(accumulators, probabilities[k],
                         smem_descriptor(value_tile(value_stage.index) + k * 2048, TILE_TOKENS * 128), ELEMENT());
            wgmma_commit();
        };
        auto release_values = [&]() {
            release(empty(1, value_stage.index));
            value_stage.advance();
        };
        auto online_softmax = [&](int n) {
            const int from = (work.kv_tiles - 1 - n) * TILE_TOKENS;
            const int first_position = work.position + row_offset / HEADS_PER_TILE;
            if (from + TILE_TOKENS > (CAUSAL ? min(work.seq_len, first_position + 1) : work.seq_len)) {
                int end[2];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int position = work.position + (row + h * 8) / HEADS_PER_TILE;
                    end[h] = (CAUSAL ? min(work.seq_len, position + 1) : work.seq_len) - from - t * 2;
                }
#pragma unroll
                for (int i = 0; i < 64; i++)
                    logits[i] = i / 4 * 8 + i % 2 < end[i % 4 / 2] ? logits[i] : MINUS_INFINITY;
            }
            float new_max[2];
            bool exceeds[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                new_max[h] = row_max[h];
#pragma unroll
                for (int i = 0; i < 64; i += 4)
                    new_max[h] = fmaxf(new_max[h], fmaxf(logits[i + h * 2], logits[i + h * 2 + 1]));
                new_max[h] = fmaxf(new_max[h], __shfl_xor_sync(~0u, new_max[h], 1));
                new_max[h] = fmaxf(new_max[h], __shfl_xor_sync(~0u, new_max[h], 2));
                exceeds[h] = new_max[h] > row_max[h] + margin;
            }
            // Conditional rescaling: accumulators stay relative to an older maximum until exp of the new one is 2^8
            // times larger. Each row decides alone, so that its bits do not depend on other rows.
            rescaled = __any_sync(~0u, exceeds[0] || exceeds[1]);
            if (rescaled) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    rescale[h] = exceeds[h] ? exp2_approx((row_max[h] - new_max[h]) * scale_log2) : 1.0f;
                    scaled_max[h] = exceeds[h] ? new_max[h] * scale_log2 : scaled_max[h];
                    row_max[h] = exceeds[h] ? new_max[h] : row_max[h];
                    row_sum[h] *= rescale[h];
                }
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float sum = 0.0f;
#pragma unroll
                for (int i = 0; i < 64; i += 4)
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        float& v = logits[i + h * 2 + j];
                        v = exp2_approx(fmaf(v, scale_log2, -scaled_max[h]));
                        sum += v;
                    }
                row_sum[h] += sum;
            }
        };
        auto pack_probabilities = [&]() {
#pragma unroll
            for (int k = 0; k < 8; k++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    probabilities[k][i] = pack<ELEMENT>(logits[k * 8 + i * 2], logits[k * 8 + i * 2 + 1]);
        };
        auto reset = [&]() {
#pragma unroll
            for (int i = 0; i < HEAD_DIM / 2; i++)
                accumulators[i] = 0.0f;
            row_max[0] = row_max[1] = MINUS_INFINITY;
            row_sum[0] = row_sum[1] = 0.0f;
        };
        auto store_output = [&](const WorkTile& work) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                row_sum[h] += __shfl_xor_sync(~0u, row_sum[h], 1);
                row_sum[h] += __shfl_xor_sync(~0u, row_sum[h], 2);
                const float inverse_sum = row_sum[h] > 0.0f ? 1.0f / row_sum[h] : 0.0f;
                const int query = (row + h * 8) / HEADS_PER_TILE;
                const int head = work.head_tile * HEADS_PER_TILE + (row + h * 8) % HEADS_PER_TILE;
                const bool is_query = query < min(TILE_QUERIES, work.queries_left);
                ELEMENT* to = out + (i64(work.row + query) * head_tiles * HEADS_PER_TILE + head) * HEAD_DIM + t * 8;
#pragma unroll
                for (int i = 0; i < HEAD_DIM / 2; i += 16) {
                    u32 words[4];
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        words[j] = pack<ELEMENT>(accumulators[i + j * 4 + h * 2] * inverse_sum,
                                                 accumulators[i + j * 4 + h * 2 + 1] * inverse_sum);
                    transpose_quad(words, t);
                    if (is_query)
                        store16(to + i * 2, make_uint4(words[0], words[1], words[2], words[3]));
                }
            }
        };

        // The next tile of the CTA; it has no KV tiles where there is none.
        auto claim = [&]() {
            mbarrier_wait(q_full(q_stage.index), q_stage.phase);
            work = work_tiles[q_stage.index];
        };
        auto finish_queries = [&]() {
            mbarrier_arrive(q_empty(q_stage.index));
            q_stage.advance();
        };
        // A sequence that decodes has one query: the second warpgroup has no rows, and only releases what the first
        // one reads.
        auto has_rows = [&]() { return row_offset < work.queries_left * HEADS_PER_TILE; };
        auto skip_tiles = [&]() {
            while (work.kv_tiles && !has_rows()) {
                for (int n = 0; n < work.kv_tiles; n++) {
                    mbarrier_wait(full(0, key_stage.index), key_stage.phase);
                    release_keys();
                    mbarrier_wait(full(1, value_stage.index), value_stage.phase);
                    release_values();
                }
                finish_queries();
                claim();
            }
        };
        claim();
        skip_tiles();
        while (work.kv_tiles) {
            reset();
            issue_qk();
            wgmma_wait<0>();
            for (;;) {
                release_keys();
                online_softmax(0);
                pack_probabilities();
                for (int n = 1; n < work.kv_tiles; n++) {
                    issue_qk();
                    issue_pv();
                    wgmma_wait<1>();
                    release_keys();
                    online_softmax(n);
                    wgmma_wait<0>();
                    release_values();
                    if (rescaled)
#pragma unroll
                        for (int i = 0; i < HEAD_DIM / 2; i++)
                            accumulators[i] *= rescale[i % 4 / 2];
                    pack_probabilities();
                }
                finish_queries();
                const WorkTile finished = work;
                claim();
                if (!work.kv_tiles || !has_rows()) {
                    issue_pv();
                    wgmma_wait<0>();
                    release_values();
                    store_output(finished);
                    break;
                }
                issue_pv();
                // The next tile's first QK product runs while this tile is stored.
                issue_qk();
                wgmma_wait<1>();
                release_values();
                store_output(finished);
                reset();
                wgmma_wait<0>();
            }
            skip_tiles();
        }
    }
}
