//! CPUs that go offline or come online, one after the other: the states that each passes through, the rebuilt
//! scheduler domains, their files in debugfs or in sysctl's tables, and the grace periods on the way.
//!
//! One CPU does all the work. The others idle, except for their ticks, which RCU needs, and for `stop_machine`, in
//! which all CPUs meet four times to remove one.
//!
//! Follows `kernel/cpu.c` (`cpuhp_hp_states`, `_cpu_down`, `_cpu_up`), `kernel/stop_machine.c` (`multi_cpu_stop`),
//! `kernel/sched/topology.c` (`build_sched_domains`), `kernel/sched/debug.c` (`update_sched_domain_debugfs` of 5.13
//! to 6.2; `register_sched_domain_sysctl` until 5.12) and `drivers/cpuidle/cpuidle.c`
//! (`cpuidle_uninstall_idle_handler`). Not modelled: an offline CPU stops ticking, as RCU would notice.
//!
//! Invariants, which are checked: a CPU passes through each state once, in order, and after each rebuild the CPUs
//! with a directory are those that are online.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::design::{Design, Figure, InputError, Parameter, Values};
use crate::designs::rcu::{Bug, Common, parameter};
use crate::designs::rcu_tree::{Tree, Waiter};
use crate::engine::{Counter, Interrupt, Word};
use crate::report::Report;
use crate::simulation::Simulation;
use crate::time::Time;

pub const DESIGN: Design = Design {
    name: "cpu-hotplug",
    description: "CPUs go offline or come online: states, stop_machine, scheduler domains, their files, grace periods",
    parameters: &[
        Parameter { name: "direction", default: "offline", meaning: "offline or online" },
        Parameter {
            name: "keep",
            default: "0",
            meaning: "every so many-th CPU stays, as the first thread of a core; 0: the first CPU",
        },
        Parameter { name: "cycle", default: "0", meaning: "CPUs to take at most; 0: all" },
        Parameter {
            name: "files",
            default: "none",
            meaning: "of scheduler domains: none, sysctl or debugfs",
        },
        Parameter { name: "domains", default: "4", meaning: "scheduler domains of a CPU" },
        Parameter {
            name: "domain_pair",
            default: "840",
            meaning: "ns to build domains, for each pair of CPUs",
        },
        Parameter { name: "lookup", default: "14526", meaning: "ns of debugfs_lookup" },
        Parameter {
            name: "remove",
            default: "1092640",
            meaning: "ns of debugfs_remove, of a CPU's directory",
        },
        Parameter { name: "create_cpu", default: "48408", meaning: "ns of debugfs_create_dir, for a CPU" },
        Parameter {
            name: "create_domain",
            default: "75600",
            meaning: "ns to create a domain's directory and its eight files",
        },
        Parameter {
            name: "sysctl_cpu",
            default: "44600",
            meaning: "ns to unregister and register a CPU's tables",
        },
        Parameter { name: "waits", default: "2", meaning: "grace periods that are waited for at each CPU" },
        Parameter {
            name: "wait",
            default: "normal",
            meaning: "normal, or expedited: /sys/kernel/rcu_expedited",
        },
        Parameter { name: "state", default: "25000", meaning: "ns in each of a CPU's states" },
        parameter::LEVELS,
        parameter::LEAF,
        Parameter { name: "lock", default: "qspinlock", meaning: "which kind of lock each node of it has" },
        Parameter { name: "hz", default: "100", meaning: "ticks a second" },
        parameter::TICK,
        Parameter {
            name: "callback",
            default: "500",
            meaning: "ns to invoke a callback, and to send an IPI",
        },
        parameter::BLIMIT,
        Parameter {
            name: "bug",
            default: "none",
            meaning: "to seed: none, stale (a directory stays), skip (a state)",
        },
    ],
    build,
    figures,
};

/// The states that a CPU passes through from online to offline (`enum cpuhp_state`): one per callback that is
/// installed in Debian's 6.1.
const STATES: u32 = 60;
/// The state, counted down, in which domains are rebuilt: `CPUHP_AP_ACTIVE`, the first.
const ACTIVE: u32 = STATES - 1;
/// The state in which `stop_machine` removes the CPU: `CPUHP_TEARDOWN_CPU`.
const TEARDOWN: u32 = STATES / 2;
/// The state that waits for grace periods.
const WAITS: u32 = ACTIVE - 1;

/// The four states in which all CPUs meet: `enum multi_stop_state` after `MULTI_STOP_NONE`.
const MEETINGS: u64 = 4;

const STOP: u64 = 0;

/// `struct multi_stop_data`: both words on one cache line.
struct Stop {
    state: Word,
    thread_ack: Word,
    threads: Cell<u64>,
}

