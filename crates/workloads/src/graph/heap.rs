//! The graph in the heap: four arrays in blocks.
//!
//! ```text
//! root      program, vertices, edges, words in a block; where each block is, 0 if it is not loaded
//! vertices  32 bytes each: value, value before, pending edges, changes; edges in and out: how many, and the first
//! values    8 bytes an edge, by shards (see `edges`): its value
//! out       8 bytes an edge, by source: target, place in the array of values
//! in        4 bytes an edge, by target: place in the array of values
//! ```
//!
//! So an edge has one value, which both of its ends find by its place. A block is an allocation of at most a mebibyte.
//! Loading fills a block in each transaction.

use super::edges::{Edges, Lists, MOST_EDGES, MOST_VERTICES};
use super::programs::Program;
use super::record::{Record, WORDS, high, low, pack};
use crate::zeroed;
use perdura::collections::Visit;
use perdura::{Error, Purpose, Result, Root, Tx};
use std::ops::Range;

pub(super) const ROOT: &str = "bench.graph";
/// The kind of these workloads' root.
pub(crate) const KIND: u32 = 2_025;
const WORD: u64 = 8;
/// Words of the root before the blocks.
const HEAD: u64 = 4;
/// The maximum number of words in a block: a mebibyte.
pub const BLOCK: u64 = 1 << 17;

/// How large a graph is, and in which blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Vertices.
    pub vertices: u32,
    /// Edges.
    pub edges: u32,
    /// Words in a block, a power of two, at least those of a line.
    pub block: u64,
}

/// One of the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Array {
    Vertices,
    Values,
    Out,
    In,
}

const ARRAYS: [Array; 4] = [Array::Vertices, Array::Values, Array::Out, Array::In];

impl Layout {
    const fn words(&self, array: Array) -> u64 {
        match array {
            Array::Vertices => self.vertices as u64 * WORDS,
            Array::Values | Array::Out => self.edges as u64,
            Array::In => (self.edges as u64).div_ceil(2),
        }
    }

    const fn blocks_of(&self, array: Array) -> u64 {
        self.words(array).div_ceil(self.block)
    }

    /// The first block of an array.
    fn first_block(&self, array: Array) -> u64 {
        ARRAYS[..array as usize].iter().map(|own| self.blocks_of(*own)).sum()
    }

    /// Blocks of all arrays.
    pub fn blocks(&self) -> u64 {
        ARRAYS.iter().map(|array| self.blocks_of(*array)).sum()
    }

    /// The array of a block, and the words that it has of it.
    fn block(&self, number: u64) -> (Array, Range<u64>) {
        let mut block = number;
        for array in ARRAYS {
            let blocks = self.blocks_of(array);
            if block < blocks {
                let first = block * self.block;
                return (array, first..self.words(array).min(first + self.block));
            }
            block -= blocks;
        }
        unreachable!("block {number} of {}", self.blocks())
    }

    /// Bytes of all blocks and of the root.
    pub fn bytes(&self) -> u64 {
        let words: u64 = ARRAYS.iter().map(|array| self.words(*array)).sum();
        (words + HEAD + self.blocks()) * WORD
    }

    fn of(words: [u64; HEAD as usize], at: u64) -> Result<Self> {
        let [_, vertices, edges, block] = words;
        let fits = (1..=MOST_VERTICES).contains(&vertices)
            && (1..=MOST_EDGES).contains(&edges)
            && (WORD..=BLOCK).contains(&block)
            && block.is_power_of_two();
        if !fits {
            return Err(Error::corrupt("a graph of an impossible size", at));
        }
        Ok(Layout { vertices: vertices as u32, edges: edges as u32, block })
    }
}

/// A graph that is loaded.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Its size.
    pub layout: Layout,
    blocks: Vec<u64>,
    /// The first block of each array.
    firsts: [u64; ARRAYS.len()],
}

