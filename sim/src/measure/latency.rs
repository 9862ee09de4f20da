//! Latencies of a cache line, of memory and of a wakeup.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::measure::threads::{LOOKS, Line, NAP, STOP, Start, least, on};
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

/// Nanoseconds of a load from memory near CPU `of`, by CPU `from`, including address translation.
pub fn memory(of: usize, from: usize) -> io::Result<f64> {
    const LINES: usize = 1 << 20;
    const LOADS: usize = 1_000;
    let chain: Vec<[u32; 16]> = on(of, || {
        // One cycle through all cache lines in random order, which no prefetcher can predict.
        let mut order: Vec<u32> = (0..LINES as u32).collect();
        let mut random = Random::new(1, 0);
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