struct Hotplug {
    tree: Tree<Waiter>,
    stop: Stop,
    states: Vec<Cell<u32>>,
    online: RefCell<Vec<bool>>,
    has_directory: RefCell<Vec<bool>>,
    files: Files,
    domain_pair: Time,
    waits: u64,
    expedited: bool,
    state: Time,
    wrong: Wrong,
    done: Cell<bool>,
    counts: Counts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    Stale,
    Skip,
}

enum Files {
    None,
    Sysctl { cpu: Time },
    Debugfs { lookup: Time, remove: Time, create: Time },
}

struct Counts {
    files: Counter,
    domains: Counter,
    waits: Counter,
    stops: Counter,
    cycles: Counter,
}

impl Hotplug {
    /// Adds the time that something took to a counter.
    async fn timed(&self, cpu: &Cpu, counter: Counter, what: impl Future<Output = ()>) {
        let start = cpu.now();
        what.await;
        cpu.count(counter, (cpu.now() - start).as_ns() as u64);
    }

    /// Takes a CPU through its states, down or up.
    async fn cycle(&self, cpu: &Cpu, other: usize, down: bool) {
        for step in 0..STATES {
            let to = if down { STATES - 1 - step } else { step + 1 };
            if self.wrong == Wrong::Skip && step == STATES / 3 {
                continue;
            }
            self.enter(cpu, other, to, down);
            cpu.work(self.state).await;
            match if down { to } else { to - 1 } {
                ACTIVE => {
                    self.online.borrow_mut()[other] = !down;
                    self.timed(cpu, self.counts.domains, self.build_sched_domains(cpu)).await;
                    self.timed(cpu, self.counts.files, self.update_files(cpu, other)).await;
                }
                WAITS => {
                    for _ in 0..self.waits {
                        self.timed(cpu, self.counts.waits, self.synchronize_rcu(cpu)).await;
                    }
                }
                TEARDOWN if down => self.timed(cpu, self.counts.stops, self.stop_machine(cpu)).await,
                _ => {}
            }
        }
        cpu.operation();
    }

    fn enter(&self, cpu: &Cpu, other: usize, to: u32, down: bool) {
        let from = self.states[other].replace(to);
        let follows = if down { from == to + 1 } else { from + 1 == to };
        cpu.check(follows, || format!("CPU {other} comes to state {to} from {from}"));
    }

    /// Finds the groups of every CPU by visiting all CPUs that its domains span.
    async fn build_sched_domains(&self, cpu: &Cpu) {
        let online = self.count_online();
        cpu.work(self.domain_pair * (online * online)).await;
    }

    fn count_online(&self) -> u64 {
        self.online.borrow().iter().filter(|online| **online).count() as u64
    }

    /// Removes the files of every CPU, and creates those of the online CPUs again.
    async fn update_files(&self, cpu: &Cpu, changed: usize) {
        let online = self.online.borrow().clone();
        for (other, is_online) in online.iter().enumerate() {
            let had = std::mem::replace(&mut self.has_directory.borrow_mut()[other], *is_online);
            if self.wrong == Wrong::Stale && other == changed {
                self.has_directory.borrow_mut()[other] = true;
            }
            if !had && !is_online {
                continue; // it has no files, and gets none
            }
            match self.files {
                Files::None => {}
                Files::Sysctl { cpu: each } => cpu.work(each).await,
                Files::Debugfs { lookup, remove, create } => {
                    let took = [(true, lookup), (had, remove), (*is_online, create)];
                    cpu.work(took.iter().filter(|(does, _)| *does).map(|(_, time)| *time).sum()).await;
                }
            }
        }
        let wrong = self.has_directory.borrow().iter().zip(&online).position(|(has, online)| has != online);
        cpu.check(wrong.is_none(), || {
            format!("the directory of CPU {} is not as the CPU is", wrong.unwrap_or(0))
        });
    }

    async fn synchronize_rcu(&self, cpu: &Cpu) {
        if self.expedited {
            self.tree.synchronize_rcu_expedited(cpu).await;
        } else {
            self.tree.synchronize_rcu(cpu).await;
        }
    }

    /// All online CPUs meet, with interrupts disabled, while one of them is removed.
    async fn stop_machine(&self, cpu: &Cpu) {
        let online: Vec<usize> =
            (0..self.states.len()).filter(|other| self.states[*other].get() > 0).collect();
        self.stop.threads.set(online.len() as u64);
        cpu.write(self.stop.thread_ack, online.len() as u64).await;
        cpu.write(self.stop.state, 1).await;
        for other in online.into_iter().filter(|other| *other != cpu.id()) {
            cpu.send_ipi(other, STOP);
        }
        cpu.disable_interrupts();
        self.multi_cpu_stop(cpu).await;
        cpu.spin_while(self.stop.state, |state| state <= MEETINGS).await;
        cpu.enable_interrupts();
    }

