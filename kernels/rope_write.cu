// Turns queries and keys by their positions and writes keys and values to the paged cache.
//
// Options: NUMBER (of qkv, norms and q_out), CACHE (of the cache: bf16, fp16, float), NEIGHBOURS (1: each number
//   turns with its neighbour; 0: with its partner in the other half), WARPS, SETTLED (1: positions and slots are not
//   written by the kernel before, and are read while that one ends).
// Launch: grid (ceil((heads + 2 kv_heads) / WARPS), rows), block WARPS * 32, shared WARPS * head_dim * 4 bytes.
// Arguments: qkv (rows x (heads + 2 kv_heads) x head_dim), positions, slots (int32), table (float, positions x turned:
//   cosines of all pairs, then sines; null: no rotation), keys, values, q_out (rows x heads x head_dim), query_norm,
//   key_norm (gain per head, null: none), heads, kv_heads, head_dim, turned (numbers of a head that turn, even),
//   block_tokens, block_stride (64 bits), head_stride, token_stride (in numbers, as attention_decode), epsilon.
//   A slot of -1 is a padding row: nothing is written to the cache for it, and its q is not turned.
#include "prelude.cuh"

#ifndef SETTLED
#define SETTLED 0
#endif

KERNEL __launch_bounds__(WARPS * 32)
rope_write(const NUMBER* qkv, const int* positions, const int* slots, const float* table, CACHE* keys,
           CACHE* values, NUMBER* q_out, const NUMBER* query_norm, const NUMBER* key_norm, int heads, int kv_heads,
           int head_dim, int turned, int block_tokens, i64 block_stride, int head_stride, int token_stride,
           float epsilon) {
    extern __shared__ float heads_of_block[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = blockIdx.y;
    const int head = blockIdx.x * WARPS + warp;
    start_next_kernel();
    int slot = -1;
    const float* turn = nullptr;
    auto look_up = [&] {
        slot = slots[row];
        turn = table ? table + i64(positions[row]) * turned : nullptr;
    };
    if constexpr (SETTLED) {
        look_up();
        if (turn && lane * 32 < turned)
            prefetch(turn + lane * 32);
    }
    wait_for_previous_kernel();
    if (head >= heads + 2 * kv_heads)
        return;
    if constexpr (!SETTLED)
        look_up();
    const NUMBER* from = qkv + (i64(row) * (heads + 2 * kv_heads) + head) * head_dim;
    const bool is_query = head < heads, is_key = !is_query && head < heads + kv_heads;
    float* own = heads_of_block + warp * head_dim;

    float square = 0.0f;
    for (int d = lane; d < head_dim; d += 32) {
        own[d] = to_float(from[d]);
        square = fmaf(own[d], own[d], square);
    }
    const NUMBER* gain = is_query ? query_norm : is_key ? key_norm : nullptr;
    if (gain) {
        const float by = rsqrtf(reduce_warp<Sum>(square) / head_dim + epsilon);
        for (int d = lane; d < head_dim; d += 32)
            own[d] *= by * to_float(gain[d]);
    }
    __syncwarp();
    if (turn && slot >= 0 && (is_query || is_key)) {
        for (int pair = lane; pair < turned / 2; pair += 32) {
            const int a = NEIGHBOURS ? pair * 2 : pair, b = NEIGHBOURS ? pair * 2 + 1 : pair + turned / 2;
            const float cosine = turn[pair], sine = turn[turned / 2 + pair], first = own[a], second = own[b];
            own[a] = first * cosine - second * sine;
            own[b] = second * cosine + first * sine;
        }
        __syncwarp();
    }
    if (is_query) {
        for (int d = lane; d < head_dim; d += 32)
            q_out[(i64(row) * heads + head) * head_dim + d] = from_float<NUMBER>(own[d]);
    } else if (slot >= 0) {
        const int kv_head = (head - heads) % kv_heads;
        CACHE* to = (is_key ? keys : values) + slot / block_tokens * block_stride + kv_head * head_stride +
                    slot % block_tokens * token_stride;
        for (int d = lane; d < head_dim; d += 32)
            to[d] = from_float<CACHE>(own[d]);
    }
}
