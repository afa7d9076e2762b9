//! Remembers who has what, down to the line that asked for it.

use crate::backend::{Space, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{
    Allocation, CallSite, MemoryResource, Request, Result, TenantId, Usage,
};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// One allocation not yet given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outstanding {
    /// Counts allocations from one.
    pub serial: u64,
    /// The memory.
    pub allocation: Allocation,
    /// The stream it was asked for.
    pub stream: StreamId,
    /// Who is charged.
    pub tenant: TenantId,
    /// Who asked.
    pub site: CallSite,
}

#[derive(Default)]
struct Book {
    last_serial: u64,
    live: HashMap<Allocation, Outstanding>,
}

/// Adds a record of outstanding allocations to a resource.
pub struct Tracking<R> {
    inner: R,
    book: Mutex<Book>,
}

impl<R: MemoryResource> Tracking<R> {
    /// Tracks from here on.
    pub fn new(inner: R) -> Self {
        Tracking {
            inner,
            book: Mutex::new(Book::default()),
        }
    }

    /// The resource below.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    fn book(&self) -> Result<MutexGuard<'_, Book>> {
        self.book.lock().map_err(|_| MemoryError::Poisoned {
            resource: "tracking adaptor",
        })
    }

    /// Everything not yet given back, oldest first.
    pub fn outstanding(&self) -> Result<Vec<Outstanding>> {
        let mut live: Vec<Outstanding> = self.book()?.live.values().copied().collect();
        live.sort_by_key(|entry| entry.serial);
        Ok(live)
    }

    /// Outstanding memory by call site, one line each, most bytes first.
    pub fn report(&self) -> Result<String> {
        let mut by_site: BTreeMap<CallSite, (u64, u64)> = BTreeMap::new();
        for entry in self.outstanding()? {
            let (bytes, count) = by_site.entry(entry.site).or_default();
            *bytes += entry.allocation.bytes();
            *count += 1;
        }
        let mut sites: Vec<_> = by_site.into_iter().collect();
        sites.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
        let mut text = String::new();
        for (site, (bytes, count)) in sites {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{}:{}: {bytes} bytes in {count} allocations",
                site.file, site.line
            );
        }
        Ok(text)
    }
}

impl<R: MemoryResource> MemoryResource for Tracking<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let allocation = self.inner.allocate(request)?;
        if allocation.bytes() > 0 {
            let mut book = self.book()?;
            book.last_serial += 1;
            let entry = Outstanding {
                serial: book.last_serial,
                allocation,
                stream: request.stream,
                tenant: request.tenant,
                site: request.site,
            };
            book.live.insert(allocation, entry);
        }
        Ok(allocation)
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        self.inner.deallocate(allocation, stream)?;
        self.book()?.live.remove(&allocation);
        Ok(())
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}
