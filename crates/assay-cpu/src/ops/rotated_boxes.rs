//! Non-maximum suppression of rotated boxes, by the overlap of convex polygons.

use crate::error::{Result, check_length, check_value};

/// Center, length, width and heading of a box: x, y, extent along the heading, extent across, radians.
pub const BOX_FEATURES: usize = 5;
/// Corners of the overlap of two rectangles at most.
const MOST_CORNERS: usize = 8;

type Point = [f64; 2];

/// A box as a polygon, counterclockwise, with what rules out an overlap early.
struct Rectangle {
    corners: [Point; 4],
    center: Point,
    /// Of the circle around it.
    radius: f64,
    area: f64,
}

impl Rectangle {
    fn new(features: &[f32; BOX_FEATURES]) -> Self {
        let [x, y, length, width, heading] = features.map(f64::from);
        let (sine, cosine) = heading.sin_cos();
        let corner = |along: f64, across: f64| {
            let (along, across) = (along * length / 2.0, across * width / 2.0);
            [x + along * cosine - across * sine, y + along * sine + across * cosine]
        };
        Rectangle {
            corners: [corner(-1.0, -1.0), corner(1.0, -1.0), corner(1.0, 1.0), corner(-1.0, 1.0)],
            center: [x, y],
            radius: length.hypot(width) / 2.0,
            area: length * width,
        }
    }

    /// Intersection over union.
    fn overlap(&self, other: &Rectangle) -> f64 {
        let reach = self.radius + other.radius;
        let apart = [self.center[0] - other.center[0], self.center[1] - other.center[1]];
        if apart[0] * apart[0] + apart[1] * apart[1] >= reach * reach {
            return 0.0;
        }
        let common = self.intersection(other);
        let union = self.area + other.area - common;
        if union > 0.0 { common / union } else { 0.0 }
    }

    /// The area of the intersection [Sutherland & Hodgman 1974].
    fn intersection(&self, other: &Rectangle) -> f64 {
        let mut polygon = [[0.0; 2]; MOST_CORNERS];
        polygon[..4].copy_from_slice(&self.corners);
        let mut count = 4;
        for edge in 0..4 {
            let (from, to) = (other.corners[edge], other.corners[(edge + 1) % 4]);
            let side = |point: Point| {
                (to[0] - from[0]) * (point[1] - from[1]) - (to[1] - from[1]) * (point[0] - from[0])
            };
            let mut clipped = [[0.0; 2]; MOST_CORNERS];
            let mut kept = 0;
            let mut push = |point: Point| {
                // A convex polygon gains at most one corner an edge; rounding may not add more.
                if kept < MOST_CORNERS {
                    clipped[kept] = point;
                    kept += 1;
                }
            };
            for index in 0..count {
                let (point, next) = (polygon[index], polygon[(index + 1) % count]);
                let (here, there) = (side(point), side(next));
                if here >= 0.0 {
                    push(point);
                }
                if (here >= 0.0) != (there >= 0.0) {
                    let part = here / (here - there);
                    push([
                        point[0] + part * (next[0] - point[0]),
                        point[1] + part * (next[1] - point[1]),
                    ]);
                }
            }
            (polygon, count) = (clipped, kept);
            if count < 3 {
                return 0.0;
            }
        }
        let corners = (0..count).map(|index| (polygon[index], polygon[(index + 1) % count]));
        corners.map(|(a, b)| a[0] * b[1] - a[1] * b[0]).sum::<f64>() / 2.0
    }
}

/// Writes the indices of the boxes that are kept, then -1: of boxes in the order of their scores, best first, those
/// whose intersection over union with every box kept before is at most `threshold`.
pub fn rotated_nms(boxes: &[f32], threshold: f32, kept: &mut [i32]) -> Result<()> {
    let operation = "rotated_nms";
    let count = boxes.len() / BOX_FEATURES;
    check_length(operation, "boxes", boxes.len(), &[count, BOX_FEATURES])?;
    let valid = (0.0..=1.0).contains(&threshold) && count <= i32::MAX as usize;
    check_value(operation, "threshold", valid, "from 0 to 1", threshold)?;
    let threshold = f64::from(threshold);
    let mut rectangles: Vec<Rectangle> = Vec::new();
    for (index, features) in boxes.as_chunks::<BOX_FEATURES>().0.iter().enumerate() {
        if rectangles.len() == kept.len() {
            break;
        }
        let candidate = Rectangle::new(features);
        if rectangles.iter().all(|other| other.overlap(&candidate) <= threshold) {
            kept[rectangles.len()] = index as i32;
            rectangles.push(candidate);
        }
    }
    kept[rectangles.len()..].fill(-1);
    Ok(())
}
