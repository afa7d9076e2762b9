// The grid of a point cloud's pillars [Lang et al. 2019, PointPillars]: rows along y, columns along x. Points are four
// floats, aligned to one.
#pragma once
#include "prelude.cuh"

struct Point {
    float x, y, z, intensity;
};

struct PillarGrid {
    int rows, columns;
    // The least coordinates, and the extents of a cell.
    float x_least, y_least, z_least, x_size, y_size, z_size;

    // The cell of a point, or -1 where it is outside or a coordinate is not a number.
    DEVICE int cell(const Point& point) const {
        const float x = (point.x - x_least) / x_size, y = (point.y - y_least) / y_size,
                    z = (point.z - z_least) / z_size;
        // Infinite and undefined places fail a comparison.
        const bool inside =
            x >= 0.0f && y >= 0.0f && z >= 0.0f && x < float(columns) && y < float(rows) && z < 1.0f;
        return inside ? int(y) * columns + int(x) : -1;
    }

    // The center of a cell; its intensity is zero.
    DEVICE Point center(int cell) const {
        return {(float(cell % columns) + 0.5f) * x_size + x_least, (float(cell / columns) + 0.5f) * y_size + y_least,
                0.5f * z_size + z_least, 0.0f};
    }
};