fn read<T: Tx + ?Sized>(tx: &mut T, at: u64, to: &mut [u64]) -> Result<()> {
    tx.read_bytes(at, bytemuck::cast_slice_mut(to))
}

/// The root's first words and all blocks.
fn open<T: Tx + ?Sized>(tx: &mut T, at: u64) -> Result<(u64, Layout, Vec<u64>)> {
    let mut head = [0; HEAD as usize];
    read(tx, at, &mut head)?;
    let layout = Layout::of(head, at)?;
    if layout.blocks() + HEAD > tx.usable(at)? / WORD {
        return Err(Error::corrupt("a graph of more blocks than its root has room for", at));
    }
    let mut blocks = vec![0; layout.blocks() as usize];
    read(tx, at + HEAD * WORD, &mut blocks)?;
    Ok((head[0], layout, blocks))
}

impl Graph {
    fn new(layout: Layout, blocks: Vec<u64>) -> Self {
        Graph { layout, blocks, firsts: ARRAYS.map(|array| layout.first_block(array)) }
    }

    /// The pool's graph, if it has one of this program that is loaded.
    ///
    /// # Errors
    /// `Corrupt` where its root is damaged; as the transaction.
    pub fn find<P: Program, T: Tx + ?Sized>(tx: &mut T) -> Result<Option<Self>> {
        let Some(Root { at, .. }) = tx.root(ROOT)? else { return Ok(None) };
        let (program, layout, blocks) = open(tx, at)?;
        let is_whole = program == P::NUMBER && !blocks.contains(&0);
        Ok(is_whole.then(|| Graph::new(layout, blocks)))
    }

    fn word(&self, array: Array, index: u64) -> u64 {
        let block = self.firsts[array as usize] + index / self.layout.block;
        self.blocks[block as usize].wrapping_add(index % self.layout.block * WORD)
    }

    /// Where a vertex's record is.
    pub fn vertex_at(&self, vertex: u32) -> u64 {
        self.word(Array::Vertices, u64::from(vertex) * WORDS)
    }

    /// Where the value of the edge with this place is.
    pub fn value_at(&self, place: u32) -> u64 {
        self.word(Array::Values, u64::from(place))
    }

    /// Where the edge out with this number is.
    pub fn edge_at(&self, index: u32) -> u64 {
        self.word(Array::Out, u64::from(index))
    }

    /// Where the place of the edge in with this number is, and of the one before or after.
    pub fn place_at(&self, index: u32) -> u64 {
        self.word(Array::In, u64::from(index / 2))
    }

    /// Adds words of an array to `to`.
    fn append<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        array: Array,
        range: Range<u64>,
        to: &mut Vec<u64>,
    ) -> Result<()> {
        let mut first = range.start;
        while first < range.end {
            let end = range.end.min((first / self.layout.block + 1) * self.layout.block);
            let filled = to.len();
            to.resize(filled + (end - first) as usize, 0);
            read(tx, self.word(array, first), &mut to[filled..])?;
            first = end;
        }
        Ok(())
    }

    /// Adds a block to a snapshot that has all before it.
    ///
    /// # Errors
    /// As the transaction's reads.
    pub fn copy<T: Tx + ?Sized>(&self, tx: &mut T, block: u64, to: &mut Snapshot) -> Result<()> {
        let (array, range) = self.layout.block(block);
        let mut words = Vec::new();
        self.append(tx, array, range, &mut words)?;
        match array {
            Array::Vertices => {
                let records = words.chunks_exact(WORDS as usize);
                to.records.extend(records.map(|it| Record::of(it.try_into().expect("4 words"))));
            }
            Array::Values => to.words.append(&mut words),
            Array::Out => to.out.append(&mut words),
            Array::In => {
                to.into.extend(words.iter().flat_map(|word| [low(*word), high(*word)]));
                to.into.truncate(self.layout.edges as usize);
            }
        }
        Ok(())
    }
}

