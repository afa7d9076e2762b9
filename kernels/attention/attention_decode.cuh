// What the decode attention kernels share: options, the order of elements in fragments, the new token's RMS norm and
// RoPE, the online softmax over a tile of 16 tokens, and the combination of partials.
//
// Options: ELEMENT (bf16, fp16: of q and out), CACHE_ELEMENT (as ELEMENT, e4m3 or int8 with a scale for each token of a
//   head, as cache_element.cuh), HEAD_DIM, HEAD_TILES (ceil(heads / kv_heads / 8)), WARPS, CTAS_PER_SM,
//   CLUSTER (1: the splits of one head are one cluster of at most 8 CTAs; 0: partials go through global memory),
//   METADATA_READY (1: the preceding kernel does not write seq_lens, query_start_loc and block_tables; they are read,
//   and the cache is prefetched to L2, before the dependency resolves), FUSED_ROPE (1: q is the qkv of the new tokens,
//   as rope_write.cu takes it; the kernel rotates it and writes the last token of each sequence to the cache; not with
//   int8), INTERLEAVED (as rope_write.cu; rotary_dim is HEAD_DIM here), SCORE_OPTIONS (bits: 1 a sliding window, 2
//   softcap, 4 attention sinks, 8 ALiBi [Press et al. 2022]; without a bit its code is absent).
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
#pragma once
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

constexpr int KEY_CHUNKS = HEAD_DIM / 32;    // chunks of 8 elements of a key that each of 4 lanes has
constexpr int VALUE_CHUNKS = HEAD_DIM / 64;  // chunks of 8 elements of a value that each of 8 lanes has
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
// With elements of 8 bits the maximum rises only where a logit is above it by more than the slack (in powers of two),
// so that most tiles need no reduction and no rescaling, as in FlashAttention-4.
constexpr bool LAZY_MAXIMUM = QUANTIZED;
constexpr float MAXIMUM_SLACK = HAS_SCALES ? 2.0f : 6.0f;

// The first element of chunk c of a key, of lane t of four; and of a value, of lane g of eight.
DEVICE int key_element(int c, int t) { return PAIRED_CHUNKS ? c / 2 * 64 + t * 16 + c % 2 * 8 : c * 32 + t * 8; }
DEVICE int value_element(int c, int g) { return PAIRED_CHUNKS ? c / 2 * 128 + g * 16 + c % 2 * 8 : c * 64 + g * 8; }
// The token of a tile whose values a lane has at index h of four.
DEVICE int value_token(int h, int t) { return h / 2 * 8 + t * 2 + h % 2; }

struct Chunk {
    u32 words[CHUNK_WORDS];
    DEVICE uint4 operand() const {
        if constexpr (QUANTIZED)
            return cache_chunk<CacheElement>(make_uint2(words[0], words[1]));
        else
            return make_uint4(words[0], words[1], words[CHUNK_WORDS - 2], words[CHUNK_WORDS - 1]);
    }
};

// Eight elements of the new token as the cache stores them.
DEVICE Chunk stored_chunk(const float (&v)[8]) {
    Chunk out;
#pragma unroll
    for (int i = 0; i < CHUNK_WORDS; i++) {
        if constexpr (QUANTIZED)
            out.words[i] = to_e4m3_pair(v[i * 4], v[i * 4 + 1]) | to_e4m3_pair(v[i * 4 + 2], v[i * 4 + 3]) << 16;
        else
            out.words[i] = pack<ELEMENT>(v[i * 2], v[i * 2 + 1]);
    }
    return out;
}
DEVICE void store_chunk(CacheElement* to, const Chunk& v) {
    if constexpr (QUANTIZED)
        *reinterpret_cast<uint2*>(to) = make_uint2(v.words[0], v.words[1]);
    else
        store16(to, v.operand());
}
DEVICE void unpack8(float (&v)[8], const uint4& words) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = unpack<ELEMENT>(word(words, i));
        v[i * 2] = pair.x, v[i * 2 + 1] = pair.y;
    }
}

// RMS norm and RoPE of a head of the new token, of which lane t of four holds the chunks of a key. All lanes of the
// warp call this.
DEVICE void normalize_and_rotate(float (&v)[KEY_CHUNKS][8], const uint4 (&head)[KEY_CHUNKS], const ELEMENT* gain,
                                 const float* cos_sin, float epsilon) {
    const int t = threadIdx.x % 4;
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
            const uint4 gains = load16(gain + key_element(c, t));
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
                const float* at = cos_sin + key_element(c, t) / (INTERLEAVED ? 2 : 1) + i;
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
}

