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
    DEVICE int rows(int sequence) const { return row(sequence + 1) - row(sequence); }
    DEVICE int seq_len(int sequence) const { return seq_lens ? seq_lens[sequence] : tokens; }
};

// Orders tiles by query tile, sequence and head tile, longest first: query tile n is the queries of a sequence from
// TILE_QUERIES n on. The last queries attend to the most keys, so query tiles descend; sequences of a single query
// tile, whose context may be of any length, come before all. A warp examines 32 sequences at a time, from the last
// match on; behind those of a single query tile only groups that have longer ones, which are few where most decode.
template <int TILE_QUERIES> struct TileScheduler {
    const Sequences sequences;
    const int head_tiles;
    int query_tiles, query_tile, first_sequence = 0, tiles_before = 0;
    int rows = 0;         // query rows of this lane's sequence; 0 where it has no keys
    u32 long_groups = 0;  // bit g: group g of 32 sequences, bit 31 all from there on, may have several query tiles

    DEVICE TileScheduler(const Sequences& sequences, int head_tiles) : sequences(sequences), head_tiles(head_tiles) {
        int max_rows = 0;
        for (int first = 0; first < sequences.count; first += 32) {
            const int sequence = first + threadIdx.x % 32;
            const int own = sequence < sequences.count ? sequences.rows(sequence) : 0;
            max_rows = max(max_rows, own);
            if (__any_sync(~0u, own > TILE_QUERIES))
                long_groups |= 1u << min(first / 32, 31);
        }
        query_tile = query_tiles = ceil_divide(__reduce_max_sync(~0u, max_rows), TILE_QUERIES);
        load_rows();
    }

    DEVICE void load_rows() {
        const int sequence = first_sequence + threadIdx.x % 32;
        rows = sequence < sequences.count && sequences.seq_len(sequence) > 0 ? sequences.rows(sequence) : 0;
    }

    // The first sequence of the next group, from `first` on, that this query tile may be of.
    DEVICE int next_group(int first) const {
        if (query_tile < query_tiles)
            while (first < sequences.count && !(long_groups >> min(first / 32, 31) & 1))
                first += 32;
        return first;
    }

    // Indices must ascend from call to call. False where there is no such tile, nor one of a higher index.
    DEVICE bool find(int tile_index, WorkTile& tile) {
        const int lane = threadIdx.x % 32, rank = tile_index / head_tiles;
        while (query_tile >= 0) {
            const bool has_tile = rows <= TILE_QUERIES ? query_tile == query_tiles : rows > query_tile * TILE_QUERIES;
            const bool is_candidate = rows > 0 && has_tile;
            const u32 candidates = __ballot_sync(~0u, is_candidate);
            if (rank - tiles_before < __popc(candidates)) {
                const bool is_match = is_candidate && __popc(candidates & ((1u << lane) - 1)) == rank - tiles_before;
                const int match_lane = __ffs(__ballot_sync(~0u, is_match)) - 1;
                const int first_query = query_tile % query_tiles * TILE_QUERIES;
                tile.sequence = first_sequence + match_lane;
                tile.head_tile = tile_index % head_tiles;
                tile.row = sequences.row(tile.sequence) + first_query;
                tile.queries_left = __shfl_sync(~0u, rows, match_lane) - first_query;
                tile.seq_len = sequences.seq_len(tile.sequence);
                tile.position = tile.seq_len - tile.queries_left;
                return true;
            }
            tiles_before += __popc(candidates);
            int next = next_group(first_sequence + 32);
            if (next >= sequences.count) {
                query_tile--;
                next = next_group(0);
            }
            if (next != first_sequence) {
                first_sequence = next;
                load_rows();
            }
        }
        return false;
    }

    // The number of tiles, known once find() has returned false.
    DEVICE int count() const { return tiles_before * head_tiles; }
};
