//! RCU as Linux has had it since 2.6.29: a combining tree of masks, each under a lock of its own.
//!
//! A CPU reports its quiescent state to its leaf; who clears the last bit of a node reports to the node above.
//! So the root's lock, the only one that all CPUs can take, is taken once for each of the root's children. A
//! grace period is asked for from the leaf up as well, and who finds that somebody has asked before goes no
//! further. An expedited grace period asks every CPU by an IPI instead of waiting for its tick.
//!
//! Follows `kernel/rcu/tree.c` and `tree_exp.h` of 5.10 (`rcu_start_this_gp`, `rcu_gp_init`, `rcu_gp_cleanup`,
//! `note_gp_changes`, `rcu_report_qs_rnp`, `sync_rcu_exp_select_cpus`), whose names it keeps. As before 3.6, a grace
//! period is ended and begun by the CPU that reports last and not by a kthread, so the kthread's wakeup is left out;
//! and no CPU stops its tick, so none is forced.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::rcu::{Bug, Callback, Callbacks, Common, GLOBAL_LOCK, Load, figures, parameter};
use crate::designs::{Design, InputError, Parameter, Values};
use crate::engine::{Interrupt, Word};
use crate::locks::{AnyLock, Mutex};
use crate::machine::Machine;
use crate::simulation::Simulation;
use crate::time::Time;

pub const DESIGN: Design = Design {
    name: "rcu-tree",
    description: "RCU since Linux 2.6.29: a combining tree of any shape; grace periods normal or expedited",
    parameters: &[
        parameter::LEVELS,
        Parameter {
            name: "leaf",
            default: "node",
            meaning: "CPUs in a leaf, or node: those of a node of the machine",
        },
        Parameter {
            name: "lock",
            default: "ticket",
            meaning: "which kind of lock each node of the tree has",
        },
        Parameter {
            name: "update",
            default: "call_rcu",
            meaning: "call_rcu, synchronize_rcu or synchronize_rcu_expedited",
        },
        parameter::HZ,
        parameter::TICK,
        Parameter { name: "updaters", default: "1", meaning: "CPUs that update in a loop" },
        Parameter {
            name: "interval",
            default: "1000000",
            meaning: "ns between updates of each, mean; 0: never",
        },
        Parameter {
            name: "background",
            default: "0",
            meaning: "ns between updates of other CPUs, mean; 0: never",
        },
        parameter::READ,
        parameter::READS,
        parameter::CALLBACK,
        parameter::BLIMIT,
        parameter::BUG,
    ],
    build,
    figures,
};

/// `qhimark`: with more callbacks than this, a CPU invokes all that it can.
const QHIMARK: u64 = 10_000;

/// What the IPIs of an expedited grace period say.
const EXPEDITE: u64 = 1;

/// Which children a node of the tree has, level by level.
struct Shape {
    /// The parent of each node, and its number among that one's children; the root is the first and has none.
    parents: Vec<Option<(usize, u32)>>,
    /// How many children each has; CPUs, of a leaf.
    children: Vec<u32>,
    /// The leaf of each CPU, and the CPU's number in it.
    leaves: Vec<(usize, u32)>,
    /// The node in whose memory each is.
    homes: Vec<usize>,
}

