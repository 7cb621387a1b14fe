//! Streams of accesses that imitate mixes of SPEC CPU2006. **Imitations**: no instruction, input or result of SPEC is in
//! them, and no figure of theirs is a result of SPEC.
//!
//! ```text
//! root     programs, accesses in an operation; a pointer to each program
//! program  operations that it has done, arrays; from byte 64 on a pointer to each array
//! array    words of a program number, a component, and how many accesses the component had made
//! ```
//!
//! Each program has arrays of its own, and shares nothing, as if it had an address space to itself. Its course
//! (`course`) makes a number of accesses in each transaction, which also counts the operation; so the pool's contents
//! follow from these counts. Every word that is read must be one of the program's own.

mod course;
mod programs;
#[cfg(test)]
mod tests;

pub use course::{Course, Visit};
pub use programs::{Component, FIRST, Group, Hot, PROGRAMS, Pattern, Program, SECOND, Step, Touch};

use crate::list::{self, Given, Listed, OnWorkload, Parameter, Row, Usual};
use crate::{Failure, Outcome, Progress, Recorder, Session, Share, Workload};
use perdura::collections::Visit as VisitBlock;
use perdura::{Error, Purpose, Result, Root, Tx};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kind of a mix's root.
pub(crate) const KIND: u32 = 2_030;
const WORD: u64 = 8;
const LINE: u64 = 64;
/// Bytes written, read or compared at once.
const PIECE: u64 = 1 << 20;
/// In a program's block.
const DONE: u64 = 0;
const COUNT: u64 = WORD;
const ARRAYS: u64 = LINE;
/// In the root's block.
const POINTERS: u64 = 2 * WORD;
/// The greatest number of programs: their numbers are in each word.
const MOST_PROGRAMS: u64 = 1 << 15;
const ACCESSES: &str = "accesses";

/// A mix: its programs, and how many accesses an operation has.
#[derive(Debug)]
pub struct Mix {
    name: &'static str,
    courses: Vec<Course>,
    accesses: u64,
}

/// Where a program is in the heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    program: u64,
    arrays: Vec<u64>,
}

impl Places {
    /// The offset of a word of an array.
    pub fn word(&self, array: usize, word: u64) -> u64 {
        self.arrays[array].wrapping_add(word * WORD)
    }
}

