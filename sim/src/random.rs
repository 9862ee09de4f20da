//! Random numbers that a seed determines, one stream per CPU.

use crate::time::Time;

/// wyrand: eight bytes of state, which is little enough for a stream per CPU, and one multiplication per number.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Stream number `stream` of a seed. Streams start far apart, as seed and number pass through the mixer.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut start = Random(seed);
        let mixed = start.next();
        Random(Random(mixed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)).next())
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0xa076_1d64_78bd_642f);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0xe703_7ed1_a0b4_28db);
        (product >> 64) as u64 ^ product as u64
    }

    /// A whole number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A time with the exponential distribution.
    pub fn exponential(&mut self, mean: Time) -> Time {
        let unit = ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Time::of_ps((mean.ps() as f64 * -libm::log(unit)) as u64)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
