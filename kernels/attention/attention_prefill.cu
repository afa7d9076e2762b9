// Attention of many queries per sequence over a paged or dense cache, for every GPU from compute capability 8.0.
//
// Options: NUMBER (bf16, fp16), HEAD (64, 128, 256; any multiple of 64), CAUSAL (0, 1).
// Launch: grid (ceil(most queries of a sequence / 64), heads, sequences), block 128,
//   shared bytes 4 * TOKENS * HEAD * 2, and 64 * HEAD * 2 more for HEAD above 128; TOKENS = 64, above 128 32.
// Arguments: those of attention_prefill_hopper.cu.
//
// A warp has 16 queries; keys and values come to shared memory one tile ahead.
#include "prelude.cuh"

constexpr int QUERIES = 64, TOKENS = HEAD > 128 ? 32 : 64;
constexpr bool KEPT = HEAD <= 128;  // whether the queries stay in registers

// Chunk of a row, exchanged within 128 bytes by the row's number, so that eight rows have no bank in common.
DEVICE u32 chunk_of(u32 tile, int row, int chunk) { return tile + row * HEAD * 2 + (chunk ^ row % 8) * 16; }

template <int ROWS, class From> DEVICE void copy_tile(u32 to, int live, From from) {
    constexpr int chunks = HEAD / 8;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * chunks; i += 128) {
        const int row = i / chunks, chunk = i % chunks;
        copy16_async(chunk_of(to, row, chunk), from(min(row, live - 1)) + chunk * 8, row < live);
    }
}

