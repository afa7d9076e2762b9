//! Clauses on allocation, copies, fills and their bounds.

use super::{BYTES, Checker, Outcome, fails, ok, pattern, same};
use crate::backend::Address;

impl Checker<'_> {
    pub(super) fn memory(&self) -> Outcome {
        let backend = self.backend;
        let alignment = backend.properties().alignment_bytes;
        same("alignment is a power of two", true, alignment.is_power_of_two())?;
        let (first, second) = (self.device()?, self.device()?);
        let (third, fourth) = (self.host()?, self.host()?);
        for (one, other) in [(first.0, second.0), (third.0, fourth.0)] {
            same("allocations are aligned", 0, one % alignment)?;
            same("allocations are disjoint", true, one.abs_diff(other) >= BYTES)?;
        }
        let before = ok("memory info", backend.memory_info())?;
        self.free(&[first, second], &[third, fourth])?;
        let after = ok("memory info", backend.memory_info())?;
        same(
            "freed memory is free again",
            true,
            after.free_bytes >= before.free_bytes && after.free_bytes <= after.total_bytes,
        )?;
        fails("double device free", "unknown_address", backend.free_device(first))?;
        fails("double host free", "unknown_address", backend.free_host(third))?;
        fails("empty device", "zero_bytes", backend.allocate_device(0))?;
        fails("empty host", "zero_bytes", backend.allocate_host(0))?;
        let too_much = backend.allocate_device(after.total_bytes.saturating_add(1));
        fails("a request above capacity", "out_of_memory", too_much)
    }

    pub(super) fn copies(&self) -> Outcome {
        let (backend, stream) = (self.backend, self.backend.default_stream());
        let (device, other) = (self.device()?, self.device()?);
        let (host, copied, last) = (self.host()?, self.host()?, self.host()?);
        let bytes = pattern(1);
        let clause = "copies keep every byte";
        ok(clause, backend.write_host(host, &bytes))?;
        let steps: [(Address, Address); 4] = [
            (host.into(), device.into()),
            (device.into(), other.into()),
            (other.into(), copied.into()),
            (copied.into(), last.into()),
        ];
        ok(clause, backend.fill(stream, copied.into(), 0, BYTES))?;
        ok(clause, backend.fill(stream, last.into(), 0, BYTES))?;
        for (source, destination) in steps {
            ok(clause, backend.copy(stream, source, destination, BYTES))?;
        }
        ok(clause, backend.synchronize_stream(stream))?;
        let mut returned = vec![0; BYTES as usize];
        ok(clause, backend.read_host(last, &mut returned))?;
        same(clause, true, returned == bytes)?;

        let part = Address::from(device).offset(3).unwrap_or(device.into());
        ok("fill of a part", backend.fill(stream, part, 9, 5))?;
        let mut expected = bytes;
        expected[3..8].fill(9);
        same("a fill touches its range only", true, self.download(stream, device)? == expected)?;
        let nothing = backend.copy(stream, host.into(), device.into(), 0);
        ok("an empty copy", nothing)?;
        self.free(&[device, other], &[host, copied, last])
    }

    pub(super) fn bounds(&self) -> Outcome {
        let (backend, stream) = (self.backend, self.backend.default_stream());
        let (device, host) = (self.device()?, self.host()?);
        let (from, to): (Address, Address) = (host.into(), device.into());
        let late = to.offset(BYTES / 2).unwrap_or(to);
        fails("copy past the end", "out_of_bounds", backend.copy(stream, from, late, BYTES))?;
        fails("fill past the end", "out_of_bounds", backend.fill(stream, late, 0, BYTES))?;
        fails(
            "overlapping copy",
            "overlap",
            backend.copy(stream, to, to.offset(1).unwrap_or(to), 16),
        )?;
        fails(
            "write past the end",
            "out_of_bounds",
            backend.write_host(host, &vec![0; BYTES as usize + 1]),
        )?;
        self.free(&[device], &[host])?;
        fails("copy to freed memory", "unknown_address", backend.fill(stream, to, 0, 1))
    }
}
