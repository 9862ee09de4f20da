//! Threads on chosen CPUs, which measure in rounds.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

pub(super) const ROUNDS: usize = 500;

/// No further round begins after this. On a busy machine each thread waits long for its CPU, but some of many rounds
/// are undisturbed.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// How often a thread checks whether it is its turn before it sleeps.
pub(super) const LOOKS: u32 = 10_000;

/// How long it sleeps. A thread that only yields its CPU gets it back very late if another program computes there.
pub(super) const NAP: Duration = Duration::from_micros(50);

/// Instead of a turn: tells the other thread to end.
pub(super) const STOP: u64 = u64::MAX;

/// The most CPUs that Linux can be built for, on x86.
const MOST_CPUS: usize = 8192;

/// A pair of adjacent cache lines, as prefetchers bring both.
#[repr(align(128))]
pub(super) struct Line(pub AtomicU64);

/// The nanoseconds per thing done, in the fastest of many rounds: whatever else this machine does can only add.
pub(super) fn least(round: impl FnMut() -> f64) -> f64 {
    rounds(round).into_iter().fold(f64::INFINITY, f64::min)
}

/// The nanoseconds per thing done, in each of many rounds. A round returns how many things it has done.
pub(super) fn rounds(mut round: impl FnMut() -> f64) -> Vec<f64> {
    let began = Instant::now();
    let mut each = Vec::new();
    while each.len() < ROUNDS && (each.is_empty() || began.elapsed() <= PATIENCE) {
        let start = Instant::now();
        let done = round();
        each.push(start.elapsed().as_nanos() as f64 / done);
    }
    each
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Makes threads that wait for each other begin together, or not at all: alone, one would wait for ever.
pub(super) struct Start {
    pub all: Barrier,
    failure: Mutex<Option<i32>>,
}

impl Start {
    pub fn of(threads: usize) -> Start {
        Start { all: Barrier::new(threads), failure: Mutex::new(None) }
    }

    /// Runs this thread on a CPU, once each of the other threads is on its CPU.
    pub fn on<T>(&self, cpu: usize, something: impl FnOnce() -> T) -> io::Result<T> {
        let pinned = Pinned::to(cpu);
        if let Err(error) = &pinned {
            *self.failure.lock().expect("not poisoned") = error.raw_os_error();
        }
        self.all.wait();
        let failure = *self.failure.lock().expect("not poisoned"); // released before `something` runs
        match failure {
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => pinned.map(|_pinned| something()),
        }
    }
}

/// Runs this thread on a CPU.
pub(super) fn on<T>(cpu: usize, something: impl FnOnce() -> T) -> io::Result<T> {
    Pinned::to(cpu).map(|_pinned| something())
}

/// Keeps this thread on one CPU. Dropped, it restores the previous affinity.
struct Pinned {
    before: Mask,
}

impl Pinned {
    fn to(cpu: usize) -> io::Result<Pinned> {
        let before = Mask::of_this_thread()?;
        let mut only = Mask::default();
        *only.0.get_mut(cpu / 64).ok_or(io::Error::from_raw_os_error(libc::EINVAL))? |= 1 << (cpu % 64);
        only.apply()?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // If that fails, those CPUs have gone offline meanwhile.
        let _ = self.before.apply();
    }
}

/// A bit per CPU. The C library's `cpu_set_t` has 1024, which a kernel with more CPUs does not accept.
struct Mask([u64; MOST_CPUS / 64]);

impl Default for Mask {
    fn default() -> Mask {
        Mask([0; MOST_CPUS / 64])
    }
}

impl Mask {
    fn of_this_thread() -> io::Result<Mask> {
        let mut mask = Mask::default();
        // SAFETY: the kernel writes at most as many bytes as the size that is passed.
        let status = unsafe { libc::sched_getaffinity(0, size_of_val(&mask.0), mask.0.as_mut_ptr().cast()) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(mask) }
    }

    fn apply(&self) -> io::Result<()> {
        // SAFETY: the kernel reads at most as many bytes as the size that is passed.
        let status = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
