//! SLUB under objects that RCU frees: the loop of will-it-scale's open1, which allocates a `struct file`, and frees
//! it by `call_rcu`.
//!
//! A CPU allocates from a slab of its own. An object that is freed goes back to its slab; the first that comes back
//! to a full one puts the slab on the CPU's list of partial slabs, and when that has too many, all of them go to the
//! node's list, under the node's `list_lock`. How many objects come back at a time depends on how long grace periods
//! are: with 3.16, `cond_resched` counts, and every RCU_COND_RESCHED_LIM-th is a quiescent state.
//!
//! Follows `mm/slub.c` of 3.15 (`__slab_alloc`, `get_freelist`, `get_partial_node`, `__slab_free`, `put_cpu_partial`,
//! `unfreeze_partials`), whose names it keeps; `kernel/softirq.c` for what becomes of many callbacks;
//! `include/linux/rcucondresched.h` of 3.16-rc0 for the limit. Left out: taking partial slabs from other nodes, and
//! the page allocator's own locks.
//!
//! What must always be true, and is checked: no object is handed out twice, a slab's objects are all somewhere, and a
//! slab on a node's list belongs to no CPU.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::rcu::{Bug, Common, grace_periods, parameter};
use crate::designs::rcu_tree::Tree;
use crate::designs::{Design, Figure, InputError, Parameter, Values};
use crate::engine::{Counter, Interrupt, Word};
use crate::locks::Ticket;
use crate::report::Report;
use crate::simulation::Simulation;
use crate::time::{Time, ns};

pub const DESIGN: Design = Design {
    name: "slub",
    description: "SLUB under objects that RCU frees, as open1 does it: slabs, partial lists, the node's list_lock",
    parameters: &[
        Parameter { name: "tasks", default: "0", meaning: "CPUs that open and close files; 0: all" },
        Parameter {
            name: "limit",
            default: "100000",
            meaning: "RCU_COND_RESCHED_LIM: cond_resched to a quiescent state; 0: never",
        },
        Parameter { name: "cond_resched", default: "3", meaning: "calls of cond_resched in an operation" },
        Parameter { name: "user", default: "200", meaning: "ns of an operation in user mode, mean" },
        Parameter {
            name: "walk",
            default: "1000",
            meaning: "ns of an operation under rcu_read_lock, looking names up",
        },
        Parameter { name: "kernel", default: "1800", meaning: "ns of an operation in the kernel beside" },
        Parameter { name: "objects", default: "16", meaning: "objects in a slab" },
        Parameter { name: "cpu_partial", default: "13", meaning: "objects on a CPU's partial list, at most" },
        Parameter {
            name: "min_partial",
            default: "5",
            meaning: "slabs on a node's list that are kept though empty",
        },
        Parameter {
            name: "page_alloc",
            default: "1500",
            meaning: "ns to get a slab from the page allocator or give it back",
        },
        parameter::LEVELS,
        parameter::LEAF,
        Parameter { name: "lock", default: "ticket", meaning: "which kind of lock each node of it has" },
        parameter::HZ,
        parameter::TICK,
        Parameter {
            name: "callback",
            default: "100",
            meaning: "ns to invoke a callback, the fast path of a free among it",
        },
        parameter::BLIMIT,
        Parameter {
            name: "bug",
            default: "none",
            meaning: "to seed: none, early or lost (RCU's), unfrozen (a slab is on two lists)",
        },
    ],
    build,
    figures,
};

/// Softirqs that are raised again and again are left to ksoftirqd after so many rounds: `MAX_SOFTIRQ_RESTART`.
const MAX_SOFTIRQ_RESTART: usize = 10;

type Object = u32;

/// A slab. What its word says is protected by compare and exchange, as `cmpxchg_double_slab` does it.
struct Slab {
    /// The line of its `struct page`; the word counts changes.
    page: Word,
    node: usize,
    free: RefCell<Vec<Object>>,
    /// Objects that are not in `free`: handed out, or on the freelist of the CPU whose slab this is.
    inuse: Cell<usize>,
    /// It belongs to a CPU, as its slab or on its partial list: it is on no list of a node.
    frozen: Cell<bool>,
    listed: Cell<bool>,
}

