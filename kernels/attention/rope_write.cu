// Turns queries and keys by their positions and writes keys and values to the paged cache.
//
// Options: NUMBER (of qkv, norms and q_out), CACHE (of the cache: bf16, fp16, float), NEIGHBORS (1: each number
//   turns with its neighbor; 0: with its partner in the other half), VECTOR (numbers moved at once: 8, for float 4, where
//   all addresses are aligned to 16 bytes, head_dim and turned are multiples of 2 * VECTOR, and CACHE is NUMBER; else
//   1), LANES (of a head: a power of two up to 32), THREADS (a multiple of 32), SETTLED (1: positions and slots are not
//   written by the kernel before, and are read while that one ends).
// Launch: grid (rows, ceil((heads + 2 kv_heads) * LANES / THREADS)), block THREADS.
// Arguments: qkv (rows x (heads + 2 kv_heads) x head_dim), positions, slots (int32), table (float, positions x turned:
//   cosines of all pairs, then sines; null: no rotation), keys, values, q_out (rows x heads x head_dim; may be qkv where
//   kv_heads is 0), query_norm, key_norm (gain per head, null: none), heads, kv_heads, head_dim, turned (numbers of a head
//   that turn, even), block_tokens, block_stride (64 bits), head_stride, token_stride (in numbers, as attention_decode),
//   epsilon. A slot of -1 is a padding row: nothing is written to the cache for it, and its q is not turned.
#include "vectorization.cuh"

#ifndef SETTLED
#define SETTLED 0
#endif

// Two pieces of a head whose numbers turn with each other: both are one lane's, so that none waits for another.
struct Pieces {
    int first, second;  // where they begin
    int pair;           // the place of their first pair among a head's; past the last one where they do not turn
    bool whole;         // false: the head ends between them, as it can where VECTOR is 1

    DEVICE Pieces(int number, int turned, int head_dim) {
        const bool halves = !NEIGHBORS && number * 2 * VECTOR < turned;
        pair = number * VECTOR;
        first = halves ? pair : pair * 2;
        second = first + (halves ? turned / 2 : VECTOR);
        whole = second < head_dim;
    }
    template <class T> DEVICE void load(const T* head, float (&v)[2][VECTOR]) const {
        Row<T, VECTOR>::load(head + first, v[0]);
        if (whole)
            Row<T, VECTOR>::load(head + second, v[1]);
    }
    template <class T> DEVICE void store(T* head, const float (&v)[2][VECTOR]) const {
        Row<T, VECTOR>::store(head + first, v[0]);
        if (whole)
            Row<T, VECTOR>::store(head + second, v[1]);
    }
};

// So many neighboring numbers of the table.
DEVICE void load_turns(const float* from, float (&v)[VECTOR]) {
    if constexpr (VECTOR == 1) {
        v[0] = *from;
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; i += 4) {
            const float4 four = *reinterpret_cast<const float4*>(from + i);
            v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
        }
    }
}

KERNEL __launch_bounds__(THREADS)
rope_write(const NUMBER* qkv, const int* positions, const int* slots, const float* table, CACHE* keys,
           CACHE* values, NUMBER* q_out, const NUMBER* query_norm, const NUMBER* key_norm, int heads, int kv_heads,
           int head_dim, int turned, int block_tokens, i64 block_stride, int head_stride, int token_stride,
           float epsilon) {
    const int row = blockIdx.x, lane = threadIdx.x % LANES;
    const int head = blockIdx.y * (THREADS / LANES) + threadIdx.x / LANES, all_heads = heads + 2 * kv_heads;
    start_next_kernel();
    int slot = -1;
    const float* turn = nullptr;
    auto look_up = [&] {
        slot = slots[row];
        turn = table ? table + i64(positions[row]) * turned : nullptr;
    };
    if constexpr (SETTLED) {
        look_up();
        if (turn && threadIdx.x * 32 < turned)
            prefetch(turn + threadIdx.x * 32);
    }
    wait_for_previous_kernel();
    if constexpr (!SETTLED)
        look_up();
    const NUMBER* from = qkv + (i64(row) * all_heads + head) * head_dim;
    const bool is_query = head < heads, is_key = !is_query && head < heads + kv_heads;
    // Lanes of no head stay for the sums of their warp.
    const int end = head < all_heads ? ceil_divide(head_dim, 2 * VECTOR) : 0;

    const NUMBER* gain = is_query ? query_norm : is_key ? key_norm : nullptr;
    float by = 1.0f;
    if (query_norm || key_norm) {
        float square = 0.0f;
        for (int number = lane; number < end; number += LANES) {
            float v[2][VECTOR] = {};
            Pieces(number, turned, head_dim).load(from, v);
#pragma unroll
            for (int i = 0; i < 2 * VECTOR; i++)
                square = fmaf(v[i / VECTOR][i % VECTOR], v[i / VECTOR][i % VECTOR], square);
        }
#pragma unroll
        for (int offset = LANES / 2; offset; offset /= 2)
            square += __shfl_xor_sync(~0u, square, offset);
        by = rsqrtf(square / head_dim + epsilon);
    }
    CACHE* to = nullptr;
    if (!is_query && slot >= 0)
        to = (is_key ? keys : values) + slot / block_tokens * block_stride + (head - heads) % kv_heads * head_stride +
             slot % block_tokens * token_stride;
    for (int number = lane; number < end; number += LANES) {
        const Pieces pieces(number, turned, head_dim);
        float v[2][VECTOR] = {};
        pieces.load(from, v);
        if (gain) {
            float times[2][VECTOR];
            pieces.load(gain, times);
#pragma unroll
            for (int i = 0; i < 2 * VECTOR; i++)
                v[i / VECTOR][i % VECTOR] *= by * times[i / VECTOR][i % VECTOR];
        }
        if (turn && slot >= 0 && (is_query || is_key) && pieces.pair < turned / 2) {
            float cosines[VECTOR], sines[VECTOR];
            load_turns(turn + pieces.pair, cosines);
            load_turns(turn + turned / 2 + pieces.pair, sines);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                float& a = NEIGHBORS ? v[2 * i / VECTOR][2 * i % VECTOR] : v[0][i];
                float& b = NEIGHBORS ? v[(2 * i + 1) / VECTOR][(2 * i + 1) % VECTOR] : v[1][i];
                const float first = a, second = b;
                a = first * cosines[i] - second * sines[i];
                b = second * cosines[i] + first * sines[i];
            }
        }
        if (is_query)
            pieces.store(q_out + (i64(row) * heads + head) * head_dim, v);
        else if (to)
            pieces.store(to, v);
    }
}