impl Shape {
    /// Leaves of so many CPUs, or of one for each of the machine's nodes; above them, levels as even as can be.
    fn of(machine: &Machine, levels: usize, leaf: Option<usize>) -> Result<Shape, InputError> {
        let cpus = machine.cpus();
        let leaf_of: Vec<usize> = match (levels, leaf) {
            (1, _) => vec![0; cpus],
            (_, Some(size)) => (0..cpus).map(|cpu| cpu / size).collect(),
            (_, None) => (0..cpus).map(|cpu| machine.node_of(cpu)).collect(),
        };
        let count = leaf_of[cpus - 1] + 1;
        let mut widths = vec![count];
        for level in (1..levels).rev() {
            let fanout = libm::ceil(libm::pow(count as f64, 1.0 / level as f64) - 1e-9) as usize;
            widths.push(if level == 1 { 1 } else { widths[widths.len() - 1].div_ceil(fanout.max(1)) });
        }
        widths.reverse();
        let first: Vec<usize> = (0..widths.len()).map(|level| widths[..level].iter().sum()).collect();
        let nodes = widths.iter().sum();
        let mut shape = Shape {
            parents: vec![None; nodes],
            children: vec![0; nodes],
            leaves: Vec::new(),
            homes: vec![0; nodes],
        };
        let leaves = first[widths.len() - 1];
        for (cpu, &leaf) in leaf_of.iter().enumerate().rev() {
            shape.homes[leaves + leaf] = machine.node_of(cpu);
        }
        for &leaf in &leaf_of {
            let number = shape.adopt(leaves + leaf);
            shape.leaves.push((leaves + leaf, number));
        }
        for level in (1..widths.len()).rev() {
            let fanout = widths[level].div_ceil(widths[level - 1]);
            for node in 0..widths[level] {
                let (child, parent) = (first[level] + node, first[level - 1] + node / fanout);
                if shape.children[parent] == 0 {
                    shape.homes[parent] = shape.homes[child];
                }
                shape.parents[child] = Some((parent, shape.adopt(parent)));
            }
        }
        Ok(shape)
    }

    fn adopt(&mut self, parent: usize) -> u32 {
        self.children[parent] += 1;
        self.children[parent] - 1
    }
}

/// A bit for each child of a node; more than a word of them where a node has more than 64.
struct Mask {
    words: Vec<Word>,
    all: Vec<u64>,
}

impl Mask {
    fn new(sim: &mut Simulation, name: &str, home: usize, children: u32) -> Mask {
        let line = sim.line(name, home);
        let count = children.div_ceil(64);
        Mask {
            words: (0..count).map(|_| sim.word_on(line)).collect(),
            all: (0..count).map(|word| u64::MAX >> (64 * (word + 1)).saturating_sub(children)).collect(),
        }
    }

    async fn set_all(&self, cpu: &Cpu) {
        for (word, all) in self.words.iter().zip(&self.all) {
            cpu.write(*word, *all).await;
        }
    }

    async fn has(&self, cpu: &Cpu, bit: u32) -> bool {
        cpu.read(self.words[bit as usize / 64]).await >> (bit % 64) & 1 == 1
    }

    /// True if it was the last.
    async fn clear(&self, cpu: &Cpu, bit: u32) -> bool {
        let word = self.words[bit as usize / 64];
        let left = cpu.read(word).await & !(1 << (bit % 64));
        cpu.write(word, left).await;
        if left != 0 {
            return false;
        }
        for word in &self.words {
            if cpu.read(*word).await != 0 {
                return false;
            }
        }
        true
    }
}

/// `struct rcu_node`. Its lock protects the rest; `gp_seq` is read without, to see whether it has changed.
struct Node {
    lock: AnyLock,
    /// Who has not passed through a quiescent state in this grace period.
    qsmask: Mask,
    /// The grace period that runs, or that has ended: twice its number, and 1 more while it runs.
    gp_seq: Word,
    /// The latest that somebody below has asked for.
    gp_seq_needed: Word,
    /// Who has not answered in this expedited grace period.
    expmask: Mask,
}

/// `struct rcu_data`, which only its own CPU uses.
struct Data<T> {
    callbacks: Callbacks<T>,
    gp_seq: Cell<u64>,
    core_needs_qs: Cell<bool>,
    passed: Cell<bool>,
    /// An expedited grace period waits for the reader that its IPI interrupted.
    exp_needed: Cell<bool>,
}

/// A tree for callbacks that carry a `T`.
pub struct Tree<T> {
    pub common: Common,
    shape: Shape,
    nodes: Vec<Node>,
    data: Vec<Data<T>>,
    exp_mutex: Mutex,
    exp_began: Cell<Time>,
    exp_waits: RefCell<Option<Rc<Completion>>>,
    /// When the grace period that runs began: the simulator's own, for the invariant.
    began: Cell<Time>,
    blimit: usize,
}

const ROOT: usize = 0;