/// A graph's arrays in ordinary memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The vertices.
    pub records: Vec<Record>,
    /// Edges' values, by place.
    pub words: Vec<u64>,
    /// The edges out, each with its target and place.
    pub out: Vec<u64>,
    /// The places of the edges in.
    pub into: Vec<u32>,
}

impl Snapshot {
    /// A program's arrays as they are loaded, in this many shards or a few less.
    pub fn of<P: Program>(edges: Edges, shards: u32) -> Self {
        let lists = Lists::of(edges, shards);
        let vertices = lists.first_out.len() as u32 - 1;
        let record = |vertex: u32| {
            let [first_out, first_in] = [&lists.first_out, &lists.first_in].map(|firsts| {
                let at = vertex as usize;
                (firsts[at], firsts[at + 1] - firsts[at])
            });
            Record {
                value: P::first(vertex),
                in_degree: first_in.1,
                out_degree: first_out.1,
                first_in: first_in.0,
                first_out: first_out.0,
                ..Record::default()
            }
        };
        let records: Vec<Record> = (0..vertices).map(record).collect();
        let mut words = vec![0; lists.sources.len()];
        for target in 0..vertices {
            let range = lists.first_in[target as usize]..lists.first_in[target as usize + 1];
            for index in range.start as usize..range.end as usize {
                let source = lists.sources[index];
                let degree = records[source as usize].out_degree;
                words[lists.places_in[index] as usize] =
                    P::word(source, P::unseen(source), P::unseen(target), degree);
            }
        }
        let edges = lists.targets.iter().zip(&lists.places);
        let out = edges.map(|(target, place)| pack(*target, *place)).collect();
        Snapshot { records, words, out, into: lists.places_in }
    }

    /// How large it is, in blocks of this many words.
    pub fn layout(&self, block: u64) -> Layout {
        Layout { vertices: self.records.len() as u32, edges: self.words.len() as u32, block }
    }

    fn block(&self, (array, range): (Array, Range<u64>)) -> Vec<u64> {
        let words = range.start as usize..range.end as usize;
        match array {
            Array::Vertices => {
                let records = words.start / WORDS as usize..words.end / WORDS as usize;
                self.records[records].iter().flat_map(Record::words).collect()
            }
            Array::Values => self.words[words].to_vec(),
            Array::Out => self.out[words].to_vec(),
            Array::In => {
                let places = words.start * 2..self.into.len().min(words.end * 2);
                let pair = |pair: &[u32]| pack(pair[0], pair.get(1).copied().unwrap_or(0));
                self.into[places].chunks(2).map(pair).collect()
            }
        }
    }

    /// Makes the root of a graph of this layout, whose blocks follow. Returns where it is.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create<P: Program, T: Tx + ?Sized>(tx: &mut T, layout: &Layout) -> Result<u64> {
        let at = zeroed::allocate(tx, (HEAD + layout.blocks()) * WORD)?;
        let head = [P::NUMBER, layout.vertices.into(), layout.edges.into(), layout.block];
        tx.write_bytes(at, bytemuck::cast_slice(&head))?;
        tx.set_root(ROOT, Root { at, kind: KIND })?;
        Ok(at)
    }

    /// Writes one block of the graph whose root is at `at`. Returns its bytes.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn load<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        at: u64,
        layout: &Layout,
        block: u64,
    ) -> Result<u64> {
        let words = self.block(layout.block(block));
        let new = tx.allocate(Purpose::Value, words.len() as u64 * WORD)?;
        tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
        tx.write_word(at + (HEAD + block) * WORD, new.at())?;
        tx.usable(new.at())
    }
}

/// A graph's arrays, wherever they are.
pub trait Arrays {
    /// A vertex.
    ///
    /// # Errors
    /// As the transaction; so with all others.
    fn record(&mut self, vertex: u32) -> Result<Record>;

    /// Writes the words of a vertex that change.
    fn set_state(&mut self, vertex: u32, record: &Record) -> Result<()>;

    /// The place of the edge in with this number.
    fn incoming(&mut self, index: u32) -> Result<u32>;

