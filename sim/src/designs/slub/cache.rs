//! The slab allocator.
//!
//! Invariants, which are checked: no object is allocated twice, a slab loses no object, and no CPU owns a
//! slab on a node's list.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::cpu::Cpu;
use crate::designs::design::{InputError, Values};
use crate::engine::{Counter, Word};
use crate::locks::Ticket;
use crate::simulation::Simulation;
use crate::time::Time;

/// The most slabs per CPU.
const SLABS: usize = 8192;
/// The time of an allocation's slow path, besides its cache lines.
const SLOW: Time = Time::of_ps(100_000);

pub(super) type Object = u32;

/// A slab. It is changed by compare-and-exchange of its word, as in `cmpxchg_double_slab`.
struct Slab {
    /// A word in its `struct page`, which counts changes.
    page: Word,
    node: usize,
    free: RefCell<Vec<Object>>,
    /// The number of objects that are not in `free`: allocated, or on the freelist of the CPU that owns the slab.
    inuse: Cell<usize>,
    /// A CPU owns it, as its slab or on its partial list. It is on no list of a node.
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

pub(super) struct Cache {
    slabs: RefCell<Vec<Rc<Slab>>>,
    /// For each node, the slabs that went back to the page allocator.
    discarded: Vec<RefCell<Vec<usize>>>,
    /// Whether each object is allocated.
    live: RefCell<Vec<bool>>,
    cpus: Vec<CpuSlab>,
    nodes: Vec<NodeList>,
    /// For each node, words for the `struct page` of new slabs.
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

/// What remains to be done after an object is back in its slab.
enum After {
    Nothing,
    PutCpuPartial,
    Discard,
}

impl Cache {
    pub fn new(sim: &mut Simulation, values: &Values, tasks: usize) -> Result<Cache, InputError> {
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

    /// Changes a slab atomically: reads its word, and repeats until no other CPU has changed it meanwhile.
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
    pub async fn alloc(&self, cpu: &Cpu) -> Object {
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

    /// Takes the objects that were freed to the CPU's slab, or gives up the slab. Returns whether there were any.
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

    /// Takes partial slabs from the node: one to allocate from, and some for the CPU's partial list. Returns whether
    /// there were any.
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
        self.update_nr_partial(cpu, node).await;
        cpu.unlock(&node.list_lock).await;
        available > 0
    }

    async fn update_nr_partial(&self, cpu: &Cpu, node: &NodeList) {
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
    pub async fn free(&self, cpu: &Cpu, object: Object) {
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

    /// Frees an object of a slab that is not the CPU's own: `__slab_free`.
    async fn slab_free(&self, cpu: &Cpu, number: usize, object: Object) {
        cpu.count(self.counts.slow_frees, 1);
        let slab = self.slab(number);
        let node = &self.nodes[slab.node];
        // The last object in use of a slab on the node's list: the list may have to change, so its lock is taken first.
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
                self.update_nr_partial(cpu, node).await;
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
        self.update_nr_partial(cpu, &self.nodes[node]).await;
        cpu.unlock(&self.nodes[node].list_lock).await;
    }

    async fn discard_slab(&self, cpu: &Cpu, number: usize) {
        cpu.work(self.page_alloc).await;
        self.discarded[self.slab(number).node].borrow_mut().push(number);
    }
}
