//! Spill and restore: the copies, their stream order, and rollback on failure.

use super::{BufferId, Direction, Location, MOVEMENT_LOG_CAPACITY, Movement, Residency, State};
use crate::backend::{BackendError, EventId, Operation, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{Allocation, Request, Result, TenantId};

impl Residency {
    /// Allocates device memory, evicting as many buffers as necessary.
    pub(super) fn allocate(&self, state: &mut State, request: &Request) -> Result<Allocation> {
        loop {
            let pressure = match self.device.allocate(request) {
                Err(error) if error.is_pressure() => error,
                outcome => return outcome,
            };
            if !self.evict_lru(state, &pressure, request.stream, request.tenant)? {
                return Err(pressure);
            }
        }
    }

    pub(super) fn evict_lru(
        &self,
        state: &mut State,
        pressure: &MemoryError,
        stream: StreamId,
        tenant: TenantId,
    ) -> Result<bool> {
        // Evicting another tenant's buffer does not help against this tenant's quota.
        let by_quota = matches!(pressure, MemoryError::QuotaExceeded { .. });
        let victim = state.lru.iter().map(|index| state.id(index)).find(|&buffer| {
            state.entry(buffer).is_ok_and(|entry| {
                entry.leases == 0
                    && entry.request.bytes > 0
                    && (!by_quota || entry.request.tenant == tenant)
            })
        });
        match victim {
            Some(buffer) => {
                self.spill(state, buffer, self.copy_stream(stream))?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// The stream of the copies: the default stream for the host, which has no queue.
    pub(super) fn copy_stream(&self, stream: StreamId) -> StreamId {
        match stream {
            StreamId::HOST => self.backend.default_stream(),
            stream => stream,
        }
    }

    /// Fails for a stream under capture, where the copy would be captured instead of queued.
    fn check_not_capturing(&self, stream: StreamId) -> Result<()> {
        if self.backend.is_capturing(stream)? {
            let operation = Operation::Copy;
            return Err(BackendError::Capturing { operation, stream }.into());
        }
        Ok(())
    }

    fn event(&self, state: &mut State) -> Result<EventId> {
        match state.spare_events.pop() {
            Some(event) => Ok(event),
            None => Ok(self.backend.create_event()?),
        }
    }

    /// Makes `stream` wait for all work queued on the buffer so far.
    pub(super) fn order_after_users(
        &self,
        state: &mut State,
        buffer: BufferId,
        stream: StreamId,
    ) -> Result<()> {
        self.order_after_movement(state, buffer, stream)?;
        let event = self.event(state)?;
        let outcome = state.entry(buffer).and_then(|entry| {
            for user in entry.users.iter().filter(|user| **user != stream) {
                // A wait refers to the record at the time it was queued, so one event serves all.
                self.backend.record_event(event, *user)?;
                self.wait(stream, event)?;
            }
            Ok(())
        });
        state.spare_events.push(event);
        outcome
    }

    /// Makes `stream` wait for the last spill or restore of the buffer.
    pub(super) fn order_after_movement(
        &self,
        state: &mut State,
        buffer: BufferId,
        stream: StreamId,
    ) -> Result<()> {
        let entry = state.entry_mut(buffer)?;
        let Some((event, copy_stream)) = entry.last_copy else {
            return Ok(());
        };
        if self.backend.query_event(event)? {
            entry.last_copy = None;
            state.spare_events.push(event);
        } else if copy_stream != stream {
            self.wait(stream, event)?;
        }
        Ok(())
    }

    fn wait(&self, stream: StreamId, event: EventId) -> Result<()> {
        if stream == StreamId::HOST {
            return Ok(self.backend.synchronize_event(event)?);
        }
        Ok(self.backend.wait_event(stream, event)?)
    }

    /// Copies a buffer to the host and frees its device memory, in the order of `stream`.
    pub(super) fn spill(
        &self,
        state: &mut State,
        buffer: BufferId,
        stream: StreamId,
    ) -> Result<()> {
        let entry = state.entry(buffer)?;
        let Location::Device(from) = entry.location else {
            return Ok(());
        };
        let request = Request { stream, ..entry.request };
        self.check_not_capturing(stream)?;
        let to = self.host.allocate(&Request { tenant: TenantId::DEFAULT, ..request })?;
        let copied = self
            .order_after_users(state, buffer, stream)
            .and_then(|()| self.copy_and_record(state, from, to, stream));
        let event = match copied {
            Ok(event) => event,
            Err(error) => {
                // The device memory is still the valid copy.
                self.host.deallocate(to, stream)?;
                return Err(error);
            }
        };
        self.device.deallocate(from, stream)?;
        state.lru.remove(buffer.index);
        state.usage.resident_bytes -= request.bytes;
        state.usage.spilled_bytes += request.bytes;
        state.usage.spills += 1;
        self.finish_movement(state, buffer, Location::Host(to), event, stream)
    }

    /// Copies a buffer back to the device and frees its host memory, in the order of `stream`.
    pub(super) fn restore(
        &self,
        state: &mut State,
        buffer: BufferId,
        stream: StreamId,
    ) -> Result<Allocation> {
        let entry = state.entry(buffer)?;
        let from = match entry.location {
            Location::Host(allocation) => allocation,
            Location::Device(allocation) => return Ok(allocation),
        };
        let request = Request { stream, ..entry.request };
        self.check_not_capturing(stream)?;
        let to = self.allocate(state, &request)?;
        let copied = self
            .order_after_movement(state, buffer, stream)
            .and_then(|()| self.copy_and_record(state, from, to, stream));
        let event = match copied {
            Ok(event) => event,
            Err(error) => {
                // The host memory is still the valid copy.
                self.device.deallocate(to, stream)?;
                return Err(error);
            }
        };
        self.host.deallocate(from, stream)?;
        state.usage.spilled_bytes -= request.bytes;
        state.usage.resident_bytes += request.bytes;
        state.usage.restores += 1;
        self.finish_movement(state, buffer, Location::Device(to), event, stream)?;
        Ok(to)
    }

    /// Queues the copy and records an event after it.
    fn copy_and_record(
        &self,
        state: &mut State,
        from: Allocation,
        to: Allocation,
        stream: StreamId,
    ) -> Result<EventId> {
        let event = self.event(state)?;
        let queued = self
            .backend
            .copy(stream, from.address(), to.address(), from.bytes())
            .and_then(|()| self.backend.record_event(event, stream));
        match queued {
            Ok(()) => Ok(event),
            Err(error) => {
                state.spare_events.push(event);
                Err(error.into())
            }
        }
    }

    /// Updates the buffer and the log after its copy was queued.
    fn finish_movement(
        &self,
        state: &mut State,
        buffer: BufferId,
        location: Location,
        event: EventId,
        stream: StreamId,
    ) -> Result<()> {
        let entry = state.entry_mut(buffer)?;
        let direction = match location {
            Location::Device(_) => Direction::Restored,
            Location::Host(_) => Direction::Spilled,
        };
        let previous = entry.last_copy.replace((event, stream));
        entry.location = location;
        // The stream waited for all earlier users, so waiting for its copy suffices.
        entry.users.clear();
        let bytes = entry.request.bytes;
        state.spare_events.extend(previous.map(|(event, _)| event));
        if state.movements.len() == MOVEMENT_LOG_CAPACITY {
            state.movements.pop_front();
            state.usage.dropped_movements += 1;
        }
        state.movements.push_back(Movement {
            time_ns: self.backend.clock().now_ns(),
            buffer,
            direction,
            bytes,
            stream,
        });
        Ok(())
    }
}