// What a CTA computes: one split of one KV head of one sequence.
struct DecodeTask {
    int split, splits, kv_head, kv_heads, sequence, group_heads;
    int seq_len, row;
    bool has_query;
    int tiles;        // of the sequence
    int first_token;  // that the window shows
    int tile_begin, tile_end;

    DEVICE DecodeTask(const int* seq_lens, const int* query_start_loc, int heads, int kv_heads, int window)
        : split(blockIdx.x), splits(gridDim.x), kv_head(blockIdx.y), kv_heads(kv_heads), sequence(blockIdx.z),
          group_heads(heads / kv_heads) {
        seq_len = seq_lens[sequence];
        row = query_start_loc ? query_start_loc[sequence] : sequence;
        has_query = !query_start_loc || query_start_loc[sequence + 1] > row;
        tiles = ceil_divide(seq_len, 16);
        first_token = HAS_WINDOW ? max(seq_len - window, 0) : 0;
        const int first_tile = first_token / 16, tiles_per_split = ceil_divide(tiles - first_tile, splits);
        tile_begin = first_tile + split * tiles_per_split;
        tile_end = min(tiles, tile_begin + tiles_per_split);
    }
};

struct ScoreOptions {
    float scale, softcap;
    const float *sinks, *alibi_slopes;
};

// Loads the queries of a KV head as fragments, normalized and rotated where that is fused. `q` is their first.
DEVICE void load_queries(uint4 (&query)[HEAD_TILES][KEY_CHUNKS], const ELEMENT* q, const DecodeTask& task,
                         const ELEMENT* gain, const float* cos_sin, float epsilon) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int n = 0; n < HEAD_TILES; n++)
#pragma unroll
        for (int c = 0; c < KEY_CHUNKS; c++) {
            const bool valid = n * 8 + g < task.group_heads && task.has_query;
            query[n][c] = valid ? load16(q + (n * 8 + g) * HEAD_DIM + key_element(c, t)) : zero16();
        }
#pragma unroll
    for (int n = 0; FUSED_ROPE && n < HEAD_TILES; n++) {
        float v[KEY_CHUNKS][8];
        normalize_and_rotate(v, query[n], gain, cos_sin, epsilon);
#pragma unroll
        for (int c = 0; c < KEY_CHUNKS; c++)
            query[n][c] = make_uint4(pack<ELEMENT>(v[c][0], v[c][1]), pack<ELEMENT>(v[c][2], v[c][3]),
                                     pack<ELEMENT>(v[c][4], v[c][5]), pack<ELEMENT>(v[c][6], v[c][7]));
    }
#pragma unroll
    for (int i = 0; QUANTIZED && i < HEAD_TILES * KEY_CHUNKS; i++)
        query[i / KEY_CHUNKS][i % KEY_CHUNKS] =
            convert_words<ELEMENT, MmaElement>(query[i / KEY_CHUNKS][i % KEY_CHUNKS]);
}

// The operand of 16 elements of the values of a tile, of which elements 2 m of 16 and the next are a lane's.
template <class Element>
DEVICE void value_operand(u32 (&a)[4], const Chunk (&value)[4][VALUE_CHUNKS], int m, Element) {
#pragma unroll
    for (int h = 0; h < 4; h += 2) {
        const Chunk &first = value[h][m / 4], &second = value[h + 1][m / 4];
        if constexpr (CacheTraits<Element>::QUANTIZED) {
            // Bytes of two tokens are paired before they are converted: half as many permutations as after.
            const int i = m % 4 / 2;
            const u32 pairs = __byte_perm(first.words[i], second.words[i], m % 2 ? 0x7362 : 0x5140);
            a[h] = cache_pair<Element>(pairs, 0), a[h + 1] = cache_pair<Element>(pairs, 1);
        } else {
            const u32 v = word(first.operand(), m % 4), w = word(second.operand(), m % 4);
            a[h] = __byte_perm(v, w, 0x5410), a[h + 1] = __byte_perm(v, w, 0x7632);
        }
    }
}

