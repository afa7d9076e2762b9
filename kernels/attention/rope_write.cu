// Applies RoPE to queries and keys and writes keys and values to the paged KV cache.
//
// Algorithm: rotary position embedding [Su et al. 2021], on adjacent pairs (interleaved, as GPT-J) or on pairs half a
//   rotary dimension apart (as GPT-NeoX); before it, optionally, an RMS norm of each head (QK norm).
// Tiling: LANES_PER_HEAD lanes share a head; a lane loads the two 16-byte chunks that are rotated with each other,
//   rotates them in registers and stores them. Only the norm's sum of squares is exchanged, by shuffles.
// Departures: none; the cache write is fused, as in vLLM's reshape_and_cache.
//
// Options: ELEMENT (of qkv, norms and q_out), CACHE_ELEMENT (of the cache: bf16, fp16, float, e4m3, or int8 with a
//   scale for each token of a head, as cache_element.cuh), INTERLEAVED (1: rotated pairs are adjacent elements; 0: they
//   are rotary_dim / 2 apart), VECTOR (elements moved at once: 8, for float 4, where all addresses are aligned to 16
//   bytes, head_dim and rotary_dim are multiples of 2 * VECTOR, and CACHE_ELEMENT is ELEMENT or, for 8, of 8 bits; else
//   1), LANES_PER_HEAD (a power of two up to 32), THREADS (a multiple of 32), METADATA_READY (1: the preceding kernel
//   does not write positions and slot_mapping; they are read before the dependency resolves).
// Launch: grid (rows, ceil((heads + 2 kv_heads) * LANES_PER_HEAD / THREADS)), CTA of THREADS.
// Arguments: qkv (rows x (heads + 2 kv_heads) x head_dim), positions, slot_mapping (int32), cos_sin_table (float,
//   positions x rotary_dim: cosines of all pairs, then sines; null: no rotation), keys, values, q_out (rows x heads x
//   head_dim; may be qkv where kv_heads is 0), query_norm, key_norm (gain per head, null: none), heads, kv_heads,
//   head_dim, rotary_dim (rotated elements of a head, even), block_tokens, block_stride (64 bits), head_stride,
//   token_stride (in elements, as attention_decode), epsilon. A slot of -1 is a padding row: its keys and values are
//   not written, and its queries are not rotated.
#include "cache_element.cuh"
#include "vectorization.cuh"

#ifndef METADATA_READY
#define METADATA_READY 0
#endif

// Stores to a quantized cache: e4m3 rounds to nearest and saturates, int8 codes are given in multiples of the scale.
DEVICE u32 quantized(e4m3, float low, float high) { return to_e4m3_pair(low, high); }
DEVICE u32 quantized(int8, float low, float high) {
    return u32(u8(i8(__float2int_rn(low)))) | u32(u8(i8(__float2int_rn(high)))) << 8;
}
template <class T> struct QuantizedAccess {
    DEVICE static void store(T* p, const float (&v)[1]) { *reinterpret_cast<u8*>(p) = u8(quantized(T(), v[0], 0.0f)); }
    DEVICE static void store(T* p, const float (&v)[8]) {
        u32 words[2] = {};
#pragma unroll
        for (int i = 0; i < 8; i += 2)
            words[i / 4] |= quantized(T(), v[i], v[i + 1]) << i % 4 * 8;
        *reinterpret_cast<uint2*>(p) = make_uint2(words[0], words[1]);
    }
};
template <> struct VectorAccess<e4m3, VECTOR> : QuantizedAccess<e4m3> {};
template <> struct VectorAccess<int8, VECTOR> : QuantizedAccess<int8> {};

// Two chunks of a head whose elements are rotated with each other. One lane holds both, so that no exchange is needed.
struct RotaryPair {
    int first, second;  // their first elements
    int pair;           // the index of their first rotary pair; past the last one where they are not rotated
    bool has_second;    // false: the head ends after the first, possible where VECTOR is 1

    DEVICE RotaryPair(int chunk, int rotary_dim, int head_dim) {
        const bool halves = !INTERLEAVED && chunk * 2 * VECTOR < rotary_dim;
        pair = chunk * VECTOR;
        first = halves ? pair : pair * 2;
        second = first + (halves ? rotary_dim / 2 : VECTOR);
        has_second = second < head_dim;
    }
    template <class T> DEVICE void load(const T* head, float (&v)[2][VECTOR]) const {
        VectorAccess<T, VECTOR>::load(head + first, v[0]);
        if (has_second)
            VectorAccess<T, VECTOR>::load(head + second, v[1]);
    }
    template <class T> DEVICE void store(T* head, const float (&v)[2][VECTOR]) const {
        VectorAccess<T, VECTOR>::store(head + first, v[0]);
        if (has_second)
            VectorAccess<T, VECTOR>::store(head + second, v[1]);
    }
};

// Loads VECTOR consecutive cosines or sines.
DEVICE void load_angles(const float* source, float (&v)[VECTOR]) {
    if constexpr (VECTOR == 1) {
        v[0] = *source;
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; i += 4) {
            const float4 four = *reinterpret_cast<const float4*>(source + i);
            v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
        }
    }
}

