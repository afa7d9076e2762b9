//! What machine code is compiled for.

use std::fmt;

/// A compute capability, as major times ten plus minor, and whether to use what only it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Architecture {
    /// Such as 90 for Hopper.
    pub capability: u32,
    /// Whether code may use instructions that later devices lack, such as `wgmma` on 90.
    pub specific: bool,
}

/// Capabilities with instructions that later ones lack. Kernels here use those of 90; kernels of
/// users may use any.
const SPECIFIC: [u32; 3] = [90, 100, 103];

impl Architecture {
    /// The architecture for a device at hand: with everything that it has.
    pub fn of_device(capability: u32) -> Self {
        Architecture {
            capability,
            specific: SPECIFIC.contains(&capability),
        }
    }

    /// Reads `80`, `sm_90a` and the like.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sm_").unwrap_or(text);
        let (digits, specific) = match digits.strip_suffix('a') {
            Some(digits) => (digits, true),
            None => (digits, false),
        };
        let capability = digits
            .parse()
            .ok()
            .filter(|value| (10..1000).contains(value))?;
        Some(Architecture {
            capability,
            specific,
        })
    }

    /// What NVRTC is asked for: machine code where it knows the device, else PTX for the newest
    /// it knows, which the driver finishes.
    pub(super) fn target(self, supported: &[u32]) -> Target {
        if supported.is_empty() || supported.contains(&self.capability) {
            return Target::Cubin(self);
        }
        let older = supported.iter().filter(|known| **known <= self.capability);
        match older.max() {
            Some(known) => Target::Ptx(*known),
            // NVRTC says itself that it does not know it.
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

/// What NVRTC is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// Machine code.
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
    fn architectures_read_and_print() {
        for text in ["sm_80", "sm_90a", "sm_120"] {
            assert_eq!(Architecture::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "sm_", "a", "sm_9", "90b", "sm_-80"] {
            assert_eq!(Architecture::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_device_newer_than_the_compiler_gets_portable_code() {
        let supported = [75, 80, 90];
        let target = |capability| {
            Architecture::of_device(capability)
                .target(&supported)
                .name()
        };
        assert_eq!(target(80), "sm_80");
        assert_eq!(target(90), "sm_90a");
        assert_eq!(target(120), "compute_90");
    }
}
