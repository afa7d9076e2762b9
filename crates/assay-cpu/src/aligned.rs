//! Growing memory that begins on a cache line.

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Zeroed bytes at a multiple of 64, so that no vector load crosses a line by accident.
#[derive(Clone, Default)]
pub(crate) struct Aligned {
    lines: Vec<Line>,
}

impl Aligned {
    pub fn zeroed(bytes: usize) -> Self {
        Aligned {
            lines: vec![Line([0; 64]); bytes.div_ceil(64)],
        }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: lines are plain bytes without padding.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 64) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let length = self.lines.len() * 64;
        // SAFETY: lines are plain bytes without padding.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), length) }
    }

    /// At least so many numbers; allocates only when there were never that many before.
    pub fn floats(&mut self, count: usize) -> &mut [f32] {
        let lines = count.div_ceil(16);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; 64]));
        }
        // SAFETY: lines are aligned for `f32`, any bits are one, and there are enough of them.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), count) }
    }
}