// The online softmax of a warp over its tiles. S^T = K Q^T and O^T = V^T P^T: columns are query heads.
struct DecodeState {
    float accumulators[HEAD_TILES][HEAD_DIM / 16][4] = {};
    float row_max[HEAD_TILES][2], row_sum[HEAD_TILES][2] = {};

    DEVICE DecodeState() {
#pragma unroll
        for (int n = 0; n < HEAD_TILES; n++)
            row_max[n][0] = row_max[n][1] = MINUS_INFINITY;
    }

    // Turns the logits of a tile into probabilities, relative to the maximum so far: fragments of the second product.
    DEVICE void softmax(u32 (&probabilities)[HEAD_TILES][2], float (&logits)[HEAD_TILES][4], int tile,
                        const DecodeTask& task, const ScoreOptions& options, const float (&value_scale)[2]) {
        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int n = 0; n < HEAD_TILES; n++) {
            float rescale[2];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int token = tile * 16 + i / 2 * 8 + g;
                const bool valid = token < task.seq_len && (!HAS_WINDOW || token >= task.first_token);
                if constexpr (HAS_SOFTCAP)
                    logits[n][i] = options.softcap * LOG2_E * tanhf(logits[n][i] * options.scale / options.softcap);
                else
                    logits[n][i] *= options.scale * LOG2_E;
                if constexpr (HAS_ALIBI) {
                    const int head = n * 8 + t * 2 + i % 2;
                    if (head < task.group_heads)
                        logits[n][i] -= options.alibi_slopes[task.kv_head * task.group_heads + head] * LOG2_E *
                                        (task.seq_len - 1 - token);
                }
                logits[n][i] = valid ? logits[n][i] : MINUS_INFINITY;
            }
            bool rises = !LAZY_MAXIMUM;
#pragma unroll
            for (int i = 0; LAZY_MAXIMUM && i < 4; i++)
                rises = rises || logits[n][i] > row_max[n][i % 2] + MAXIMUM_SLACK;
            if (!LAZY_MAXIMUM || __any_sync(~0u, rises)) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float v = fmaxf(logits[n][i], logits[n][i + 2]);
#pragma unroll
                    for (int lanes = 4; lanes < 32; lanes <<= 1)
                        v = fmaxf(v, __shfl_xor_sync(~0u, v, lanes));
                    const float new_max = fmaxf(row_max[n][i], v);
                    rescale[i] = exp2_approx(row_max[n][i] - new_max);
                    row_max[n][i] = new_max;
                    if constexpr (LAZY_MAXIMUM)
                        row_sum[n][i] *= rescale[i];
                }
#pragma unroll
                for (int i = 0; LAZY_MAXIMUM && i < HEAD_DIM / 4; i++)
                    accumulators[n][i / 4][i % 4] *= rescale[i % 2];
            }
#pragma unroll
            for (int i = 0; i < 2; i++) {
                logits[n][i] = exp2_approx(logits[n][i] - row_max[n][i]);
                logits[n][i + 2] = exp2_approx(logits[n][i + 2] - row_max[n][i]);
                const float sum = logits[n][i] + logits[n][i + 2];
                row_sum[n][i] = LAZY_MAXIMUM ? row_sum[n][i] + sum : fmaf(row_sum[n][i], rescale[i], sum);
            }
#pragma unroll
            for (int i = 0; HAS_SCALES && i < 4; i++)
                logits[n][i] *= value_scale[i / 2] * PROBABILITY_SCALE;
            probabilities[n][0] = transpose_8x8(pack<MmaElement>(logits[n][0], logits[n][1]));
            probabilities[n][1] = transpose_8x8(pack<MmaElement>(logits[n][2], logits[n][3]));
#pragma unroll
            for (int m = 0; !LAZY_MAXIMUM && m < HEAD_DIM / 16; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    accumulators[n][m][i] *= rescale[i % 2];
        }
    }

    // Adds the values of a tile by their probabilities.
    DEVICE void accumulate(const Chunk (&value)[4][VALUE_CHUNKS], const u32 (&probabilities)[HEAD_TILES][2]) {
#pragma unroll
        for (int m = 0; m < HEAD_DIM / 16; m++) {
            u32 a[4];
            value_operand(a, value, m, CacheElement());
#pragma unroll
            for (int n = 0; n < HEAD_TILES; n++)
                mma_16x8x16<MmaElement>(accumulators[n][m], a[0], a[1], a[2], a[3], probabilities[n][0],
                                        probabilities[n][1]);
        }
    }
};
