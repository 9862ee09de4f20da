//! The shape of the tree, and the masks in its nodes.

use crate::cpu::Cpu;
use crate::designs::design::InputError;
use crate::engine::Word;
use crate::machine::Machine;
use crate::simulation::Simulation;

/// The nodes of the tree, level by level from the root down.
pub(super) struct Shape {
    /// The parent of each node, and the node's number among its parent's children. The root is the first and has
    /// none.
    pub parents: Vec<Option<(usize, u32)>>,
    /// How many children each node has. Those of a leaf are CPUs.
    pub children: Vec<u32>,
    /// The leaf of each CPU, and the CPU's number in it.
    pub leaves: Vec<(usize, u32)>,
    /// The machine's node in whose memory each node is.
    pub homes: Vec<usize>,
}

impl Shape {
    /// Leaves of `leaf` CPUs, or one leaf per node of the machine. The levels above them are as even as possible.
    pub fn of(machine: &Machine, levels: usize, leaf: Option<usize>) -> Result<Shape, InputError> {
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

/// A bit for each child of a node. A node with more than 64 children has several words.
pub(super) struct Mask {
    words: Vec<Word>,
    all: Vec<u64>,
}

impl Mask {
    pub fn new(sim: &mut Simulation, name: &str, home: usize, children: u32) -> Mask {
        let line = sim.line(name, home);
        let count = children.div_ceil(64);
        Mask {
            words: (0..count).map(|_| sim.word_on(line)).collect(),
            all: (0..count).map(|word| u64::MAX >> (64 * (word + 1)).saturating_sub(children)).collect(),
        }
    }

    pub async fn set_all(&self, cpu: &Cpu) {
        for (word, all) in self.words.iter().zip(&self.all) {
            cpu.write(*word, *all).await;
        }
    }

    pub async fn has(&self, cpu: &Cpu, bit: u32) -> bool {
        cpu.read(self.words[bit as usize / 64]).await >> (bit % 64) & 1 == 1
    }

    /// Clears a bit. Returns whether it was the last.
    pub async fn clear(&self, cpu: &Cpu, bit: u32) -> bool {
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
