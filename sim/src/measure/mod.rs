//! Measures the machine on which this runs: how long a cache line, memory and a wakeup take.

mod contended;
mod cores;

pub use contended::{added, handed_over, read_while_written};
pub use cores::{clock, fill, system_call};

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 500;

/// After which no further round begins: on a busy machine each thread waits long for its CPU, and some rounds of
/// many are undisturbed all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often a thread looks whether it is its turn before it leaves its CPU to others.
const LOOKS: u32 = 10_000;

/// For how long; a thread that only yields its CPU is given it back very late where somebody else computes there.
const NAP: Duration = Duration::from_micros(50);

/// Instead of a turn: the other thread ends.
const STOP: u64 = u64::MAX;

/// As many as Linux can be built for, on x86.
const MOST_CPUS: usize = 8192;

/// A line of its own, and the one beside it that prefetchers bring along.
#[repr(align(128))]
struct Line(AtomicU64);

/// How many thousand times a second this machine's time stamp counter counts; None where it is of another
/// architecture. QEMU counts an emulated processor's by it (`cpu_get_host_ticks()` in its include/qemu/timer.h).
pub fn counter_khz() -> Option<f64> {
    const APART: Duration = Duration::from_millis(20);
    let (begin, first) = counted()?;
    thread::sleep(APART);
    let (end, last) = counted()?;
    Some((last - first) as f64 / (end - begin).as_secs_f64() / 1e3)
}

/// A moment and what the counter was then: of several looks the one that was disturbed least.
#[cfg(target_arch = "x86_64")]
fn counted() -> Option<(Instant, u64)> {
    let looks = (0..LOOKS / 100).map(|_| {
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

/// Nanoseconds of a load that hits the CPU's own cache.
pub fn hit(cpu: usize) -> io::Result<f64> {
    on(cpu, || {
        const LOADS: usize = 10_000;
        let chain = std::hint::black_box([0usize; 8]);
        least(|| {
            let mut at = 0; // what was loaded is the next address, so that loads come one after the other
            for _ in 0..LOADS {
                at = std::hint::black_box(&chain)[at];
            }
            std::hint::black_box(at);
            LOADS as f64
        })
    })
}

/// Nanoseconds that a line takes from one CPU to another: half of what it takes there and back.
pub fn transfer(from: usize, to: usize) -> io::Result<f64> {
    const ROUND_TRIPS: u64 = 100;
    let line = Line(AtomicU64::new(0));
    let pass_on = |turn: u64, next: u64| {
        let mut looks = 0;
        loop {
            match line.0.load(Ordering::Acquire) {
                now if now == turn => break,
                STOP => return false,
                _ if looks == LOOKS => thread::sleep(NAP),
                _ => looks += 1,
            }
            spin_loop();
        }
        line.0.store(next, Ordering::Release);
        true
    };
    let start = Start::of(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            start.on(to, || {
                let mut turn = 1;
                while pass_on(turn, turn + 1) {
                    turn += 2;
                }
            })
        });
        let measured = start.on(from, || {
            let mut turn = 0;
            let nanoseconds = least(|| {
                for _ in 0..ROUND_TRIPS {
                    pass_on(turn, turn + 1);
                    turn += 2;
                }
                2.0 * ROUND_TRIPS as f64
            });
            pass_on(turn, STOP);
            nanoseconds
        });
        other.join().expect("it does not panic")?;
        measured
    })
}

/// Nanoseconds of a load from memory that is near `of`, by the CPU `from`; address translation is part of it.
pub fn memory(of: usize, from: usize) -> io::Result<f64> {
    const LINES: usize = 1 << 20;
    const LOADS: usize = 1_000;
    let chain: Vec<[u32; 16]> = on(of, || {
        // One cycle through all lines, in a random order: no prefetcher knows the next.
        let mut order: Vec<u32> = (0..LINES as u32).collect();
        let mut random = crate::random::Random::new(1, 0);
        random.shuffle(&mut order);
        let mut chain = vec![[0; 16]; LINES];
        for (place, &line) in order.iter().enumerate() {
            chain[line as usize][0] = order[(place + 1) % LINES];
        }
        chain
    })?;
    on(from, || {
        let mut line = 0;
        least(|| {
            for _ in 0..LOADS {
                line = chain[line as usize][0];
            }
            std::hint::black_box(line);
            LOADS as f64
        })
    })
}

