// Attention of many queries per sequence over a paged or dense cache, for compute capability 9.0a.
//
// Options: NUMBER (bf16, fp16), HEAD (64, 128), CAUSAL (0, 1), BOX (16, 32, 64, 128: tokens that one copy brings).
// Launch: grid (at most one block for each multiprocessor), block 384, shared bytes 6 * 128 * HEAD * 2 + 1024.
// Arguments: tensor maps of q (HEAD, heads, rows; box 64, 1, 128), of keys and of values (HEAD, tokens of a block,
//   kv_heads, blocks; box 64, BOX, 1, 1), all with rows of 128 bytes swizzled; block_tables (sequences x table_width,
//   int32; null: block s holds all tokens of sequence s), query_starts (int32; null: `queries` rows each), lengths
//   (int32; null: `tokens` each), out (rows x heads x HEAD), drawn (one int32, zero, and zero again at the end),
//   queries (most of a sequence), tokens, heads, kv_heads, sequences, block_tokens, table_width, scale.
//   The rows of a sequence are the last of its tokens. Rows of no sequence are left alone.
//
// A block takes one piece of work after another: 128 queries of a head, the longest first. One warp has its queries
// and keys copied to shared memory, one its values, ahead of need and across pieces; two warpgroups work on 64 queries
// each. The products of one warpgroup run while the other computes its softmax, and the scores of the next keys
// and the sum of the last values while the same one does.
#include "prelude.cuh"

constexpr int QUERIES = 128, TOKENS = 128, STAGES = 2;
constexpr int HALVES = HEAD / 64;  // blocks of 128 bytes in a row
constexpr int TILE_BYTES = TOKENS * HEAD * 2;
constexpr int BOXES = TOKENS / BOX;
constexpr int WARPS = 8;  // of both warpgroups that compute

// --- barriers in shared memory ---

DEVICE void set_up_barrier(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
DEVICE void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory"); }
// Arrives, and has the barrier wait for so many bytes besides.
DEVICE void arrive_expecting(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
DEVICE void wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
DEVICE void show_to_matrix_unit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- copies by tensor map ---

struct alignas(64) TensorMap {
    u64 words[16];
};
DEVICE void copy_box(u32 to, const TensorMap& map, u32 barrier, int column, int second, int third) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(second), "r"(third)
                 : "memory");
}
DEVICE void copy_box(u32 to, const TensorMap& map, u32 barrier, int column, int second, int third, int fourth) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(second), "r"(third), "r"(fourth)
                 : "memory");
}

// --- products of warpgroups ---