/// `struct kmem_cache_cpu`.
#[derive(Default)]
struct CpuSlab {
    freelist: RefCell<Vec<Object>>,
    slab: Cell<Option<usize>>,
    partial: RefCell<Vec<usize>>,
    pobjects: Cell<usize>,
}

/// `struct kmem_cache_node`.
struct NodeList {
    list_lock: Ticket,
    nr_partial: Word,
    partial: RefCell<Vec<usize>>,
}

struct Cache {
    slabs: RefCell<Vec<Rc<Slab>>>,
    /// Whose page has gone back to the page allocator.
    discarded: Vec<RefCell<Vec<usize>>>,
    live: RefCell<Vec<bool>>,
    cpus: Vec<CpuSlab>,
    nodes: Vec<NodeList>,
    /// A line for each slab that there can be.
    pages: Vec<RefCell<Vec<Word>>>,
    objects: usize,
    cpu_partial: usize,
    min_partial: usize,
    page_alloc: Time,
    unfrozen: bool,
    counts: Counts,
}

struct Counts {
    slow_allocs: Counter,
    slow_frees: Counter,
    new_slabs: Counter,
    drains: Counter,
}

/// What a free must do after the object is back in its slab.
enum After {
    Nothing,
    PutCpuPartial,
    Discard,
}

impl Cache {
    fn new(sim: &mut Simulation, values: &Values, tasks: usize) -> Result<Cache, InputError> {
        let at_least_one = |name| -> Result<usize, InputError> { Ok(values.count(name)?.max(1) as usize) };
        let nodes = sim.machine().nodes();
        let cpus = sim.cpus();
        let new_node = |node| NodeList {
            list_lock: Ticket::new(sim, "list_lock", node),
            nr_partial: sim.word("kmem_cache_node", node),
            partial: RefCell::default(),
        };
        let lists = (0..nodes).map(new_node).collect();
        let counts = Counts {
            slow_allocs: sim.counter("allocations, slow path"),
            slow_frees: sim.counter("frees, slow path"),
            new_slabs: sim.counter("slabs from the page allocator"),
            drains: sim.counter("CPU partial lists drained"),
        };
        let machine = sim.machine();
        let pages: Vec<RefCell<Vec<Word>>> = (0..nodes).map(|_| RefCell::default()).collect();
        for cpu in 0..tasks {
            let node = machine.node_of(cpu);
            pages[node].borrow_mut().extend((0..SLABS).map(|_| sim.word("struct page", node)));
        }
        Ok(Cache {
            slabs: RefCell::default(),
            discarded: (0..nodes).map(|_| RefCell::default()).collect(),
            live: RefCell::default(),
            cpus: (0..cpus).map(|_| CpuSlab::default()).collect(),
            nodes: lists,
            pages,
            objects: at_least_one("objects")?,
            cpu_partial: at_least_one("cpu_partial")?,
            min_partial: values.count("min_partial")? as usize,
            page_alloc: values.time("page_alloc")?,
            unfrozen: values.text("bug") == "unfrozen",
            counts,
        })
    }

    fn of_cpu(&self, cpu: &Cpu) -> &CpuSlab {
        &self.cpus[cpu.id()]
    }

    fn slab(&self, number: usize) -> Rc<Slab> {
        Rc::clone(&self.slabs.borrow()[number])
    }

    /// Changes a slab as one atomic operation: reads its word, and tries until nobody came in between.
    async fn cmpxchg<R>(&self, cpu: &Cpu, number: usize, change: impl Fn(&Slab) -> R) -> R {
        let slab = self.slab(number);
        loop {
            let seen = cpu.read(slab.page).await;
            if cpu.compare_exchange(slab.page, seen, seen + 1).await == seen {
                let result = change(&slab);
                let free = slab.free.borrow().len();
                cpu.check(free + slab.inuse.get() == self.objects, || {
                    format!(
                        "a slab of {} objects has {free} free and {} in use",
                        self.objects,
                        slab.inuse.get()
                    )
                });
                return result;
            }
        }
    }

