//! The epilogue of a linear layer, applied while its outputs are in cache.

use crate::error::{Result, check_length};
use crate::ops::activation::{activate_in_place, check_elementwise};
use crate::simd::{Kernel, LANES, Vector, load_partial, store_partial};
use assay_operations::Activation;
use std::ops::Range;

/// Bias, then activation, then residual; each is optional.
#[derive(Clone, Copy, Default, Debug)]
pub struct Epilogue<'a> {
    /// Added to each output.
    pub bias: Option<&'a [f32]>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Added last, elementwise; of the shape of the output.
    pub residual: Option<&'a [f32]>,
}

impl Epilogue<'_> {
    pub(crate) fn check(&self, operation: &'static str, rows: usize, outputs: usize) -> Result<()> {
        check_elementwise(operation, self.activation)?;
        if let Some(bias) = self.bias {
            check_length(operation, "bias", bias.len(), &[outputs])?;
        }
        if let Some(residual) = self.residual {
            check_length(operation, "residual", residual.len(), &[rows, outputs])?;
        }
        Ok(())
    }

    /// Whether the epilogue is the identity.
    pub(crate) fn is_empty(&self) -> bool {
        self.bias.is_none() && self.activation == Activation::None && self.residual.is_none()
    }

    /// Applies the epilogue to these columns of the row that begins at element `start`.
    #[inline(always)]
    pub(crate) fn apply<V: Vector>(
        &self,
        v: V,
        start: usize,
        columns: Range<usize>,
        out: &mut [f32],
    ) {
        if !self.is_empty() {
            v.call(Columns { epilogue: *self, start, columns, out });
        }
    }
}

/// Some columns of a row of outputs.
struct Columns<'a> {
    epilogue: Epilogue<'a>,
    start: usize,
    columns: Range<usize>,
    out: &'a mut [f32],
}

impl Kernel for Columns<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, v: V) {
        let (epilogue, columns, out) = (self.epilogue, self.columns, self.out);
        if let Some(bias) = epilogue.bias {
            add(v, out, &bias[columns.clone()]);
        }
        activate_in_place(v, epilogue.activation, out);
        if let Some(residual) = epilogue.residual {
            let row = self.start + columns.start..self.start + columns.end;
            add(v, out, &residual[row]);
        }
    }
}

#[inline(always)]
fn add<V: Vector>(v: V, out: &mut [f32], other: &[f32]) {
    let (whole, rest) = out.as_chunks_mut::<LANES>();
    let (other_whole, other_rest) = other.as_chunks::<LANES>();
    for (out, other) in whole.iter_mut().zip(other_whole) {
        v.store(v.add(v.load(out), v.load(other)), out);
    }
    if !rest.is_empty() {
        let sum = v.add(load_partial(v, rest, 0.0), load_partial(v, other_rest, 0.0));
        store_partial(v, sum, rest);
    }
}
