//! The tree: callbacks, quiescent states and grace periods.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::design::{InputError, Values};
use crate::designs::rcu::{Bug, Callback, Callbacks, Common, GLOBAL_LOCK};
use crate::designs::rcu_tree::completion::Completion;
use crate::designs::rcu_tree::shape::{Mask, Shape};
use crate::engine::Word;
use crate::locks::{AnyLock, Mutex};
use crate::simulation::Simulation;
use crate::time::Time;

/// `qhimark`: with more callbacks than this, a CPU invokes all that it can.
const QHIMARK: u64 = 10_000;

/// `struct rcu_node`. Its lock protects the rest. Only `gp_seq` is also read without the lock, to see whether it has
/// changed.
pub(super) struct Node {
    pub lock: AnyLock,
    /// The children that have not passed through a quiescent state in this grace period.
    qsmask: Mask,
    /// The latest grace period: twice its number, plus 1 while it runs.
    gp_seq: Word,
    /// The latest grace period that the node or its children need.
    gp_seq_needed: Word,
    /// The children that have not answered in this expedited grace period.
    pub expmask: Mask,
}

/// `struct rcu_data`. Only its own CPU uses it.
pub(super) struct Data<T> {
    callbacks: Callbacks<T>,
    gp_seq: Cell<u64>,
    core_needs_qs: Cell<bool>,
    passed: Cell<bool>,
    /// An expedited grace period waits for the reader that its IPI interrupted.
    pub exp_needed: Cell<bool>,
}

/// A tree for callbacks that carry a `T`.
pub struct Tree<T> {
    pub common: Common,
    pub(super) shape: Shape,
    pub(super) nodes: Vec<Node>,
    pub(super) data: Vec<Data<T>>,
    pub(super) exp_mutex: Mutex,
    pub(super) exp_began: Cell<Time>,
    pub(super) exp_waits: RefCell<Option<Rc<Completion>>>,
    /// When the running grace period began, for the check of the invariant.
    began: Cell<Time>,
    blimit: usize,
}

const ROOT: usize = 0;

impl<T> Tree<T> {
    /// A tree of the shape that the parameters describe.
    pub fn new(sim: &mut Simulation, values: &Values, common: Common) -> Result<Tree<T>, InputError> {
        let levels = values.count("levels")? as usize;
        if levels == 0 || levels > 5 {
            return Err(InputError(format!("levels={levels}: use 1 to 5")));
        }
        let leaf = match values.text("leaf") {
            "node" => None,
            _ => Some(values.count("leaf")?.max(1) as usize),
        };
        let kinds: Vec<&str> = AnyLock::KINDS.iter().map(|(kind, _)| *kind).collect();
        let kind = values.choice("lock", &kinds)?;
        let shape = Shape::of(&sim.machine(), levels, leaf)?;
        let lock =
            |sim: &mut Simulation, name: &str, home| AnyLock::new(kind, sim, name, home).expect("a kind");
        let nodes = (0..shape.parents.len()).map(|number| {
            let (home, children) = (shape.homes[number], shape.children[number]);
            let line = sim.line("rcu_node gp_seq", home);
            Node {
                lock: lock(sim, if number == ROOT { GLOBAL_LOCK } else { "rcu_node lock" }, home),
                qsmask: Mask::new(sim, "rcu_node qsmask", home, children),
                gp_seq: sim.word_on(line),
                gp_seq_needed: sim.word_on(line),
                expmask: Mask::new(sim, "rcu_node expmask", home, children),
            }
        });
        let nodes = nodes.collect();
        let data = |_| Data {
            callbacks: Callbacks::new(common.bug),
            gp_seq: Cell::new(0),
            core_needs_qs: Cell::new(false),
            passed: Cell::new(false),
            exp_needed: Cell::new(false),
        };
        Ok(Tree {
            data: (0..sim.cpus()).map(data).collect(),
            exp_mutex: Mutex::new(sim, "exp_mutex", 0),
            exp_began: Cell::new(Time::ZERO),
            exp_waits: RefCell::default(),
            began: Cell::new(Time::ZERO),
            blimit: values.count("blimit")?.max(1) as usize,
            shape,
            nodes,
            common,
        })
    }