    /// `kmem_cache_alloc`.
    async fn alloc(&self, cpu: &Cpu) -> Object {
        let own = self.of_cpu(cpu);
        let object = own.freelist.borrow_mut().pop();
        let object = match object {
            Some(object) => object,
            None => {
                cpu.disable_interrupts();
                self.slab_alloc(cpu).await;
                cpu.enable_interrupts();
                own.freelist.borrow_mut().pop().expect("the slow path has filled it")
            }
        };
        let twice = std::mem::replace(&mut self.live.borrow_mut()[object as usize], true);
        cpu.check(!twice, || format!("object {object} is handed out twice"));
        object
    }

    /// Fills the CPU's freelist: `__slab_alloc`.
    async fn slab_alloc(&self, cpu: &Cpu) {
        cpu.count(self.counts.slow_allocs, 1);
        cpu.work(SLOW).await;
        let own = self.of_cpu(cpu);
        loop {
            if let Some(number) = own.slab.get() {
                if self.get_freelist(cpu, number).await {
                    return;
                }
                own.slab.set(None);
            }
            let partial = own.partial.borrow_mut().pop();
            if partial.is_none() {
                if !self.get_partial_node(cpu).await {
                    self.new_slab(cpu).await;
                }
                return;
            }
            own.slab.set(partial);
        }
    }

    /// Takes what has been freed to the CPU's own slab, or lets go of it. True if there was anything.
    async fn get_freelist(&self, cpu: &Cpu, number: usize) -> bool {
        let own = self.of_cpu(cpu);
        self.cmpxchg(cpu, number, |slab| {
            let mut free = slab.free.borrow_mut();
            slab.frozen.set(!free.is_empty());
            slab.inuse.set(self.objects);
            own.freelist.borrow_mut().append(&mut free);
            slab.frozen.get()
        })
        .await
    }

    /// Takes partial slabs from the node: one to allocate from, and some for the CPU's list.
    async fn get_partial_node(&self, cpu: &Cpu) -> bool {
        let (own, node) = (self.of_cpu(cpu), &self.nodes[cpu.node()]);
        if cpu.read(node.nr_partial).await == 0 {
            return false;
        }
        cpu.lock(&node.list_lock).await;
        let mut available = 0;
        while available <= self.cpu_partial / 2 {
            let Some(number) = node.partial.borrow_mut().pop() else { break };
            cpu.check(self.slab(number).listed.get(), || "a slab on a node's list belongs to a CPU".into());
            let first = available == 0;
            let count = self.cmpxchg(cpu, number, |slab| {
                slab.listed.set(false);
                slab.frozen.set(true);
                let mut free = slab.free.borrow_mut();
                let count = free.len();
                if first {
                    slab.inuse.set(self.objects);
                    own.freelist.borrow_mut().append(&mut free);
                }
                count
            });
            let count = count.await;
            if first {
                own.slab.set(Some(number));
            } else {
                own.partial.borrow_mut().push(number);
                own.pobjects.set(own.pobjects.get() + count);
            }
            available += count;
        }
        self.tell_nr_partial(cpu, node).await;
        cpu.unlock(&node.list_lock).await;
        available > 0
    }

    async fn tell_nr_partial(&self, cpu: &Cpu, node: &NodeList) {
        let count = node.partial.borrow().len() as u64;
        cpu.write(node.nr_partial, count).await;
    }

    async fn new_slab(&self, cpu: &Cpu) {
        cpu.count(self.counts.new_slabs, 1);
        cpu.work(self.page_alloc).await;
        let own = self.of_cpu(cpu);
        let node = cpu.node();
        let number = self.discarded[node].borrow_mut().pop().unwrap_or_else(|| self.first_use(cpu, node));
        let slab = self.slab(number);
        slab.frozen.set(true);
        slab.inuse.set(self.objects);
        own.freelist.borrow_mut().append(&mut slab.free.borrow_mut());
        own.slab.set(Some(number));
    }

    fn first_use(&self, cpu: &Cpu, node: usize) -> usize {
        let mut slabs = self.slabs.borrow_mut();
        let number = slabs.len();
        let page = self.pages[node].borrow_mut().pop();
        cpu.check(page.is_some(), || format!("out of memory: {number} slabs of objects wait to be freed"));
        let page = page.unwrap_or_else(|| slabs[0].page);
        let first = (number * self.objects) as Object;
        slabs.push(Rc::new(Slab {
            page,
            node,
            free: RefCell::new((first..first + self.objects as Object).collect()),
            inuse: Cell::new(0),
            frozen: Cell::new(true),
            listed: Cell::new(false),
        }));
        self.live.borrow_mut().resize((number + 1) * self.objects, false);
        number
    }

