//! Spilling and restoring: the copies, their order, and what is undone when they fail.

use super::{BufferId, Direction, KEPT_MOVEMENTS, Movement, Place, Residency, State};
use crate::backend::{BackendError, EventId, Operation, StreamId};
use crate::memory::error::MemoryError;
use crate::memory::resource::{Allocation, Request, Result, TenantId};

impl Residency {
    /// Device memory, after evicting as many buffers as it takes.
    pub(super) fn allocate(&self, state: &mut State, request: &Request) -> Result<Allocation> {
        loop {
            let shortage = match self.device.allocate(request) {
                Err(error) if error.is_pressure() => error,
                outcome => return outcome,
            };
            if !self.evict_oldest(state, &shortage, request.stream, request.tenant)? {
                return Err(shortage);
            }
        }
    }

    pub(super) fn evict_oldest(
        &self,
        state: &mut State,
        shortage: &MemoryError,
        stream: StreamId,
        tenant: TenantId,
    ) -> Result<bool> {
        // Another tenant's memory does not help against this one's quota.
        let by_quota = matches!(shortage, MemoryError::QuotaExceeded { .. });
        let victim = state
            .order
            .iter()
            .map(|index| state.id(index))
            .find(|&buffer| {
                state.entry(buffer).is_ok_and(|entry| {
                    entry.leases == 0
                        && entry.request.bytes > 0
                        && (!by_quota || entry.request.tenant == tenant)
                })
            });
        match victim {
            Some(buffer) => {
                self.spill(state, buffer, self.copying_stream(stream))?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Where copies for this stream are queued: the host has no queue of its own.
    pub(super) fn copying_stream(&self, stream: StreamId) -> StreamId {
        match stream {
            StreamId::HOST => self.backend.default_stream(),
            stream => stream,
        }
    }

    /// Refuses streams on which a copy would be noted for later instead of queued now.
    fn outside_capture(&self, stream: StreamId) -> Result<()> {
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

    /// Makes `stream` wait for everything queued on the buffer so far.
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
                // A wait holds the mark as it was when queued, so one event serves all.
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
        let Some((event, on)) = entry.moved else {
            return Ok(());
        };
        if self.backend.query_event(event)? {
            entry.moved = None;
            state.spare_events.push(event);
        } else if on != stream {
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

    /// Copies a buffer to the host and gives its device memory back, in the order of `stream`.
    pub(super) fn spill(
        &self,
        state: &mut State,
        buffer: BufferId,
        stream: StreamId,
    ) -> Result<()> {
        let entry = state.entry(buffer)?;
        let Place::Device(from) = entry.place else {
            return Ok(());
        };
        let request = Request {
            stream,
            ..entry.request
        };
        self.outside_capture(stream)?;
        let to = self.host.allocate(&Request {
            tenant: TenantId::DEFAULT,
            ..request
        })?;
        let copied = self
            .order_after_users(state, buffer, stream)
            .and_then(|()| self.copy_and_mark(state, from, to, stream));
        let event = match copied {
            Ok(event) => event,
            Err(error) => {
                // The device still has the only good copy; the host memory is not needed.
                self.host.deallocate(to, stream)?;
                return Err(error);
            }
        };
        self.device.deallocate(from, stream)?;
        state.order.remove(buffer.index);
        state.usage.resident_bytes -= request.bytes;
        state.usage.spilled_bytes += request.bytes;
        state.usage.spills += 1;
        self.moved(state, buffer, Place::Host(to), event, stream)
    }

    /// Copies a buffer back to the device and gives its host memory back, in stream order.
    pub(super) fn restore(
        &self,
        state: &mut State,
        buffer: BufferId,
        stream: StreamId,
    ) -> Result<Allocation> {
        let entry = state.entry(buffer)?;
        let from = match entry.place {
            Place::Host(allocation) => allocation,
            Place::Device(allocation) => return Ok(allocation),
        };
        let request = Request {
            stream,
            ..entry.request
        };
        self.outside_capture(stream)?;
        let to = self.allocate(state, &request)?;
        let copied = self
            .order_after_movement(state, buffer, stream)
            .and_then(|()| self.copy_and_mark(state, from, to, stream));
        let event = match copied {
            Ok(event) => event,
            Err(error) => {
                // The host still has the only good copy; the device memory is not needed.
                self.device.deallocate(to, stream)?;
                return Err(error);
            }
        };
        self.host.deallocate(from, stream)?;
        state.usage.spilled_bytes -= request.bytes;
        state.usage.resident_bytes += request.bytes;
        state.usage.restores += 1;
        self.moved(state, buffer, Place::Device(to), event, stream)?;
        Ok(to)
    }

    /// Queues the copy and an event after it.
    fn copy_and_mark(
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

    /// Books a movement that was queued.
    fn moved(
        &self,
        state: &mut State,
        buffer: BufferId,
        place: Place,
        event: EventId,
        stream: StreamId,
    ) -> Result<()> {
        let entry = state.entry_mut(buffer)?;
        let direction = match place {
            Place::Device(_) => Direction::Restored,
            Place::Host(_) => Direction::Spilled,
        };
        let earlier = entry.moved.replace((event, stream));
        entry.place = place;
        // The stream waited for all earlier users, so it alone counts from here.
        entry.users.clear();
        let bytes = entry.request.bytes;
        state.spare_events.extend(earlier.map(|(event, _)| event));
        if state.movements.len() == KEPT_MOVEMENTS {
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
