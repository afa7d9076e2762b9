// Attention of many queries per sequence over a paged or dense cache, for compute capability 9.0a.
//
// Options: NUMBER (bf16, fp16), HEAD (64, 128), CAUSAL (0, 1).
// Launch: grid (ceil(most queries of a sequence / 128), heads, sequences), block 384,
//   shared bytes (128 + 4 * 128) * HEAD * 2 + 1024.
// Arguments: q (rows x heads x HEAD), keys, values, block_tables (sequences x table_width, int32; null: token j of
//   sequence s lies at s * block_stride + j * token_stride), query_starts (int32; null: `queries` rows each),
//   lengths (int32; null: `tokens` each), out (as q), queries, tokens, heads, kv_heads, block_tokens,
//   table_width, block_stride (64 bits), head_stride, token_stride (in numbers, as attention_decode), scale.
//   The rows of a sequence are the last of its tokens. Rows of no sequence are left alone.
//
// One warpgroup copies keys and values to shared memory; two work on 64 queries each. Their products run on the
// matrix unit while they compute: scores of the next keys and the sum of the last values are under way
// during each softmax.
#include "prelude.cuh"

constexpr int QUERIES = 128, TOKENS = 128, STAGES = 2;
constexpr int HALVES = HEAD / 64;             // blocks of 128 bytes in a row
constexpr int TILE_BYTES = TOKENS * HEAD * 2;

// --- barriers in shared memory ---