    /// `kmem_cache_free`, in a callback.
    async fn free(&self, cpu: &Cpu, object: Object) {
        let live = std::mem::replace(&mut self.live.borrow_mut()[object as usize], false);
        cpu.check(live, || format!("object {object} is freed twice"));
        let own = self.of_cpu(cpu);
        let number = object as usize / self.objects;
        if own.slab.get() == Some(number) {
            own.freelist.borrow_mut().push(object);
            return;
        }
        self.slab_free(cpu, number, object).await;
    }

    /// Gives an object back to a slab that is not the CPU's own: `__slab_free`.
    async fn slab_free(&self, cpu: &Cpu, number: usize, object: Object) {
        cpu.count(self.counts.slow_frees, 1);
        let slab = self.slab(number);
        let node = &self.nodes[slab.node];
        // The last object in use of a slab on the node's list: the list may have to change, so its lock comes first.
        let locks = !slab.frozen.get() && slab.inuse.get() == 1 && !slab.free.borrow().is_empty();
        if locks {
            cpu.lock(&node.list_lock).await;
        }
        let after = self.cmpxchg(cpu, number, |slab| {
            let was_full = slab.free.borrow().is_empty();
            slab.free.borrow_mut().push(object);
            slab.inuse.set(slab.inuse.get() - 1);
            if was_full && !slab.frozen.get() {
                slab.frozen.set(true);
                After::PutCpuPartial
            } else if locks && slab.inuse.get() == 0 && slab.listed.get() {
                After::Discard
            } else {
                After::Nothing
            }
        });
        match after.await {
            After::PutCpuPartial => self.put_cpu_partial(cpu, number).await,
            After::Discard if node.partial.borrow().len() >= self.min_partial => {
                node.partial.borrow_mut().retain(|listed| *listed != number);
                slab.listed.set(false);
                self.tell_nr_partial(cpu, node).await;
                cpu.unlock(&node.list_lock).await;
                self.discard_slab(cpu, number).await;
                return;
            }
            _ => {}
        }
        if locks {
            cpu.unlock(&node.list_lock).await;
        }
    }

    async fn put_cpu_partial(&self, cpu: &Cpu, number: usize) {
        let own = self.of_cpu(cpu);
        if own.pobjects.get() > self.cpu_partial {
            self.unfreeze_partials(cpu).await;
        }
        own.partial.borrow_mut().push(number);
        let free = self.slab(number).free.borrow().len();
        own.pobjects.set(own.pobjects.get() + free);
        if self.unfrozen {
            self.nodes[cpu.node()].partial.borrow_mut().push(number);
        }
    }

    /// Moves the CPU's partial slabs to their nodes' lists.
    async fn unfreeze_partials(&self, cpu: &Cpu) {
        cpu.count(self.counts.drains, 1);
        let own = self.of_cpu(cpu);
        own.pobjects.set(0);
        let mut slabs = own.partial.take();
        slabs.sort_by_key(|&number| self.slab(number).node);
        let mut empty = Vec::new();
        let mut held: Option<usize> = None;
        for number in slabs {
            let home = self.slab(number).node;
            if held != Some(home) {
                if let Some(other) = held {
                    self.leave_node(cpu, other).await;
                }
                cpu.lock(&self.nodes[home].list_lock).await;
                held = Some(home);
            }
            let list = &self.nodes[home].partial;
            let keeps = self.cmpxchg(cpu, number, |slab| {
                let keeps = slab.inuse.get() > 0 || list.borrow().len() < self.min_partial;
                slab.frozen.set(false);
                slab.listed.set(keeps);
                keeps
            });
            if keeps.await {
                list.borrow_mut().push(number);
            } else {
                empty.push(number);
            }
        }
        if let Some(home) = held {
            self.leave_node(cpu, home).await;
        }
        for number in empty {
            self.discard_slab(cpu, number).await;
        }
    }

    async fn leave_node(&self, cpu: &Cpu, node: usize) {
        self.tell_nr_partial(cpu, &self.nodes[node]).await;
        cpu.unlock(&self.nodes[node].list_lock).await;
    }

