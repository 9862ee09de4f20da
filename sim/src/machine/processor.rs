//! A machine's processors: clock rates, threads that share a core, memory bandwidth.

use crate::machine::file::{MachineError, ProcessorFile, error};
use crate::time::{Time, ns};

/// The processors of a machine.
#[derive(Clone, Debug)]
pub struct Processor {
    /// The level whose units each have a clock rate.
    pub(super) socket: String,
    turbo_ghz: Vec<(f64, f64)>,
    instructions_per_cycle: f64,
    smt_speedup: f64,
    /// Entering the kernel and leaving it.
    pub system_call: Time,
    core_gb_per_s: f64,
    node_gb_per_s: f64,
}

impl Processor {
    pub(super) fn new(file: &ProcessorFile) -> Result<Processor, MachineError> {
        let rates = file.turbo_ghz.iter().all(|(cores, ghz)| *cores >= 1.0 && ghz.is_finite() && *ghz > 0.0);
        let grows = file.turbo_ghz.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if file.turbo_ghz.is_empty() || !rates || !grows {
            return error(
                "processor: turbo_ghz is rows of active cores, growing, and GHz: [[1, 3.8], [24, 2.8]]",
            );
        }
        let smt_speedup = file.smt_speedup.unwrap_or(1.0);
        for (what, value) in [
            ("instructions_per_cycle", file.instructions_per_cycle),
            ("smt_speedup", smt_speedup),
            ("system_call_ns", file.system_call_ns),
            ("core_gb_per_s", file.core_gb_per_s),
            ("node_gb_per_s", file.node_gb_per_s),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return error(format!("processor: {what} is {value}: use a number above zero"));
            }
        }
        Ok(Processor {
            socket: file.socket.clone(),
            turbo_ghz: file.turbo_ghz.clone(),
            instructions_per_cycle: file.instructions_per_cycle,
            smt_speedup,
            system_call: ns(file.system_call_ns),
            core_gb_per_s: file.core_gb_per_s,
            node_gb_per_s: file.node_gb_per_s,
        })
    }

    /// The clock rate with a number of active cores in a socket.
    pub fn ghz(&self, active: usize) -> f64 {
        let active = active as f64;
        let after = self.turbo_ghz.iter().position(|(cores, _)| *cores >= active);
        let (last, first) = (self.turbo_ghz[self.turbo_ghz.len() - 1], self.turbo_ghz[0]);
        match after {
            None => last.1,
            Some(0) => first.1,
            Some(row) => {
                let ((from, slow), (to, fast)) = (self.turbo_ghz[row - 1], self.turbo_ghz[row]);
                slow + (fast - slow) * (active - from) / (to - from)
            }
        }
    }

    /// Nanoseconds per instruction at a clock rate, with a number of busy threads in the core.
    pub fn ns_per_instruction(&self, ghz: f64, threads: usize) -> f64 {
        let threads = threads.max(1) as f64;
        threads / (self.of_threads(threads) * self.instructions_per_cycle * ghz)
    }

    /// What a core with that many busy threads does, relative to one thread. Each doubling gains half as much as the
    /// one before it. Between two doublings the gain grows with the logarithm of the threads.
    fn of_threads(&self, threads: f64) -> f64 {
        let (mut did, mut gain, mut doublings) = (1.0, self.smt_speedup - 1.0, libm::log2(threads));
        while doublings > 0.0 {
            did *= 1.0 + gain * doublings.min(1.0);
            (gain, doublings) = (gain / 2.0, doublings - 1.0);
        }
        did
    }

    /// Nanoseconds that one core takes to write `bytes`, and nanoseconds that its node's memory is busy with them.
    pub fn ns_of_bytes(&self, bytes: f64) -> (f64, f64) {
        (bytes / self.core_gb_per_s, bytes / self.node_gb_per_s)
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;

    #[test]
    fn each_doubling_of_a_core_s_threads_gains_half_as_much_as_the_one_before() {
        let machine = Machine::named("power10-1920").unwrap(); // with an smt_speedup of 1.6
        let did = |threads| machine.processor().unwrap().of_threads(threads);
        let close = |threads, expected: f64| assert!((did(threads) - expected).abs() < 1e-9, "{threads}");
        close(1.0, 1.0);
        close(2.0, 1.6);
        close(4.0, 1.6 * 1.3);
        close(8.0, 1.6 * 1.3 * 1.15);
        assert!(did(2.0) < did(3.0) && did(3.0) < did(4.0));
    }
}