impl Mix {
    /// The programs of a mix on `bytes` together, once, or more often if there are more than four `threads`.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(
        name: &'static str,
        programs: &'static [Program; PROGRAMS],
        bytes: u64,
        accesses: u64,
        threads: u64,
        seed: u64,
    ) -> Outcome<Self> {
        if bytes == 0 || bytes > 1 << 48 || accesses == 0 || threads > MOST_PROGRAMS {
            let what = "a mix needs memory (256 TiB at most), and an access in an operation";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let all = || (0..threads.max(PROGRAMS as u64)).map(|number| number as usize % PROGRAMS);
        let megabytes: u64 = all().map(|index| programs[index].megabytes).sum();
        let course = |(number, index): (u64, usize)| {
            let part = u128::from(bytes) * u128::from(programs[index].megabytes);
            Course::new(&programs[index], number, (part / u128::from(megabytes)) as u64, seed)
        };
        Ok(Mix { name, courses: (0..).zip(all()).map(course).collect(), accesses })
    }

    /// Its programs.
    pub fn courses(&self) -> &[Course] {
        &self.courses
    }

    fn root(&self) -> String {
        format!("bench.{}", self.name)
    }

    /// Accesses of an operation.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Upper bound of its bytes.
    pub fn bytes(&self) -> u64 {
        let words = self.courses.iter().flat_map(Course::arrays);
        words.map(|words| words * WORD * 5 / 4 + 4096).sum()
    }

    /// Makes the arrays of one program, as they are before its first operation.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create_program<T: Tx + ?Sized>(&self, tx: &mut T, course: &Course) -> Result<u64> {
        let arrays = course.arrays().iter().enumerate();
        let arrays = arrays.map(|(array, words)| filled(tx, words * WORD, course.loaded(array)));
        let arrays: Vec<u64> = arrays.collect::<Result<_>>()?;
        let new = tx.allocate(Purpose::General, ARRAYS + arrays.len() as u64 * WORD)?;
        let mut words = vec![0; (ARRAYS / WORD) as usize];
        words[(COUNT / WORD) as usize] = arrays.len() as u64;
        words.extend(arrays);
        tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
        Ok(new.at())
    }

    /// Makes the root, of programs that have been made.
    ///
    /// # Errors
    /// As [`Tx::allocate`].
    pub fn create_root<T: Tx + ?Sized>(&self, tx: &mut T, programs: &[u64]) -> Result<()> {
        let words = [&[programs.len() as u64, self.accesses], programs].concat();
        let new = tx.allocate(Purpose::General, words.len() as u64 * WORD)?;
        tx.write_fresh(new, 0, bytemuck::cast_slice(&words))?;
        tx.set_root(&self.root(), Root { at: new.at(), kind: KIND })
    }

    /// Where the programs are; none before the load.
    ///
    /// # Errors
    /// `Corrupt` if the pool has other programs.
    pub fn find<T: Tx + ?Sized>(&self, tx: &mut T) -> Result<Option<Vec<Places>>> {
        let Some(root) = tx.root(&self.root())? else { return Ok(None) };
        let expected = [self.courses.len() as u64, self.accesses];
        let [mut header, mut programs] = [vec![0; 2], vec![0; self.courses.len()]];
        tx.read_bytes(root.at, bytemuck::cast_slice_mut(&mut header))?;
        if header != expected {
            return Err(Error::corrupt("a mix of other programs", root.at));
        }
        tx.read_bytes(root.at + POINTERS, bytemuck::cast_slice_mut(&mut programs))?;
        let place = |(course, program): (&Course, u64)| {
            if tx.read_word(program.wrapping_add(COUNT))? != course.arrays().len() as u64 {
                return Err(Error::corrupt("a program with other arrays", program));
            }
            let mut arrays = vec![0; course.arrays().len()];
            tx.read_bytes(program.wrapping_add(ARRAYS), bytemuck::cast_slice_mut(&mut arrays))?;
            Ok(Places { program, arrays })
        };
        self.courses.iter().zip(programs).map(place).collect::<Result<_>>().map(Some)
    }

    /// Does a program's next operation. Returns the offset of a word that is not the program's own, if it has read one.
    ///
    /// # Errors
    /// As the transaction's reads and writes.
    pub fn play<T: Tx + ?Sized>(
        &self,
        tx: &mut T,
        course: &Course,
        places: &Places,
    ) -> Result<Option<u64>> {
        let done = tx.read_word(places.program + DONE)?;
        let (first, mut wrong) = (done.wrapping_mul(self.accesses), None);
        for access in 0..self.accesses {
            let access = first.wrapping_add(access);
            let Visit { array, word, touch, value } = course.visit(access);
            let at = places.word(array, word);
            if touch != Touch::Write && !course.owns(tx.read_word(at)?) {
                wrong = wrong.or(Some(at));
            }
            if touch != Touch::Read {
                tx.write_word(at, value)?;
            }
        }
        tx.write_word(places.program + DONE, done + 1)?;
        Ok(wrong)
    }

    /// Operations that a program has done.
    ///
    /// # Errors
    /// As the transaction's reads.
    pub fn done<T: Tx + ?Sized>(tx: &mut T, places: &Places) -> Result<u64> {
        tx.read_word(places.program + DONE)
    }

    /// Words of an array from `first` on: as many as fit into a piece.
    ///
    /// # Errors
    /// As the transaction's reads.
    pub fn words<T: Tx + ?Sized>(
        tx: &mut T,
        course: &Course,
        places: &Places,
        array: usize,
        first: u64,
    ) -> Result<Vec<u64>> {
        let words = (course.arrays()[array] - first).min(PIECE / WORD);
        let mut piece = vec![0; words as usize];
        let at = places.word(array, first);
        tx.read_bytes(at, bytemuck::cast_slice_mut(&mut piece))?;
        Ok(piece)
    }

    /// Compares a program's arrays with what its operations have made of them.
    fn compare<S: Session>(
        &self,
        session: &mut S,
        course: &Course,
        places: &Places,
        done: u64,
    ) -> Outcome {
        let contents = course.contents(done * self.accesses);
        for (array, expected) in contents.iter().enumerate() {
            let (words, loaded) = (course.arrays()[array], course.loaded(array));
            for first in (0..words).step_by((PIECE / WORD) as usize) {
                let piece = session.read(|tx| Self::words(tx, course, places, array, first))?;
                let expected = |index: usize| {
                    expected.as_ref().map_or(loaded, |words| words[first as usize + index])
                };
                let mut found = piece.iter().enumerate();
                if let Some((index, word)) = found.find(|(index, word)| **word != expected(*index))
                {
                    let (name, word, right) = (course.program().name, *word, expected(index));
                    let at = first + index as u64;
                    let what = format!(
                        "word {at} of array {array} of {name} is {word:#x}, not {right:#x}, after {done} operations"
                    );
                    return Err(Failure::Wrong(what));
                }
            }
        }
        Ok(())
    }

    fn open<S: Session>(&self, session: &mut S) -> Outcome<Vec<Places>> {
        let found = session.read(|tx| self.find(tx))?;
        found.ok_or_else(|| Failure::wrong("the mix's root is gone"))
    }
}