DEVICE void start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> DEVICE void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Rows of 128 bytes in turns of 8, their 16-byte chunks exchanged by the row's number: what the matrix unit reads
// without conflicts. `leading` is the distance of blocks of 64 columns where columns are outermost.
DEVICE u64 describe(u32 address, u32 leading) {
    return u64((address & 0x3ffff) >> 4) | u64(leading >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

#define REGISTERS_8(c, i)                                                                                            \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]),     \
        "+f"(c[i + 7])
#define REGISTERS_32(c, i) REGISTERS_8(c, i), REGISTERS_8(c, i + 8), REGISTERS_8(c, i + 16), REGISTERS_8(c, i + 24)
#define NAMES_32                                                                                                     \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                                     \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
             "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define PRODUCTS(TYPE, NAME)                                                                                         \
    /* c (64 x 128) = or += a b^T, both in shared memory, 16 numbers deep. */                                        \
    DEVICE void multiply_scores(float (&c)[64], u64 a, u64 b, int add, TYPE) {                                       \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                    \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" NAMES_64                      \
                     "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                                \
                     : REGISTERS_32(c, 0), REGISTERS_32(c, 32)                                                       \
                     : "l"(a), "l"(b), "r"(add));                                                                    \
    }                                                                                                                \
    /* c (64 x HEAD) += a b, a in registers, b in shared memory with its columns in rows. */                         \
    DEVICE void multiply_values(float (&c)[64], const u32 (&a)[4], u64 b, TYPE) {                                    \
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" NAMES_64                      \
                     "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"                                                     \
                     : REGISTERS_32(c, 0), REGISTERS_32(c, 32)                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                          \
    }                                                                                                                \
    DEVICE void multiply_values(float (&c)[32], const u32 (&a)[4], u64 b, TYPE) {                                    \
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " {" NAMES_32                       \
                     "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                                     \
                     : REGISTERS_32(c, 0)                                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                          \
    }
PRODUCTS(bf16, "bf16")
PRODUCTS(fp16, "f16")

DEVICE void store16_shared(u32 to, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// Words of four neighbouring lanes as a 4 x 4 matrix, transposed: lane t gets word t of each.
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

// The n-th part of a ring of places in shared memory, and how often it was gone around.
template <int PLACES> struct Turn {
    int place = 0;
    u32 parity = 0;
    DEVICE void step() {
        if (++place == PLACES) {
            place = 0;
            parity ^= 1;
        }
    }
};

// 128 queries of one head: `live` rows of q from `row` on, the first of them token `position` of `length`.
struct Piece {
    int row, live, position, length, head, sequence, tiles;
};

// Warpgroups take turns at issuing products: barriers 1 and 2 are theirs.
DEVICE void wait_for_turn(int group) { asm volatile("bar.sync %0, 256;" ::"r"(group) : "memory"); }
DEVICE void give_turn(int group) { asm volatile("bar.arrive %0, 256;" ::"r"(3 - group) : "memory"); }

KERNEL __launch_bounds__(384, 1)
attention_prefill_hopper(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap keys,
                         const __grid_constant__ TensorMap values, const int* block_tables, const int* query_starts,
                         const int* lengths, NUMBER* out, int* drawn, int queries, int tokens, int heads, int kv_heads,
                         int sequences, int block_tokens, int table_width, float scale) {
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
            set_up_barrier(q_empty(place), WARPS + 1);
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
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        // Lane b has the b-th box of a tile copied, where it holds a token at all.
        auto copy_tile = [&](const TensorMap& map, u32 to, u32 barrier, const Piece& piece, int from) {
            const int boxes = min(BOXES, ceil_divide(piece.length - from, BOX));
            if (lane == 0)
                arrive_expecting(barrier, boxes * BOX * HEAD * 2);
            __syncwarp();
            if (lane < boxes) {
                const int token = from + lane * BOX, block = block_tables ? token / block_tokens : 0;
                const int inner = token - block * block_tokens;
                const int at = block_tables ? block_tables[i64(piece.sequence) * table_width + block] : piece.sequence;
                const int kv_head = piece.head / (heads / kv_heads);
#pragma unroll
                for (int half = 0; half < HALVES; half++)
                    copy_box(to + half * TOKENS * 128 + lane * BOX * 128, map, barrier, half * 64, inner, kv_head, at);
            }
        };
        Turn<2> slot;
        Turn<STAGES> stage;
        const int warp = threadIdx.x / 32;
        if (warp == 0) {
            const int per_tile = heads * sequences, count = ceil_divide(queries, QUERIES) * per_tile;
            // Fills in piece `number`; false where the sequence has no such queries.
            auto find = [&](int number, Piece& piece) {
                // The last queries see most keys: they go first.
                const int first = (ceil_divide(queries, QUERIES) - 1 - number / per_tile) * QUERIES;
                piece.sequence = number % per_tile / heads;
                piece.head = number % heads;
                const int start = query_starts ? query_starts[piece.sequence] : piece.sequence * queries;
                const int rows = query_starts ? query_starts[piece.sequence + 1] - start : queries;
                piece.length = lengths ? lengths[piece.sequence] : tokens;
                piece.row = start + first;
                piece.live = rows - first;
                piece.position = piece.length - rows + first;
                const int seen = CAUSAL ? min(piece.length, piece.position + QUERIES) : piece.length;
                piece.tiles = ceil_divide(max(seen, 1), TOKENS);
                return first < rows && piece.length > 0;
            };
            // Every block draws once in vain; the last to do so leaves the counter as it was.
            auto draw = [&]() {
                int number = 0;
                if (lane == 0) {
                    number = atomicAdd(drawn, 1);
                    if (number == count - 1)
                        *drawn = 0;
                }
                return int(gridDim.x) + __shfl_sync(~0u, number, 0);
            };
            Piece piece;
            int number = blockIdx.x;
            for (;;) {
                while (number < count && !find(number, piece))
                    number = draw();
                if (number >= count)
                    piece.tiles = 0;
                wait(q_empty(slot.place), slot.parity ^ 1);
                if (lane == 0) {
                    pieces[slot.place] = piece;
                    const u32 barrier = q_full(slot.place);
                    arrive_expecting(barrier, piece.tiles ? TILE_BYTES : 0);
                    for (int half = 0; half < HALVES && piece.tiles; half++)
                        copy_box(q_tile(slot.place) + half * QUERIES * 128, q, barrier, half * 64, piece.head,
                                 piece.row);
                }
                __syncwarp();
                if (!piece.tiles)
                    break;
                slot.step();
                number = draw();
                for (int n = 0; n < piece.tiles; n++) {
                    wait(empty(0, stage.place), stage.parity ^ 1);
                    copy_tile(keys, key_tile(stage.place), full(0, stage.place), piece,
                              (piece.tiles - 1 - n) * TOKENS);
                    stage.step();
                }
            }
        } else if (warp == 1) {
            u32 mendings = 0;
            for (;;) {
                wait(q_full(slot.place), slot.parity);
                const Piece piece = pieces[slot.place];
                __syncwarp();
                if (lane == 0)
                    arrive(q_empty(slot.place));
                slot.step();
                if (!piece.tiles)
                    break;
                for (int n = 0; n < piece.tiles; n++) {
                    const int from = (piece.tiles - 1 - n) * TOKENS, known = piece.length - from;
                    const u32 to = value_tile(stage.place), barrier = full(1, stage.place);
                    wait(empty(1, stage.place), stage.parity ^ 1);
                    if (known >= TOKENS) {
                        copy_tile(values, to, barrier, piece, from);
                    } else {
                        // What lies behind the last token may be anything, and nothing times NaN is NaN.
                        copy_tile(values, to, mended, piece, from);
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
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int warp = threadIdx.x % 128 / 32, g = lane / 4, t = lane % 4;
        const int above = (group - 1) * 64;          // queries of a piece before this warpgroup's
        const int own = above + warp * 16 + g;       // this thread's: own and own + 8
        const float by = scale * LOG2_E;
        const float margin = 8.0f / by;  // a factor of 256
        float sums[HEAD / 2], scores[64], most[2], weight[2], shift[2] = {}, lower[2] = {};
        bool lowered = false;
        u32 chances[8][4];
        Turn<2> slot;
        Turn<STAGES> key_stage, value_stage;
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
                const u32 at = k / 4 * TOKENS * 128 + k % 4 * 32;
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
            if (from + TOKENS > (CAUSAL ? min(piece.length, piece.position + above + 1) : piece.length)) {
                const int last = CAUSAL ? piece.position + own : piece.length;
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    const int token = from + i / 4 * 8 + t * 2 + i % 2;
                    const bool valid = token < piece.length && (!CAUSAL || token <= last + i % 4 / 2 * 8);
                    scores[i] = valid ? scores[i] : MINUS_INFINITY;
                }
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
            // range: whether it does is the row's own affair, so that its bits do not depend on its neighbours.
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
                const bool live = own + h * 8 < piece.live;
                NUMBER* to = out + (i64(piece.row + own + h * 8) * heads + piece.head) * HEAD + t * 8;
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
        if (group == 2)
            give_turn(group);
        begin();
        wait_for_turn(group);
        multiply_keys();
        give_turn(group);
        wait_for_products<0>();
        for (;;) {
            release_keys();
            soften(0);
            keep_chances();
            for (int n = 1; n < piece.tiles; n++) {
                wait_for_turn(group);
                multiply_keys();
                multiply_chances();
                give_turn(group);
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
            release(q_empty(slot.place));
            slot.step();
            const Piece done = piece;
            wait(q_full(slot.place), slot.parity);
            piece = pieces[slot.place];
            wait_for_turn(group);
            if (!piece.tiles) {
                piece = done;
                break;
            }
            multiply_chances();
            // The next piece's first scores run while this one is written.
            multiply_keys();
            give_turn(group);
            wait_for_products<1>();
            release_values();
            write(done);
            begin();
            wait_for_products<0>();
        }
        multiply_chances();
        if (group == 1)
            give_turn(group);
        wait_for_products<0>();
        write(piece);
    }
}
