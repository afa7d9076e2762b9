//! Mixture of experts: routing, and the weighted sum of the experts' outputs.

use super::call::{Call, int, pointer, pointer_or_null, vector};
use super::define::Define;
use super::grid::{grid_1d, grid_2d};
use crate::device::LaunchConfig;
use assay_operations::ElementFormat::{F32, I32};
use assay_operations::Operand;
use assay_runtime::backend::{KernelArgument, Result};

/// The most experts whose scores and counters fit the shared memory of a CTA.
pub(super) const MAX_EXPERTS: u64 = 4096;

/// How experts are chosen from logits.
#[derive(Clone, Copy)]
pub(super) struct Routing {
    pub top_k: u64,
    pub groups: u64,
    pub top_groups: u64,
}

impl Routing {
    pub fn read(call: &Call<'_>, experts: u64) -> Result<Self> {
        let (top_k, groups) = (call.size("top_k")?, call.size("groups")?);
        let top_groups = call.size("top_groups")?;
        if top_k == 0 || top_k > experts || experts > MAX_EXPERTS {
            let expected = format_args!("top_k of up to {MAX_EXPERTS} experts");
            return Err(call.error(expected, format_args!("{top_k} of {experts}")));
        }
        let divides = groups > 0 && experts.is_multiple_of(groups) && top_groups <= groups;
        if !divides || top_groups * (experts / groups) < top_k {
            let expected = format_args!("groups of {experts} experts that hold {top_k}");
            return Err(call.error(expected, format_args!("{top_groups} of {groups}")));
        }
        Ok(Routing { top_k, groups, top_groups })
    }

    /// The macros of route.cuh.
    pub fn defines(&self, call: &Call<'_>) -> Result<[Define; 3]> {
        let flag = |name| call.integer(name).map(|value| value != 0);
        Ok([
            ("SIGMOID", flag("sigmoid")?.into()),
            ("NORMALIZE", flag("normalize")?.into()),
            ("TOP_TWO_GROUPS", flag("top_two_groups")?.into()),
        ])
    }

    /// Routes each row of logits.
    pub fn launch(
        &self,
        call: &Call<'_>,
        [rows, experts]: [u64; 2],
        [logits, chosen, weights]: [Operand; 3],
        [bias, slots]: [Option<Operand>; 2],
    ) -> Result<()> {
        let function = call.function("route", &self.defines(call)?)?;
        let config = LaunchConfig {
            shared_bytes: (4 * (2 * experts + self.groups)) as u32,
            ..grid_1d(rows, 32)
        };
        let arguments = [
            pointer(logits),
            pointer_or_null(bias),
            pointer_or_null(slots),
            pointer(chosen),
            pointer(weights),
            int(experts),
            int(self.top_k),
            int(self.groups),
            int(self.top_groups),
            KernelArgument::F32(call.float("factor")?),
        ];
        call.queue.launch(&function, config, &arguments)
    }
}

pub(super) fn route(call: &Call<'_>) -> Result<()> {
    let (rows, experts) = (call.size("rows")?, call.size("experts_count")?);
    let routing = Routing::read(call, experts)?;
    let logits = call.typed("logits", F32, &[rows, experts])?;
    let bias = call.optional_typed("bias", F32, &[experts])?;
    let slots = call.optional_typed("slots", I32, &[rows])?;
    let chosen = call.typed("experts", I32, &[rows, routing.top_k])?;
    let weights = call.typed("weights", F32, &[rows, routing.top_k])?;
    if rows == 0 {
        return Ok(());
    }
    let operands = [logits, chosen, weights];
    let optional = [bias, slots];
    routing.launch(call, [rows, experts], operands, optional)
}

/// The weighted sum of the outputs of each row's experts.
pub(super) struct Combination {
    pub rows: u64,
    pub columns: u64,
    pub top_k: u64,
    pub outputs: Operand,
    pub weights: Operand,
    pub residual: Option<Operand>,
    pub shared: Option<Operand>,
    pub gates: Option<Operand>,
    pub out: Operand,
}

impl Combination {
    pub fn launch(&self, call: &Call<'_>) -> Result<()> {
        if self.rows * self.columns == 0 {
            return Ok(());
        }
        if self.rows > 65_535 {
            return Err(call.error("at most 65535 rows", self.rows));
        }
        let operands = [Some(self.outputs), self.residual, self.shared, Some(self.out)];
        let vector = vector(self.outputs.format, self.columns, &operands);
        let element = call.float_type("outputs", self.outputs)?;
        let defines: [Define; 2] = [("ELEMENT", element.into()), ("VECTOR", vector.into())];
        let function = call.function("combine_experts", &defines)?;
        let threads = 128;
        let arguments = [
            pointer(self.outputs),
            pointer(self.weights),
            pointer_or_null(self.residual),
            pointer_or_null(self.shared),
            pointer_or_null(self.gates),
            pointer(self.out),
            int(self.columns),
            int(self.top_k),
        ];
        let ctas_x = self.columns.div_ceil(vector * threads);
        call.queue.launch(&function, grid_2d(ctas_x, self.rows, threads), &arguments)
    }
}

pub(super) fn combine_experts(call: &Call<'_>) -> Result<()> {
    let (rows, columns) = (call.size("rows")?, call.size("columns")?);
    let top_k = call.size("top_k")?;
    let outputs = call.operand("outputs", &[rows, top_k, columns])?;
    let combination = Combination {
        rows,
        columns,
        top_k,
        outputs,
        weights: call.typed("weights", F32, &[rows, top_k])?,
        residual: call.optional_typed("residual", outputs.format, &[rows, columns])?,
        shared: call.optional_typed("shared", outputs.format, &[rows, columns])?,
        gates: call.optional_typed("gates", F32, &[rows])?,
        out: call.typed("out", outputs.format, &[rows, columns])?,
    };
    combination.launch(call)
}