/// Allocates `bytes` bytes of this word.
fn filled<T: Tx + ?Sized>(tx: &mut T, bytes: u64, word: u64) -> Result<u64> {
    let new = tx.allocate(Purpose::General, bytes)?;
    let piece = vec![word; (PIECE.min(bytes) / WORD) as usize];
    for from in (0..bytes).step_by(PIECE as usize) {
        let len = PIECE.min(bytes - from) as usize;
        tx.write_fresh(new, from, &bytemuck::cast_slice(&piece)[..len])?;
    }
    Ok(new.at())
}

/// Reports every block of a mix to `visit`.
fn check_blocks(tx: &mut dyn Tx, at: u64, visit: &mut VisitBlock<'_>) -> Result<()> {
    visit(at)?;
    let programs = tx.read_word(at)?;
    if programs > MOST_PROGRAMS || POINTERS + programs * WORD > tx.usable(at)? {
        return Err(Error::corrupt("a mix of more programs than it has room for", at));
    }
    for index in 0..programs {
        let program = tx.read_word(at + POINTERS + index * WORD)?;
        visit(program)?;
        let arrays = tx.read_word(program + COUNT)?;
        if arrays > (tx.usable(program)? - ARRAYS) / WORD {
            return Err(Error::corrupt("a program of more arrays than it has room for", program));
        }
        for index in 0..arrays {
            visit(tx.read_word(program + ARRAYS + index * WORD)?)?;
        }
    }
    Ok(())
}

/// A mix under the threads of a run.
#[derive(Debug)]
pub struct Streams {
    mix: Mix,
    /// Operations that each program has done.
    done: Vec<AtomicU64>,
}

impl Streams {
    /// The mix, to be run from its load on.
    pub fn new(mix: Mix) -> Self {
        let done = mix.courses.iter().map(|_| AtomicU64::new(0)).collect();
        Streams { mix, done }
    }

    /// The mix.
    pub fn mix(&self) -> &Mix {
        &self.mix
    }
}

