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
// Options: ELEMENT (bf16, fp16: of q and out), CACHE_ELEMENT (as ELEMENT, e4m3 or int8 with a scale for each token of a
//   head, as cache_element.cuh; not with FUSED_ROPE unless as ELEMENT), HEAD_DIM (64, 128, 192, 256),
//   HEAD_TILES (ceil(heads / kv_heads / 8)), WARPS, CTAS_PER_SM,
//   CLUSTER (1: the splits of one head are one cluster of at most 8 CTAs; 0: partials go through global memory),
//   METADATA_READY (1: the preceding kernel does not write seq_lens, query_start_loc and block_tables; they are read,
//   and the cache is prefetched to L2, before the dependency resolves), FUSED_ROPE (1: q is the qkv of the new tokens,
//   as rope_write.cu takes it; this kernel rotates it and writes the last token of each sequence to the cache),
//   INTERLEAVED (as rope_write.cu; rotary_dim is HEAD_DIM here), SCORE_OPTIONS (bits: 1 a sliding window, 2 softcap,
//   4 attention sinks, 8 ALiBi [Press et al. 2022]; without a bit its code is absent).
// Launch: grid (splits, kv_heads, sequences), CTA of WARPS * 32, no dynamic shared memory; with CLUSTER the cluster
//   dimension is (splits, 1, 1).
//   Fastest on an H200, heads of 128: WARPS 8, CTAS_PER_SM 1 where no SM then gets a second CTA or contexts are long
//   (1 x 200: 8 splits, 8 x 200: 1, 1 x 8192: 16, 8 x 12000: 2, 64 x 4096: 1), else WARPS 4, CTAS_PER_SM 4 or 3, and
//   WARPS 2, CTAS_PER_SM 6 in many waves (256 x 200).
// Arguments: q (rows x heads x HEAD_DIM), keys, values, block_tables (sequences x table_width, int32),
//   seq_lens (sequences, int32), query_start_loc (int32; null: row s is of sequence s), out (as q),
//   partials, counters (where not CLUSTER and splits > 1, else null), heads, kv_heads, block_tokens, table_width,
//   block_stride, head_stride, token_stride (in elements), scale; with FUSED_ROPE q is rows x (heads + 2 kv_heads) x
//   HEAD_DIM, followed by cos_sin_table (as rope_write.cu; null: no rotation), query_norm, key_norm, epsilon. With
//   SCORE_OPTIONS last window (tokens that a query sees, itself included), softcap (scores are bounded by softcap *
//   tanh(score / softcap)), sinks (a logit for each head that has no value), alibi_slopes (for each head).
//   partials: sequences * kv_heads * splits * 8 HEAD_TILES * (HEAD_DIM + 2) floats; counters: sequences * kv_heads
//   zeros, which the kernel leaves at zero. block_tokens is a multiple of 16. Keys and values of token j of a sequence
//   are at table[j / block_tokens] * block_stride + head * head_stride + j % block_tokens * token_stride; a seq_len of
//   0 is a padding row and gives zeros.
#include "cache_element.cuh"

#ifndef CACHE_ELEMENT
#define CACHE_ELEMENT ELEMENT
#endif
#ifndef METADATA_READY
#define METADATA_READY 0
#endif
#ifndef FUSED_ROPE
#define FUSED_ROPE 0
#endif
#ifndef INTERLEAVED
#define INTERLEAVED 0
#endif
#ifndef SCORE_OPTIONS
#define SCORE_OPTIONS 0
#endif

constexpr bool HAS_WINDOW = SCORE_OPTIONS & 1, HAS_SOFTCAP = SCORE_OPTIONS & 2, HAS_SINKS = SCORE_OPTIONS & 4;
constexpr bool HAS_ALIBI = SCORE_OPTIONS & 8;

constexpr int KEY_CHUNKS = HEAD_DIM / 32;    // 16-byte chunks of a key that each of 4 lanes loads
constexpr int VALUE_CHUNKS = HEAD_DIM / 64;  // 16-byte chunks of a value that each of 8 lanes loads
constexpr int QUERY_HEADS = HEAD_TILES * 8;

