//! Random numbers that a seed determines, one stream a CPU.

use crate::time::Time;

/// SplitMix64: eight bytes of state, so that every CPU has its own stream.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Stream number `stream` of a seed. Streams start far apart, as both pass through the mixer.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut start = Random(seed);
        let mixed = start.next();
        Random(Random(mixed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)).next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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