impl Workload for Streams {
    const KINDS: &'static [&'static str] = &["operation"];

    fn load_size(&self) -> u64 {
        self.mix.courses.len() as u64
    }

    fn load<S: Session>(&self, session: &mut S, progress: &Progress) -> Outcome {
        let mut programs = Vec::with_capacity(self.mix.courses.len());
        for course in &self.mix.courses {
            programs.push(session.transaction(|tx| self.mix.create_program(tx, course))?);
            progress.loaded(1)?;
        }
        Ok(session.transaction(|tx| self.mix.create_root(tx, &programs))?)
    }

    /// Thread i plays program i; the first thread the programs after the last one's as well, and so on, in turn.
    fn run_thread<S: Session>(
        &self,
        session: &mut S,
        share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome {
        let (places, computation) = (self.mix.open(session)?, session.computation());
        let own: Vec<usize> = (share.thread..places.len()).step_by(share.threads).collect();
        if own.is_empty() {
            let what = "the mix was made for fewer threads than there are";
            return Err(Failure::Parameters(what.to_owned()));
        }
        for turn in 0..share.operations as usize {
            if !recorder.go_on() {
                break;
            }
            let number = own[turn % own.len()];
            let (course, places) = (&self.mix.courses[number], &places[number]);
            let wrong = recorder
                .operation(0, || session.transaction(|tx| self.mix.play(tx, course, places)))?;
            computation.charge(self.mix.accesses * course.program().steps);
            self.done[number].fetch_add(1, Relaxed);
            if let Some(at) = wrong {
                let what = format!("{} has read a word not its own at {at}", course.program().name);
                return Err(Failure::Wrong(what));
            }
        }
        Ok(())
    }

    fn check<S: Session>(&self, session: &mut S) -> Outcome {
        let places = self.mix.open(session)?;
        for ((course, places), done) in self.mix.courses.iter().zip(&places).zip(&self.done) {
            let (found, done) = (session.read(|tx| Mix::done(tx, places))?, done.load(Relaxed));
            if found != done {
                let name = course.program().name;
                let what = format!("{name} counts {found} operations, {done} were committed");
                return Err(Failure::Wrong(what));
            }
            self.mix.compare(session, course, places, done)?;
        }
        Ok(())
    }
}

/// The mix of leslie3d, sjeng, sphinx3 and wrf.
pub struct First;

/// The mix of GemsFDTD, lbm, milc and soplex.
pub struct Second;

const PARAMETERS: &[Parameter] = &[
    list::entries("KiB of all programs together", 4_096),
    Parameter { name: ACCESSES, line: "accesses in a transaction", usual: Usual::Number(128) },
];

const fn row(name: &'static str, line: &'static str) -> Row {
    Row {
        name,
        line,
        parameters: PARAMETERS,
        operations: |_| 20_000,
        rolls_back: false,
        roots: &[(KIND, check_blocks)],
    }
}

fn run<C: OnWorkload>(
    name: &'static str,
    programs: &'static [Program; PROGRAMS],
    given: &Given<'_>,
    code: C,
) -> Outcome<C::Output> {
    let bytes = given.entries().saturating_mul(1024);
    let accesses = given.values.number(ACCESSES);
    let mix = Mix::new(name, programs, bytes, accesses, given.threads as u64, given.seed)?;
    let bytes = mix.bytes();
    Ok(code.run(Streams::new(mix), bytes))
}

impl Listed for First {
    const ROW: Row =
        row("spec-mix-1", "imitates leslie3d, sjeng, sphinx3 and wrf, side by side (not SPEC's)");

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        run(Self::ROW.name, &FIRST, given, code)
    }
}

impl Listed for Second {
    const ROW: Row =
        row("spec-mix-2", "imitates GemsFDTD, lbm, milc and soplex, side by side (not SPEC's)");

    fn run<C: OnWorkload>(given: &Given<'_>, code: C) -> Outcome<C::Output> {
        run(Self::ROW.name, &SECOND, given, code)
    }
}