typedef CACHE_ELEMENT CacheElement;
constexpr bool QUANTIZED = CacheTraits<CacheElement>::QUANTIZED, HAS_SCALES = CacheTraits<CacheElement>::SCALE_BYTES;
template <bool IS_QUANTIZED> struct MmaOperand {
    typedef ELEMENT Type;
};
template <> struct MmaOperand<true> {
    typedef fp16 Type;
};
typedef MmaOperand<QUANTIZED>::Type MmaElement;  // the operand type of the tensor core
// Where heads are multiples of 128 elements of 8 bits, a lane loads two chunks of 8 elements at once.
constexpr bool PAIRED_CHUNKS = QUANTIZED && HEAD_DIM % 128 == 0;
constexpr int CHUNK_WORDS = QUANTIZED ? 2 : 4;  // of 8 elements
constexpr float PROBABILITY_SCALE = HAS_SCALES ? 256.0f : 1.0f;  // keeps small products with scales above fp16's least

// The first element of chunk c of a key, of lane t of four; and of a value, of lane g of eight.
DEVICE int key_element(int c, int t) { return PAIRED_CHUNKS ? c / 2 * 64 + t * 16 + c % 2 * 8 : c * 32 + t * 8; }
DEVICE int value_element(int c, int g) { return PAIRED_CHUNKS ? c / 2 * 128 + g * 16 + c % 2 * 8 : c * 64 + g * 8; }

struct Chunk {
    u32 words[CHUNK_WORDS];
    DEVICE uint4 operand() const {
        if constexpr (QUANTIZED)
            return cache_chunk<CacheElement>(make_uint2(words[0], words[1]));
        else
            return make_uint4(words[0], words[1], words[CHUNK_WORDS - 2], words[CHUNK_WORDS - 1]);
    }
};

// Loads the chunks of one row whose first elements are at element(c); zeros where not valid.
template <int CHUNKS, class Element>
DEVICE void load_chunks(Chunk (&chunks)[CHUNKS], const CacheElement* row, Element element, bool valid) {
#pragma unroll
    for (int c = 0; c < CHUNKS; c += 1 + PAIRED_CHUNKS) {
        if constexpr (QUANTIZED && !PAIRED_CHUNKS) {
            const uint2 v = load8_streaming(row + element(c), valid);
            chunks[c].words[0] = v.x, chunks[c].words[1] = v.y;
        } else {
            const uint4 v = load16_streaming(row + element(c), valid);
            chunks[c].words[0] = v.x, chunks[c].words[1] = v.y;
            Chunk& upper = chunks[c + PAIRED_CHUNKS];
            upper.words[CHUNK_WORDS - 2] = v.z, upper.words[CHUNK_WORDS - 1] = v.w;
        }
    }
}

#if CLUSTER
DEVICE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
DEVICE float load_dsmem(const float* p, u32 rank) {
    u32 address;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
    return v;
}
#endif

