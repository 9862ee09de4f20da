//! The time stamp counter.

use std::thread;
use std::time::{Duration, Instant};

/// The frequency of this machine's time stamp counter in kHz; None on other architectures. QEMU derives an emulated
/// processor's counter from it (`cpu_get_host_ticks()` in its include/qemu/timer.h).
pub fn counter_khz() -> Option<f64> {
    const APART: Duration = Duration::from_millis(20);
    let (begin, first) = counted()?;
    thread::sleep(APART);
    let (end, last) = counted()?;
    Some((last - first) as f64 / (end - begin).as_secs_f64() / 1e3)
}

/// How often the counter is read.
#[cfg(target_arch = "x86_64")]
const READINGS: u32 = 100;

/// A moment and the counter at that moment: the least disturbed of several readings.
#[cfg(target_arch = "x86_64")]
fn counted() -> Option<(Instant, u64)> {
    let looks = (0..READINGS).map(|_| {
        let before = Instant::now();
        // SAFETY: every x86-64 processor has the instruction, and user programs of Linux may execute it.
        let counter = unsafe { std::arch::x86_64::_rdtsc() };
        let took = before.elapsed();
        (took, before + took / 2, counter)
    });
    looks.min_by_key(|look| look.0).map(|(_, middle, counter)| (middle, counter))
}

#[cfg(not(target_arch = "x86_64"))]
fn counted() -> Option<(Instant, u64)> {
    None
}
