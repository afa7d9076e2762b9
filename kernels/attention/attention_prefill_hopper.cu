// Attention of many queries per sequence over a paged or dense cache, for compute capability 9.0a.
//
// Options: NUMBER (bf16, fp16), HEAD (64, 128), BUNDLE (heads that a piece of work takes together; they share a head
//   of keys; at most 128), CAUSAL (0, 1), BOX (16, 32, 64, 128: tokens that one copy brings).
// Launch: grid (at most one block for each multiprocessor), block 384, shared bytes 6 * 128 * HEAD * 2 + 1024.
// Arguments: tensor maps of q (HEAD, heads, rows; box 64, BUNDLE, 128 / BUNDLE), of keys and of values (HEAD, tokens
//   of a block, kv_heads, blocks; box 64, BOX, 1, 1), all with rows of 128 bytes swizzled; block_tables (sequences x
//   table_width, int32; null: block s holds all tokens of sequence s), query_starts (int32; null: `queries` rows each),
//   lengths (int32; null: `tokens` each), out (rows x heads x HEAD), drawn (one int32, zero, and zero again at the
//   end), queries, tokens, bundles (heads / BUNDLE), kv_bundles (those of one head of keys),
//   sequences, block_tokens, table_width, scale.
//   The rows of a sequence are the last of its tokens. Rows of no sequence are left alone.
//
// A block takes one piece of work after another: 128 rows, which are 128 / BUNDLE queries of a bundle of heads. One
// warp has its queries and keys copied to shared memory, one its values, ahead of need and across pieces; two
// warpgroups work on 64 rows each. The scores of the next keys and the sum of the last values are under way during
// each softmax.
#include "tile_scheduler.cuh"
#include "hopper.cuh"

constexpr int ROWS = 128, QUERIES = ROWS / BUNDLE, TOKENS = 128, STAGES = 2;
constexpr int HALVES = HEAD / 64;  // blocks of 128 bytes in a row
constexpr int TILE_BYTES = TOKENS * HEAD * 2;
constexpr int BOXES = TOKENS / BOX;
constexpr int WARPS = 8;  // of both warpgroups that compute

DEVICE void store16_shared(u32 to, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// Words of four neighboring lanes as a 4 x 4 matrix, transposed: lane t gets word t of each.
DEVICE void transpose_quad(u32 (&words)[4], int t) {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
        const bool upper = t & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit)
                continue;
            const u32 got = __shfl_xor_sync(~0u, upper ? words[i] : words[i | bit], bit);
            words[i] = upper ? got : words[i];
            words[i | bit] = upper ? words[i | bit] : got;
        }
    }
}