// RMS norm and RoPE of a head of the new token, of which lane t of four holds elements 32 c + 8 t to 7 more. All lanes
// of the warp call this.
DEVICE void normalize_and_rotate(uint4 (&head)[KEY_CHUNKS], const ELEMENT* gain, const float* cos_sin, float epsilon) {
    const int t = threadIdx.x % 4;
    float v[KEY_CHUNKS][8];
    float sum_of_squares = 0.0f;
#pragma unroll
    for (int c = 0; c < KEY_CHUNKS; c++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 pair = unpack<ELEMENT>(word(head[c], i));
            v[c][i * 2] = pair.x, v[c][i * 2 + 1] = pair.y;
            sum_of_squares = fmaf(pair.x, pair.x, fmaf(pair.y, pair.y, sum_of_squares));
        }
    if (gain) {
        sum_of_squares += __shfl_xor_sync(~0u, sum_of_squares, 1);
        sum_of_squares += __shfl_xor_sync(~0u, sum_of_squares, 2);
        const float inverse_rms = rsqrtf(sum_of_squares / HEAD_DIM + epsilon);
#pragma unroll
        for (int c = 0; c < KEY_CHUNKS; c++) {
            const uint4 gains = load16(gain + c * 32 + t * 8);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 pair = unpack<ELEMENT>(word(gains, i));
                v[c][i * 2] *= inverse_rms * pair.x, v[c][i * 2 + 1] *= inverse_rms * pair.y;
            }
        }
    }
    if (cos_sin) {
        // Rotated pairs are one lane's: adjacent elements, or the same element of chunks half a head apart.
        constexpr int per_chunk = INTERLEAVED ? 4 : 8;
#pragma unroll
        for (int c = 0; c < (INTERLEAVED ? KEY_CHUNKS : KEY_CHUNKS / 2); c++)
#pragma unroll
            for (int i = 0; i < per_chunk; i += 4) {
                const float* at = cos_sin + (c * 4 + t) * per_chunk + i;
                const float4 cosine = *reinterpret_cast<const float4*>(at);
                const float4 sine = *reinterpret_cast<const float4*>(at + HEAD_DIM / 2);
                const float cosines[4] = {cosine.x, cosine.y, cosine.z, cosine.w};
                const float sines[4] = {sine.x, sine.y, sine.z, sine.w};
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const int first_index = INTERLEAVED ? j * 2 : i + j, second_index = INTERLEAVED ? j * 2 + 1 : i + j;
                    const int partner = INTERLEAVED ? c : c + KEY_CHUNKS / 2;
                    const float first = v[c][first_index], second = v[partner][second_index];
                    v[c][first_index] = first * cosines[j] - second * sines[j];
                    v[partner][second_index] = second * cosines[j] + first * sines[j];
                }
            }
    }
#pragma unroll
    for (int c = 0; c < KEY_CHUNKS; c++)
        head[c] = make_uint4(pack<ELEMENT>(v[c][0], v[c][1]), pack<ELEMENT>(v[c][2], v[c][3]),
                             pack<ELEMENT>(v[c][4], v[c][5]), pack<ELEMENT>(v[c][6], v[c][7]));
}

// Aligned for stores of two and four floats, wherever the compiler places it.
struct alignas(16) Shared {
    float accumulators[WARPS][QUERY_HEADS][HEAD_DIM + 4];
    float row_max[WARPS][QUERY_HEADS], row_sum[WARPS][QUERY_HEADS];
};

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
    __shared__ Shared shared;
#if !CLUSTER
    __shared__ u32 finished_splits;
#endif
    const int split = blockIdx.x, splits = gridDim.x, kv_head = blockIdx.y, sequence = blockIdx.z;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int group_heads = heads / kv_heads;
#if !SCORE_OPTIONS
    constexpr int window = 0;
    constexpr float softcap = 0.0f;
    constexpr const float *sinks = nullptr, *alibi_slopes = nullptr;
