//! The service classes of tasks.

use assay_collections::named;

named! {
    /// A task's quality-of-service class.
    pub enum Class {
        /// Reserves bandwidth and is served from its reservation before all others.
        Guaranteed = "guaranteed",
        /// May reserve bandwidth, and shares the rest by weight.
        Burstable = "burstable",
        /// Reserves no bandwidth, and shares the rest by weight.
        BestEffort = "best-effort",
    }
}
