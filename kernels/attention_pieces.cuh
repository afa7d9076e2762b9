// Pieces of work of attention over sequences of many queries, and the order in which blocks take them.
#pragma once
#include "prelude.cuh"

// Queries of the heads of one key head: `live` of them from `row` on, the first is token `position` of `length`.
struct Piece {
    int row, live, position, length, kv_head, sequence, tiles;
};

struct Sequences {
    const int *query_starts, *lengths;  // null: `queries` rows and `tokens` each
    int queries, tokens, count;
    DEVICE int row(int sequence) const { return query_starts ? query_starts[sequence] : sequence * queries; }
    DEVICE int rows(int sequence) const { return row(sequence + 1) - row(sequence); }
    DEVICE int length(int sequence) const { return lengths ? lengths[sequence] : tokens; }
};

// Numbers pieces by level, sequence and key head: level n are the queries of a sequence from QUERIES n on. The last
// queries see most keys, so levels go downwards; sequences of one level, which may have seen any number of keys, come
// before all. A warp looks at 32 sequences at a time, from where the last piece was found.
template <int QUERIES> struct Pieces {
    const Sequences sequences;
    const int kv_heads;
    int levels, level, looked_at = 0, passed = 0;

    DEVICE Pieces(const Sequences& sequences, int kv_heads) : sequences(sequences), kv_heads(kv_heads) {
        int most = 0;
        for (int sequence = threadIdx.x % 32; sequence < sequences.count; sequence += 32)
            most = max(most, sequences.rows(sequence));
        level = levels = ceil_divide(__reduce_max_sync(~0u, most), QUERIES);
    }

    // Numbers are asked for in ascending order. False where there is no such piece, nor one of a higher number.
    DEVICE bool find(int number, Piece& piece) {
        const int lane = threadIdx.x % 32;
        for (; level >= 0; level--, looked_at = 0)
            for (; looked_at < sequences.count; looked_at += 32) {
                const int mine = looked_at + lane, rows = mine < sequences.count ? sequences.rows(mine) : 0;
                const bool in_level = rows <= QUERIES ? level == levels : rows > level * QUERIES;
                const bool has = rows > 0 && in_level && sequences.length(mine) > 0;
                const u32 having = __ballot_sync(~0u, has);
                const int wanted = number / kv_heads - passed;
                if (wanted < __popc(having)) {
                    const bool found = has && __popc(having & ((1u << lane) - 1)) == wanted;
                    piece.sequence = looked_at + __ffs(__ballot_sync(~0u, found)) - 1;
                    piece.kv_head = number % kv_heads;
                    const int first = level % levels * QUERIES;
                    piece.row = sequences.row(piece.sequence) + first;
                    piece.live = sequences.rows(piece.sequence) - first;
                    piece.length = sequences.length(piece.sequence);
                    piece.position = piece.length - piece.live;
                    return true;
                }
                passed += __popc(having);
            }
        return false;
    }

    // How many there are, once one was not found.
    DEVICE int count() const { return passed * kv_heads; }
};