    async fn multi_cpu_stop(&self, cpu: &Cpu) {
        for meeting in 1..=MEETINGS {
            cpu.spin_while(self.stop.state, |state| state < meeting).await;
            if cpu.fetch_add(self.stop.thread_ack, 1u64.wrapping_neg()).await == 1 {
                cpu.write(self.stop.thread_ack, self.stop.threads.get()).await;
                cpu.write(self.stop.state, meeting + 1).await;
            }
        }
    }

    async fn interrupts(self: Rc<Self>, cpu: Cpu) {
        loop {
            if !self.done.get() {
                self.tree.common.tick.arm(&cpu);
            }
            loop {
                match cpu.interrupt().await {
                    Interrupt::Timer(_) => break,
                    Interrupt::Ipi { message: STOP, .. } => self.multi_cpu_stop(&cpu).await,
                    Interrupt::Ipi { .. } => self.tree.expedite(&cpu).await,
                }
            }
            self.tree.tick(&cpu, true).await;
            self.tree.invoke(&cpu).await;
        }
    }

    async fn program(self: Rc<Self>, cpu: Cpu, others: Vec<usize>, down: bool) {
        for other in others {
            self.timed(&cpu, self.counts.cycles, self.cycle(&cpu, other, down)).await;
        }
        self.done.set(true);
    }
}

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let cpus = sim.cpus();
    let down = values.choice("direction", &["offline", "online"])? == "offline";
    let wrong = match values.choice("bug", &["none", "stale", "skip"])? {
        "stale" => Wrong::Stale,
        "skip" => Wrong::Skip,
        _ => Wrong::Nothing,
    };
    let keep = values.count("keep")? as usize;
    let goes = |cpu: &usize| *cpu > 0 && (keep == 0 || cpu % keep != 0);
    let most = match values.count("cycle")? as usize {
        0 => cpus,
        most => most,
    };
    let others: Vec<usize> = (0..cpus).filter(goes).take(most).collect();
    let online: Vec<bool> = (0..cpus).map(|cpu| down || !others.contains(&cpu)).collect();
    let line = sim.line("multi_stop_data", 0);
    let common = Common::of(sim, values, Bug::None)?;
    let hotplug = Rc::new(Hotplug {
        tree: Tree::new(sim, values, common)?,
        stop: Stop { state: sim.word_on(line), thread_ack: sim.word_on(line), threads: Cell::new(0) },
        states: online.iter().map(|online| Cell::new(if *online { STATES } else { 0 })).collect(),
        has_directory: RefCell::new(online.clone()),
        online: RefCell::new(online),
        files: files(values)?,
        domain_pair: values.time("domain_pair")?,
        waits: values.count("waits")?,
        expedited: values.choice("wait", &["normal", "expedited"])? == "expedited",
        state: values.time("state")?,
        wrong,
        done: Cell::new(false),
        counts: Counts {
            files: sim.counter("files, ns"),
            domains: sim.counter("domains, ns"),
            waits: sim.counter("grace periods waited, ns"),
            stops: sim.counter("stop_machine, ns"),
            cycles: sim.counter("cycles, ns"),
        },
    });
    for cpu in 0..cpus {
        let in_handler = Rc::clone(&hotplug);
        sim.handler(cpu, |cpu| in_handler.interrupts(cpu));
    }
    sim.program(0, |cpu| hotplug.program(cpu, others, down));
    Ok(())
}

fn files(values: &Values) -> Result<Files, InputError> {
    Ok(match values.choice("files", &["none", "sysctl", "debugfs"])? {
        "none" => Files::None,
        "sysctl" => Files::Sysctl { cpu: values.time("sysctl_cpu")? },
        _ => Files::Debugfs {
            lookup: values.time("lookup")?,
            remove: values.time("remove")?,
            create: values.time("create_cpu")? + values.time("create_domain")? * values.count("domains")?,
        },
    })
}

fn figures(report: &Report, _: &Values) -> Vec<Figure> {
    let seconds = |counter| report.counter(counter) as f64 / 1e9;
    vec![
        Figure { name: "total", value: seconds("cycles, ns"), unit: "s" },
        Figure { name: "domains", value: seconds("domains, ns"), unit: "s" },
        Figure { name: "files", value: seconds("files, ns"), unit: "s" },
        Figure { name: "grace periods waited", value: seconds("grace periods waited, ns"), unit: "s" },
        Figure { name: "stop_machine", value: seconds("stop_machine, ns"), unit: "s" },
    ]
}
