//! Cores alone: clock rate, system call, writing to memory.

use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::measure::threads::{Start, least, median, on};

/// How long each core is busy when all of them are measured at once.
const BUSY: Duration = Duration::from_millis(300);

/// The clock rate in GHz of cores that are all busy; None on architectures without the measurement.
pub fn clock(cpus: &[usize]) -> io::Result<Option<f64>> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Ok(None);
    }
    let each = at_once(cpus, || {
        let (began, mut fastest) = (Instant::now(), f64::INFINITY);
        while began.elapsed() < BUSY {
            let first = Instant::now();
            chain();
            fastest = fastest.min(first.elapsed().as_nanos() as f64);
        }
        ADDITIONS / fastest
    })?;
    Ok(Some(median(each)))
}

const ADDITIONS: f64 = 100_000.0;

/// Additions that each need the previous sum, so that each takes a cycle. Golden Cove adds constants in no time, but
/// not a register to itself.
fn chain() {
    let mut sum = 1u64;
    for _ in 0..1_000 {
        // SAFETY: it changes one register, which it declares.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(".rept 100", "add {0}, {0}", ".endr", inout(reg) sum, options(nomem, nostack));
        }
        // SAFETY: the same.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(".rept 100", "add {0}, {0}, {0}", ".endr", inout(reg) sum, options(nomem, nostack));
        }
    }
    std::hint::black_box(sum);
}

/// Nanoseconds of a minimal system call, getppid.
pub fn system_call(cpu: usize) -> io::Result<f64> {
    on(cpu, || {
        least(|| {
            for _ in 0..1_000 {
                // SAFETY: it has no arguments, and touches nothing of this process.
                std::hint::black_box(unsafe { libc::syscall(libc::SYS_getppid) });
            }
            1_000.0
        })
    })
}

/// GB/s that these CPUs together write to memory, each to its part of so many bytes. Caches must not hold them.
pub fn fill(cpus: &[usize], bytes: usize) -> io::Result<f64> {
    /// Small enough that the C library does not bypass the caches. The kernel does not either.
    const CHUNK: usize = 1 << 20;
    let bytes = (bytes / cpus.len().max(1)).max(CHUNK);
    let each = at_once(cpus, || {
        let mut memory = vec![1u8; bytes];
        let (began, mut rates) = (Instant::now(), Vec::new());
        while began.elapsed() < BUSY {
            for chunk in memory.chunks_exact_mut(CHUNK) {
                let first = Instant::now();
                std::hint::black_box(chunk).fill(rates.len() as u8);
                rates.push(CHUNK as f64 / first.elapsed().as_nanos() as f64);
            }
        }
        median(rates)
    })?;
    Ok(each.iter().sum())
}

/// Does something on each of the CPUs, which begin at the same time.
fn at_once(cpus: &[usize], something: impl Fn() -> f64 + Sync) -> io::Result<Vec<f64>> {
    let (start, found) = (Start::of(cpus.len()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let (start, found, something) = (&start, &found, &something);
        let each: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                scope.spawn(move || {
                    start.on(cpu, || {
                        let value = something();
                        found.lock().expect("not poisoned").push(value);
                    })
                })
            })
            .collect();
        each.into_iter().try_for_each(|one| one.join().expect("it does not panic"))
    })?;
    Ok(found.into_inner().expect("not poisoned"))
}
