//! The discrete-event core: streams feed engines, virtual time moves from completion to completion.
//!
//! A piece of work takes effect on memory when it completes, not when it is queued. Code that
//! reuses memory too early, or reads it too soon, therefore sees wrong bytes here as it would on
//! a device.

use super::command::{Command, Engine, SimSpan, Work};
use super::device::{Device, Failure, Mark, Running};
use super::kernel::SimKernel;
use crate::backend::{BackendError, CopyDirection, Result, StreamId};
use std::cmp::Reverse;

impl Device {
    /// Lets everything happen that happens up to `instant_ns`.
    pub fn advance_to(&mut self, instant_ns: u64) {
        loop {
            self.start_ready();
            match self.completions.peek() {
                Some(Reverse((end_ns, ..))) if *end_ns <= instant_ns => self.complete_next(),
                _ => break,
            }
        }
        self.frontier_ns = self.frontier_ns.max(instant_ns);
    }

    /// Lets time pass until `reached` holds or nothing is left to happen.
    pub fn advance_until(&mut self, reached: impl Fn(&Device) -> bool) {
        loop {
            self.start_ready();
            if reached(self) || self.completions.is_empty() {
                return;
            }
            self.complete_next();
        }
    }

    pub fn next_completion_ns(&mut self) -> Option<u64> {
        self.start_ready();
        self.completions.peek().map(|Reverse((end_ns, ..))| *end_ns)
    }

    fn start_ready(&mut self) {
        loop {
            let mut moved = self.pass_marks();
            for engine in Engine::ALL {
                moved |= !self.busy[engine as usize] && self.start_on(engine);
            }
            if !moved {
                return;
            }
        }
    }

    /// Takes what needs no time off the heads of all queues.
    fn pass_marks(&mut self) -> bool {
        let mut moved = false;
        let streams: Vec<StreamId> = self.active.iter().copied().collect();
        for id in streams {
            while let Some(command) = self.take_mark(id) {
                moved = true;
                self.pass(id, command);
            }
            if let Some(stream) = self.streams.get(&id)
                && stream.is_idle()
            {
                self.active.remove(&id);
                if stream.closed {
                    self.streams.remove(&id);
                }
            }
        }
        moved
    }

    /// The head of the queue, if it can go without an engine.
    fn take_mark(&mut self, id: StreamId) -> Option<Command> {
        let stream = self.streams.get_mut(&id)?;
        if stream.running.is_some() {
            return None;
        }
        let passes = match &stream.queue.front()?.1 {
            Command::Record { .. } => true,
            Command::Wait { ticket } => !self.pending_tickets.contains(ticket),
            // A failed stream does no more work, and lets those who wait for it know.
            Command::Work { .. } => stream.failure.is_some(),
        };
        if passes {
            stream.queue.pop_front().map(|(_, command)| command)
        } else {
            None
        }
    }

    fn pass(&mut self, id: StreamId, command: Command) {
        let failure = self.failure(id);
        match command {
            Command::Work { .. } => {}
            Command::Wait { ticket } => {
                let inherited = self.failed_tickets.get(&ticket).cloned();
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.failure = stream.failure.take().or(inherited);
                }
            }
            Command::Record { ticket, event } => {
                self.pending_tickets.remove(&ticket);
                if let Some(failure) = &failure {
                    self.failed_tickets.insert(ticket, failure.clone());
                }
                let mark = event.and_then(|event| self.events.get_mut(&event));
                if let Some(mark) = mark.filter(|mark| **mark == (Mark::Pending { ticket })) {
                    *mark = match failure {
                        Some(failure) => Mark::Failed(failure),
                        None => Mark::Finished {
                            time_ns: self.frontier_ns,
                        },
                    };
                }
            }
        }
    }

    /// Starts the most urgent, then oldest, work that waits for this engine.
    fn start_on(&mut self, engine: Engine) -> bool {
        let waiting = self.active.iter().filter_map(|id| {
            let stream = self.streams.get(id)?;
            match stream.queue.front()? {
                (sequence, Command::Work { work, .. })
                    if stream.running.is_none() && work.engine() == engine =>
                {
                    Some((Reverse(stream.priority), *sequence, *id))
                }
                _ => None,
            }
        });
        let Some((_, sequence, id)) = waiting.min() else {
            return false;
        };
        let Some(stream) = self.streams.get_mut(&id) else {
            return false;
        };
        let Some((_, Command::Work { work, fails, node })) = stream.queue.pop_front() else {
            return false;
        };
        stream.running = Some(Running {
            work: work.clone(),
            fails,
            node,
            start_ns: self.frontier_ns,
        });
        self.busy[engine as usize] = true;
        let end_ns = self.frontier_ns.saturating_add(self.duration_ns(&work));
        self.completions.push(Reverse((end_ns, sequence, id)));
        true
    }

    fn duration_ns(&self, work: &Work) -> u64 {
        match work {
            Work::Copy {
                source,
                destination,
                bytes,
            } => {
                let direction = CopyDirection::between(*source, *destination);
                self.profile.link(direction).duration_ns(*bytes)
            }
            Work::Fill {
                destination, bytes, ..
            } => {
                let link = self.profile.fill_link(destination.space());
                link.duration_ns(*bytes)
            }
            Work::Launch(launch) => match self.kernels.get(&launch.kernel) {
                Some(kernel) => (kernel.duration_ns)(launch),
                None => 0,
            },
        }
    }

    fn complete_next(&mut self) {
        let Some(Reverse((end_ns, _, id))) = self.completions.pop() else {
            return;
        };
        self.frontier_ns = self.frontier_ns.max(end_ns);
        let running = match self.streams.get_mut(&id) {
            Some(stream) => stream.running.take(),
            None => None,
        };
        let Some(running) = running else {
            return;
        };
        let engine = running.work.engine();
        self.busy[engine as usize] = false;
        let outcome = match running.fails {
            true => Err("a fault plan had it fail".to_owned()),
            false => self
                .take_effect(&running.work)
                .map_err(BackendError::into_words),
        };
        if let (Err(message), Some(stream)) = (outcome, self.streams.get_mut(&id)) {
            stream.failure = Some(Failure {
                operation: running.work.operation(),
                stream: running.node.map_or(id, |(launched_on, _)| launched_on),
                node: running.node.map(|(_, piece)| piece),
                message: message.into(),
            });
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.push(SimSpan {
                stream: id,
                operation: running.work.operation(),
                engine,
                kernel: running.work.kernel(),
                bytes: running.work.bytes(),
                start_ns: running.start_ns,
                end_ns,
            });
        }
    }

    /// Drops what is queued behind a failure, fails the marks there, and lets the stream go on.
    pub fn recover(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.failure.is_none() {
            return;
        }
        let dropped = std::mem::take(&mut stream.queue);
        for (_, command) in dropped {
            self.pass(id, command);
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.failure = None;
        }
    }

    fn take_effect(&mut self, work: &Work) -> Result<()> {
        match work {
            Work::Copy {
                source,
                destination,
                bytes,
            } => self.memory.copy(*source, *destination, *bytes),
            Work::Fill {
                destination,
                value,
                bytes,
            } => self.memory.fill(*destination, *value, *bytes),
            Work::Launch(launch) => match self.kernels.get(&launch.kernel) {
                Some(SimKernel {
                    body: Some(body), ..
                }) => body(launch, &mut self.memory),
                _ => Ok(()),
            },
        }
    }
}
