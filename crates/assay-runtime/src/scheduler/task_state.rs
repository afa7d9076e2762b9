//! The states of a task and the transitions allowed between them.

use assay_collections::named;

named! {
    /// A task's state.
    pub enum TaskState {
        /// Waiting for admission.
        Pending = "pending",
        /// Holds its reservation and may start.
        Admitted = "admitted",
        /// May request grants.
        Running = "running",
        /// Gets no grants until resumed.
        Paused = "paused",
        /// Finished successfully.
        Done = "done",
        /// Ended by an error or a panic.
        Failed = "failed",
        /// Ended by cancellation.
        Cancelled = "cancelled",
    }
}

impl TaskState {
    /// Whether no transition leaves this state.
    pub const fn is_final(self) -> bool {
        matches!(self, TaskState::Done | TaskState::Failed | TaskState::Cancelled)
    }

    /// Whether the transition from this state to `next` is allowed.
    ///
    /// A paused task that released its reservation goes through [`TaskState::Pending`] again.
    pub const fn allows(self, next: TaskState) -> bool {
        use TaskState::*;
        match self {
            Pending => matches!(next, Admitted | Failed | Cancelled),
            Admitted => matches!(next, Running | Failed | Cancelled),
            Running => matches!(next, Paused | Done | Failed | Cancelled),
            Paused => matches!(next, Running | Pending | Failed | Cancelled),
            Done | Failed | Cancelled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_transitions_are_allowed() {
        let allowed = [
            "pending admitted",
            "pending failed",
            "pending cancelled",
            "admitted running",
            "admitted failed",
            "admitted cancelled",
            "running paused",
            "running done",
            "running failed",
            "running cancelled",
            "paused pending",
            "paused running",
            "paused failed",
            "paused cancelled",
        ];
        let mut found = Vec::new();
        for from in TaskState::ALL {
            for to in TaskState::ALL {
                if from.allows(to) {
                    found.push(format!("{from} {to}"));
                }
            }
        }
        assert_eq!(found, allowed);
    }
}
