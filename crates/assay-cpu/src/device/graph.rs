//! Captured graphs, with what each of their branches does.

use assay_runtime::streams::{CapturedCommand, CapturedGraph};

/// One command of a branch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Runs a node.
    Node(u32),
    /// Resolves the waits for this record.
    Record(usize),
    /// Blocks the branch until this record is resolved.
    Wait(usize),
}

/// The work of a captured graph, in the order of capture, which keeps every dependency.
#[derive(Debug)]
pub(super) struct BranchedGraph<W> {
    pub works: Vec<W>,
    /// What the branches do, each step with its branch, in the order of capture.
    pub steps: Vec<(usize, Step)>,
    pub branches: usize,
    pub records: usize,
}

impl<W> BranchedGraph<W> {
    pub fn new<Q>(captured: CapturedGraph<Q>, work_of: impl Fn(Q) -> W) -> Self {
        let mut works = Vec::new();
        let steps = captured.commands.into_iter().map(|(branch, command)| {
            let step = match command {
                CapturedCommand::Work(queued) => {
                    works.push(work_of(queued));
                    Step::Node(works.len() as u32 - 1)
                }
                CapturedCommand::Record(record) => Step::Record(record),
                CapturedCommand::Wait(record) => Step::Wait(record),
            };
            (branch, step)
        });
        let steps = steps.collect();
        BranchedGraph { works, steps, branches: captured.branches, records: captured.records }
    }
}
