//! Traces of memory accesses, from files, and programs that replay them on a machine.
//!
//! Two forms are read, told apart line by line:
//! - valgrind's lackey (`valgrind --tool=lackey --trace-mem=yes PROGRAM`): `I  ADDRESS,BYTES` for instructions, ` L`, ` S`
//!   and ` M` for data that is loaded, stored, or loaded and then stored, with addresses in hexadecimal. Its own lines
//!   (`==1234== ...`) are skipped.
//! - a text of one step a line: `L ADDRESS BYTES` (load), `S ADDRESS BYTES` (store), `W ADDRESS BYTES` (write the lines
//!   back), `F` (fence), `X CYCLES` (compute). Addresses begin with `0x` if they are hexadecimal. `#` begins a comment.
//!
//! What always holds: a line that is neither is an error that names it, and an access is of 1 to 4,096 bytes.

use perdura_memory::{LINE, Memory, PAGE};
use std::collections::HashMap;
use std::io::{self, BufRead};

/// Most bytes of one access.
const LONGEST: u64 = 4096;
/// Most bytes of one line: what is longer is no trace.
const LONGEST_LINE: u64 = 4096;

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads `bytes` bytes at `at`.
    Load {
        /// The first byte's address.
        at: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Writes `bytes` bytes at `at`.
    Store {
        /// The first byte's address.
        at: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Reads `bytes` bytes at `at`, then writes them.
    Modify {
        /// The first byte's address.
        at: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Asks for the lines of `bytes` bytes at `at` to be written back.
    WriteBack {
        /// The first byte's address.
        at: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Waits until all that was asked to be written back is durable.
    Fence,
    /// Computes for `cycles` cycles. An instruction of lackey's takes one cycle.
    Compute {
        /// Cycles.
        cycles: u32,
    },
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is no step.
    #[error(
        "line {number} is no step of a trace: '{line}'; write `L`, `S` or `W` with an address and bytes, `F`, `X` with cycles, or give lackey's output"
    )]
    Step {
        /// Its number, from 1 on.
        number: u64,
        /// Its beginning.
        line: String,
    },
}

/// The steps of a trace.
pub struct Steps<R> {
    from: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Steps<R> {
    /// Those in `from`.
    pub fn new(from: R) -> Self {
        Steps { from, line: Vec::new(), number: 0 }
    }

    /// The next one; `None` at the end.
    fn read(&mut self) -> Result<Option<Step>, TraceError> {
        loop {
            self.line.clear();
            let mut limited = io::Read::take(&mut self.from, LONGEST_LINE);
            if limited.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let text = String::from_utf8_lossy(&self.line);
            match parse(text.trim_end()) {
                Some(Parsed::Step(step)) => return Ok(Some(step)),
                Some(Parsed::Nothing) => {}
                None => {
                    let line = text.trim_end().chars().take(60).collect();
                    return Err(TraceError::Step { number: self.number, line });
                }
            }
        }
    }
}

impl<R: BufRead> Iterator for Steps<R> {
    type Item = Result<Step, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// What a line says.
enum Parsed {
    Step(Step),
    Nothing,
}

fn parse(line: &str) -> Option<Parsed> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(kind) = words.next() else { return Some(Parsed::Nothing) };
    // What valgrind says of itself.
    if kind.starts_with("==") || kind.starts_with("--") {
        return Some(Parsed::Nothing);
    }
    let first = words.next();
    let step = match (kind, first, words.next(), words.next()) {
        ("F", None, ..) => Step::Fence,
        ("X", Some(cycles), None, _) => Step::Compute { cycles: cycles.parse().ok()? },
        ("I", Some(_), None, _) => Step::Compute { cycles: 1 },
        ("L" | "S" | "M", Some(place), None, _) => {
            let (at, bytes) = place.split_once(',')?;
            access(kind, u64::from_str_radix(at, 16).ok()?, bytes.parse().ok()?)?
        }
        ("L" | "S" | "M" | "W", Some(at), Some(bytes), None) => {
            access(kind, number(at)?, bytes.parse().ok()?)?
        }
        _ => return None,
    };
    Some(Parsed::Step(step))
}

fn access(kind: &str, at: u64, bytes: u64) -> Option<Step> {
    let fits = (1..=LONGEST).contains(&bytes) && at.checked_add(bytes).is_some();
    match kind {
        _ if !fits => None,
        "L" => Some(Step::Load { at, bytes }),
        "S" => Some(Step::Store { at, bytes }),
        "M" => Some(Step::Modify { at, bytes }),
        "W" => Some(Step::WriteBack { at, bytes }),
        _ => None,
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Where the pages of a program's address space lie in a machine: each that is met gets the next free one, as an operating
/// system with nothing else to do gives them out.
#[derive(Clone, Debug, Default)]
pub struct PageMap {
    places: HashMap<u64, u64>,
}

impl PageMap {
    /// Gives a place to every page that a step touches.
    pub fn note(&mut self, step: Step) {
        let (Step::Load { at, bytes }
        | Step::Store { at, bytes }
        | Step::Modify { at, bytes }
        | Step::WriteBack { at, bytes }) = step
        else {
            return;
        };
        for page in at / PAGE..=(at + bytes - 1) / PAGE {
            let next = self.places.len() as u64 * PAGE;
            self.places.entry(page).or_insert(next);
        }
    }

    /// Bytes of the machine's memory that are needed.
    pub fn bytes(&self) -> u64 {
        self.places.len() as u64 * PAGE
    }

    /// The pieces of an access, each within a line: where they lie in the machine, and their bytes. What was not
    /// [noted](Self::note) has none.
    fn pieces(&self, at: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = at + bytes;
        let mut from = at;
        std::iter::from_fn(move || {
            if from == end {
                return None;
            }
            let to = end.min((from / LINE + 1) * LINE);
            let piece = (from, to - from);
            from = to;
            Some(piece)
        })
        .filter_map(|(from, bytes)| {
            let page = self.places.get(&(from / PAGE))?;
            Some((page + from % PAGE, bytes))
        })
    }
}

/// Does one step on a memory. Words that a store touches in part are written whole.
pub fn replay<M: Memory + ?Sized>(memory: &M, pages: &PageMap, step: Step, value: u64) {
    match step {
        Step::Load { at, bytes } => pages.pieces(at, bytes).for_each(|piece| load(memory, piece)),
        Step::Store { at, bytes } => {
            pages.pieces(at, bytes).for_each(|piece| store(memory, piece, value));
        }
        Step::Modify { at, bytes } => pages.pieces(at, bytes).for_each(|piece| {
            load(memory, piece);
            store(memory, piece, value);
        }),
        Step::WriteBack { at, bytes } => {
            pages.pieces(at, bytes).for_each(|(at, bytes)| memory.write_back(at, bytes));
        }
        Step::Fence => memory.fence(),
        Step::Compute { cycles } => memory.work(cycles),
    }
}

/// Words that a piece of a line touches.
fn words((at, bytes): (u64, u64)) -> (u64, usize) {
    let first = at / 8 * 8;
    (first, ((at + bytes - first).div_ceil(8)) as usize)
}

fn load<M: Memory + ?Sized>(memory: &M, piece: (u64, u64)) {
    let (at, count) = words(piece);
    let mut line = [0; LINE as usize];
    memory.copy_out(at, &mut line[..count * 8]);
}

fn store<M: Memory + ?Sized>(memory: &M, piece: (u64, u64), value: u64) {
    let (at, count) = words(piece);
    let line = [value; LINE as usize / 8];
    let bytes: Vec<u8> = line[..count].iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.copy_in(at, &bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Result<Vec<Step>, TraceError> {
        Steps::new(text.as_bytes()).collect()
    }

    #[test]
    fn both_forms_are_read() {
        let lackey = "==12== Lackey\nI  0023C790,2\n S 04016b80,8\n L BE80199C,4\n M 0x1,1\n";
        assert!(matches!(steps(lackey), Err(TraceError::Step { number: 5, .. })));
        let lackey = lackey.replace("0x1,1", "10,1");
        assert_eq!(
            steps(&lackey).expect("a trace"),
            [
                Step::Compute { cycles: 1 },
                Step::Store { at: 0x0401_6B80, bytes: 8 },
                Step::Load { at: 0xBE80_199C, bytes: 4 },
                Step::Modify { at: 0x10, bytes: 1 },
            ]
        );
        let text = "# a queue\nS 0x40 16 # its head\n\nW 64 16\nF\nX 12\nL 100 3\n";
        assert_eq!(
            steps(text).expect("a trace"),
            [
                Step::Store { at: 64, bytes: 16 },
                Step::WriteBack { at: 64, bytes: 16 },
                Step::Fence,
                Step::Compute { cycles: 12 },
                Step::Load { at: 100, bytes: 3 },
            ]
        );
    }

    #[test]
    fn unknown_steps() {
        for line in [
            "Q 1 2",
            "S",
            "S 1",
            "S 1 0",
            "S 1 5000",
            "S 18446744073709551615 2",
            "F 1",
            "X",
            "X -1",
            "L 1 2 3",
            "S zz,4",
            "W 10,4",
            "\u{0}\u{1}",
        ] {
            let wrong = steps(&format!("F\n{line}\n")).expect_err(line);
            assert!(wrong.to_string().contains("line 2"), "{wrong}");
        }
        let long = "L".repeat(1 << 20);
        assert!(steps(&long).expect_err("one line").to_string().len() < 300);
    }

    #[test]
    fn pages_get_places_in_the_order_in_which_they_are_met() {
        let mut pages = PageMap::default();
        for at in [7 * PAGE, 3 * PAGE - 4, 7 * PAGE + 100] {
            pages.note(Step::Store { at, bytes: 8 });
        }
        assert_eq!(pages.bytes(), 3 * PAGE);
        let over_the_edge: Vec<_> = pages.pieces(3 * PAGE - 4, 8).collect();
        assert_eq!(over_the_edge, [(2 * PAGE - 4, 4), (2 * PAGE, 4)]);
        let lines: Vec<_> = pages.pieces(7 * PAGE + 60, 70).collect();
        assert_eq!(lines, [(60, 4), (64, 64), (128, 2)]);
    }
}
