//! Weighted sharing by start-time fair queueing (SFQ).
//!
//! Every flow carries a start tag, the virtual time at which its next grant starts; the flow with
//! the smallest start tag is served next, and its tag advances by cost / weight. Virtual time is the
//! start tag of the grant last issued. Over any interval in which flows f and g are both backlogged,
//! their services W differ by
//!
//! ```text
//! | W_f / w_f  -  W_g / w_g |  <=  c_f / w_f  +  c_g / w_g
//! ```
//!
//! where w is the weight and c the largest single grant (Goyal, Vin, Cheng: Start-time Fair
//! Queueing, IEEE/ACM Transactions on Networking 5(5), 1997, theorem 1). The bound does not depend
//! on the speed of the device, so it holds when that is unknown or changes.

/// Fractional bits of a tag.
const SCALE_BITS: u32 = 32;

/// A tag in virtual time: units per weight, in fixed point.
pub(super) type Tag = u128;

fn tag_increment(units: u64, weight: u64) -> Tag {
    let weight = weight.max(1);
    // Nearly every cost fits a 64-bit division, which takes a tenth of the time.
    match u32::try_from(units) {
        Ok(units) => u128::from((u64::from(units) << SCALE_BITS) / weight),
        Err(_) => (u128::from(units) << SCALE_BITS) / u128::from(weight),
    }
}

/// A flow: one of those that share a lane by weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    weight: u64,
    start_tag: Tag,
}

impl Flow {
    pub fn new(weight: u64) -> Self {
        Flow { weight, start_tag: 0 }
    }

    /// The start tag of its next grant.
    pub fn start_tag(&self) -> Tag {
        self.start_tag
    }
}

/// The virtual time of the flows of one lane, or of one partition in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VirtualTime {
    now: Tag,
    max_finish_tag: Tag,
}

impl VirtualTime {
    /// A flow becomes backlogged: idle time earns no credit.
    pub fn activate(&self, flow: &mut Flow) {
        flow.start_tag = flow.start_tag.max(self.now);
    }

    /// Charges a grant to the flow.
    pub fn charge(&mut self, flow: &mut Flow, units: u64) {
        self.now = self.now.max(flow.start_tag);
        flow.start_tag = flow.start_tag.saturating_add(tag_increment(units, flow.weight));
        self.max_finish_tag = self.max_finish_tag.max(flow.start_tag);
    }

    /// Replaces the assumed cost `charged` by the `measured` one.
    pub fn correct(&mut self, flow: &mut Flow, charged: u64, measured: u64) {
        flow.start_tag = flow
            .start_tag
            .saturating_add(tag_increment(measured, flow.weight))
            .saturating_sub(tag_increment(charged, flow.weight));
        self.max_finish_tag = self.max_finish_tag.max(flow.start_tag);
    }

    /// Nothing waits or is in flight: past service no longer counts against any flow.
    pub fn end_busy_period(&mut self) {
        self.now = self.now.max(self.max_finish_tag);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves the flow with the smallest start tag, `grants` times; a flow is (tags, cost, served).
    fn run(flows: &mut [(Flow, u64, u64)], time: &mut VirtualTime, grants: usize) {
        for _ in 0..grants {
            let next = flows.iter_mut().min_by_key(|(flow, ..)| flow.start_tag()).expect("flows");
            time.charge(&mut next.0, next.1);
            next.2 += next.1;
        }
    }

    #[test]
    fn services_follow_weights_within_the_sfq_bound() {
        let mut time = VirtualTime::default();
        let mut flows =
            [(Flow::new(7), 1_000, 0), (Flow::new(3), 64_000, 0), (Flow::new(1), 333, 0)];
        for grants in [1, 10, 1_000, 5_000] {
            run(&mut flows, &mut time, grants);
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
    fn idle_flow_neither_catches_up_nor_pays() {
        let mut time = VirtualTime::default();
        let mut flows = [(Flow::new(1), 10, 0), (Flow::new(1), 10, 0)];
        run(&mut flows[..1], &mut time, 1_000);
        time.activate(&mut flows[1].0);
        flows[0].2 = 0;
        run(&mut flows, &mut time, 100);
        assert!(flows[0].2.abs_diff(flows[1].2) <= 20);
        // Alone until the end of the busy period, then both again.
        run(&mut flows[..1], &mut time, 1_000);
        time.end_busy_period();
        for (flow, _, served) in &mut flows {
            time.activate(flow);
            *served = 0;
        }
        run(&mut flows, &mut time, 100);
        assert!(flows[0].2.abs_diff(flows[1].2) <= 20);
    }
}
