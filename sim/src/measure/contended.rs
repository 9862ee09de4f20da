//! One cache line that several CPUs access at once.

use std::hint::spin_loop;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::measure::threads::{LOOKS, Line, NAP, PATIENCE, ROUNDS, Start};

/// Nanoseconds from one CPU's atomic addition to the next CPU's, while all add to one cache line.
pub fn added(cpus: &[usize]) -> io::Result<Option<f64>> {
    let line = Line(AtomicU64::new(0));
    contended(cpus, 5_000, |_, last| {
        let before = line.0.fetch_add(1, Ordering::Relaxed);
        let moved = before != *last;
        *last = before + 1;
        moved
    })
}

/// Nanoseconds that a CPU takes to see a new value in a cache line that the first CPU writes and all others read.
pub fn read_while_written(cpus: &[usize]) -> io::Result<Option<f64>> {
    let line = Line(AtomicU64::new(0));
    let between = contended(cpus, 100_000, |number, last| {
        if number == 0 {
            *last += 1;
            line.0.store(*last, Ordering::Relaxed);
            return false;
        }
        let now = line.0.load(Ordering::Relaxed);
        let moved = now != *last;
        *last = now;
        moved
    })?;
    Ok(between.map(|nanoseconds| nanoseconds * (cpus.len() - 1) as f64)) // all of them wait at the same time
}

/// Nanoseconds from one holder of an MCS lock to the next, with an empty critical section.
pub fn handed_over(cpus: &[usize]) -> io::Result<Option<f64>> {
    let lock = Mcs::of(cpus.len());
    contended(cpus, 5_000, |number, _| {
        let waited = lock.acquire(number);
        lock.release(number);
        waited
    })
}

/// An MCS lock: a queue of waiters, each of which reads a cache line of its own, as in the kernel's qspinlock.
struct Mcs {
    /// The number of the last CPU in the queue, plus one. Zero if the lock is free.
    tail: Line,
    /// For each CPU, whether it must wait, and the number of the next CPU plus one.
    nodes: Vec<(Line, Line)>,
}

impl Mcs {
    fn of(cpus: usize) -> Mcs {
        let line = || Line(AtomicU64::new(0));
        Mcs { tail: line(), nodes: (0..cpus).map(|_| (line(), line())).collect() }
    }

    /// Acquires the lock. Returns whether another CPU held it.
    fn acquire(&self, number: usize) -> bool {
        let (waits, next) = &self.nodes[number];
        waits.0.store(1, Ordering::Relaxed);
        next.0.store(0, Ordering::Relaxed);
        let before = self.tail.0.swap(number as u64 + 1, Ordering::AcqRel);
        if before == 0 {
            return false;
        }
        self.nodes[before as usize - 1].1.0.store(number as u64 + 1, Ordering::Release);
        spin_until(|| waits.0.load(Ordering::Acquire) == 0);
        true
    }

    fn release(&self, number: usize) {
        let next = &self.nodes[number].1.0;
        let mine = number as u64 + 1;
        if next.load(Ordering::Acquire) == 0 {
            if self.tail.0.compare_exchange(mine, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
            spin_until(|| next.load(Ordering::Acquire) != 0);
        }
        self.nodes[next.load(Ordering::Acquire) as usize - 1].0.0.store(0, Ordering::Release);
    }
}

fn spin_until(done: impl Fn() -> bool) {
    let mut looks = 0;
    while !done() {
        if looks == LOOKS {
            thread::sleep(NAP);
        } else {
            looks += 1;
        }
        spin_loop();
    }
}

/// All CPUs repeat an attempt until the first has done so `attempts` times. Returns the nanoseconds between two
/// attempts that moved the cache line, in the fastest round; None if no round had all CPUs in it, as they are busy
/// with other programs. An attempt gets its CPU's number and a value that the CPU's previous attempt left, and
/// returns whether it moved the line.
fn contended(
    cpus: &[usize],
    attempts: usize,
    attempt: impl Fn(usize, &mut u64) -> bool + Sync,
) -> io::Result<Option<f64>> {
    let start = Start::of(cpus.len());
    let (ready, over, last_round) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let rounds = Mutex::new(vec![Vec::new(); cpus.len()]);
    let began = Instant::now();
    let one = |number: usize| {
        for round in 0..ROUNDS {
            ready.fetch_add(1, Ordering::AcqRel);
            spin_until(|| ready.load(Ordering::Acquire) >= (round + 1) * cpus.len());
            let (mut moved, mut last, first) = (0usize, u64::MAX, Instant::now());
            if number == 0 {
                moved = (0..attempts).filter(|_| attempt(0, &mut last)).count();
                over.store(true, Ordering::Release);
            } else {
                while !over.load(Ordering::Acquire) {
                    moved += usize::from(attempt(number, &mut last));
                }
            }
            let took = first.elapsed().as_nanos() as f64;
            rounds.lock().expect("not poisoned")[number].push((took, moved));
            if start.all.wait().is_leader() {
                over.store(false, Ordering::Release);
                last_round.store(began.elapsed() > PATIENCE, Ordering::Release);
            }
            start.all.wait();
            if last_round.load(Ordering::Acquire) {
                break;
            }
        }
    };
    thread::scope(|scope| {
        let start = &start;
        let one = &one;
        let others: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(number, &cpu)| scope.spawn(move || start.on(cpu, || one(number))))
            .collect();
        others.into_iter().try_for_each(|other| other.join().expect("it does not panic"))
    })?;
    Ok(undisturbed(&rounds.into_inner().expect("not poisoned")))
}

/// The least time between two moves, among the rounds in which all CPUs took part. Other programs can only add to it:
/// the time of a round counts even while other CPUs are absent.
fn undisturbed(rounds: &[Vec<(f64, usize)>]) -> Option<f64> {
    (0..rounds[0].len())
        .filter_map(|round| {
            let moved: Vec<usize> = rounds.iter().map(|of_cpu| of_cpu[round].1).collect();
            let most = *moved.iter().max()?;
            let shared = moved.iter().filter(|&&of_cpu| 4 * of_cpu >= most).count() >= moved.len().max(2) - 1;
            (most > 0 && shared).then(|| rounds[0][round].0 / moved.iter().sum::<usize>() as f64)
        })
        .min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_without_one_of_the_cpus_does_not_count() {
        let alone = vec![(100.0, 10), (100.0, 10)];
        let beside = vec![(100.0, 10), (100.0, 0)];
        let third = vec![(100.0, 10), (100.0, 0)];
        assert_eq!(undisturbed(&[alone, beside, third]), Some(100.0 / 30.0));
        assert_eq!(undisturbed(&[vec![(100.0, 0)], vec![(100.0, 0)]]), None);
    }

    #[test]
    fn one_at_a_time_has_the_lock() {
        let (lock, count) = (Mcs::of(4), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..4 {
                let (lock, count) = (&lock, &count);
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        lock.acquire(number);
                        let before = count.load(Ordering::Relaxed);
                        spin_loop();
                        count.store(before + 1, Ordering::Relaxed); // lost if two threads are here
                        lock.release(number);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 4_000);
    }
}
