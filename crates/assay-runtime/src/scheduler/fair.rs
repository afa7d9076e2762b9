//! Weighted sharing by start-time fair queueing.
//!
//! Every flow carries a tag, the virtual time at which its next turn starts; the flow with the
//! smallest tag goes next, and its tag moves on by cost / weight. Virtual time is the tag of the
//! turn last begun. Over any interval in which flows f and g both have turns waiting, their
//! services W differ by
//!
//! ```text
//! | W_f / w_f  -  W_g / w_g |  <=  c_f / w_f  +  c_g / w_g
//! ```
//!
//! where w is the weight and c the largest single turn (Goyal, Vin, Cheng: Start-time Fair
//! Queueing, IEEE/ACM Transactions on Networking 5(5), 1997, theorem 1). The bound does not ask how
//! fast the device is, so it holds on one whose speed is unknown or changes.

/// Parts of a unit that a tag can tell apart.
const SCALE_BITS: u32 = 32;

/// A tag in virtual time: units per weight, in fixed point.
pub(super) type Tag = u128;

fn distance(units: u64, weight: u64) -> Tag {
    let weight = weight.max(1);
    // Nearly every turn fits a division of 64 bits, which takes a tenth of the time.
    match u32::try_from(units) {
        Ok(units) => u128::from((u64::from(units) << SCALE_BITS) / weight),
        Err(_) => (u128::from(units) << SCALE_BITS) / u128::from(weight),
    }
}

/// One of those who share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    weight: u64,
    start: Tag,
}

impl Flow {
    pub fn new(weight: u64) -> Self {
        Flow { weight, start: 0 }
    }

    /// The tag of its next turn.
    pub fn start(&self) -> Tag {
        self.start
    }
}

/// The virtual time of those who share one thing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FairClock {
    now: Tag,
    furthest: Tag,
}

impl FairClock {
    /// A flow that had nothing waiting asks for a turn: rest earns no credit.
    pub fn join(&self, flow: &mut Flow) {
        flow.start = flow.start.max(self.now);
    }

    /// The flow's turn begins.
    pub fn serve(&mut self, flow: &mut Flow, units: u64) {
        self.now = self.now.max(flow.start);
        flow.start = flow.start.saturating_add(distance(units, flow.weight));
        self.furthest = self.furthest.max(flow.start);
    }

    /// A turn was found to have cost `measured` where `charged` was assumed.
    pub fn correct(&mut self, flow: &mut Flow, charged: u64, measured: u64) {
        flow.start = flow
            .start
            .saturating_add(distance(measured, flow.weight))
            .saturating_sub(distance(charged, flow.weight));
        self.furthest = self.furthest.max(flow.start);
    }

    /// Nothing waits any more: what was served so far no longer counts against anyone.
    pub fn rest(&mut self) {
        self.now = self.now.max(self.furthest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves the flow with the smallest tag, with these turn sizes, and sums what each got.
    fn run(flows: &mut [(Flow, u64, u64)], clock: &mut FairClock, turns: usize) {
        for _ in 0..turns {
            let next = flows
                .iter_mut()
                .min_by_key(|(flow, ..)| flow.start())
                .expect("flows");
            clock.serve(&mut next.0, next.1);
            next.2 += next.1;
        }
    }

    #[test]
    fn services_follow_weights_within_the_bound_whatever_the_sizes() {
        let mut clock = FairClock::default();
        let mut flows = [
            (Flow::new(7), 1_000, 0),
            (Flow::new(3), 64_000, 0),
            (Flow::new(1), 333, 0),
        ];
        for turns in [1, 10, 1_000, 5_000] {
            run(&mut flows, &mut clock, turns);
            for (f, f_size, f_served) in &flows {
                for (g, g_size, g_served) in &flows {
                    let per_weight = |served: u64, flow: &Flow| served as f64 / flow.weight as f64;
                    let gap = (per_weight(*f_served, f) - per_weight(*g_served, g)).abs();
                    let bound = per_weight(*f_size, f) + per_weight(*g_size, g);
                    assert!(gap <= bound + 1e-6, "{gap} over {bound}");
                }
            }
        }
    }

    #[test]
    fn a_flow_that_rested_neither_catches_up_nor_pays() {
        let mut clock = FairClock::default();
        let mut flows = [(Flow::new(1), 10, 0), (Flow::new(1), 10, 0)];
        run(&mut flows[..1], &mut clock, 1_000);
        clock.join(&mut flows[1].0);
        flows[0].2 = 0;
        run(&mut flows, &mut clock, 100);
        assert!(flows[0].2.abs_diff(flows[1].2) <= 20);
        // Alone until the end of the busy time, then both again.
        run(&mut flows[..1], &mut clock, 1_000);
        clock.rest();
        for (flow, _, served) in &mut flows {
            clock.join(flow);
            *served = 0;
        }
        run(&mut flows, &mut clock, 100);
        assert!(flows[0].2.abs_diff(flows[1].2) <= 20);
    }
}
