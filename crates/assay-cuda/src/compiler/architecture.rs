//! GPU architectures as compilation targets.

use std::fmt;

/// A compute capability, as major times ten plus minor, and whether to use architecture-specific features.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Architecture {
    /// Such as 90 for Hopper.
    pub capability: u32,
    /// Whether code may use architecture-specific instructions (`sm_90a`), such as `wgmma`.
    pub specific: bool,
}

/// Capabilities with architecture-specific instructions. Our kernels use those of 90; user kernels
/// may use any.
const SPECIFIC: [u32; 3] = [90, 100, 103];

impl Architecture {
    /// The architecture of a device, with its specific instructions.
    pub fn of_device(capability: u32) -> Self {
        Architecture { capability, specific: SPECIFIC.contains(&capability) }
    }

    /// Parses `80`, `sm_90a` and the like.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sm_").unwrap_or(text);
        let (digits, specific) = match digits.strip_suffix('a') {
            Some(digits) => (digits, true),
            None => (digits, false),
        };
        let capability = digits.parse().ok().filter(|value| (10..1000).contains(value))?;
        Some(Architecture { capability, specific })
    }

    /// The NVRTC target: a cubin where NVRTC supports the device, else PTX for the newest capability it
    /// supports, which the driver's JIT compiles.
    pub(super) fn target(self, supported: &[u32]) -> Target {
        if supported.is_empty() || supported.contains(&self.capability) {
            return Target::Cubin(self);
        }
        let older = supported.iter().filter(|known| **known <= self.capability);
        match older.max() {
            Some(known) => Target::Ptx(*known),
            // NVRTC reports the error.
            None => Target::Cubin(self),
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.specific { "a" } else { "" };
        write!(formatter, "sm_{}{suffix}", self.capability)
    }
}

/// The output of NVRTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A cubin.
    Cubin(Architecture),
    /// PTX for this capability.
    Ptx(u32),
}

impl Target {
    pub fn name(self) -> String {
        match self {
            Target::Cubin(architecture) => architecture.to_string(),
            Target::Ptx(capability) => format!("compute_{capability}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_round_trip_through_text() {
        for text in ["sm_80", "sm_90a", "sm_120"] {
            assert_eq!(Architecture::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "sm_", "a", "sm_9", "90b", "sm_-80"] {
            assert_eq!(Architecture::parse(text), None, "{text}");
        }
    }

    #[test]
    fn device_newer_than_nvrtc_gets_ptx() {
        let supported = [75, 80, 90];
        let target = |capability| Architecture::of_device(capability).target(&supported).name();
        assert_eq!(target(80), "sm_80");
        assert_eq!(target(90), "sm_90a");
        assert_eq!(target(120), "compute_90");
    }
}
