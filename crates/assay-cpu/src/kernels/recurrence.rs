//! LSTM.

use super::call::{Call, op_error};
use crate::ops::{self, Context, LstmShape, LstmWeights};
use assay_runtime::backend::Result;

pub(super) fn lstm(context: Context, call: &Call<'_>) -> Result<()> {
    let shape = LstmShape {
        steps: call.size("steps")?,
        batch: call.size("batch")?,
        hidden: call.size("hidden")?,
        reverse: call.flag("reverse")?,
    };
    let LstmShape { steps, batch, hidden, .. } = shape;
    let weights = call.span::<f32>("weights", &[4, hidden, hidden])?;
    let bias = call.optional::<f32>("bias", &[4, hidden])?;
    let reverse_weights = call.optional::<f32>("reverse_weights", &[4, hidden, hidden])?;
    let reverse_bias = call.optional::<f32>("reverse_bias", &[4, hidden])?;
    let directions = if reverse_weights.is_some() { 2 } else { 1 };
    let gates = call.span::<f32>("gates", &[directions, steps, batch, 4, hidden])?;
    let h = call.span::<f32>("h", &[directions, batch, hidden])?;
    let c = call.span::<f32>("c", &[directions, batch, hidden])?;
    let out = call.span::<f32>("out", &[steps, batch, directions, hidden])?;
    if !call.runs() {
        return Ok(());
    }
    // SAFETY: the kernel runs, and operands do not overlap.
    unsafe {
        let bias = bias.map(|bias| bias.read());
        let mut all = vec![LstmWeights { hidden: weights.read(), bias }];
        if let Some(weights) = reverse_weights {
            let bias = reverse_bias.map(|bias| bias.read());
            all.push(LstmWeights { hidden: weights.read(), bias });
        }
        ops::lstm(context, shape, &all, gates.read(), h.write(), c.write(), out.write())
    }
    .map_err(op_error)
}