KERNEL __launch_bounds__(128)
attention_prefill(const NUMBER* q, const NUMBER* keys, const NUMBER* values, const int* block_tables,
                  const int* query_starts, const int* lengths, NUMBER* out, int queries, int tokens, int heads,
                  int kv_heads, int block_tokens, int table_width, i64 block_stride, int head_stride,
                  int token_stride, float scale) {
    extern __shared__ uint4 dynamic[];
    const int sequence = blockIdx.z, head = blockIdx.y, kv_head = head / (heads / kv_heads);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
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

    constexpr int tile_bytes = TOKENS * HEAD * 2;
    const u32 base = shared_address(dynamic), q_tile = KEPT ? base : base + 4 * tile_bytes;
    auto key_tile = [&](int stage) { return base + stage * tile_bytes; };
    auto value_tile = [&](int stage) { return base + (2 + stage) * tile_bytes; };
    const int* table = block_tables ? block_tables + i64(sequence) * table_width : nullptr;
    const i64 origin = sequence * block_stride + kv_head * head_stride;
    auto place = [&](int token) {
        if (!table)
            return origin + i64(token) * token_stride;
        return table[token / block_tokens] * block_stride + kv_head * head_stride +
               i64(token % block_tokens) * token_stride;
    };
    auto copy_keys = [&](int n) {
        const int from = (tiles - 1 - n) * TOKENS;
        if (n < tiles)
            copy_tile<TOKENS>(key_tile(n % 2), length - from, [&](int r) { return keys + place(from + r); });
        commit_copies();
    };
    auto copy_values = [&](int n) {
        const int from = (tiles - 1 - n) * TOKENS;
        if (n < tiles)
            copy_tile<TOKENS>(value_tile(n % 2), length - from, [&](int r) { return values + place(from + r); });
        commit_copies();
    };

    copy_tile<QUERIES>(q_tile, rows - first, [&](int r) { return q + (i64(row + first + r) * heads + head) * HEAD; });
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
    // Which of the four 8 x 8 matrices a lane gives the address of.
    const int low = lane / 8 % 2, high = lane / 16, inner = lane % 8;
    u32 query[KEPT ? HEAD / 16 : 1][4];
    if constexpr (KEPT) {
#pragma unroll
        for (int k = 0; k < HEAD / 16; k++)
            load_matrix_4(query[k], chunk_of(q_tile, warp * 16 + low * 8 + inner, k * 2 + high));
        __syncthreads();
    }
    copy_keys(0);
    copy_values(0);

    const int own = warp * 16 + g, position = length - rows + first + own;
    const float by = scale * LOG2_E;
    float sums[HEAD / 8][4] = {}, most[2] = {MINUS_INFINITY, MINUS_INFINITY}, weight[2] = {};
    for (int n = 0; n < tiles; n++) {
        const int from = (tiles - 1 - n) * TOKENS;
        wait_for_copies<1>();
        __syncthreads();  // keys of this tile are there, and all are done with the last tile
        copy_keys(n + 1);
        float scores[TOKENS / 8][4] = {};
#pragma unroll
        for (int k = 0; k < HEAD / 16; k++) {
            u32 loaded[4];
            if constexpr (!KEPT)
                load_matrix_4(loaded, chunk_of(q_tile, warp * 16 + low * 8 + inner, k * 2 + high));
            u32(&a)[4] = KEPT ? query[KEPT ? k : 0] : loaded;
#pragma unroll
            for (int j = 0; j < TOKENS / 16; j++) {
                u32 b[4];
                load_matrix_4(b, chunk_of(key_tile(n % 2), j * 16 + high * 8 + inner, k * 2 + low));
                multiply_16x8x16<NUMBER>(scores[j * 2], a[0], a[1], a[2], a[3], b[0], b[1]);
                multiply_16x8x16<NUMBER>(scores[j * 2 + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
            }
        }
        if (from + TOKENS > (CAUSAL ? min(length, position - g + 1) : length)) {
#pragma unroll
            for (int j = 0; j < TOKENS / 8; j++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int token = from + j * 8 + t * 2 + i % 2;
                    const bool valid = token < length && (!CAUSAL || token <= position + i / 2 * 8);
                    scores[j][i] = valid ? scores[j][i] : MINUS_INFINITY;
                }
        }
        float lower[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float now = most[h];
#pragma unroll
            for (int j = 0; j < TOKENS / 8; j++)
                now = fmaxf(now, fmaxf(scores[j][h * 2], scores[j][h * 2 + 1]));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            // A row that has seen no key yet: its distance to nothing would not be a number.
            const float shift = now == MINUS_INFINITY ? 0.0f : now * by;
            lower[h] = exp2_fast(most[h] * by - shift);
            most[h] = now;
            float sum = 0.0f;
#pragma unroll
            for (int j = 0; j < TOKENS / 8; j++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    scores[j][h * 2 + i] = exp2_fast(fmaf(scores[j][h * 2 + i], by, -shift));
                    sum += scores[j][h * 2 + i];
                }
            weight[h] = fmaf(weight[h], lower[h], sum);
        }
#pragma unroll
        for (int d = 0; d < HEAD / 8; d++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[d][i] *= lower[i / 2];
        wait_for_copies<1>();
        __syncthreads();  // values of this tile are there, and all are done with its keys
        copy_values(n + 1);
#pragma unroll
        for (int k = 0; k < TOKENS / 16; k++) {
            u32 a[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                a[i] = pack<NUMBER>(scores[k * 2 + i / 2][i % 2 * 2], scores[k * 2 + i / 2][i % 2 * 2 + 1]);
#pragma unroll
            for (int d = 0; d < HEAD / 16; d++) {
                u32 b[4];
                load_matrix_4_transposed(b, chunk_of(value_tile(n % 2), k * 16 + low * 8 + inner, d * 2 + high));
                multiply_16x8x16<NUMBER>(sums[d * 2], a[0], a[1], a[2], a[3], b[0], b[1]);
                multiply_16x8x16<NUMBER>(sums[d * 2 + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
            }
        }
    }
    wait_for_copies<0>();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        weight[h] += __shfl_xor_sync(~0u, weight[h], 1);
        weight[h] += __shfl_xor_sync(~0u, weight[h], 2);
        const float share = weight[h] > 0.0f ? 1.0f / weight[h] : 0.0f;
        if (first + own + h * 8 >= rows)
            continue;
        NUMBER* to = out + (i64(row + first + own + h * 8) * heads + head) * HEAD + t * 2;
#pragma unroll
        for (int d = 0; d < HEAD / 8; d++)
            *reinterpret_cast<u32*>(to + d * 8) = pack<NUMBER>(sums[d][h * 2] * share, sums[d][h * 2 + 1] * share);
    }
}