/// Nanoseconds from waking a thread that sleeps on another CPU until it runs: half of there and back.
pub fn wakeup(from: usize, to: usize) -> io::Result<f64> {
    const ROUND_TRIPS: u64 = 10;
    let turn = Line(AtomicU64::new(0));
    let waker = thread::current();
    let sleep_until = |wanted: u64| loop {
        match turn.0.load(Ordering::Acquire) {
            now if now == wanted => return true,
            STOP => return false,
            _ => thread::park(),
        }
    };
    let start = Start::of(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            start.on(to, || {
                let mut mine = 1;
                while sleep_until(mine) {
                    turn.0.store(mine + 1, Ordering::Release);
                    waker.unpark();
                    mine += 2;
                }
            })
        });
        let tell = |now: u64| {
            turn.0.store(now, Ordering::Release);
            other.thread().unpark();
        };
        let measured = start.on(from, || {
            let mut mine = 0;
            let nanoseconds = least(|| {
                for _ in 0..ROUND_TRIPS {
                    tell(mine + 1);
                    mine += 2;
                    sleep_until(mine);
                }
                2.0 * ROUND_TRIPS as f64
            });
            tell(STOP);
            nanoseconds
        });
        other.join().expect("it does not panic")?;
        measured
    })
}

/// The fastest of some rounds, as whatever else this machine does can only add: nanoseconds it took, by how many
/// things a round says it has done.
fn least(mut round: impl FnMut() -> f64) -> f64 {
    let began = Instant::now();
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let done = round();
        fastest = fastest.min(start.elapsed().as_nanos() as f64 / done);
        if began.elapsed() > PATIENCE {
            break;
        }
    }
    fastest
}

/// Threads that wait for each other begin together, or not at all: alone, one would wait for ever.
struct Start {
    all: Barrier,
    failure: Mutex<Option<i32>>,
}

impl Start {
    fn of(threads: usize) -> Start {
        Start { all: Barrier::new(threads), failure: Mutex::new(None) }
    }

    /// Does something with this thread on one CPU, once each of the others is on its own.
    fn on<T>(&self, cpu: usize, something: impl FnOnce() -> T) -> io::Result<T> {
        let pinned = Pinned::to(cpu);
        if let Err(error) = &pinned {
            *self.failure.lock().expect("nobody panics with it") = error.raw_os_error();
        }
        self.all.wait();
        let failure = *self.failure.lock().expect("nobody panics with it"); // not held meanwhile
        match failure {
            Some(number) => Err(io::Error::from_raw_os_error(number)),
            None => pinned.map(|_pinned| something()),
        }
    }
}

/// Does something with this thread on one CPU.
fn on<T>(cpu: usize, something: impl FnOnce() -> T) -> io::Result<T> {
    Pinned::to(cpu).map(|_pinned| something())
}

/// This thread, on one CPU; dropped, it goes where it could before.
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
        // It was there before: where that fails, its CPUs have gone meanwhile.
        let _ = self.before.apply();
    }
}

/// CPUs, a bit each. The C library's `cpu_set_t` has 1024, and a kernel that knows more does not take it.
struct Mask([u64; MOST_CPUS / 64]);

impl Default for Mask {
    fn default() -> Mask {
        Mask([0; MOST_CPUS / 64])
    }
}

impl Mask {
    fn of_this_thread() -> io::Result<Mask> {
        let mut mask = Mask::default();
        // SAFETY: the kernel writes at most as many bytes as it is told that there are.
        let status = unsafe { libc::sched_getaffinity(0, size_of_val(&mask.0), mask.0.as_mut_ptr().cast()) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(mask) }
    }

    fn apply(&self) -> io::Result<()> {
        // SAFETY: the kernel reads at most as many bytes as it is told that there are.
        let status = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
