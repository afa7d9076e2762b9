//! The service classes of tasks.

use std::fmt;

/// A task's quality-of-service class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Reserves bandwidth and is served from its reservation before all others.
    Guaranteed,
    /// May reserve bandwidth, and shares the rest by weight.
    Burstable,
    /// Reserves no bandwidth, and shares the rest by weight.
    BestEffort,
}

impl Class {
    /// The class of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Class::Guaranteed, Class::Burstable, Class::BestEffort];
        all.into_iter().find(|class| class.name() == name)
    }

    /// The class's name.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Guaranteed => "guaranteed",
            Class::Burstable => "burstable",
            Class::BestEffort => "best-effort",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