    /// The place of the edge out with this number.
    fn outgoing(&mut self, index: u32) -> Result<u32>;

    /// The value of the edge with this place.
    fn word(&mut self, place: u32) -> Result<u64>;

    /// Writes the value of the edge with this place.
    fn set_word(&mut self, place: u32, word: u64) -> Result<()>;
}

/// The arrays in a heap, inside a transaction.
#[derive(Debug)]
pub struct OnHeap<'g, 't, T: ?Sized> {
    /// The graph.
    pub graph: &'g Graph,
    /// The transaction.
    pub tx: &'t mut T,
}

impl<T: Tx + ?Sized> OnHeap<'_, '_, T> {
    /// Checks the number of an edge that comes from the heap.
    fn known(&self, edge: u32) -> Result<u32> {
        if edge >= self.graph.layout.edges {
            let at = self.graph.blocks[0];
            return Err(Error::corrupt("a vertex with edges that the graph does not have", at));
        }
        Ok(edge)
    }
}

impl<T: Tx + ?Sized> Arrays for OnHeap<'_, '_, T> {
    fn record(&mut self, vertex: u32) -> Result<Record> {
        let mut words = [0; WORDS as usize];
        read(self.tx, self.graph.vertex_at(vertex), &mut words)?;
        Ok(Record::of(words))
    }

    fn set_state(&mut self, vertex: u32, record: &Record) -> Result<()> {
        let at = self.graph.vertex_at(vertex);
        let [value, state] = record.state();
        self.tx.write_word(at, value)?;
        self.tx.write_word(at + WORD, state)
    }

    fn incoming(&mut self, index: u32) -> Result<u32> {
        let places = self.tx.read_word(self.graph.place_at(self.known(index)?))?;
        Ok(if index.is_multiple_of(2) { low(places) } else { high(places) })
    }

    fn outgoing(&mut self, index: u32) -> Result<u32> {
        let edge = self.tx.read_word(self.graph.edge_at(self.known(index)?))?;
        Ok(edge_of(edge).1)
    }

    fn word(&mut self, place: u32) -> Result<u64> {
        self.tx.read_word(self.graph.value_at(self.known(place)?))
    }

    fn set_word(&mut self, place: u32, word: u64) -> Result<()> {
        self.tx.write_word(self.graph.value_at(self.known(place)?), word)
    }
}

/// The model of a graph in a heap.
impl Arrays for Snapshot {
    fn record(&mut self, vertex: u32) -> Result<Record> {
        Ok(self.records[vertex as usize])
    }

    fn set_state(&mut self, vertex: u32, record: &Record) -> Result<()> {
        self.records[vertex as usize] = *record;
        Ok(())
    }

    fn incoming(&mut self, index: u32) -> Result<u32> {
        Ok(self.into[index as usize])
    }

    fn outgoing(&mut self, index: u32) -> Result<u32> {
        Ok(edge_of(self.out[index as usize]).1)
    }

    fn word(&mut self, place: u32) -> Result<u64> {
        Ok(self.words[place as usize])
    }

    fn set_word(&mut self, place: u32, word: u64) -> Result<()> {
        self.words[place as usize] = word;
        Ok(())
    }
}

/// The target and the place of an edge out.
pub(super) const fn edge_of(word: u64) -> (u32, u32) {
    (low(word), high(word))
}

/// Checks that the graph is whole, and reports its blocks to `visit`.
///
/// # Errors
/// `Corrupt` if it is damaged; the errors of `visit`.
pub(crate) fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut Visit<'_>) -> Result<()> {
    visit(at)?;
    let (_, layout, blocks) = open(tx, at)?;
    for (number, block) in (0..).zip(blocks) {
        if block == 0 {
            continue;
        }
        visit(block)?;
        let (_, range) = layout.block(number);
        if tx.usable(block)? / WORD < range.end - range.start {
            return Err(Error::corrupt("a block of a graph that is too short", block));
        }
    }
    Ok(())
}
