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
    /// What each branch does; branch 0 is that of the launching stream.
    pub branches: Vec<Vec<Step>>,
    pub records: usize,
}

impl<W> BranchedGraph<W> {
    pub fn new<Q>(captured: CapturedGraph<Q>, work_of: impl Fn(Q) -> W) -> Self {
        let mut works = Vec::new();
        let mut branches = vec![Vec::new(); captured.branches];
        for (branch, command) in captured.commands {
            let step = match command {
                CapturedCommand::Work(queued) => {
                    works.push(work_of(queued));
                    Step::Node(works.len() as u32 - 1)
                }
                CapturedCommand::Record(record) => Step::Record(record),
                CapturedCommand::Wait(record) => Step::Wait(record),
            };
            if let Some(steps) = branches.get_mut(branch) {
                steps.push(step);
            }
        }
        BranchedGraph {
            works,
            branches,
            records: captured.records,
        }
    }

    /// Whether parts of it may run at the same time.
    pub fn is_concurrent(&self) -> bool {
        self.branches.len() > 1
    }
}
