//! A simulation of a contended lane in virtual time: shares, waits and decisions per second.

use super::error::SchedulerError;
use super::grant::{Grant, PendingGrant, Poll};
use super::lane::Lane;
use super::options::{SchedulerOptions, TaskOptions};
use super::{Scheduler, Task};
use crate::clock::{Clock, VirtualClock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// A backlogged task.
#[derive(Clone, Debug)]
pub struct Load {
    /// The task; its partition is replaced by one that spans the device.
    pub options: TaskOptions,
    /// Units of each grant.
    pub units: u64,
    /// Requests outstanding at any time.
    pub depth: usize,
}

/// Service received by one load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// Units of grants that ended.
    pub units: u64,
    /// Grants that ended.
    pub grants: u64,
    /// The longest time between two grants.
    pub longest_wait_ns: u64,
}

/// Result of a simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareReport {
    /// Service of each load.
    pub service: Vec<Service>,
    /// Decisions that the scheduler recorded.
    pub decisions: u64,
    /// Wall time of the measured part.
    pub elapsed_ns: u64,
}

struct Client {
    task: Task,
    units: u64,
    depth: usize,
    pending: VecDeque<PendingGrant>,
    last_grant_ns: u64,
    service: Service,
}

/// A lane that executes one grant after the other at its nominal rate.
struct Simulation {
    clock: VirtualClock,
    scheduler: Scheduler,
    lane: Lane,
    units_per_second: u64,
    clients: Vec<Client>,
    in_flight: VecDeque<(u64, usize, Grant)>,
    free_at_ns: u64,
}

impl Simulation {
    /// Tops up the outstanding requests and starts what was granted.
    fn feed(&mut self) -> Result<(), SchedulerError> {
        let now_ns = self.clock.now_ns();
        let mut progressed = true;
        while std::mem::take(&mut progressed) {
            for (index, client) in self.clients.iter_mut().enumerate() {
                while client.pending.len() < client.depth.max(1) {
                    let request = client.task.request(self.lane, client.units)?;
                    client.pending.push_back(request);
                }
                while let Some(request) = client.pending.pop_front() {
                    let grant = match request.poll()? {
                        Poll::Ready(grant) => grant,
                        Poll::Pending(request) => {
                            client.pending.push_front(request);
                            break;
                        }
                    };
                    progressed = true;
                    let work = u128::from(client.units) * 1_000_000_000;
                    let work_ns = work.div_ceil(u128::from(self.units_per_second.max(1)));
                    let work_ns = u64::try_from(work_ns).unwrap_or(u64::MAX);
                    self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(work_ns);
                    self.in_flight.push_back((self.free_at_ns, index, grant));
                    let waited_ns = now_ns - client.last_grant_ns;
                    client.service.longest_wait_ns = client.service.longest_wait_ns.max(waited_ns);
                    client.last_grant_ns = now_ns;
                }
            }
        }
        Ok(())
    }

    fn run_until(&mut self, end_ns: u64) -> Result<(), SchedulerError> {
        loop {
            self.feed()?;
            let ends_ns = self.in_flight.front().map(|(time_ns, ..)| *time_ns);
            let due = self.scheduler.next_event_ns()?;
            match ends_ns.into_iter().chain(due).min() {
                Some(next_ns) if next_ns <= end_ns => self.clock.advance_to_ns(next_ns),
                _ => {
                    self.clock.advance_to_ns(end_ns);
                    return Ok(());
                }
            }
            let now_ns = self.clock.now_ns();
            while let Some((time_ns, ..)) = self.in_flight.front()
                && *time_ns <= now_ns
            {
                if let Some((_, index, grant)) = self.in_flight.pop_front() {
                    let client = &mut self.clients[index];
                    client.service.units += client.units;
                    client.service.grants += 1;
                    drop(grant);
                }
            }
        }
    }
}

/// Runs the loads against each other for `virtual_ns`, after a warm-up of a tenth of it.
pub fn simulate(
    options: SchedulerOptions,
    lane: Lane,
    loads: Vec<Load>,
    virtual_ns: u64,
) -> Result<ShareReport, SchedulerError> {
    let clock = VirtualClock::new();
    let device = options.whole_device("device");
    let units_per_second = options.lanes[lane].units_per_second;
    let scheduler = Scheduler::new(options, Arc::new(clock.clone()))?;
    let partition = scheduler.add_partition(device)?;
    let mut clients = Vec::with_capacity(loads.len());
    for mut load in loads {
        load.options.partition = partition;
        let task = scheduler.submit(load.options)?;
        task.start()?;
        clients.push(Client {
            task,
            units: load.units,
            depth: load.depth,
            pending: VecDeque::new(),
            last_grant_ns: 0,
            service: Service::default(),
        });
    }
    let mut simulation = Simulation {
        clock,
        scheduler,
        lane,
        units_per_second,
        clients,
        in_flight: VecDeque::new(),
        free_at_ns: 0,
    };
    let warm_up_ns = virtual_ns / 10;
    simulation.run_until(warm_up_ns)?;
    for client in &mut simulation.clients {
        client.service = Service::default();
    }
    let before = simulation.decisions()?;
    let start = Instant::now();
    simulation.run_until(warm_up_ns.saturating_add(virtual_ns))?;
    let elapsed = start.elapsed().as_nanos();
    Ok(ShareReport {
        service: simulation.clients.iter().map(|client| client.service).collect(),
        decisions: simulation.decisions()? - before,
        elapsed_ns: u64::try_from(elapsed).unwrap_or(u64::MAX),
    })
}

impl Simulation {
    /// Decisions recorded so far.
    fn decisions(&self) -> Result<u64, SchedulerError> {
        let drained = self.scheduler.take_decisions()?;
        Ok(drained.records.last().map_or(0, |last| last.sequence + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Class, PerLane, Rate};
    use super::*;

    #[test]
    fn reservation_is_kept_and_the_rest_is_shared_by_weight() -> Result<(), SchedulerError> {
        let speed = 1_000_000_000;
        let mut options = SchedulerOptions::new(1 << 30, PerLane::from_fn(|_| speed));
        options.guaranteed.weight = 1;
        let scheduler = Scheduler::new(options.clone(), Arc::new(VirtualClock::new()))?;
        let partition = scheduler.add_partition(options.whole_device("any"))?;
        let load = |weight, reserved: Option<u64>| {
            let mut task = TaskOptions::new("load", partition);
            task.weight = weight;
            if let Some(rate) = reserved {
                task.class = Class::Guaranteed;
                task.lanes.upload.reserved = Some(Rate::per_second(rate));
            }
            Load { options: task, units: 50_000, depth: 40 }
        };
        let loads = vec![load(1, Some(400_000_000)), load(1, None), load(2, None)];
        let report = simulate(options, Lane::Upload, loads, 4_000_000_000)?;
        // 40 % reserved; the remaining 60 % in the proportion 1 : 1 : 2.
        let shares: Vec<f64> =
            report.service.iter().map(|service| service.units as f64 / 4e9).collect();
        for (share, expected) in shares.iter().zip([0.55, 0.15, 0.30]) {
            assert!((share - expected).abs() < 0.005, "{shares:?}");
        }
        assert!(report.decisions > report.service.iter().map(|service| service.grants).sum());
        Ok(())
    }
}
