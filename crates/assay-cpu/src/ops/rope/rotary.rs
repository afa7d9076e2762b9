//! Rotation of one head by the cosines and sines of its position.

use crate::error::{Result, check_length, check_value};

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RopeLayout {
    /// Element i of the first half with element i of the second (GPT-NeoX).
    #[default]
    Halves,
    /// Elements 2i and 2i + 1 (GPT-J).
    Interleaved,
}

/// Cosines and sines for every position, as [`RopeTable`](super::RopeTable) writes them.
#[derive(Clone, Copy, Debug)]
pub struct Rotary<'a> {
    /// For each position, the cosines of all pairs and then their sines.
    pub table: &'a [f32],
    /// Elements of a head that are rotated.
    pub rotary_dim: usize,
    /// Which elements are rotated together.
    pub layout: RopeLayout,
}

impl Rotary<'_> {
    pub(super) fn check(&self, operation: &'static str, head_size: usize) -> Result<usize> {
        let valid = self.rotary_dim > 0 && self.rotary_dim.is_multiple_of(2);
        check_value(
            operation,
            "rotary_dim",
            valid && self.rotary_dim <= head_size,
            format_args!("an even number from 2 to {head_size}"),
            self.rotary_dim,
        )?;
        let positions = self.table.len() / self.rotary_dim;
        let shape = [positions, self.rotary_dim];
        check_length(operation, "table", self.table.len(), &shape)?;
        Ok(positions)
    }

    #[inline(always)]
    pub(super) fn rotate(&self, head: &mut [f32], position: usize) {
        let rotary = &self.table[position * self.rotary_dim..][..self.rotary_dim];
        let (cosines, sines) = rotary.split_at(self.rotary_dim / 2);
        rotate(&mut head[..self.rotary_dim], cosines, sines, self.layout);
    }
}

#[inline(always)]
fn rotate(head: &mut [f32], cosines: &[f32], sines: &[f32], layout: RopeLayout) {
    match layout {
        RopeLayout::Halves => {
            let (first, second) = head.split_at_mut(cosines.len());
            let numbers = first.iter_mut().zip(second);
            for ((a, b), (cosine, sine)) in numbers.zip(cosines.iter().zip(sines)) {
                (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
            }
        }
        RopeLayout::Interleaved => {
            let numbers = head.as_chunks_mut::<2>().0;
            for ([a, b], (cosine, sine)) in numbers.iter_mut().zip(cosines.iter().zip(sines)) {
                (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
            }
        }
    }
}