impl<T> Tree<T> {
    /// A tree of the shape that the parameters say.
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

    fn data(&self, cpu: &Cpu) -> &Data<T> {
        &self.data[cpu.id()]
    }

    fn leaf(&self, cpu: &Cpu) -> (usize, u32) {
        self.shape.leaves[cpu.id()]
    }

    /// Has `what` invoked after a grace period.
    pub fn call_rcu(&self, cpu: &Cpu, what: T) {
        self.data(cpu).callbacks.queue(cpu.now(), what);
    }

    /// A context switch, or what counts as one: a quiescent state.
    pub fn rcu_note_context_switch(&self, cpu: &Cpu) {
        self.data(cpu).passed.set(true);
    }

    /// What the tick does, `rcu_sched_clock_irq`, and the softirq after it, `rcu_core`; `each` is what invoking a
    /// callback does beside its cost. True if callbacks are left to invoke: then the softirq is raised again.
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

    /// Whether there are more of them.
    pub fn has_ready(&self, cpu: &Cpu) -> bool {
        self.data(cpu).callbacks.has_done()
    }

    /// Learns of the beginning and the end of grace periods from the leaf.
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

    /// Callbacks that wait for no grace period yet wait for the next that begins, and somebody is asked for it.
    async fn rcu_accelerate_cbs(&self, cpu: &Cpu) {
        let (leaf, _) = self.leaf(cpu);
        cpu.lock(&self.nodes[leaf].lock).await;
        let wanted = cpu.read(self.nodes[ROOT].gp_seq).await / 2 + 1;
        self.data(cpu).callbacks.register(wanted);
        let mut number = leaf;
        loop {
            let node = &self.nodes[number];
            let asked = cpu.read(node.gp_seq_needed).await >= wanted;
            if !asked {
                cpu.write(node.gp_seq_needed, wanted).await;
            }
            let running = cpu.read(node.gp_seq).await & 1 == 1;
            let parent = self.shape.parents[number];
            // Where a grace period runs, its end looks at every node for what is needed.
            if asked || running || parent.is_none() {
                if !asked && !running {
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

    /// Begins a grace period, node by node, from the root down. The root's lock is held, and stays so.
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

    /// Ends the grace period, node by node, and begins the next if somebody has asked. The root's lock is held.
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

    /// Clears this CPU's bit in its leaf, and each node's in the one above as they become empty.
    async fn rcu_report_qs(&self, cpu: &Cpu) {
        let (mut number, mut bit) = self.leaf(cpu);
        let data = self.data(cpu);
        data.core_needs_qs.set(false);
        cpu.lock(&self.nodes[number].lock).await;
        if cpu.read(self.nodes[number].gp_seq).await != data.gp_seq.get() {
            data.core_needs_qs.set(true); // of another grace period: `note_gp_changes` will tell
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

    /// Returns when all readers there were have ended: asks every CPU by an IPI.
    pub async fn synchronize_rcu_expedited(&self, cpu: &Cpu) {
        cpu.lock(&self.exp_mutex).await;
        self.exp_began.set(cpu.now());
        let completion = Completion::of(cpu);
        self.exp_waits.replace(Some(Rc::clone(&completion)));
        cpu.disable_interrupts();
        for node in &self.nodes {
            cpu.lock(&node.lock).await;
            node.expmask.set_all(cpu).await;
            cpu.unlock(&node.lock).await;
        }
        cpu.enable_interrupts();
        for other in (0..self.data.len()).filter(|other| *other != cpu.id()) {
            cpu.work(self.common.callback).await;
            cpu.send_ipi(other, EXPEDITE);
        }
        cpu.disable_interrupts();
        self.rcu_report_exp_rnp(cpu).await;
        cpu.enable_interrupts();
        completion.wait(cpu).await;
        self.common.readers.check_none_from_before(cpu, self.exp_began.get());
        self.common.counts.grace_period(cpu, self.exp_began.get());
        cpu.unlock(&self.exp_mutex).await;
    }

    /// The IPI's handler, `rcu_exp_handler`.
    pub async fn expedite(&self, cpu: &Cpu) {
        if self.common.readers.reads(cpu) && self.common.bug != Bug::Early {
            self.data(cpu).exp_needed.set(true);
        } else {
            self.rcu_report_exp_rnp(cpu).await;
        }
    }

    async fn rcu_report_exp_rnp(&self, cpu: &Cpu) {
        let (mut number, mut bit) = self.leaf(cpu);
        loop {
            cpu.lock(&self.nodes[number].lock).await;
            let last = self.nodes[number].expmask.clear(cpu, bit).await;
            cpu.unlock(&self.nodes[number].lock).await;
            match self.shape.parents[number] {
                Some((above, bit_above)) if last => (number, bit) = (above, bit_above),
                None if last => return self.exp_waits.take().expect("it waits for this").complete(cpu),
                _ => return,
            }
        }
    }
}

/// What a program waits for and a callback completes: `struct completion`.
pub struct Completion {
    waiter: usize,
    done: Cell<bool>,
}

impl Completion {
    fn of(cpu: &Cpu) -> Rc<Completion> {
        Rc::new(Completion { waiter: cpu.id(), done: Cell::new(false) })
    }

    fn complete(&self, cpu: &Cpu) {
        self.done.set(true);
        cpu.wake(self.waiter);
    }

    async fn wait(&self, cpu: &Cpu) {
        while !self.done.get() {
            cpu.sleep().await;
        }
    }
}

/// A callback that completes what waits in `synchronize_rcu`, if anything does.
pub type Waiter = Option<Rc<Completion>>;

impl Tree<Waiter> {
    /// Returns after a grace period.
    pub async fn synchronize_rcu(&self, cpu: &Cpu) {
        let completion = Completion::of(cpu);
        self.call_rcu(cpu, Some(Rc::clone(&completion)));
        completion.wait(cpu).await;
    }

    /// Invokes the callbacks whose grace period is over, a batch at a time.
    pub async fn invoke(&self, cpu: &Cpu) {
        while self.has_ready(cpu) {
            let batch = self.ready(cpu);
            self.common
                .invoke(cpu, batch, |waiter| waiter.iter().for_each(|waits| waits.complete(cpu)))
                .await;
        }
    }
}

async fn interrupts(cpu: Cpu, tree: Rc<Tree<Waiter>>) {
    loop {
        tree.common.tick.arm(&cpu);
        loop {
            match cpu.interrupt().await {
                Interrupt::Timer(_) => break,
                Interrupt::Ipi { .. } => tree.expedite(&cpu).await,
            }
        }
        tree.tick(&cpu, !tree.common.readers.reads(&cpu)).await;
        tree.invoke(&cpu).await;
    }
}

async fn updates(cpu: Cpu, tree: Rc<Tree<Waiter>>, load: Load, update: Update) {
    let readers = &tree.common.readers;
    loop {
        load.until_next_update(&cpu, readers).await;
        load.read(&cpu, readers).await;
        match update {
            Update::Call => tree.call_rcu(&cpu, None),
            Update::Synchronize => tree.synchronize_rcu(&cpu).await,
            Update::Expedited => tree.synchronize_rcu_expedited(&cpu).await,
        }
        cpu.operation();
    }
}

#[derive(Clone, Copy)]
enum Update {
    Call,
    Synchronize,
    Expedited,
}

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let common = Common::of(sim, values, Bug::of(values)?)?;
    let load = Load::of(values, sim.cpus())?;
    let tree: Rc<Tree<Waiter>> = Rc::new(Tree::new(sim, values, common)?);
    let update =
        match values.choice("update", &["call_rcu", "synchronize_rcu", "synchronize_rcu_expedited"])? {
            "call_rcu" => Update::Call,
            "synchronize_rcu" => Update::Synchronize,
            _ => Update::Expedited,
        };
    for cpu in 0..sim.cpus() {
        let (in_handler, in_program, load) = (Rc::clone(&tree), Rc::clone(&tree), load.clone());
        sim.handler(cpu, |cpu| interrupts(cpu, in_handler));
        sim.program(cpu, |cpu| updates(cpu, in_program, load, update));
    }
    Ok(())
}
