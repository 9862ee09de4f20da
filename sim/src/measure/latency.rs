//! Latencies of a cache line, of memory and of a wakeup.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::measure::threads::{LOOKS, Line, NAP, STOP, Start, least, median, on, rounds};
use crate::random::Random;

/// Nanoseconds of a load that hits the CPU's own cache.
pub fn hit(cpu: usize) -> io::Result<f64> {
    on(cpu, || {
        const LOADS: usize = 10_000;
        let chain = std::hint::black_box([0usize; 8]);
        least(|| {
            let mut at = 0; // the loaded value is the next address, so that loads cannot overlap
            for _ in 0..LOADS {
                at = std::hint::black_box(&chain)[at];
            }
            std::hint::black_box(at);
            LOADS as f64
        })
    })
}

/// Nanoseconds that a cache line takes from one CPU to another: half a round trip.
///
/// Both CPUs try to exchange the value, without a pause, as the sources of the built-in machines' figures do. A hop is
/// then one transfer. On a Zen EPYC under KVM it takes 28 ns. With a load that waits, and a store, it takes 52 ns, as
/// the line is shared in between, and 34 ns with an x86 PAUSE after each load. A PAUSE takes up to 140 cycles on others.
pub fn transfer(from: usize, to: usize) -> io::Result<f64> {
    const ROUND_TRIPS: u64 = 100;
    let line = Line(AtomicU64::new(0));
    let pass_on = |turn: u64, next: u64| {
        let mut looks = 0;
        loop {
            match line.0.compare_exchange(turn, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(STOP) => return false,
                Err(_) if looks == LOOKS => thread::sleep(NAP),
                Err(_) => looks += 1,
            }
        }
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

/// Nanoseconds of a load by CPU `from` from so many bytes of memory near CPU `of`, including address translation: the
/// median of the rounds, as the fastest may find lines that a cache still holds.
pub fn memory(of: usize, from: usize, bytes: usize) -> io::Result<f64> {
    const LOADS: usize = 1_000;
    let (first, chain) = on(of, || chain(bytes))?;
    on(from, || {
        let mut line = first;
        median(rounds(|| {
            for _ in 0..LOADS {
                line = chain[line as usize][0];
            }
            std::hint::black_box(line);
            LOADS as f64
        }))
    })
}

/// One cycle through all cache lines of so many bytes in random order, which no prefetcher can predict: the line that
/// was written first, and for each line the next. Caches keep the lines that were written last, the end of the walk.
fn chain(bytes: usize) -> (u32, Vec<[u32; 16]>) {
    let lines = (bytes / size_of::<[u32; 16]>()).max(1);
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut random = Random::new(1, 0);
    random.shuffle(&mut order);
    let mut chain = vec![[0; 16]; lines];
    for (place, &line) in order.iter().enumerate() {
        chain[line as usize][0] = order[(place + 1) % lines];
    }
    (order[0], chain)
}

/// Nanoseconds from waking a thread that sleeps on another CPU until it runs: half a round trip.
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
        let pass_to = |now: u64| {
            turn.0.store(now, Ordering::Release);
            other.thread().unpark();
        };
        let measured = start.on(from, || {
            let mut mine = 0;
            let nanoseconds = least(|| {
                for _ in 0..ROUND_TRIPS {
                    pass_to(mine + 1);
                    mine += 2;
                    sleep_until(mine);
                }
                2.0 * ROUND_TRIPS as f64
            });
            pass_to(STOP);
            nanoseconds
        });
        other.join().expect("it does not panic")?;
        measured
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_goes_through_all_lines_and_begins_with_the_first_written() {
        let (first, chain) = chain(64 << 10);
        assert_eq!(chain.len(), 1 << 10);
        let mut seen = vec![false; chain.len()];
        let mut line = first;
        for _ in 0..chain.len() {
            assert!(!std::mem::replace(&mut seen[line as usize], true));
            line = chain[line as usize][0];
        }
        assert_eq!(line, first);
    }
}