KERNEL __launch_bounds__(THREADS)
rope_write(const ELEMENT* qkv, const int* positions, const int* slot_mapping, const float* cos_sin_table,
           CACHE_ELEMENT* keys, CACHE_ELEMENT* values, ELEMENT* q_out, const ELEMENT* query_norm,
           const ELEMENT* key_norm, int heads, int kv_heads, int head_dim, int rotary_dim, int block_tokens,
           i64 block_stride, int head_stride, int token_stride, float epsilon TRACE_PARAMETER) {
    TRACE_SPAN(0);
    const int row = blockIdx.x, lane = threadIdx.x % LANES_PER_HEAD;
    const int head = blockIdx.y * (THREADS / LANES_PER_HEAD) + threadIdx.x / LANES_PER_HEAD;
    const int all_heads = heads + 2 * kv_heads;
    launch_dependents();
    int slot = -1;
    const float* cos_sin = nullptr;
    auto load_metadata = [&] {
        slot = slot_mapping[row];
        cos_sin = cos_sin_table ? cos_sin_table + i64(positions[row]) * rotary_dim : nullptr;
    };
    if constexpr (METADATA_READY) {
        load_metadata();
        if (cos_sin && threadIdx.x * 32 < rotary_dim)
            prefetch_l2(cos_sin + threadIdx.x * 32);
    }
    wait_on_dependency();
    if constexpr (!METADATA_READY)
        load_metadata();
    const ELEMENT* source = qkv + (i64(row) * all_heads + head) * head_dim;
    const bool is_query = head < heads, is_key = !is_query && head < heads + kv_heads;
    // Lanes without a head stay for the shuffles of their warp.
    const int end = head < all_heads ? ceil_divide(head_dim, 2 * VECTOR) : 0;

    const ELEMENT* gain = is_query ? query_norm : is_key ? key_norm : nullptr;
    float inverse_rms = 1.0f;
    if (query_norm || key_norm) {
        float sum_of_squares = 0.0f;
        for (int chunk = lane; chunk < end; chunk += LANES_PER_HEAD) {
            float v[2][VECTOR] = {};
            RotaryPair(chunk, rotary_dim, head_dim).load(source, v);
#pragma unroll
            for (int i = 0; i < 2 * VECTOR; i++)
                sum_of_squares = fmaf(v[i / VECTOR][i % VECTOR], v[i / VECTOR][i % VECTOR], sum_of_squares);
        }
#pragma unroll
        for (int offset = LANES_PER_HEAD / 2; offset; offset /= 2)
            sum_of_squares += __shfl_xor_sync(~0u, sum_of_squares, offset);
        inverse_rms = rsqrtf(sum_of_squares / head_dim + epsilon);
    }
    CACHE_ELEMENT* destination = nullptr;
    float* token_scale = nullptr;
    if (!is_query && head < all_heads && slot >= 0) {
        CACHE_ELEMENT* of_head =
            (is_key ? keys : values) + slot / block_tokens * block_stride + (head - heads) % kv_heads * head_stride;
        destination = of_head + slot % block_tokens * token_stride;
        if constexpr (CacheTraits<CACHE_ELEMENT>::SCALE_BYTES != 0)
            token_scale = reinterpret_cast<float*>(of_head + block_tokens * head_dim) + slot % block_tokens;
    }
    // A chunk of the head, normalized and rotated.
    auto transform = [&](const RotaryPair& pair_chunks, float (&v)[2][VECTOR]) {
        pair_chunks.load(source, v);
        if (gain) {
            float gains[2][VECTOR];
            pair_chunks.load(gain, gains);
#pragma unroll
            for (int i = 0; i < 2 * VECTOR; i++)
                v[i / VECTOR][i % VECTOR] *= inverse_rms * gains[i / VECTOR][i % VECTOR];
        }
        if (cos_sin && slot >= 0 && (is_query || is_key) && pair_chunks.pair < rotary_dim / 2) {
            float cosines[VECTOR], sines[VECTOR];
            load_angles(cos_sin + pair_chunks.pair, cosines);
            load_angles(cos_sin + rotary_dim / 2 + pair_chunks.pair, sines);
#pragma unroll
            for (int i = 0; i < VECTOR; i++) {
                float& a = INTERLEAVED ? v[2 * i / VECTOR][2 * i % VECTOR] : v[0][i];
                float& b = INTERLEAVED ? v[(2 * i + 1) / VECTOR][(2 * i + 1) % VECTOR] : v[1][i];
                const float first = a, second = b;
                a = first * cosines[i] - second * sines[i];
                b = second * cosines[i] + first * sines[i];
            }
        }
    };
    float inverse_scale = 1.0f;
    if constexpr (CacheTraits<CACHE_ELEMENT>::SCALE_BYTES != 0) {
        float largest = 0.0f;
        for (int chunk = lane; chunk < end; chunk += LANES_PER_HEAD) {
            float v[2][VECTOR] = {};
            transform(RotaryPair(chunk, rotary_dim, head_dim), v);
#pragma unroll
            for (int i = 0; i < 2 * VECTOR; i++)
                largest = Maximum::combine(largest, fabsf(v[i / VECTOR][i % VECTOR]));
        }
#pragma unroll
        for (int offset = LANES_PER_HEAD / 2; offset; offset /= 2)
            largest = Maximum::combine(largest, __shfl_xor_sync(~0u, largest, offset));
        const float scale = largest / 127.0f;
        inverse_scale = scale == 0.0f ? 0.0f : 1.0f / scale;
        if (token_scale && lane == 0)
            *token_scale = scale;
    }
    for (int chunk = lane; chunk < end; chunk += LANES_PER_HEAD) {
        const RotaryPair pair_chunks(chunk, rotary_dim, head_dim);
        float v[2][VECTOR] = {};
        transform(pair_chunks, v);
        if (is_query) {
            pair_chunks.store(q_out + (i64(row) * heads + head) * head_dim, v);
        } else if (destination) {
#pragma unroll
            for (int i = 0; CacheTraits<CACHE_ELEMENT>::SCALE_BYTES && i < 2 * VECTOR; i++)
                v[i / VECTOR][i % VECTOR] *= inverse_scale;
            pair_chunks.store(destination, v);
        }
    }
}
