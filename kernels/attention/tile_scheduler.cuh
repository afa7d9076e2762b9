// The tile scheduler of persistent prefill attention: which tiles of work there are, and in which order CTAs take them.
#pragma once
#include "prelude.cuh"

// A tile of work: the queries from row `row` on, of which the sequence has `queries_left`, for the heads of
// `head_tile`, which share a KV head. The first query is token `position` of `seq_len`.
struct WorkTile {
    int row, queries_left, position, seq_len, head_tile, sequence, kv_tiles;
};

struct Sequences {
    const int *query_start_loc, *seq_lens;  // null: every sequence has `queries` rows and `tokens` tokens
    int queries, tokens, count;
    DEVICE int row(int sequence) const { return query_start_loc ? query_start_loc[sequence] : sequence * queries; }
    DEVICE int seq_len(int sequence) const { return seq_lens ? seq_lens[sequence] : tokens; }
    // Query rows of a sequence; none where it has no tokens, or does not exist.
    DEVICE int rows(int sequence) const {
        return sequence < count && seq_len(sequence) > 0 ? row(sequence + 1) - row(sequence) : 0;
    }
};

// A walk over query tiles in order: query tile n is the queries of a sequence from TILE_QUERIES n on. The last queries
// attend to the most keys, so query tiles descend. A warp examines 32 sequences at a time, from the last match on.
template <int TILE_QUERIES> struct TileWalk {
    int query_tile, first_sequence = -1, tiles_before = 0;
    int rows = 0;  // query rows of this lane's sequence that this walk is over

    // Finds the query tile of this rank, which must exist. Ranks must not descend from call to call. `own_rows` gives
    // the rows of a sequence, 0 where it is not walked over, and `next_group` the first sequence of the next 32.
    template <typename OwnRows, typename NextGroup>
    DEVICE void find(const Sequences& sequences, int rank, const OwnRows& own_rows, const NextGroup& next_group,
                     WorkTile& tile) {
        const int lane = threadIdx.x % 32;
        if (first_sequence < 0) {
            first_sequence = next_group(0);
            rows = own_rows(first_sequence + lane);
        }
        for (;;) {
            const bool is_candidate = rows > query_tile * TILE_QUERIES;
            const u32 candidates = __ballot_sync(~0u, is_candidate);
            if (rank - tiles_before < __popc(candidates)) {
                const bool is_match = is_candidate && __popc(candidates & ((1u << lane) - 1)) == rank - tiles_before;
                const int match_lane = __ffs(__ballot_sync(~0u, is_match)) - 1;
                tile.sequence = first_sequence + match_lane;
                tile.row = sequences.row(tile.sequence) + query_tile * TILE_QUERIES;
                tile.queries_left = __shfl_sync(~0u, rows, match_lane) - query_tile * TILE_QUERIES;
                tile.seq_len = sequences.seq_len(tile.sequence);
                tile.position = tile.seq_len - tile.queries_left;
                return;
            }
            tiles_before += __popc(candidates);
            int next = next_group(first_sequence + 32);
            if (next >= sequences.count) {
                query_tile--;
                next = next_group(0);
            }
            if (next != first_sequence) {
                first_sequence = next;
                rows = own_rows(first_sequence + lane);
            }
        }
    }
};

// Two kinds of tiles take turns, as long as there are both: those of sequences with a single query tile, which mostly
// decode and wait for memory, and those of prompts, which compute. Then some SMs read while others compute, instead of
// all SMs first the one and then the other. The rest of the longer kind follows.
template <int TILE_QUERIES> struct TileScheduler {
    const Sequences sequences;
    const int head_tiles;
    int single_tiles = 0, prompt_tiles = 0;  // of all heads
    u32 prompt_groups = 0;  // bit g: group g of 32 sequences, bit 31 all from there on, has prompts
    TileWalk<TILE_QUERIES> singles, prompts;

    DEVICE TileScheduler(const Sequences& sequences, int head_tiles) : sequences(sequences), head_tiles(head_tiles) {
        int max_rows = 0;
        for (int first = 0; first < sequences.count; first += 32) {
            const int own = sequences.rows(first + threadIdx.x % 32);
            const bool is_prompt = own > TILE_QUERIES;
            max_rows = max(max_rows, own);
            single_tiles += __popc(__ballot_sync(~0u, own > 0 && !is_prompt));
            if (__any_sync(~0u, is_prompt)) {
                prompt_groups |= 1u << min(first / 32, 31);
                prompt_tiles += __reduce_add_sync(~0u, is_prompt ? ceil_divide(own, TILE_QUERIES) : 0);
            }
        }
        single_tiles *= head_tiles;
        prompt_tiles *= head_tiles;
        singles.query_tile = 0;
        prompts.query_tile = ceil_divide(__reduce_max_sync(~0u, max_rows), TILE_QUERIES) - 1;
    }

    // Indices must ascend from call to call. False where there is no such tile, nor one of a higher index.
    DEVICE bool find(int tile_index, WorkTile& tile) {
        if (tile_index >= count())
            return false;
        const int turns = min(single_tiles, prompt_tiles);
        const bool takes_turns = tile_index < 2 * turns;
        const int index = takes_turns ? tile_index / 2 : tile_index - turns;
        if (takes_turns ? tile_index % 2 == 0 : single_tiles > prompt_tiles)
            singles.find(
                sequences, index / head_tiles,
                [&](int sequence) {
                    const int own = sequences.rows(sequence);
                    return own > TILE_QUERIES ? 0 : own;
                },
                [](int first) { return first; }, tile);
        else
            prompts.find(
                sequences, index / head_tiles,
                [&](int sequence) {
                    const int own = sequences.rows(sequence);
                    return own > TILE_QUERIES ? own : 0;
                },
                [&](int first) {
                    while (first < sequences.count && !(prompt_groups >> min(first / 32, 31) & 1))
                        first += 32;
                    return first;
                },
                tile);
        tile.head_tile = index % head_tiles;
        return true;
    }

    DEVICE int count() const { return single_tiles + prompt_tiles; }
};
