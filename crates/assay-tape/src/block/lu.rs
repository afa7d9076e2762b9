//! Small dense linear systems, one per point: LU decomposition with partial pivoting.

/// LU factors of a square matrix.
#[derive(Clone, Debug, Default)]
pub(super) struct LuFactors {
    size: usize,
    /// Both triangles, row by row; the diagonal is that of U, L has ones.
    entries: Vec<f64>,
    /// Row exchanged with row `k` in step `k`.
    pivots: Vec<usize>,
}

impl LuFactors {
    /// Factors a matrix given row by row; a singular one gives infinities or NaN when solved.
    pub(super) fn new(size: usize, mut entries: Vec<f64>) -> LuFactors {
        let mut pivots = Vec::with_capacity(size);
        for column in 0..size {
            let magnitude = |row: usize, entries: &[f64]| entries[row * size + column].abs();
            let pivot = (column..size)
                .max_by(|&x, &y| magnitude(x, &entries).total_cmp(&magnitude(y, &entries)))
                .unwrap_or(column);
            pivots.push(pivot);
            for index in 0..size {
                entries.swap(column * size + index, pivot * size + index);
            }
            for row in column + 1..size {
                let factor = entries[row * size + column] / entries[column * size + column];
                entries[row * size + column] = factor;
                for index in column + 1..size {
                    entries[row * size + index] -= factor * entries[column * size + index];
                }
            }
        }
        LuFactors { size, entries, pivots }
    }

    fn entry(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.size + column]
    }

    /// Replaces `vector` by the solution of `matrix * x = vector`.
    pub(super) fn solve(&self, vector: &mut [f64]) {
        for (step, &pivot) in self.pivots.iter().enumerate() {
            vector.swap(step, pivot);
        }
        for row in 0..self.size {
            for column in 0..row {
                vector[row] -= self.entry(row, column) * vector[column];
            }
        }
        for row in (0..self.size).rev() {
            for column in row + 1..self.size {
                vector[row] -= self.entry(row, column) * vector[column];
            }
            vector[row] /= self.entry(row, row);
        }
    }

    /// Replaces `vector` by the solution of `transpose(matrix) * x = vector`.
    pub(super) fn solve_transposed(&self, vector: &mut [f64]) {
        for row in 0..self.size {
            for column in 0..row {
                vector[row] -= self.entry(column, row) * vector[column];
            }
            vector[row] /= self.entry(row, row);
        }
        for row in (0..self.size).rev() {
            for column in row + 1..self.size {
                vector[row] -= self.entry(column, row) * vector[column];
            }
        }
        for (step, &pivot) in self.pivots.iter().enumerate().rev() {
            vector.swap(step, pivot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LuFactors;

    const MATRIX: [[f64; 3]; 3] = [[0.0, 2.0, -1.0], [4.0, 1.0, 0.5], [2.0, -3.0, 8.0]];

    #[test]
    fn solves_plain_and_transposed_systems() {
        let factored = LuFactors::new(3, MATRIX.concat());
        let solution = [1.5, -2.0, 0.25];
        let mut plain = [0.0; 3];
        let mut transposed = [0.0; 3];
        for row in 0..3 {
            for column in 0..3 {
                plain[row] += MATRIX[row][column] * solution[column];
                transposed[column] += MATRIX[row][column] * solution[row];
            }
        }
        factored.solve(&mut plain);
        factored.solve_transposed(&mut transposed);
        for index in 0..3 {
            assert!((plain[index] - solution[index]).abs() < 1e-14);
            assert!((transposed[index] - solution[index]).abs() < 1e-14);
        }
    }

    #[test]
    fn singular_matrix_gives_no_finite_solution() {
        let mut vector = [1.0, 2.0];
        LuFactors::new(2, vec![1.0, 1.0, 1.0, 1.0]).solve(&mut vector);
        assert!(vector.iter().all(|value| !value.is_finite()));
    }
}