DEVICE void set_up_barrier(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
DEVICE void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory"); }
DEVICE void wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
DEVICE void show_to_matrix_unit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

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

// Copies a tile by 64 threads, 8 rows of it at a time: rows r to r + 7 of the tile are `pitch` apart from from(r)
// on, and count only where r < live.
template <class From> DEVICE void copy_tile(u32 to, int live, int pitch, From from) {
    const int lane = threadIdx.x % 64, inner = lane / 8, chunk = lane % 8;
    const u32 place = to + inner * 128 + (chunk ^ inner) * 16;
    const int offset = inner * pitch + chunk * 8;
#pragma unroll 4
    for (int row = 0; row < TOKENS; row += 8) {
        const bool valid = row + inner < live;
        const NUMBER* source = from(min(row, live - 1)) + (valid ? offset : 0);
#pragma unroll
        for (int half = 0; half < HALVES; half++)
            copy16_async(place + half * TOKENS * 128 + row * 128, source + half * 64, valid);
    }
}

KERNEL __launch_bounds__(384, 1)
attention_prefill_hopper(const NUMBER* q, const NUMBER* keys, const NUMBER* values, const int* block_tables,
                         const int* query_starts, const int* lengths, NUMBER* out, int queries, int tokens,
                         int heads, int kv_heads, int block_tokens, int table_width, i64 block_stride,
                         int head_stride, int token_stride, float scale) {
    extern __shared__ u8 dynamic[];
    __shared__ u64 barriers[1 + 4 * STAGES];
    const int sequence = blockIdx.z, head = blockIdx.y, kv_head = head / (heads / kv_heads);
    const int group = threadIdx.x / 128;
    start_next_kernel();
    wait_for_previous_kernel();
    const int row = query_starts ? query_starts[sequence] : sequence * queries;
    const int rows = query_starts ? query_starts[sequence + 1] - row : queries;
    const int length = lengths ? lengths[sequence] : tokens;
    // The last queries see most keys: they go first.
    const int first = (gridDim.x - 1 - blockIdx.x) * QUERIES;
    if (first >= rows || length <= 0)
        return;
    const int seen = CAUSAL ? min(length, length - rows + first + QUERIES) : length;
    const int tiles = ceil_divide(seen, TOKENS);

    const u32 base = (shared_address(dynamic) + 1023) & ~1023u;
    auto key_tile = [&](int stage) { return base + TILE_BYTES * (1 + stage); };
    auto value_tile = [&](int stage) { return base + TILE_BYTES * (1 + STAGES + stage); };
    const u32 q_full = shared_address(barriers);
    auto full = [&](int value, int stage) { return q_full + 8 * (1 + value * STAGES + stage); };
    auto empty = [&](int value, int stage) { return q_full + 8 * (1 + (2 + value) * STAGES + stage); };
    if (threadIdx.x == 0) {
        set_up_barrier(q_full, 64);
        for (int i = 0; i < 2; i++)
            for (int stage = 0; stage < STAGES; stage++) {
                set_up_barrier(full(i, stage), 64);
                set_up_barrier(empty(i, stage), 256);
            }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const int* table = block_tables ? block_tables + i64(sequence) * table_width : nullptr;
        const i64 origin = sequence * block_stride + kv_head * head_stride;
        // Eight tokens in a row lie in one block, whose size is a multiple of 16.
        auto place = [&](int token) {
            if (!table)
                return origin + i64(token) * token_stride;
            const int block = token / block_tokens;
            return table[block] * block_stride + kv_head * head_stride +
                   i64(token - block * block_tokens) * token_stride;
        };
        // Two warps copy keys, two values: neither waits for the other's room.
        const int value = threadIdx.x / 64;
        const NUMBER* source = value ? values : keys;
        auto announce = [&](u32 barrier) {
            commit_copies();
            wait_for_copies<0>();
            show_to_matrix_unit();
            arrive(barrier);
        };
        if (value == 1) {
            copy_tile(base, rows - first, heads * HEAD,
                      [&](int r) { return q + (i64(row + first + r) * heads + head) * HEAD; });
            announce(q_full);
        }
        for (int n = 0; n < tiles; n++) {
            const int stage = n % STAGES, from = (tiles - 1 - n) * TOKENS;
            wait(empty(value, stage), n / STAGES % 2 ^ 1);
            copy_tile(value ? value_tile(stage) : key_tile(stage), length - from, token_stride,
                      [&](int r) { return source + place(from + r); });
            announce(full(value, stage));
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, g = lane / 4, t = lane % 4;
        const int own = (group - 1) * 64 + warp * 16 + g;  // this thread's queries: own and own + 8
        const u32 q_tile = base + (group - 1) * 64 * 128;
        const int position = length - rows + first + own;
        const float by = scale * LOG2_E;
        float sums[HEAD / 2] = {}, scores[64], most[2] = {MINUS_INFINITY, MINUS_INFINITY}, weight[2] = {};
        u32 chances[8][4];

        auto multiply_keys = [&](int stage) {
            start_products();
#pragma unroll
            for (int k = 0; k < HEAD / 16; k++) {
                const u32 at = k / 4 * TOKENS * 128 + k % 4 * 32;
                multiply_scores(scores, describe(q_tile + at, 16), describe(key_tile(stage) + at, 16), k > 0, NUMBER());
            }
            commit_products();
        };
        auto multiply_chances = [&](int stage) {
            start_products();
#pragma unroll
            for (int k = 0; k < TOKENS / 16; k++)
                multiply_values(sums, chances[k], describe(value_tile(stage) + k * 2048, TOKENS * 128), NUMBER());
            commit_products();
        };
        float lower[2];
        auto soften = [&](int n) {
            const int from = (tiles - 1 - n) * TOKENS;
            if (from + TOKENS > (CAUSAL ? min(length, position - own + (group - 1) * 64 + 1) : length)) {
#pragma unroll
                for (int i = 0; i < 64; i++) {
                    const int token = from + i / 4 * 8 + t * 2 + i % 2;
                    const bool valid = token < length && (!CAUSAL || token <= position + i % 4 / 2 * 8);
                    scores[i] = valid ? scores[i] : MINUS_INFINITY;
                }
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float now = most[h];
#pragma unroll
                for (int i = 0; i < 64; i += 4)
                    now = fmaxf(now, fmaxf(scores[i + h * 2], scores[i + h * 2 + 1]));
                now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
                now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
                // A row that has seen no key yet: its distance to nothing would not be a number.
                const float shift = now == MINUS_INFINITY ? 0.0f : now * by;
                lower[h] = exp2_fast(most[h] * by - shift);
                most[h] = now;
                float sum = 0.0f;
#pragma unroll
                for (int i = 0; i < 64; i += 4)
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        float& v = scores[i + h * 2 + j];
                        v = exp2_fast(fmaf(v, by, -shift));
                        sum += v;
                    }
                weight[h] = fmaf(weight[h], lower[h], sum);
            }
        };
        auto keep_chances = [&]() {
#pragma unroll
            for (int k = 0; k < 8; k++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    chances[k][i] = pack<NUMBER>(scores[k * 8 + i * 2], scores[k * 8 + i * 2 + 1]);
        };

        wait(q_full, 0);
        wait(full(0, 0), 0);
        multiply_keys(0);
        wait_for_products<0>();
        arrive(empty(0, 0));
        soften(0);
        keep_chances();
        for (int n = 1; n < tiles; n++) {
            const int stage = n % STAGES, before = (n - 1) % STAGES;
            wait(full(0, stage), n / STAGES % 2);
            multiply_keys(stage);
            wait(full(1, before), (n - 1) / STAGES % 2);
            multiply_chances(before);
            wait_for_products<1>();
            arrive(empty(0, stage));
            soften(n);
            wait_for_products<0>();
            arrive(empty(1, before));
#pragma unroll
            for (int i = 0; i < HEAD / 2; i++)
                sums[i] *= lower[i % 4 / 2];
            keep_chances();
        }
        wait(full(1, (tiles - 1) % STAGES), (tiles - 1) / STAGES % 2);
        multiply_chances((tiles - 1) % STAGES);
        wait_for_products<0>();

#pragma unroll
        for (int h = 0; h < 2; h++) {
            weight[h] += __shfl_xor_sync(~0u, weight[h], 1);
            weight[h] += __shfl_xor_sync(~0u, weight[h], 2);
            const float share = weight[h] > 0.0f ? 1.0f / weight[h] : 0.0f;
            if (first + own + h * 8 >= rows)
                continue;
            NUMBER* to = out + (i64(row + first + own + h * 8) * heads + head) * HEAD + t * 2;
#pragma unroll
            for (int i = 0; i < HEAD / 8; i++)
                *reinterpret_cast<u32*>(to + i * 8) =
                    pack<NUMBER>(sums[i * 4 + h * 2] * share, sums[i * 4 + h * 2 + 1] * share);
        }
    }
}
