//! Which tokens a query sees, and what is done to its scores besides scaling.

use super::call::{Call, int, pointer_or_null};
use assay_operations::ElementFormat::F32;
use assay_operations::Operand;
use assay_runtime::backend::{KernelArgument, Result};

/// The bits of the kernels' `SCORE_OPTIONS` macro.
const WINDOW: u64 = 1;
const SOFTCAP: u64 = 2;
const SINKS: u64 = 4;
const ALIBI: u64 = 8;

/// The options of a call; none by default.
#[derive(Clone, Copy, Default)]
pub(super) struct ScoreOptions {
    /// Tokens that a query sees, itself included; 0: all.
    pub window: u64,
    /// The bound of scores; 0: none.
    softcap: f32,
    /// A logit for each head that has no value.
    sinks: Option<Operand>,
    /// What a score loses for each token between key and query, for each head.
    alibi_slopes: Option<Operand>,
}

impl ScoreOptions {
    pub fn read(call: &Call<'_>, heads: u64) -> Result<Self> {
        let softcap = call.float("softcap")?;
        if !softcap.is_finite() || softcap < 0.0 {
            return Err(call.error("a softcap of 0 or more", softcap));
        }
        Ok(ScoreOptions {
            window: call.size("window")?,
            softcap,
            sinks: call.optional_typed("sinks", F32, &[heads])?,
            alibi_slopes: call.optional_typed("alibi_slopes", F32, &[heads])?,
        })
    }

    /// The value of the kernels' macro: kernels without options are compiled without their code.
    pub fn code(&self) -> u64 {
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        bit(self.window > 0, WINDOW)
            | bit(self.softcap > 0.0, SOFTCAP)
            | bit(self.sinks.is_some(), SINKS)
            | bit(self.alibi_slopes.is_some(), ALIBI)
    }

    /// The arguments behind all others, where there is an option.
    pub fn arguments(&self) -> Vec<KernelArgument> {
        if self.code() == 0 {
            return Vec::new();
        }
        vec![
            int(self.window),
            KernelArgument::F32(self.softcap),
            pointer_or_null(self.sinks),
            pointer_or_null(self.alibi_slopes),
        ]
    }

    /// The most tokens that a query reads, of a context of `tokens`.
    pub fn visible_tokens(&self, tokens: u64) -> u64 {
        match self.window {
            0 => tokens,
            window => tokens.min(window),
        }
    }
}
