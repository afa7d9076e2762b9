//! The discrete-event loop: streams feed engines, virtual time moves from completion to completion.
//!
//! Work takes effect on memory when it completes, not when it is queued. Code that reuses memory
//! too early, or reads it too soon, therefore sees wrong bytes here as it would on a device.

use super::delay;
use super::device::{Device, Running};
use super::kernel::SimKernel;
use super::work::{Engine, SimSpan, Work};
use crate::backend::{BackendError, CopyDirection, Result};
use crate::streams::StreamFailure;

/// Where work runs.
#[derive(Clone, Copy)]
enum Place {
    Engine(Engine),
    /// By its index in the delays under way.
    Delay(usize),
}

impl Device {
    /// Processes all completions up to `instant_ns`.
    pub fn advance_to(&mut self, instant_ns: u64) {
        loop {
            self.start_ready();
            match self.next_completion() {
                Some((end_ns, place)) if end_ns <= instant_ns => self.complete(place),
                _ => break,
            }
        }
        self.now_ns = self.now_ns.max(instant_ns);
    }

    /// Processes completions until `reached` holds or nothing runs.
    pub fn advance_until(&mut self, reached: impl Fn(&Device) -> bool) {
        loop {
            self.start_ready();
            if reached(self) {
                return;
            }
            let Some((_, place)) = self.next_completion() else {
                return;
            };
            self.complete(place);
        }
    }

    pub fn next_completion_ns(&mut self) -> Option<u64> {
        self.start_ready();
        self.next_completion().map(|(end_ns, _)| end_ns)
    }

    /// The earliest completion of the running work; of equals, the one queued first.
    fn next_completion(&self) -> Option<(u64, Place)> {
        let engines = Engine::ALL.into_iter().filter_map(|engine| {
            let running = self.engines[engine as usize].as_ref()?;
            Some((running, Place::Engine(engine)))
        });
        let delays = self.delays.iter().enumerate();
        let delays = delays.map(|(index, running)| (running, Place::Delay(index)));
        engines
            .chain(delays)
            .min_by_key(|(running, _)| (running.end_ns, running.sequence))
            .map(|(running, place)| (running.end_ns, place))
    }

    fn start_ready(&mut self) {
        loop {
            let mut progressed = self.streams.resolve_heads(self.now_ns);
            for engine in Engine::ALL {
                progressed |= self.engines[engine as usize].is_none() && self.start_on(engine);
            }
            progressed |= self.start_on(Engine::Timer);
            if !progressed {
                return;
            }
        }
    }

    fn start_on(&mut self, engine: Engine) -> bool {
        let ready = self.streams.take_ready(|_, queued| queued.work.engine() == engine);
        let Some(ready) = ready else {
            return false;
        };
        let duration_ns = self.duration_ns(&ready.work.work);
        let running = Running {
            stream: ready.stream,
            sequence: ready.sequence,
            queued: ready.work,
            start_ns: self.now_ns,
            end_ns: self.now_ns.saturating_add(duration_ns),
        };
        match self.engines.get_mut(engine as usize) {
            Some(place) => *place = Some(running),
            None => self.delays.push(running),
        }
        true
    }

    fn duration_ns(&mut self, work: &Work) -> u64 {
        match work {
            Work::Copy { source, destination, bytes } => {
                let direction = CopyDirection::between(*source, *destination);
                self.profile.link(direction).duration_ns(*bytes)
            }
            Work::Fill { destination, bytes, .. } => {
                let link = self.profile.fill_link(destination.space());
                link.duration_ns(*bytes)
            }
            Work::Launch(launch) => match self.kernels.get(&launch.kernel) {
                Some(kernel) => (kernel.duration_ns)(launch),
                None => 0,
            },
            Work::Delay { slot, .. } => delay::requested_ns(&mut self.memory, *slot),
        }
    }

    fn complete(&mut self, place: Place) {
        let (engine, running) = match place {
            Place::Engine(engine) => (engine, self.engines[engine as usize].take()),
            Place::Delay(index) => (Engine::Timer, Some(self.delays.swap_remove(index))),
        };
        let Some(running) = running else {
            return;
        };
        let (stream, queued) = (running.stream, running.queued);
        self.now_ns = self.now_ns.max(running.end_ns);
        let outcome = match queued.injected_failure {
            true => Err("injected by the fault plan".to_owned()),
            false => self
                .take_effect(&queued.work, running.end_ns - running.start_ns)
                .map_err(BackendError::into_message),
        };
        let failure = outcome.err().map(|message| StreamFailure {
            operation: queued.work.operation(),
            stream: queued.node.map_or(stream, |(launched_on, _)| launched_on),
            node: queued.node.map(|(_, node)| node),
            message: message.into(),
        });
        self.streams.finish(stream, failure);
        if let Some(timeline) = &mut self.timeline {
            timeline.push(SimSpan {
                stream,
                operation: queued.work.operation(),
                engine,
                kernel: queued.work.kernel(),
                bytes: queued.work.bytes(),
                start_ns: running.start_ns,
                end_ns: running.end_ns,
            });
        }
    }

    fn take_effect(&mut self, work: &Work, duration_ns: u64) -> Result<()> {
        match work {
            Work::Copy { source, destination, bytes } => {
                self.memory.copy(*source, *destination, *bytes)
            }
            Work::Fill { destination, value, bytes } => {
                self.memory.fill(*destination, *value, *bytes)
            }
            Work::Launch(launch) => match self.kernels.get(&launch.kernel) {
                Some(SimKernel { body: Some(body), .. }) => body(launch, &mut self.memory),
                _ => Ok(()),
            },
            Work::Delay { slot, .. } => delay::add_spent(&mut self.memory, *slot, duration_ns),
        }
    }
}
