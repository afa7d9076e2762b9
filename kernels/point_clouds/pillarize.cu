// Points grouped by cell of a grid: pillars in the order of their first points, and of each its first `most_points`
// points in the order of the scan. What is beyond `most_pillars` is dropped.
//
// Algorithm: a counting sort by pillar. A pillar's number is the prefix sum of first points; lists of points begin at
//   those of the counts of cells. Points enter the list of their pillar in any order; the rank of each is the number
//   of points of its list that precede it in the scan: atomics decide where an index stands, and never a result.
// Tiling: a thread a point. Totals of tiles are summed by each CTA that needs them: a scan has some hundred tiles, and
//   another launch would take longer.
// Departures: no sort of the points by cell, which reads and writes them once for each digit. A list is read by each of
//   its points, until `most_points` that precede it are found.
//
// Options: THREADS.
// Entries, in this order, grid ceil(count / THREADS), CTA of THREADS:
//   assign_cells: the cell of each point; of each cell how many points it has, and how many the scan has from its first
//     point on. Arguments: points, cell_of_point (count), scan_left, cell_counts (rows x columns each, zero), count,
//     rows, columns, least x, y, z, sizes of a cell along x, y, z.
//   count_tiles: Arguments: cell_of_point, scan_left, cell_counts, tile_totals (3 of each CTA), count, most_points.
//   number_pillars: Arguments: as count_tiles, then pillar_of_cell (rows x columns), list_starts (most_pillars + 1),
//     starts (most_pillars + 1), cells (most_pillars), most_pillars.
//   list_points: Arguments: cell_of_point, pillar_of_cell, list_starts, cell_counts (zero in the end for pillars that
//     are kept), lists (count), count, most_pillars.
//   place_points: Arguments: points, cell_of_point, pillar_of_cell, list_starts, lists, starts, grouped (count points),
//     count, most_pillars, most_points.
#include "pillar_grid.cuh"
#include "prefix_sum.cuh"

constexpr int BATCH = 8;

DEVICE int point_index() { return int(blockIdx.x) * THREADS + int(threadIdx.x); }

// Pillars, their points, and those of them that are held.
struct Totals {
    u32 pillars, points, held;
};

// The pillar that begins with this point, if one does.
DEVICE Totals totals_of(int cell, int left, const int* scan_left, const int* cell_counts, int most_points) {
    if (cell < 0 || scan_left[cell] != left)
        return {0, 0, 0};
    const u32 points = u32(cell_counts[cell]);
    return {1, points, min(points, u32(most_points))};
}

DEVICE Totals exclusive_totals(const Totals& own, Totals& all) {
    Totals before;
    before.pillars = exclusive_sum<THREADS>(own.pillars, all.pillars);
    before.points = exclusive_sum<THREADS>(own.points, all.points);
    before.held = exclusive_sum<THREADS>(own.held, all.held);
    return before;
}

// Of the CTAs before this one.
DEVICE Totals totals_before(const Totals* tile_totals) {
    Totals own = {0, 0, 0}, all;
    for (u32 tile = threadIdx.x; tile < blockIdx.x; tile += THREADS) {
        own.pillars += tile_totals[tile].pillars;
        own.points += tile_totals[tile].points;
        own.held += tile_totals[tile].held;
    }
    exclusive_totals(own, all);
    return all;
}

KERNEL __launch_bounds__(THREADS)
assign_cells(const Point* points, int* cell_of_point, int* scan_left, int* cell_counts, int count, int rows,
             int columns, float x_least, float y_least, float z_least, float x_size, float y_size, float z_size) {
    launch_dependents();
    wait_on_dependency();
    const int i = point_index();
    if (i >= count)
        return;
    const PillarGrid grid = {rows, columns, x_least, y_least, z_least, x_size, y_size, z_size};
    const int cell = grid.cell(points[i]);
    cell_of_point[i] = cell;
    if (cell < 0)
        return;
    // The largest is that of the first point; zero is none.
    atomicMax(&scan_left[cell], count - i);
    atomicAdd(&cell_counts[cell], 1);
}

KERNEL __launch_bounds__(THREADS)
count_tiles(const int* cell_of_point, const int* scan_left, const int* cell_counts, Totals* tile_totals, int count,
            int most_points) {
    launch_dependents();
    wait_on_dependency();
    const int i = point_index(), cell = i < count ? cell_of_point[i] : -1;
    Totals all;
    exclusive_totals(totals_of(cell, count - i, scan_left, cell_counts, most_points), all);
    if (threadIdx.x == 0)
        tile_totals[blockIdx.x] = all;
}

KERNEL __launch_bounds__(THREADS)
number_pillars(const int* cell_of_point, const int* scan_left, const int* cell_counts, const Totals* tile_totals,
               int count, int most_points, int* pillar_of_cell, int* list_starts, int* starts, int* cells,
               int most_pillars) {
    launch_dependents();
    wait_on_dependency();
    const int i = point_index(), cell = i < count ? cell_of_point[i] : -1;
    const Totals tiles = totals_before(tile_totals);
    const Totals own = totals_of(cell, count - i, scan_left, cell_counts, most_points);
    Totals all;
    const Totals before = exclusive_totals(own, all);
    if (own.pillars) {
        const int pillar = int(tiles.pillars + before.pillars);
        pillar_of_cell[cell] = pillar;
        // The first pillar that does not fit ends the last one that does.
        if (pillar <= most_pillars) {
            list_starts[pillar] = int(tiles.points + before.points);
            starts[pillar] = int(tiles.held + before.held);
        }
        if (pillar < most_pillars)
            cells[pillar] = cell;
    }
    if (blockIdx.x + 1 < gridDim.x)
        return;
    const int pillars = int(tiles.pillars + all.pillars);
    for (int pillar = pillars + int(threadIdx.x); pillar <= most_pillars; pillar += THREADS) {
        list_starts[pillar] = int(tiles.points + all.points);
        starts[pillar] = int(tiles.held + all.held);
        if (pillar < most_pillars)
            cells[pillar] = -1;
    }
}

KERNEL __launch_bounds__(THREADS)
list_points(const int* cell_of_point, const int* pillar_of_cell, const int* list_starts, int* cell_counts, int* lists,
            int count, int most_pillars) {
    launch_dependents();
    wait_on_dependency();
    const int i = point_index(), cell = i < count ? cell_of_point[i] : -1;
    if (cell < 0 || pillar_of_cell[cell] >= most_pillars)
        return;
    const int left = atomicAdd(&cell_counts[cell], -1);
    lists[list_starts[pillar_of_cell[cell]] + left - 1] = i;
}

KERNEL __launch_bounds__(THREADS)
place_points(const Point* points, const int* cell_of_point, const int* pillar_of_cell, const int* list_starts,
             const int* lists, const int* starts, Point* grouped, int count, int most_pillars, int most_points) {
    launch_dependents();
    wait_on_dependency();
    const int i = point_index();
    if (i >= count)
        return;
    if (i >= starts[most_pillars])
        grouped[i] = {0.0f, 0.0f, 0.0f, 0.0f};
    const int cell = cell_of_point[i];
    if (cell < 0 || pillar_of_cell[cell] >= most_pillars)
        return;
    const int pillar = pillar_of_cell[cell], end = list_starts[pillar + 1];
    int rank = 0;
    // Loads of a batch do not wait for each other.
    for (int at = list_starts[pillar]; at < end && rank < most_points; at += BATCH) {
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            rank += at + j < end && lists[at + j] < i;
    }
    if (rank < most_points)
        grouped[starts[pillar] + rank] = points[i];
}
