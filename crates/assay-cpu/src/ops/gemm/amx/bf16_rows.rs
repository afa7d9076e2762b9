//! Conversion of `f32` rows to bfloat16.

use super::operands::Bf16Rows;
use crate::aligned_buffer::AlignedBuffer;
use crate::context::Context;
use crate::simd::{Amx, Kernel, TILE_K, Vector};
use crate::threads::DisjointSlice;
use std::cell::RefCell;

thread_local! {
    /// The converted rows, reused from call to call.
    static BF16_ROWS: RefCell<AlignedBuffer> = RefCell::default();
}

/// Calls `work` with rows rounded to bfloat16; `depth` is a multiple of [`TILE_K`].
pub(crate) fn with_bf16_rows<R>(
    context: Context,
    amx: Amx,
    x: &[f32],
    depth: usize,
    work: impl FnOnce(Bf16Rows) -> R,
) -> R {
    BF16_ROWS.with_borrow_mut(|buffer| {
        let data = buffer.halves(x.len());
        let out = DisjointSlice::new(data);
        // Tens of thousands of elements amortize waking a thread.
        context.threads.parallel_for(x.len() / TILE_K, 1_024, &|steps| {
            let range = steps.start * TILE_K..steps.end * TILE_K;
            amx.run(ToBf16 {
                amx,
                x: &x[range.clone()],
                // SAFETY: ranges do not overlap.
                out: unsafe { out.slice_mut(range) },
            });
        });
        work(Bf16Rows { data, rows: x.len() / depth.max(1), depth, stride: depth })
    })
}

struct ToBf16<'a> {
    amx: Amx,
    x: &'a [f32],
    out: &'a mut [u16],
}

impl Kernel for ToBf16<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let out = self.out.as_chunks_mut::<TILE_K>().0;
        for (x, out) in self.x.as_chunks::<TILE_K>().0.iter().zip(out) {
            self.amx.to_bf16(x, out);
        }
    }
}