    pub(super) fn data(&self, cpu: &Cpu) -> &Data<T> {
        &self.data[cpu.id()]
    }

    pub(super) fn leaf(&self, cpu: &Cpu) -> (usize, u32) {
        self.shape.leaves[cpu.id()]
    }

    /// Queues a callback that is invoked after a grace period.
    pub fn call_rcu(&self, cpu: &Cpu, what: T) {
        self.data(cpu).callbacks.queue(cpu.now(), what);
    }

    /// A context switch, or another quiescent state.
    pub fn rcu_note_context_switch(&self, cpu: &Cpu) {
        self.data(cpu).passed.set(true);
    }

    /// The tick, `rcu_sched_clock_irq`, and the softirq that it raises, `rcu_core`.
    pub async fn tick(&self, cpu: &Cpu, quiescent: bool) {
        let data = self.data(cpu);
        cpu.work(self.common.tick.cost).await;
        data.callbacks.check_no_stall(cpu);
        if quiescent || self.common.bug == Bug::Early {
            data.passed.set(true);
            if data.exp_needed.replace(false) {
                self.rcu_report_exp_rnp(cpu).await;
            }
        }
        if self.rcu_pending(cpu).await {
            self.rcu_core(cpu).await;
        }
    }

    async fn rcu_pending(&self, cpu: &Cpu) -> bool {
        let data = self.data(cpu);
        (data.core_needs_qs.get() && data.passed.get())
            || data.callbacks.has_next()
            || cpu.read(self.nodes[self.leaf(cpu).0].gp_seq).await != data.gp_seq.get()
    }

    async fn rcu_core(&self, cpu: &Cpu) {
        let data = self.data(cpu);
        self.note_gp_changes(cpu).await;
        if data.core_needs_qs.get() && data.passed.get() {
            self.rcu_report_qs(cpu).await;
        }
        if data.callbacks.has_next() {
            self.rcu_accelerate_cbs(cpu).await;
        }
    }

    /// Up to `blimit` callbacks whose grace period is over: `rcu_do_batch`.
    pub fn ready(&self, cpu: &Cpu) -> Vec<Callback<T>> {
        let callbacks = &self.data(cpu).callbacks;
        let limit = if callbacks.outstanding() > QHIMARK { usize::MAX } else { self.blimit };
        callbacks.take(cpu, &self.common.readers, limit)
    }

    /// Whether there are callbacks whose grace period is over.
    pub fn has_ready(&self, cpu: &Cpu) -> bool {
        self.data(cpu).callbacks.has_done()
    }

    /// Notices in the leaf that grace periods have begun or ended.
    async fn note_gp_changes(&self, cpu: &Cpu) {
        let (leaf, bit) = self.leaf(cpu);
        let node = &self.nodes[leaf];
        let data = self.data(cpu);
        let gp_seq = cpu.read(node.gp_seq).await;
        if gp_seq == data.gp_seq.get() {
            return;
        }
        cpu.lock(&node.lock).await;
        let gp_seq = cpu.read(node.gp_seq).await;
        let running = gp_seq & 1 == 1;
        data.callbacks.complete(if running { gp_seq / 2 - 1 } else { gp_seq / 2 });
        if gp_seq / 2 != data.gp_seq.get() / 2 || running != (data.gp_seq.get() & 1 == 1) {
            data.core_needs_qs.set(running && node.qsmask.has(cpu, bit).await);
            data.passed.set(false);
        }
        data.gp_seq.set(gp_seq);
        cpu.unlock(&node.lock).await;
    }

