//! Products of many small planes beside the GEMM that computes fewer of them.

use crate::common::{Numbers, everywhere};
use assay_cpu::ops::*;
use assay_cpu::simd::Level;

/// A batch of small planes is a task each, others a GEMM each: neither may change a bit.
#[test]
fn products_of_planes_are_those_of_a_gemm() {
    let mut numbers = Numbers(6);
    let count = 16;
    for (rows, depth, columns) in [(128, 128, 128), (33, 40, 50), (64, 101, 37), (200, 1, 32)] {
        let stride = depth + 3;
        let left = numbers.vector(count * rows * stride);
        let right = numbers.vector(count * columns * depth);
        let matrices = |index: usize| {
            let data = &left[index * rows * stride..(index + 1) * rows * stride];
            let left = Matrix { data, rows, columns: depth, row_stride: stride, column_stride: 1 };
            let data = &right[index * columns * depth..(index + 1) * columns * depth];
            (left, Matrix::new(data, columns, depth).transposed())
        };
        let (first, second) = matrices(0);
        assert!(plane_products_apply(count, &first, &second), "{rows} x {depth} x {columns}");
        everywhere(|context| {
            let size = rows * columns;
            let mut out = vec![f32::NAN; count * size];
            plane_products(context, &matrices, size, &mut out);
            for (index, plane) in out.chunks_exact(size).enumerate() {
                let (left, right) = matrices(index);
                let mut expected = vec![0.0; size];
                // Tiles of AMX are another chain: planes are products of other levels alone.
                let context = Context { level: without_tiles(context.level), ..context };
                matmul(context, left, right, &mut expected).unwrap();
                assert_eq!(plane, expected, "{rows} x {depth} x {columns} {}", context.level);
            }
        });
    }
}

/// The level, or the one below it where it has AMX.
fn without_tiles(level: Level) -> Level {
    let levels = Level::available();
    let plain = levels.into_iter().rfind(|other| !other.to_string().contains("amx"));
    if level.to_string().contains("amx") { plain.unwrap_or(level) } else { level }
}

#[test]
fn planes_for_a_gemm_are_refused() {
    let numbers = Numbers(7).vector(256 * 256);
    for (count, rows, depth, columns) in
        [(15, 64, 64, 64), (16, 31, 64, 64), (16, 64, 64, 31), (16, 64, 129, 64), (16, 64, 0, 64)]
    {
        let left = Matrix::new(&numbers[..rows * depth], rows, depth);
        let right = Matrix::new(&numbers[..columns * depth], columns, depth).transposed();
        assert!(!plane_products_apply(count, &left, &right), "{count} x {rows} x {depth}");
    }
}
