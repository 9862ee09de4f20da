//! The same numbers for every engine, and for SimPy: a task's thinking times.

pub struct Thinking(u64);

impl Thinking {
    pub fn of(task: usize) -> Thinking {
        Thinking(task as u64)
    }

    /// Picoseconds: a linear congruential generator's upper half, from 0 to twice the mean.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (u128::from(self.0 >> 32) * u128::from(2 * crate::THINK) >> 32) as u64
    }
}
