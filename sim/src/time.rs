//! Virtual time, in whole picoseconds: the same on every machine, and enough for 200 days. Longer sums and products
//! are `Time::NEVER`.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// A time since the start of the simulation, or a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A number of nanoseconds: `ns(5)` or `ns(0.5)`.
pub fn ns(count: impl Into<f64>) -> Time {
    Time::from_ps(count.into() * 1e3)
}

/// A number of microseconds.
pub fn us(count: impl Into<f64>) -> Time {
    Time::from_ps(count.into() * 1e6)
}

/// A number of milliseconds.
pub fn ms(count: impl Into<f64>) -> Time {
    Time::from_ps(count.into() * 1e9)
}

impl Time {
    /// The start of the simulation; a duration of zero.
    pub const ZERO: Time = Time(0);
    /// Later than everything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    fn from_ps(count: f64) -> Time {
        debug_assert!(count >= 0.0, "time is never negative");
        Time(libm::round(count) as u64)
    }

    /// In picoseconds, exactly.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// From whole picoseconds.
    pub const fn of_ps(count: u64) -> Time {
        Time(count)
    }

    /// In nanoseconds.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// In seconds.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The time since `earlier`. Zero if that is later.
    pub fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }

    /// The share of `whole` that this is. 0 if `whole` is zero.
    pub fn share_of(self, whole: Time) -> f64 {
        if whole.0 == 0 { 0.0 } else { self.0 as f64 / whole.0 as f64 }
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        *self = *self + other;
    }
}

impl SubAssign for Time {
    fn sub_assign(&mut self, other: Time) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, count: u64) -> Time {
        Time(self.0.saturating_mul(count))
    }
}

impl Div<u64> for Time {
    type Output = Time;
    fn div(self, count: u64) -> Time {
        Time(self.0 / count)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

/// With a unit that fits: `12.5 us`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => (ps, "ps"),
            1_000..1_000_000 => (ps / 1e3, "ns"),
            1_000_000..1_000_000_000 => (ps / 1e6, "us"),
            1_000_000_000..1_000_000_000_000 => (ps / 1e9, "ms"),
            _ => (ps / 1e12, "s"),
        };
        let text = format!("{value:.3}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{text} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_all_time_is_never() {
        let long = ns(1e17);
        assert_eq!(long, Time::NEVER);
        assert_eq!([long + us(1), us(1) + long, long * 3], [Time::NEVER; 3]);
        let mut sum = long;
        sum += long;
        assert_eq!(sum, Time::NEVER);
    }
}
