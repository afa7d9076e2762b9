//! Rows of `f32` as bfloat16.

use super::TileRows;
use crate::aligned::Aligned;
use crate::ops::Context;
use crate::simd::{Kernel, STEP, Tiles, Vector};
use crate::threads::Disjoint;
use std::cell::RefCell;

thread_local! {
    /// The rows, kept from call to call.
    static NARROW: RefCell<Aligned> = RefCell::default();
}

/// Calls `work` with rows rounded to bfloat16; `depth` is a multiple of [`STEP`].
pub(crate) fn with_narrow_rows<R>(
    context: Context,
    tiles: Tiles,
    x: &[f32],
    depth: usize,
    work: impl FnOnce(TileRows) -> R,
) -> R {
    NARROW.with_borrow_mut(|narrow| {
        let data = narrow.halves(x.len());
        let out = Disjoint::new(data);
        // A thread is worth waking for some tens of thousands of numbers.
        context.threads.ranges(x.len() / STEP, 1_024, &|steps| {
            let range = steps.start * STEP..steps.end * STEP;
            tiles.run(Narrow {
                tiles,
                x: &x[range.clone()],
                // SAFETY: ranges do not overlap.
                out: unsafe { out.part(range) },
            });
        });
        work(TileRows {
            data,
            rows: x.len() / depth.max(1),
            depth,
            stride: depth,
        })
    })
}

struct Narrow<'a> {
    tiles: Tiles,
    x: &'a [f32],
    out: &'a mut [u16],
}

impl Kernel for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let out = self.out.as_chunks_mut::<STEP>().0;
        for (x, out) in self.x.as_chunks::<STEP>().0.iter().zip(out) {
            self.tiles.narrow(x, out);
        }
    }
}
