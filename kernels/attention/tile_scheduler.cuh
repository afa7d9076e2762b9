// Pieces of work of attention over sequences of many queries, and the order in which blocks take them.
#pragma once
#include "prelude.cuh"

// Queries of some heads that share a head of keys: `live` of them from `row` on, the first is token `position` of
// `length`. Heads are counted in bundles of so many.
struct Piece {
    int row, live, position, length, bundle, sequence, tiles;
};

struct Sequences {
    const int *query_starts, *lengths;  // null: `queries` rows and `tokens` each
    int queries, tokens, count;
    DEVICE int row(int sequence) const { return query_starts ? query_starts[sequence] : sequence * queries; }
    DEVICE int rows(int sequence) const { return row(sequence + 1) - row(sequence); }
    DEVICE int length(int sequence) const { return lengths ? lengths[sequence] : tokens; }
};

// Numbers pieces by level, sequence and bundle of heads: level n are the queries of a sequence from QUERIES n on. The
// last queries see most keys, so levels go downwards; sequences of one level, which may have seen any number of keys,
// come before all. A warp looks at 32 sequences at a time, from where the last piece was found.
template <int QUERIES> struct Pieces {
    const Sequences sequences;
    const int bundles;
    int levels, level, looked_at = 0, passed = 0;
    int rows = 0;  // of the sequence that this lane looks at, if it has keys

    DEVICE Pieces(const Sequences& sequences, int bundles) : sequences(sequences), bundles(bundles) {
        int most = 0;
        for (int sequence = threadIdx.x % 32; sequence < sequences.count; sequence += 32)
            most = max(most, sequences.rows(sequence));
        level = levels = ceil_divide(__reduce_max_sync(~0u, most), QUERIES);
        look();
    }

    DEVICE void look() {
        const int mine = looked_at + threadIdx.x % 32;
        rows = mine < sequences.count && sequences.length(mine) > 0 ? sequences.rows(mine) : 0;
    }

    // Numbers are asked for in ascending order. False where there is no such piece, nor one of a higher number.
    DEVICE bool find(int number, Piece& piece) {
        const int lane = threadIdx.x % 32, place = number / bundles;
        while (level >= 0) {
            const bool has = rows > 0 && (rows <= QUERIES ? level == levels : rows > level * QUERIES);
            const u32 having = __ballot_sync(~0u, has);
            if (place - passed < __popc(having)) {
                const bool found = has && __popc(having & ((1u << lane) - 1)) == place - passed;
                const int lane_found = __ffs(__ballot_sync(~0u, found)) - 1, first = level % levels * QUERIES;
                piece.sequence = looked_at + lane_found;
                piece.bundle = number % bundles;
                piece.row = sequences.row(piece.sequence) + first;
                piece.live = __shfl_sync(~0u, rows, lane_found) - first;
                piece.length = sequences.length(piece.sequence);
                piece.position = piece.length - piece.live;
                return true;
            }
            passed += __popc(having);
            if (looked_at + 32 < sequences.count) {
                looked_at += 32;
                look();
            } else {
                level--;
                if (looked_at > 0) {
                    looked_at = 0;
                    look();
                }
            }
        }
        return false;
    }

    // How many there are, once one was not found.
    DEVICE int count() const { return passed * bundles; }
};
