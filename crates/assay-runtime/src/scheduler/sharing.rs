//! Who gets how much of a lane under load, in virtual time, and how fast it is decided.

use super::error::SchedulerError;
use super::lane::Lane;
use super::options::{SchedulerOptions, TaskOptions};
use super::ticket::{Poll, Ticket, Turn};
use super::{Scheduler, Task};
use crate::clock::{Clock, VirtualClock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// A task that always has turns asked for.
#[derive(Clone, Debug)]
pub struct Load {
    /// The task; its partition is replaced by the whole device.
    pub options: TaskOptions,
    /// Units of each turn.
    pub units: u64,
    /// Turns asked for at any time.
    pub depth: usize,
}

/// What one load got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Units of turns that were over by the end.
    pub units: u64,
    /// Turns.
    pub turns: u64,
    /// The longest time without a turn given.
    pub longest_wait_ns: u64,
}

/// What was measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// For each load.
    pub served: Vec<Served>,
    /// Decisions that the scheduler recorded.
    pub decisions: u64,
    /// Real time that all of it took.
    pub elapsed_ns: u64,
}

struct Client {
    task: Task,
    units: u64,
    depth: usize,
    tickets: VecDeque<Ticket>,
    last_grant_ns: u64,
    served: Served,
}

/// A lane that does one turn after the other at the rate its options tell.
struct Simulation {
    clock: VirtualClock,
    scheduler: Scheduler,
    lane: Lane,
    units_per_second: u64,
    clients: Vec<Client>,
    under_way: VecDeque<(u64, usize, Turn)>,
    free_at_ns: u64,
}

impl Simulation {
    /// Asks for what is missing and puts what was granted onto the lane.
    fn feed(&mut self) -> Result<(), SchedulerError> {
        let now_ns = self.clock.now_ns();
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for (index, client) in self.clients.iter_mut().enumerate() {
                while client.tickets.len() < client.depth.max(1) {
                    let ticket = client.task.ask(self.lane, client.units)?;
                    client.tickets.push_back(ticket);
                }
                while let Some(ticket) = client.tickets.pop_front() {
                    let turn = match ticket.poll()? {
                        Poll::Ready(turn) => turn,
                        Poll::Waiting(ticket) => {
                            client.tickets.push_front(ticket);
                            break;
                        }
                    };
                    moved = true;
                    let work = u128::from(client.units) * 1_000_000_000;
                    let work_ns = work.div_ceil(u128::from(self.units_per_second.max(1)));
                    let work_ns = u64::try_from(work_ns).unwrap_or(u64::MAX);
                    self.free_at_ns = self.free_at_ns.max(now_ns).saturating_add(work_ns);
                    self.under_way.push_back((self.free_at_ns, index, turn));
                    let waited_ns = now_ns - client.last_grant_ns;
                    client.served.longest_wait_ns = client.served.longest_wait_ns.max(waited_ns);
                    client.last_grant_ns = now_ns;
                }
            }
        }
        Ok(())
    }

    fn run_until(&mut self, end_ns: u64) -> Result<(), SchedulerError> {
        loop {
            self.feed()?;
            let over = self.under_way.front().map(|(time_ns, ..)| *time_ns);
            let due = self.scheduler.next_event_ns()?;
            match over.into_iter().chain(due).min() {
                Some(next_ns) if next_ns <= end_ns => self.clock.advance_to_ns(next_ns),
                _ => {
                    self.clock.advance_to_ns(end_ns);
                    return Ok(());
                }
            }
            let now_ns = self.clock.now_ns();
            while let Some((time_ns, ..)) = self.under_way.front()
                && *time_ns <= now_ns
            {
                if let Some((_, index, turn)) = self.under_way.pop_front() {
                    let client = &mut self.clients[index];
                    client.served.units += client.units;
                    client.served.turns += 1;
                    drop(turn);
                }
            }
        }
    }
}

/// Runs the loads against each other for so much virtual time, after a tenth of it to settle.
pub fn measure(
    options: SchedulerOptions,
    lane: Lane,
    loads: Vec<Load>,
    virtual_ns: u64,
) -> Result<Sharing, SchedulerError> {
    let clock = VirtualClock::new();
    let whole = options.whole_device("whole");
    let units_per_second = options.lanes[lane].units_per_second;
    let scheduler = Scheduler::new(options, Arc::new(clock.clone()))?;
    let partition = scheduler.add_partition(whole)?;
    let mut clients = Vec::with_capacity(loads.len());
    for mut load in loads {
        load.options.partition = partition;
        let task = scheduler.submit(load.options)?;
        task.start()?;
        clients.push(Client {
            task,
            units: load.units,
            depth: load.depth,
            tickets: VecDeque::new(),
            last_grant_ns: 0,
            served: Served::default(),
        });
    }
    let mut simulation = Simulation {
        clock,
        scheduler,
        lane,
        units_per_second,
        clients,
        under_way: VecDeque::new(),
        free_at_ns: 0,
    };
    let settled_ns = virtual_ns / 10;
    simulation.run_until(settled_ns)?;
    for client in &mut simulation.clients {
        client.served = Served::default();
    }
    let before = simulation.decisions()?;
    let start = Instant::now();
    simulation.run_until(settled_ns.saturating_add(virtual_ns))?;
    let elapsed = start.elapsed().as_nanos();
    Ok(Sharing {
        served: simulation.clients.iter().map(|one| one.served).collect(),
        decisions: simulation.decisions()? - before,
        elapsed_ns: u64::try_from(elapsed).unwrap_or(u64::MAX),
    })
}

impl Simulation {
    /// How many decisions were recorded so far.
    fn decisions(&self) -> Result<u64, SchedulerError> {
        let taken = self.scheduler.take_decisions()?;
        Ok(taken.records.last().map_or(0, |last| last.sequence + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Class, PerLane, Rate};
    use super::*;

    #[test]
    fn a_reservation_is_kept_and_the_rest_goes_by_weight() -> Result<(), SchedulerError> {
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
            Load {
                options: task,
                units: 50_000,
                depth: 40,
            }
        };
        let loads = vec![load(1, Some(400_000_000)), load(1, None), load(2, None)];
        let sharing = measure(options, Lane::Upload, loads, 4_000_000_000)?;
        // 40 % reserved; the remaining 60 % in the proportion 1 : 1 : 2.
        let shares: Vec<f64> = sharing
            .served
            .iter()
            .map(|served| served.units as f64 / 4e9)
            .collect();
        for (share, expected) in shares.iter().zip([0.55, 0.15, 0.30]) {
            assert!((share - expected).abs() < 0.005, "{shares:?}");
        }
        assert!(sharing.decisions > sharing.served.iter().map(|served| served.turns).sum());
        Ok(())
    }
}