KERNEL __launch_bounds__(384, 1)
attention_prefill_hopper(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap keys,
                         const __grid_constant__ TensorMap values, const int* block_tables, const int* query_starts,
                         const int* lengths, NUMBER* out, int* drawn, int queries, int tokens, int bundles,
                         int kv_bundles, int sequences, int block_tokens, int table_width, float scale) {
    extern __shared__ u8 dynamic[];
    __shared__ u64 barriers[5 + 4 * STAGES];
    __shared__ Piece pieces[2];
    const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    auto q_tile = [&](int place) { return base + TILE_BYTES * place; };
    auto key_tile = [&](int stage) { return base + TILE_BYTES * (2 + stage); };
    auto value_tile = [&](int stage) { return base + TILE_BYTES * (2 + STAGES + stage); };
    const u32 mended = shared_address(barriers);
    auto q_full = [&](int place) { return mended + 8 * (1 + place); };
    auto q_empty = [&](int place) { return mended + 8 * (3 + place); };
    auto full = [&](int value, int stage) { return mended + 8 * (5 + value * STAGES + stage); };
    auto empty = [&](int value, int stage) { return mended + 8 * (5 + (2 + value) * STAGES + stage); };
    if (threadIdx.x == 0) {
        set_up_barrier(mended, 1);
        for (int place = 0; place < 2; place++) {
            set_up_barrier(q_full(place), 1);
            set_up_barrier(q_empty(place), 32 * (WARPS + 1));
        }
        for (int value = 0; value < 2; value++)
            for (int stage = 0; stage < STAGES; stage++) {
                set_up_barrier(full(value, stage), 1);
                set_up_barrier(empty(value, stage), WARPS);
            }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    start_next_kernel();
    wait_for_previous_kernel();

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        // Lane b has the b-th box of a tile copied, where it holds a token at all. Which block of the cache that is in
        // is looked up before there is room for the tile.
        auto look_up = [&](const Piece& piece, int from) {
            const int token = from + lane * BOX;
            if (!block_tables || lane >= BOXES || token >= piece.length)
                return piece.sequence;
            return block_tables[i64(piece.sequence) * table_width + token / block_tokens];
        };
        auto copy_tile = [&](const TensorMap& map, u32 to, u32 barrier, const Piece& piece, int from, int block) {
            const int boxes = min(BOXES, ceil_divide(piece.length - from, BOX)), token = from + lane * BOX;
            if (lane == 0)
                arrive_expecting(barrier, boxes * BOX * HEAD * 2);
            __syncwarp();
            if (lane < boxes) {
                const int inner = block_tables ? token % block_tokens : token, kv_head = piece.bundle / kv_bundles;
#pragma unroll
                for (int half = 0; half < HALVES; half++)
                    copy_box(to + (half * TOKENS + lane * BOX) * 128, map, barrier, half * 64, inner, kv_head, block);
            }
        };
        Ring<2> slot;
        Ring<STAGES> stage;
        const int warp = threadIdx.x / 32;
        if (warp == 0) {
            Pieces<QUERIES> order({query_starts, lengths, queries, tokens, sequences}, bundles);
            // A block's first piece has its own number; after each piece another one is drawn. Who draws the last one
            // leaves the counter as it was.
            auto find = [&](int number) {
                Piece piece = {};
                if (order.find(number, piece)) {
                    const int seen = CAUSAL ? min(piece.length, piece.position + QUERIES) : piece.length;
                    piece.tiles = ceil_divide(max(seen, 1), TOKENS);
                } else if (lane == 0 && number - int(gridDim.x) == order.count() - 1) {
                    *drawn = 0;
                }
                return piece;
            };
            auto draw = [&]() {
                int before = 0;
                if (lane == 0)
                    before = atomicAdd(drawn, 1);
                return int(gridDim.x) + __shfl_sync(~0u, before, 0);
            };
            Piece next = find(blockIdx.x);
            for (;;) {
                const Piece piece = next;
                wait(q_empty(slot.place), slot.parity ^ 1);
                if (lane == 0) {
                    pieces[slot.place] = piece;
                    const u32 barrier = q_full(slot.place);
                    arrive_expecting(barrier, piece.tiles ? QUERIES * BUNDLE * HEAD * 2 : 0);
                    for (int half = 0; half < HALVES && piece.tiles; half++)
                        copy_box(q_tile(slot.place) + half * ROWS * 128, q, barrier, half * 64, piece.bundle * BUNDLE,
                                 piece.row);
                }
                __syncwarp();
                if (!piece.tiles)
                    break;
                slot.step();
                for (int n = 0; n < piece.tiles; n++) {
                    const int from = (piece.tiles - 1 - n) * TOKENS, block = look_up(piece, from);
                    wait(empty(0, stage.place), stage.parity ^ 1);
                    copy_tile(keys, key_tile(stage.place), full(0, stage.place), piece, from, block);
                    stage.step();
                    // The next piece is looked for as soon as there are keys enough to work on.
                    if (n == min(STAGES, piece.tiles) - 1)
                        next = find(draw());
                }
            }
        } else if (warp == 1) {
            u32 mendings = 0;
            for (;;) {
                wait(q_full(slot.place), slot.parity);
                const Piece piece = pieces[slot.place];
                arrive(q_empty(slot.place));
                slot.step();
                if (!piece.tiles)
                    break;
                for (int n = 0; n < piece.tiles; n++) {
                    const int from = (piece.tiles - 1 - n) * TOKENS, known = piece.length - from;
                    const u32 to = value_tile(stage.place), barrier = full(1, stage.place);
                    const int block = look_up(piece, from);
                    wait(empty(1, stage.place), stage.parity ^ 1);
                    if (known >= TOKENS) {
                        copy_tile(values, to, barrier, piece, from, block);
                    } else {
                        // What lies behind the last token may be anything, and nothing times NaN is NaN.
                        copy_tile(values, to, mended, piece, from, block);
                        wait(mended, mendings++ % 2);
                        for (int i = known * 8 + lane; i < TOKENS * 8; i += 32)
#pragma unroll
                            for (int half = 0; half < HALVES; half++)
                                store16_shared(to + half * TOKENS * 128 + i * 16, zero16());
                        show_to_matrix_unit();
                        __syncwarp();
                        if (lane == 0)
                            arrive(barrier);
                    }
                    stage.step();
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        const int warp = threadIdx.x % 128 / 32, g = lane / 4, t = lane % 4;
        const int above = (group - 1) * 64;     // rows of a piece before this warpgroup's
        const int own = above + warp * 16 + g;  // this thread's rows: own and own + 8
        const float by = scale * LOG2_E;
        const float margin = 8.0f / by;  // a factor of 256
        float sums[HEAD / 2], scores[64], most[2], weight[2], shift[2] = {}, lower[2] = {};
        bool lowered = false;
        u32 chances[8][4];
        Ring<2> slot;
        Ring<STAGES> key_stage, value_stage;
        Piece piece = {};

        auto release = [&](u32 barrier) {
            if (lane == 0)
                arrive(barrier);
        };
        auto multiply_keys = [&]() {
            wait(full(0, key_stage.place), key_stage.parity);
            const u32 mine = q_tile(slot.place) + above * 128, theirs = key_tile(key_stage.place);
            start_products();
#pragma unroll
            for (int k = 0; k < HEAD / 16; k++) {
                const u32 at = k / 4 * TOKENS * 128 + k % 4 * 32;  // tiles of q are as long
                multiply_scores(scores, describe(mine + at, 16), describe(theirs + at, 16), k > 0, NUMBER());
            }
            commit_products();
        };
        auto release_keys = [&]() {
            release(empty(0, key_stage.place));
            key_stage.step();
        };
        auto multiply_chances = [&]() {
            wait(full(1, value_stage.place), value_stage.parity);
            start_products();
#pragma unroll
            for (int k = 0; k < TOKENS / 16; k++)
                multiply_values(sums, chances[k], describe(value_tile(value_stage.place) + k * 2048, TOKENS * 128),
                                NUMBER());
            commit_products();
        };
        auto release_values = [&]() {
            release(empty(1, value_stage.place));
            value_stage.step();
        };
        auto soften = [&](int n) {
            const int from = (piece.tiles - 1 - n) * TOKENS;
            if (from + TOKENS > (CAUSAL ? min(piece.length, piece.position + above / BUNDLE + 1) : piece.length)) {
                int end[2];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int position = piece.position + (own + h * 8) / BUNDLE;
                    end[h] = (CAUSAL ? min(piece.length, position + 1) : piece.length) - from - t * 2;
                }
#pragma unroll
                for (int i = 0; i < 64; i++)
                    scores[i] = i / 4 * 8 + i % 2 < end[i % 4 / 2] ? scores[i] : MINUS_INFINITY;
            }
            float now[2];
            bool far[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                now[h] = most[h];
#pragma unroll
                for (int i = 0; i < 64; i += 4)
                    now[h] = fmaxf(now[h], fmaxf(scores[i + h * 2], scores[i + h * 2 + 1]));
                now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 1));
                now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 2));
                far[h] = now[h] > most[h] + margin;
            }
            // A row's sums are measured against the greatest score of some keys ago, as long as that keeps them in
            // range: whether it does is the row's own affair, so that its bits do not depend on its neighbors.
            lowered = __any_sync(~0u, far[0] || far[1]);
            if (lowered) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    lower[h] = far[h] ? exp2_fast((most[h] - now[h]) * by) : 1.0f;
                    shift[h] = far[h] ? now[h] * by : shift[h];
                    most[h] = far[h] ? now[h] : most[h];
                    weight[h] *= lower[h];
                }
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float sum = 0.0f;
#pragma unroll
                for (int i = 0; i < 64; i += 4)
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        float& v = scores[i + h * 2 + j];
                        v = exp2_fast(fmaf(v, by, -shift[h]));
                        sum += v;
                    }
                weight[h] += sum;
            }
        };
        auto keep_chances = [&]() {
#pragma unroll
            for (int k = 0; k < 8; k++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    chances[k][i] = pack<NUMBER>(scores[k * 8 + i * 2], scores[k * 8 + i * 2 + 1]);
        };
        auto begin = [&]() {
#pragma unroll
            for (int i = 0; i < HEAD / 2; i++)
                sums[i] = 0.0f;
            most[0] = most[1] = MINUS_INFINITY;
            weight[0] = weight[1] = 0.0f;
        };
        auto write = [&](const Piece& piece) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                weight[h] += __shfl_xor_sync(~0u, weight[h], 1);
                weight[h] += __shfl_xor_sync(~0u, weight[h], 2);
                const float share = weight[h] > 0.0f ? 1.0f / weight[h] : 0.0f;
                const int query = (own + h * 8) / BUNDLE, head = piece.bundle * BUNDLE + (own + h * 8) % BUNDLE;
                const bool live = query < min(QUERIES, piece.live);
                NUMBER* to = out + (i64(piece.row + query) * bundles * BUNDLE + head) * HEAD + t * 8;
#pragma unroll
                for (int i = 0; i < HEAD / 2; i += 16) {
                    u32 words[4];
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        words[j] = pack<NUMBER>(sums[i + j * 4 + h * 2] * share, sums[i + j * 4 + h * 2 + 1] * share);
                    transpose_quad(words, t);
                    if (live)
                        store16(to + i * 2, make_uint4(words[0], words[1], words[2], words[3]));
                }
            }
        };

        wait(q_full(0), 0);
        piece = pieces[0];
        if (!piece.tiles)
            return;
        begin();
        multiply_keys();
        wait_for_products<0>();
        for (;;) {
            release_keys();
            soften(0);
            keep_chances();
            for (int n = 1; n < piece.tiles; n++) {
                multiply_keys();
                multiply_chances();
                wait_for_products<1>();
                release_keys();
                soften(n);
                wait_for_products<0>();
                release_values();
                if (lowered)
#pragma unroll
                    for (int i = 0; i < HEAD / 2; i++)
                        sums[i] *= lower[i % 4 / 2];
                keep_chances();
            }
            arrive(q_empty(slot.place));
            slot.step();
            const Piece done = piece;
            wait(q_full(slot.place), slot.parity);
            piece = pieces[slot.place];
            if (!piece.tiles) {
                piece = done;
                break;
            }
            multiply_chances();
            // The next piece's first scores run while this one is written.
            multiply_keys();
            wait_for_products<1>();
            release_values();
            write(done);
            begin();
            wait_for_products<0>();
        }
        multiply_chances();
        wait_for_products<0>();
        write(piece);
    }
}
