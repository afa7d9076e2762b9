// Non-maximum suppression of rotated boxes, best first: those whose intersection over union with every box kept before
// is at most a threshold.
//
// Algorithm: overlaps of all pairs as bit masks, 64 boxes a word, then one warp goes through the boxes in order, as in
//   OpenPCDet (Shi et al.). Two boxes overlap by the area of their intersection [Sutherland & Hodgman 1974].
// Departures: in double precision, in the order of the CPU's operation, and no product is fused with a sum: boxes that
//   only touch would share an area of rounding errors.
//
// Entries:
//   mark_overlaps: grid (words, words), words = ceil(count / 64), CTA of 64; a thread a row of a mask.
//     Arguments: boxes (count x 5: center, length along the heading, width, heading), masks (64 words rows of words;
//     those before the word of the row's own box are not written), count, threshold.
//   keep_boxes: one CTA of one warp. Arguments: masks, kept (most), count, most.
#include "prelude.cuh"

constexpr int WORD_BOXES = 64, MAX_WORDS = 1024, BOX_FEATURES = 5, CORNERS = 4;
// Of the overlap of two rectangles.
constexpr int MAX_CORNERS = 8;

struct Corner {
    double x, y;
};

DEVICE double multiply(double a, double b) { return __dmul_rn(a, b); }

// A box as a polygon, counterclockwise, with what rules out an overlap early.
struct Rectangle {
    Corner corners[CORNERS], center;
    // Of the circle around it.
    double radius, area;
};

DEVICE Rectangle rectangle_of(const float* box) {
    const double x = box[0], y = box[1], length = box[2], width = box[3], heading = box[4];
    double sine, cosine;
    sincos(heading, &sine, &cosine);
    const double along[CORNERS] = {-length / 2, length / 2, length / 2, -length / 2};
    const double across[CORNERS] = {-width / 2, -width / 2, width / 2, width / 2};
    Rectangle rectangle;
#pragma unroll
    for (int i = 0; i < CORNERS; i++)
        rectangle.corners[i] = {x + multiply(along[i], cosine) - multiply(across[i], sine),
                                y + multiply(along[i], sine) + multiply(across[i], cosine)};
    rectangle.center = {x, y};
    rectangle.radius = hypot(length, width) / 2;
    rectangle.area = multiply(length, width);
    return rectangle;
}

// Positive to the left of an edge.
DEVICE double side(const Corner& from, const Corner& to, const Corner& corner) {
    return multiply(to.x - from.x, corner.y - from.y) - multiply(to.y - from.y, corner.x - from.x);
}

DEVICE double intersection(const Rectangle& subject, const Rectangle& clip) {
    Corner polygon[MAX_CORNERS], clipped[MAX_CORNERS];
    int count = CORNERS;
#pragma unroll
    for (int i = 0; i < CORNERS; i++)
        polygon[i] = subject.corners[i];
#pragma unroll 1
    for (int edge = 0; edge < CORNERS; edge++) {
        const Corner from = clip.corners[edge], to = clip.corners[(edge + 1) % CORNERS];
        int kept = 0;
        // A convex polygon gains at most one corner an edge; rounding may not add more.
        const auto push = [&](const Corner& corner) {
            if (kept < MAX_CORNERS)
                clipped[kept++] = corner;
        };
        for (int i = 0; i < count; i++) {
            const Corner corner = polygon[i], next = polygon[i + 1 < count ? i + 1 : 0];
            const double here = side(from, to, corner), there = side(from, to, next);
            if (here >= 0)
                push(corner);
            if ((here >= 0) != (there >= 0)) {
                const double part = here / (here - there);
                push({corner.x + multiply(part, next.x - corner.x), corner.y + multiply(part, next.y - corner.y)});
            }
        }
        count = kept;
        if (count < 3)
            return 0;
        for (int i = 0; i < count; i++)
            polygon[i] = clipped[i];
    }
    double area = 0;
    for (int i = 0; i < count; i++) {
        const Corner a = polygon[i], b = polygon[i + 1 < count ? i + 1 : 0];
        area += multiply(a.x, b.y) - multiply(a.y, b.x);
    }
    return area / 2;
}

// Intersection over union; never NaN.
DEVICE double overlap(const Rectangle& earlier, const Rectangle& later) {
    const double reach = earlier.radius + later.radius;
    const double x = earlier.center.x - later.center.x, y = earlier.center.y - later.center.y;
    if (multiply(x, x) + multiply(y, y) >= multiply(reach, reach))
        return 0;
    const double common = intersection(earlier, later), both = earlier.area + later.area - common;
    return both > 0 ? common / both : 0;
}

KERNEL __launch_bounds__(WORD_BOXES) mark_overlaps(const float* boxes, u64* masks, int count, float threshold) {
    __shared__ Rectangle columns[WORD_BOXES];
    launch_dependents();
    wait_on_dependency();
    if (blockIdx.x < blockIdx.y)
        return;
    const int row = int(blockIdx.y) * WORD_BOXES + int(threadIdx.x);
    const int first_column = int(blockIdx.x) * WORD_BOXES;
    if (first_column + int(threadIdx.x) < count)
        columns[threadIdx.x] = rectangle_of(boxes + i64(first_column + threadIdx.x) * BOX_FEATURES);
    __syncthreads();
    if (row >= count)
        return;
    const Rectangle own = rectangle_of(boxes + i64(row) * BOX_FEATURES);
    u64 mask = 0;
    const int columns_end = min(WORD_BOXES, count - first_column);
    for (int i = max(row + 1 - first_column, 0); i < columns_end; i++)
        mask |= u64(overlap(own, columns[i]) > double(threshold)) << i;
    masks[i64(row) * gridDim.x + blockIdx.x] = mask;
}

KERNEL __launch_bounds__(32) keep_boxes(const u64* masks, int* kept, int count, int most) {
    __shared__ u64 suppressed[MAX_WORDS];
    const int lane = threadIdx.x, words = ceil_divide(count, WORD_BOXES);
    launch_dependents();
    for (int word = lane; word < words; word += 32)
        suppressed[word] = 0;
    wait_on_dependency();
    int kept_count = 0;
    for (int word = 0; word < words; word++) {
        __syncwarp();
        u64 left = ~suppressed[word];
        while (left && kept_count < most) {
            const int box = word * WORD_BOXES + __ffsll(i64(left)) - 1;
            if (box >= count)
                break;
            if (lane == 0)
                kept[kept_count] = box;
            kept_count++;
            const u64* overlaps = masks + i64(box) * words;
            left &= (left - 1) & ~overlaps[word];
            // A lane writes words of its own only.
            for (int later = lane; later < words; later += 32)
                if (later > word)
                    suppressed[later] |= overlaps[later];
        }
    }
    for (int i = kept_count + lane; i < most; i += 32)
        kept[i] = -1;
}