#endif
    launch_dependents();
    if constexpr (!METADATA_READY)
        wait_on_dependency();

    const int seq_len = seq_lens[sequence];
    const int row = query_start_loc ? query_start_loc[sequence] : sequence;
    const bool has_query = !query_start_loc || query_start_loc[sequence + 1] > row;
    const int tiles = ceil_divide(seq_len, 16);
    const int first_token = HAS_WINDOW ? max(seq_len - window, 0) : 0, first_tile = first_token / 16;
    const int tiles_per_split = ceil_divide(tiles - first_tile, splits);
    const int tile_end = min(tiles, first_tile + (split + 1) * tiles_per_split);
    const int* table = block_tables + i64(sequence) * table_width;
    keys += kv_head * head_stride;
    values += kv_head * head_stride;
    // The new token's keys and values follow the queries in qkv; it is the last token of the sequence.
    const ELEMENT* new_kv = q + (i64(row) * (heads + 2 * kv_heads) + heads + kv_head) * HEAD_DIM;
    q += i64(row) * (FUSED_ROPE ? heads + 2 * kv_heads : heads) * HEAD_DIM + kv_head * group_heads * HEAD_DIM;
    out += i64(row) * heads * HEAD_DIM + kv_head * group_heads * HEAD_DIM;

    Chunk key[2][KEY_CHUNKS], value[4][VALUE_CHUNKS];
    float key_scale[2] = {1.0f, 1.0f}, value_scale[2] = {1.0f, 1.0f};  // of tokens g and g + 8 of a tile
    auto cache_offset = [&](int tile) {
        const int token = tile * 16;
        return table[token / block_tokens] * block_stride + token % block_tokens * token_stride;
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
            const bool valid = tile < tile_end && tile * 16 + h * 8 + g < seq_len;
            const CacheElement* at = keys + from + (h * 8 + g) * token_stride;
#if FUSED_ROPE
            if (tile * 16 + h * 8 + g == seq_len - 1)
                at = new_kv;
#endif
            load_chunks(key[h], at, [&](int c) { return key_element(c, t); }, valid);
            if constexpr (HAS_SCALES)
                key_scale[h] = valid ? scale_of(keys, tile, from, h * 8 + g) : 0.0f;
        }
    };
    auto load_values = [&](int tile, i64 from) {
#pragma unroll
        for (int h = 0; h < 4; h++) {
            const int token = h / 2 * 8 + t * 2 + h % 2;
            const bool valid = tile < tile_end && tile * 16 + token < seq_len;
            const CacheElement* at = values + from + token * token_stride;
#if FUSED_ROPE
            if (tile * 16 + token == seq_len - 1)
                at = new_kv + kv_heads * HEAD_DIM;
#endif
            load_chunks(value[h], at, [&](int c) { return value_element(c, g); }, valid);
        }
#pragma unroll
        for (int h = 0; HAS_SCALES && h < 2; h++) {
            const bool valid = tile < tile_end && tile * 16 + h * 8 + g < seq_len;
            value_scale[h] = valid ? scale_of(values, tile, from, h * 8 + g) : 0.0f;
        }
    };

    int tile = first_tile + split * tiles_per_split + warp;
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

    uint4 query[HEAD_TILES][KEY_CHUNKS];
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++)
#pragma unroll
        for (int c = 0; c < KEY_CHUNKS; c++) {
            const bool valid = n * 8 + g < group_heads && has_query;
            const uint4 v = valid ? load16(q + (n * 8 + g) * HEAD_DIM + key_element(c, t)) : zero16();
            query[n][c] = QUANTIZED ? convert_words<ELEMENT, MmaElement>(v) : v;
        }

#if FUSED_ROPE
    const float* cos_sin = cos_sin_table && seq_len ? cos_sin_table + i64(seq_len - 1) * HEAD_DIM : nullptr;
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++)
        normalize_and_rotate(query[n], query_norm, cos_sin, epsilon);
