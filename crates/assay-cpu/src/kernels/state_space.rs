//! State-space layers: causal convolution and selective scan.

use super::call::{Call, Span, op_error};
use crate::ops::{self, Context, Convolution, ScanShape, StateBatch, StepSize};
use assay_runtime::backend::Result;

/// The sequences of a call, not read yet.
struct Sequences<'a> {
    query_start_loc: Span<'a, i32>,
    seq_lens: Span<'a, i32>,
    slots: Span<'a, i32>,
}

impl<'a> Sequences<'a> {
    fn of(call: &Call<'a>) -> Result<Self> {
        let count = call.size("sequences")?;
        Ok(Sequences {
            query_start_loc: call.span("query_start_loc", &[count.saturating_add(1)])?,
            seq_lens: call.span("seq_lens", &[count])?,
            slots: call.span("slots", &[count])?,
        })
    }

    /// # Safety
    ///
    /// As for [`Span::read`].
    unsafe fn read(&self) -> StateBatch<'a> {
        // SAFETY: the caller guarantees it.
        unsafe {
            StateBatch {
                query_start_loc: self.query_start_loc.read(),
                seq_lens: self.seq_lens.read(),
                slots: self.slots.read(),
            }
        }
    }
}

pub(super) fn causal_convolution(context: Context, call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let (first, channels) = (call.size("first")?, call.size("channels")?);
    let (kernel, states) = (call.size("kernel")?, call.size("states")?);
    if kernel < 2 || columns == 0 {
        return Err(call.error("kernel", "of 2 or more rows of columns", kernel));
    }
    let x = call.span::<f32>("x", &[rows, columns])?;
    let weight = call.span::<f32>("weight", &[kernel, channels])?;
    let bias = call.optional::<f32>("bias", &[channels])?;
    let state = call.span::<f32>("state", &[states, kernel - 1, channels])?;
    let out = call.span::<f32>("out", &[rows, channels])?;
    let sequences = Sequences::of(call)?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let convolution = Convolution {
            columns,
            first,
            channels,
            weight: weight.read(),
            bias: bias.map(|bias| bias.read()),
        };
        ops::causal_convolution(
            context,
            convolution,
            sequences.read(),
            x.read(),
            state.write(),
            out.write(),
        )
    }
    .map_err(op_error)
}

pub(super) fn selective_scan(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = ScanShape {
        heads: call.size("heads")?,
        head_size: call.size("head_dim")?,
        groups: call.size("groups")?,
        state_size: call.size("state_size")?,
    };
    let (rows, states) = (call.size("rows")?, call.size("states")?);
    let inner = shape.heads.saturating_mul(shape.head_size);
    let both = shape.groups.saturating_mul(shape.state_size);
    let convolved_width = inner.saturating_add(both.saturating_mul(2));
    let width = inner.saturating_add(convolved_width);
    let projected = call.span::<f32>("projected", &[rows, width.saturating_add(shape.heads)])?;
    let convolved = call.span::<f32>("convolved", &[rows, convolved_width])?;
    let a_log = call.span::<f32>("a_log", &[shape.heads])?;
    let d = call.span::<f32>("d", &[shape.heads])?;
    let bias = call.span::<f32>("dt_bias", &[shape.heads])?;
    let extents = [states, shape.heads, shape.head_size, shape.state_size];
    let state = call.span::<f32>("state", &extents)?;
    let out = call.span::<f32>("out", &[rows, inner])?;
    let sequences = Sequences::of(call)?;
    let (least, most) = (call.float("dt_min")?, call.float("dt_max")?);
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let step = StepSize { a_log: a_log.read(), d: d.read(), bias: bias.read(), least, most };
        ops::selective_scan(
            context,
            shape,
            step,
            sequences.read(),
            projected.read(),
            convolved.read(),
            state.write(),
            out.write(),
        )
    }
    .map_err(op_error)
}