    async fn discard_slab(&self, cpu: &Cpu, number: usize) {
        cpu.work(self.page_alloc).await;
        self.discarded[self.slab(number).node].borrow_mut().push(number);
    }
}

/// Slabs that there can be for each CPU.
const SLABS: usize = 8192;
/// What the slow path of an allocation takes beside its cache lines.
const SLOW: Time = Time::of_ps(100_000);

struct Open1 {
    tree: Tree<Object>,
    cache: Cache,
    in_user: Vec<Cell<bool>>,
    tasks: usize,
    limit: u64,
    cond_resched: u64,
    user: Time,
    walk: Time,
    kernel: Time,
}

impl Open1 {
    async fn program(self: Rc<Self>, cpu: Cpu) {
        let in_user = &self.in_user[cpu.id()];
        if cpu.id() >= self.tasks {
            in_user.set(true);
            return cpu.idle().await;
        }
        let readers = &self.tree.common.readers;
        let mut resched = 0;
        loop {
            in_user.set(true);
            cpu.user(cpu.exponential(self.user)).await;
            in_user.set(false);
            readers.lock(&cpu);
            cpu.work(self.walk).await;
            readers.unlock(&cpu);
            let file = self.cache.alloc(&cpu).await;
            cpu.work(self.kernel).await;
            self.tree.call_rcu(&cpu, file);
            resched += self.cond_resched;
            if self.limit > 0 && resched >= self.limit {
                resched = 0;
                cpu.work(ns(100)).await;
                self.tree.rcu_note_context_switch(&cpu);
            }
            cpu.operation();
        }
    }

    async fn interrupts(self: Rc<Self>, cpu: Cpu) {
        loop {
            self.tree.common.tick.arm(&cpu);
            while !matches!(cpu.interrupt().await, Interrupt::Timer(_)) {}
            self.tree.tick(&cpu, self.in_user[cpu.id()].get()).await;
            let mut rounds = 0;
            while self.tree.has_ready(&cpu) {
                for callback in self.tree.ready(&cpu) {
                    cpu.work(self.tree.common.callback).await;
                    self.tree.common.counts.callback(&cpu, callback.queued);
                    self.cache.free(&cpu, callback.what).await;
                }
                rounds += 1;
                if rounds == MAX_SOFTIRQ_RESTART {
                    self.tree.rcu_note_context_switch(&cpu); // to ksoftirqd
                }
            }
        }
    }
}

fn build(sim: &mut Simulation, values: &Values) -> Result<(), InputError> {
    let cpus = sim.cpus();
    let tasks = values.tasks(cpus)?;
    let bug = if values.text("bug") == "unfrozen" { Bug::None } else { Bug::of(values)? };
    let common = Common::of(sim, values, bug)?;
    let open1 = Rc::new(Open1 {
        tree: Tree::new(sim, values, common)?,
        cache: Cache::new(sim, values, tasks)?,
        in_user: (0..cpus).map(|_| Cell::new(false)).collect(),
        tasks,
        limit: values.count("limit")?,
        cond_resched: values.count("cond_resched")?,
        user: values.time("user")?,
        walk: values.time("walk")?,
        kernel: values.time("kernel")?,
    });
    for cpu in 0..cpus {
        let (in_handler, in_program) = (Rc::clone(&open1), Rc::clone(&open1));
        sim.handler(cpu, |cpu| in_handler.interrupts(cpu));
        sim.program(cpu, |cpu| in_program.program(cpu));
    }
    Ok(())
}

fn figures(report: &Report, _: &Values) -> Vec<Figure> {
    let per_operation =
        |count: f64| if report.operations == 0 { 0.0 } else { count / report.operations as f64 };
    let list_lock = report.locks.iter().find(|lock| lock.name == "list_lock");
    let taken = list_lock.map_or(0, |lock| lock.acquired);
    let waiting = list_lock.map_or(0.0, |lock| lock.waiting.as_ns());
    let mut figures = vec![
        Figure { name: "list_lock", value: per_operation(taken as f64), unit: "times/op" },
        Figure { name: "waiting for list_lock", value: per_operation(waiting), unit: "ns/op" },
    ];
    figures.extend(grace_periods(report));
    figures
}