    /// Assigns new callbacks to the next grace period, and requests it.
    async fn rcu_accelerate_cbs(&self, cpu: &Cpu) {
        let (leaf, _) = self.leaf(cpu);
        cpu.lock(&self.nodes[leaf].lock).await;
        let wanted = cpu.read(self.nodes[ROOT].gp_seq).await / 2 + 1;
        self.data(cpu).callbacks.register(wanted);
        let mut number = leaf;
        loop {
            let node = &self.nodes[number];
            let requested = cpu.read(node.gp_seq_needed).await >= wanted;
            if !requested {
                cpu.write(node.gp_seq_needed, wanted).await;
            }
            let running = cpu.read(node.gp_seq).await & 1 == 1;
            let parent = self.shape.parents[number];
            // At the end of a running grace period every node is checked for what it needs.
            if requested || running || parent.is_none() {
                if !requested && !running {
                    self.rcu_gp_init(cpu).await; // with the root's lock
                }
                cpu.unlock(&node.lock).await;
                return;
            }
            let (above, _) = parent.expect("just seen");
            cpu.unlock(&node.lock).await;
            cpu.lock(&self.nodes[above].lock).await;
            number = above;
        }
    }

    /// Begins a grace period, node by node from the root down. The CPU holds the root's lock.
    async fn rcu_gp_init(&self, cpu: &Cpu) {
        self.began.set(cpu.now());
        let gp_seq = cpu.read(self.nodes[ROOT].gp_seq).await;
        for (number, node) in self.nodes.iter().enumerate() {
            if number != ROOT {
                cpu.lock(&node.lock).await;
            }
            node.qsmask.set_all(cpu).await;
            cpu.write(node.gp_seq, gp_seq / 2 * 2 + 3).await;
            if number != ROOT {
                cpu.unlock(&node.lock).await;
            }
        }
    }

    /// Ends the grace period, node by node, and begins the next if it is needed. The CPU holds the root's lock.
    async fn rcu_gp_cleanup(&self, cpu: &Cpu) {
        self.common.readers.check_none_from_before(cpu, self.began.get());
        self.common.counts.grace_period(cpu, self.began.get());
        let gp_seq = cpu.read(self.nodes[ROOT].gp_seq).await / 2;
        let mut needed = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            if number != ROOT {
                cpu.lock(&node.lock).await;
            }
            cpu.write(node.gp_seq, 2 * gp_seq).await;
            needed = needed.max(cpu.read(node.gp_seq_needed).await);
            if number != ROOT {
                cpu.unlock(&node.lock).await;
            }
        }
        if needed > gp_seq {
            cpu.write(self.nodes[ROOT].gp_seq_needed, needed).await;
            self.rcu_gp_init(cpu).await;
        }
    }

    /// Clears this CPU's bit in its leaf. If a node's mask becomes empty, clears the node's bit in its parent.
    async fn rcu_report_qs(&self, cpu: &Cpu) {
        let (mut number, mut bit) = self.leaf(cpu);
        let data = self.data(cpu);
        data.core_needs_qs.set(false);
        cpu.lock(&self.nodes[number].lock).await;
        if cpu.read(self.nodes[number].gp_seq).await != data.gp_seq.get() {
            data.core_needs_qs.set(true); // it belongs to another grace period: see `note_gp_changes`
            cpu.unlock(&self.nodes[number].lock).await;
            return;
        }
        loop {
            let last = self.nodes[number].qsmask.clear(cpu, bit).await;
            match self.shape.parents[number] {
                Some((above, bit_above)) if last => {
                    cpu.unlock(&self.nodes[number].lock).await;
                    cpu.lock(&self.nodes[above].lock).await;
                    (number, bit) = (above, bit_above);
                }
                None if last => {
                    self.rcu_gp_cleanup(cpu).await;
                    break;
                }
                _ => break,
            }
        }
        cpu.unlock(&self.nodes[number].lock).await;
    }
}
