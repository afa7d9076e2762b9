//! Tracks which work used an allocation last, to order later work after it.

use assay_runtime::backend::StreamId;
use assay_runtime::dispatch::{DispatchError, WorkId};

/// The latest work of one stream that used an allocation.
struct LastUse {
    stream: StreamId,
    work: WorkId,
    /// The latest work that wrote it.
    write: Option<WorkId>,
}

/// The unfinished work of every stream that uses an allocation.
///
/// One stream is the common case and is stored inline.
#[derive(Default)]
pub(super) struct Uses {
    first: Option<LastUse>,
    others: Vec<LastUse>,
}

impl Uses {
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn all(&self) -> impl Iterator<Item = &LastUse> {
        self.first.iter().chain(&self.others)
    }

    /// Keeps the entries for which the predicate holds.
    fn retain(&mut self, holds: impl Fn(&LastUse) -> bool) {
        self.others.retain(&holds);
        if !self.first.as_ref().is_some_and(holds) {
            self.first = self.others.pop();
        }
    }

    /// Appends the work of other streams that work of `stream` must run after.
    pub fn dependencies(&self, stream: StreamId, writes: bool, after: &mut Vec<WorkId>) {
        for last in self.all().filter(|last| last.stream != stream) {
            let earlier = if writes { Some(last.work) } else { last.write };
            after.extend(earlier);
        }
    }

    /// Records the latest work of a stream.
    pub fn note(&mut self, stream: StreamId, work: WorkId, writes: bool) {
        let mut all = self.first.iter_mut().chain(&mut self.others);
        if let Some(last) = all.find(|last| last.stream == stream) {
            last.work = work;
            last.write = if writes { Some(work) } else { last.write };
            return;
        }
        let newest = LastUse { stream, work, write: writes.then_some(work) };
        match self.first {
            Some(_) => self.others.push(newest),
            None => self.first = Some(newest),
        }
    }

    /// The streams with recorded work.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.all().map(|last| last.stream)
    }

    /// The latest work of every stream.
    pub fn works(&self) -> Vec<WorkId> {
        self.all().map(|last| last.work).collect()
    }

    /// The latest writing work of every stream.
    pub fn writes(&self) -> Vec<WorkId> {
        self.all().filter_map(|last| last.write).collect()
    }

    /// Removes failed work, and returns the error of the first that writes.
    pub fn take_failure(
        &mut self,
        failure: impl Fn(WorkId) -> Option<DispatchError>,
    ) -> Option<DispatchError> {
        let writes = self.all().filter_map(|last| last.write);
        let poisoned = writes.filter_map(&failure).next();
        self.retain(|last| failure(last.work).is_none());
        poisoned
    }

    /// Removes completed work.
    pub fn forget(&mut self, over: &[WorkId]) {
        self.retain(|last| !over.contains(&last.work));
    }
}