#endif

    float accumulators[HEAD_TILES][HEAD_DIM / 16][4] = {};
    float row_max[HEAD_TILES][2], row_sum[HEAD_TILES][2] = {};
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++)
        row_max[n][0] = row_max[n][1] = MINUS_INFINITY;
    const float scale_log2 = scale * LOG2_E;

    for (; tile < tile_end; tile += WARPS) {
#if FUSED_ROPE
        if (tile == tiles - 1) {
            const int token = (seq_len - 1) % 16;
            const bool upper = token >= 8, has_token = g == token % 8 && has_query;
            uint4 rotated[KEY_CHUNKS];
#pragma unroll
            for (int c = 0; c < KEY_CHUNKS; c++)
                rotated[c] = upper ? key[1][c].operand() : key[0][c].operand();
            normalize_and_rotate(rotated, key_norm, cos_sin, epsilon);
#pragma unroll
            for (int c = 0; c < KEY_CHUNKS; c++) {
#pragma unroll
                for (int i = 0; i < CHUNK_WORDS; i++) {
                    key[0][c].words[i] = has_token && !upper ? word(rotated[c], i) : key[0][c].words[i];
                    key[1][c].words[i] = has_token && upper ? word(rotated[c], i) : key[1][c].words[i];
                }
                if (has_token)
                    store16(keys + offset + token * token_stride + c * 32 + t * 8, rotated[c]);
            }
#pragma unroll
            for (int h = 0; h < 4; h++)
#pragma unroll
                for (int c = 0; c < VALUE_CHUNKS; c++)
                    if (h / 2 * 8 + t * 2 + h % 2 == token && has_query)
                        store16(values + offset + token * token_stride + c * 64 + g * 8, value[h][c].operand());
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
#pragma unroll
        for (int n = 0; n < HEAD_TILES; n++) {
            float rescale[2];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int token = tile * 16 + i / 2 * 8 + g;
                const bool valid = token < seq_len && (!HAS_WINDOW || token >= first_token);
                if constexpr (HAS_SOFTCAP)
                    logits[n][i] = softcap * LOG2_E * tanhf(logits[n][i] * scale / softcap);
                else
                    logits[n][i] *= scale_log2;
                if constexpr (HAS_ALIBI) {
                    const int head = n * 8 + t * 2 + i % 2;
                    if (head < group_heads)
                        logits[n][i] -= alibi_slopes[kv_head * group_heads + head] * LOG2_E * (seq_len - 1 - token);
                }
                logits[n][i] = valid ? logits[n][i] : MINUS_INFINITY;
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float v = fmaxf(logits[n][i], logits[n][i + 2]);
#pragma unroll
                for (int lanes = 4; lanes < 32; lanes <<= 1)
                    v = fmaxf(v, __shfl_xor_sync(~0u, v, lanes));
                const float new_max = fmaxf(row_max[n][i], v);
                rescale[i] = exp2_approx(row_max[n][i] - new_max);
                row_max[n][i] = new_max;
                logits[n][i] = exp2_approx(logits[n][i] - new_max);
                logits[n][i + 2] = exp2_approx(logits[n][i + 2] - new_max);
                row_sum[n][i] = fmaf(row_sum[n][i], rescale[i], logits[n][i] + logits[n][i + 2]);
            }
#pragma unroll
            for (int i = 0; HAS_SCALES && i < 4; i++)
                logits[n][i] *= value_scale[i / 2] * PROBABILITY_SCALE;
            probabilities[n][0] = transpose_8x8(pack<MmaElement>(logits[n][0], logits[n][1]));
            probabilities[n][1] = transpose_8x8(pack<MmaElement>(logits[n][2], logits[n][3]));
#pragma unroll
            for (int m = 0; m < HEAD_DIM / 16; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    accumulators[n][m][i] *= rescale[i % 2];
        }
#pragma unroll
        for (int m = 0; m < HEAD_DIM / 16; m++) {
            u32 v[4];
#pragma unroll
            for (int h = 0; h < 4; h++)
                v[h] = word(value[h][m / 4].operand(), m % 4);
            const u32 a0 = __byte_perm(v[0], v[1], 0x5410), a1 = __byte_perm(v[0], v[1], 0x7632);
            const u32 a2 = __byte_perm(v[2], v[3], 0x5410), a3 = __byte_perm(v[2], v[3], 0x7632);
#pragma unroll
            for (int n = 0; n < HEAD_TILES; n++)
                mma_16x8x16<MmaElement>(accumulators[n][m], a0, a1, a2, a3, probabilities[n][0], probabilities[n][1]);
        }
        load_values(tile + WARPS, next_offset);
        offset = next_offset;
        next_offset = tile + 2 * WARPS < tile_end ? cache_offset(tile + 2 * WARPS) : 0;
    }

    // Combine the partials of the warps of a CTA, then those of the splits of a head, at a common maximum.
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float v = row_sum[n][i];
#pragma unroll
            for (int lanes = 4; lanes < 32; lanes <<= 1)
                v += __shfl_xor_sync(~0u, v, lanes);
            if (g == 0) {
                shared.row_max[warp][n * 8 + t * 2 + i] = row_max[n][i];
                shared.row_sum[warp][n * 8 + t * 2 + i] = v;
            }
#pragma unroll
            for (int m = 0; m < HEAD_DIM / 16; m++)
                *reinterpret_cast<float2*>(
                    &shared.accumulators[warp][n * 8 + t * 2 + i][value_element(m / 4, g) + m % 4 * 2]) =
                    make_float2(accumulators[n][m][i] / PROBABILITY_SCALE,
                                accumulators[n][m][i + 2] / PROBABILITY_SCALE);
        }
    }
    __syncthreads();
    auto factor = [](float row_max, float local_max) {
        return row_max == MINUS_INFINITY ? 0.0f : exp2_approx(local_max - row_max);
    };
    auto store_output = [&](int e, float sum, float row_sum, float row_max) {
        if constexpr (HAS_SINKS) {
            // A sink is a key without a value: it takes part in the maximum and in the sum.
            const float sink = sinks[kv_head * group_heads + e / HEAD_DIM] * LOG2_E, new_max = fmaxf(row_max, sink);
            const float rescale = factor(new_max, row_max);
            sum *= rescale;
            row_sum = row_max == MINUS_INFINITY ? 0.0f : fmaf(row_sum, rescale, factor(new_max, sink));
        }
        if (has_query)
            out[e] = from_float<ELEMENT>(row_sum > 0.0f ? sum / row_sum : 0.0f);
    };
    float* own_partials =
        partials + ((i64(sequence) * kv_heads + kv_head) * splits + split) * QUERY_HEADS * (HEAD_DIM + 2);
    for (int e = threadIdx.x; e < group_heads * HEAD_DIM; e += WARPS * 32) {
        const int head = e / HEAD_DIM, d = e % HEAD_DIM;
        float row_max = MINUS_INFINITY, row_sum = 0.0f, sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            row_max = fmaxf(row_max, shared.row_max[w][head]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float f = factor(row_max, shared.row_max[w][head]);
            row_sum = fmaf(f, shared.row_sum[w][head], row_sum);
            sum = fmaf(f, shared.accumulators[w][head][d], sum);
        }
        if (splits == 1)
            store_output(e, sum, row_sum, row_max);
        float* to = CLUSTER ? shared.accumulators[0][head] : own_partials + head * (HEAD_DIM + 2);
        if (splits > 1)
            to[d] = sum;
        if (splits > 1 && d == 0) {
            to[HEAD_DIM] = row_max;
            to[HEAD_DIM + 1] = row_sum;
        }
    }
    if (splits == 1)
        return;
    // A partial of split z: row `head` holds HEAD_DIM accumulators, then the row maximum and the row sum.
    auto partial_of = [&](int z, int head, int d) {
#if CLUSTER
        return load_dsmem(&shared.accumulators[0][head][d], z);
#else
        return __ldcg(own_partials + (i64(z - split) * QUERY_HEADS + head) * (HEAD_DIM + 2) + d);
#endif
    };
    // Several partials at a time, so that their loads are in flight together.
    auto combine = [&](int e) {
        constexpr int batch = 8;
        const int head = e / HEAD_DIM;
        float row_max = MINUS_INFINITY, row_sum = 0.0f, sum = 0.0f;
        for (int first = 0; first < splits; first += batch) {
            float maxima[batch], sums[batch], accumulated[batch];
#pragma unroll
            for (int i = 0; i < batch; i++) {
                const int z = min(first + i, splits - 1);
                maxima[i] = partial_of(z, head, HEAD_DIM);
                sums[i] = partial_of(z, head, HEAD_DIM + 1);
                accumulated[i] = partial_of(z, head, e % HEAD_DIM);
            }
            float new_max = row_max;
#pragma unroll
            for (int i = 0; i < batch; i++)
                new_max = fmaxf(new_max, maxima[i]);
            const float rescale = factor(new_max, row_max);
            row_sum *= rescale, sum *= rescale;
#pragma unroll
            for (int i = 0; i < batch; i++) {
                const float f = first + i < splits ? factor(new_max, maxima[i]) : 0.0f;
                row_sum = fmaf(f, sums[i], row_sum);
                sum = fmaf(f, accumulated[i], sum);
            }
            row_max = new_max;
        }
        store_output(e, sum, row_sum, row_max);
    };
#if CLUSTER
    cluster_sync();
    for (int e = split * WARPS * 32 + threadIdx.x; e < group_heads * HEAD_DIM; e += splits * WARPS * 32)
        combine(e);
    cluster_sync();  // a CTA may not exit before others have read its shared memory
#else
    __threadfence();
    __syncthreads();
    u32* counter = counters + sequence * kv_heads + kv_head;
    if (threadIdx.x == 0)
        finished_splits = atomicAdd(counter, 1u);
    __syncthreads();
    if (finished_splits != splits - 1)
        return;
    __threadfence();
    if (threadIdx.x == 0)
        *counter = 0;
    for (int e = threadIdx.x; e < group_heads * HEAD_DIM; e += WARPS * 32)
        combine(e);
#endif
}
