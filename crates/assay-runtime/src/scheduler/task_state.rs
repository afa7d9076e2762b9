//! The states of a task and the transitions allowed between them.

use std::fmt;

/// A task's state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaskState {
    /// Waiting for admission.
    Pending,
    /// Holds its reservation and may start.
    Admitted,
    /// May request grants.
    Running,
    /// Gets no grants until resumed.
    Paused,
    /// Finished successfully.
    Done,
    /// Ended by an error or a panic.
    Failed,
    /// Ended by cancellation.
    Cancelled,
}

impl TaskState {
    /// Every state.
    pub const ALL: [TaskState; 7] = [
        TaskState::Pending,
        TaskState::Admitted,
        TaskState::Running,
        TaskState::Paused,
        TaskState::Done,
        TaskState::Failed,
        TaskState::Cancelled,
    ];

    /// The state's name.
    pub const fn name(self) -> &'static str {
        match self {
            TaskState::Pending => "pending",
            TaskState::Admitted => "admitted",
            TaskState::Running => "running",
            TaskState::Paused => "paused",
            TaskState::Done => "done",
            TaskState::Failed => "failed",
            TaskState::Cancelled => "cancelled",
        }
    }

    /// Whether no transition leaves this state.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            TaskState::Done | TaskState::Failed | TaskState::Cancelled
        )
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

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
