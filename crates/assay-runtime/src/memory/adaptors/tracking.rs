//! Tracks outstanding allocations with the call sites that requested them.

use crate::backend::{Space, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{
    Allocation, CallSite, MemoryResource, Request, Result, TenantId, Usage,
};
use crate::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// One allocation that was not deallocated yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outstanding {
    /// Counts allocations from one.
    pub serial: u64,
    /// The memory.
    pub allocation: Allocation,
    /// The stream of the request.
    pub stream: StreamId,
    /// The tenant that is charged.
    pub tenant: TenantId,
    /// The line that requested it.
    pub site: CallSite,
}

#[derive(Default)]
struct OutstandingTable {
    last_serial: u64,
    live: HashMap<Allocation, Outstanding>,
}

/// Adds a table of outstanding allocations to a resource.
pub struct TrackingAdaptor<R> {
    inner: R,
    table: Mutex<OutstandingTable>,
}

impl<R: MemoryResource> TrackingAdaptor<R> {
    /// Tracks the allocations made through it.
    pub fn new(inner: R) -> Self {
        TrackingAdaptor { inner, table: Mutex::new(OutstandingTable::default()) }
    }

    /// The upstream resource.
    pub fn inner(&self) -> &R {
        &self.inner
    }

    fn table(&self) -> Result<MutexGuard<'_, OutstandingTable>> {
        self.table.lock().map_err(|_| MemoryError::Poisoned { resource: "tracking adaptor" })
    }

    /// All outstanding allocations, oldest first.
    pub fn outstanding(&self) -> Result<Vec<Outstanding>> {
        let mut live: Vec<Outstanding> = self.table()?.live.values().copied().collect();
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
            let _ =
                writeln!(text, "{}:{}: {bytes} bytes in {count} allocations", site.file, site.line);
        }
        Ok(text)
    }
}

impl<R: MemoryResource> MemoryResource for TrackingAdaptor<R> {
    fn space(&self) -> Space {
        self.inner.space()
    }

    fn allocate(&self, request: &Request) -> Result<Allocation> {
        let allocation = self.inner.allocate(request)?;
        if allocation.bytes() > 0 {
            let mut table = self.table()?;
            table.last_serial += 1;
            let entry = Outstanding {
                serial: table.last_serial,
                allocation,
                stream: request.stream,
                tenant: request.tenant,
                site: request.site,
            };
            table.live.insert(allocation, entry);
        }
        Ok(allocation)
    }

    fn deallocate(&self, allocation: Allocation, stream: StreamId) -> Result<()> {
        self.inner.deallocate(allocation, stream)?;
        self.table()?.live.remove(&allocation);
        Ok(())
    }

    fn usage(&self) -> Result<Usage> {
        self.inner.usage()
    }
}
