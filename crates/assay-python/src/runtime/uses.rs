//! Which work used a piece of memory last, so that later work comes after it.

use assay_core::backend::StreamId;
use assay_core::dispatch::{DispatchError, WorkId};

/// The latest work of one stream that used a piece of memory.
struct LastUse {
    stream: StreamId,
    work: WorkId,
    /// The latest work that wrote.
    write: Option<WorkId>,
}

/// The unfinished work of every stream that uses a piece of memory.
#[derive(Default)]
pub(super) struct Uses(Vec<LastUse>);

impl Uses {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the work of other streams that work of `stream` must come after.
    pub fn dependencies(&self, stream: StreamId, writes: bool, after: &mut Vec<WorkId>) {
        for last in self.0.iter().filter(|last| last.stream != stream) {
            let earlier = if writes { Some(last.work) } else { last.write };
            after.extend(earlier);
        }
    }

    /// Notes the newest work of a stream.
    pub fn note(&mut self, stream: StreamId, work: WorkId, writes: bool) {
        match self.0.iter_mut().find(|last| last.stream == stream) {
            Some(last) => {
                last.work = work;
                last.write = if writes { Some(work) } else { last.write };
            }
            None => self.0.push(LastUse {
                stream,
                work,
                write: writes.then_some(work),
            }),
        }
    }

    /// The newest work of every stream.
    pub fn works(&self) -> Vec<WorkId> {
        self.0.iter().map(|last| last.work).collect()
    }

    /// The newest work of every stream that wrote.
    pub fn writes(&self) -> Vec<WorkId> {
        self.0.iter().filter_map(|last| last.write).collect()
    }

    /// Forgets work that failed, and gives why the first of it that was to write did.
    pub fn sort_out(
        &mut self,
        failure: impl Fn(WorkId) -> Option<DispatchError>,
    ) -> Option<DispatchError> {
        let writes = self.0.iter().filter_map(|last| last.write);
        let spoilt = writes.filter_map(&failure).next();
        self.0.retain(|last| failure(last.work).is_none());
        spoilt
    }

    /// Forgets work that is over.
    pub fn forget(&mut self, over: &[WorkId]) {
        self.0.retain(|last| !over.contains(&last.work));
    }
}
