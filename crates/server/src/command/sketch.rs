//! A HyperLogLog: 16,384 registers, from which the number of different elements is estimated.
//!
//! It is a string in Redis's own form, dense (six bits for each register) or sparse (runs of registers), so that it moves
//! between the two servers as any string does. Its bytes may be a client's: none of them is trusted.

/// Registers.
const REGISTERS: usize = 1 << 14;
/// Bits of a hash after the register's number.
const TAIL: usize = 50;
/// Where the estimate that was made last is: eight bytes, the lowest first.
pub(super) const CACHED_AT: usize = 8;
const HEADER: usize = CACHED_AT + 8;
const DENSE: usize = HEADER + REGISTERS * 6 / 8;
/// The greatest value of a register in a sparse sketch.
const SPARSE_VALUE_MAX: u8 = 32;
const SPARSE_RUN_MAX: usize = 4;
const ZEROS_MAX: usize = 64;

/// The bytes are not those of a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

/// All registers.
pub(super) type Registers = [u8; REGISTERS];

pub(super) fn no_registers() -> Box<Registers> {
    Box::new([0; REGISTERS])
}

/// A sketch's bytes.
pub(super) struct Sketch(Vec<u8>);

/// A run of a sparse sketch: how many bytes it takes, its registers, and their value.
#[derive(Clone, Copy)]
struct Run {
    bytes: usize,
    len: usize,
    value: u8,
}

impl Run {
    fn read(bytes: &[u8], at: usize) -> Result<Self, Corrupt> {
        let first = *bytes.get(at).ok_or(Corrupt)?;
        Ok(match first {
            0x00..0x40 => Run { bytes: 1, len: usize::from(first) + 1, value: 0 },
            0x40..0x80 => {
                let second = *bytes.get(at + 1).ok_or(Corrupt)?;
                let len = (usize::from(first & 0x3F) << 8 | usize::from(second)) + 1;
                Run { bytes: 2, len, value: 0 }
            }
            _ => Run { bytes: 1, len: usize::from(first & 3) + 1, value: (first >> 2 & 0x1F) + 1 },
        })
    }

    /// Whether it is of registers that are not zero, which can be in one run with others of the same value.
    fn is_value(self) -> bool {
        self.value > 0
    }

    fn push(to: &mut Vec<u8>, len: usize, value: u8) {
        match (len, value) {
            (0, _) => {}
            (len, 0) if len > ZEROS_MAX => {
                to.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]);
            }
            (len, 0) => to.push((len - 1) as u8),
            (len, value) => to.push(0x80 | (value - 1) << 2 | (len - 1) as u8),
        }
    }
}

impl Sketch {
    /// An empty one.
    pub(super) fn new() -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(b"HYLL");
        bytes[4] = 1;
        Run::push(&mut bytes, REGISTERS, 0);
        Sketch(bytes)
    }

    /// The one with these bytes, if they look like one.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        let is_one = bytes.len() >= HEADER
            && bytes.starts_with(b"HYLL")
            && (bytes[4] == 1 || bytes[4] == 0 && bytes.len() == DENSE);
        is_one.then_some(Sketch(bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn is_dense(&self) -> bool {
        self.0[4] == 0
    }

    /// The estimate that was made last, if it is still right.
    pub(super) fn cached(&self) -> Option<u64> {
        let cached = u64::from_le_bytes(self.0[CACHED_AT..HEADER].try_into().unwrap_or_default());
        (cached >> 63 == 0).then_some(cached)
    }

    /// The estimate that was made last is wrong from now on.
    pub(super) fn forget(&mut self) {
        self.0[15] |= 0x80;
    }

    /// Calls `each` with every run of registers that have one value.
    fn runs(&self, each: &mut dyn FnMut(usize, usize, u8)) -> Result<(), Corrupt> {
        if self.is_dense() {
            (0..REGISTERS).for_each(|index| each(index, 1, self.dense(index)));
            return Ok(());
        }
        let (mut at, mut first) = (HEADER, 0);
        while at < self.0.len() {
            let run = Run::read(&self.0, at)?;
            if first + run.len > REGISTERS {
                return Err(Corrupt);
            }
            each(first, run.len, run.value);
            (at, first) = (at + run.bytes, first + run.len);
        }
        if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
    }

    /// A register of a dense sketch.
    fn dense(&self, index: usize) -> u8 {
        let (at, shift) = (HEADER + index * 6 / 8, index * 6 % 8);
        let next = self.0.get(at + 1).copied().unwrap_or_default();
        let both = u16::from(self.0[at]) | u16::from(next) << 8;
        (both >> shift & 0x3F) as u8
    }

    fn set_dense(&mut self, index: usize, value: u8) {
        let (at, shift) = (HEADER + index * 6 / 8, index * 6 % 8);
        let (mask, value) = (0x3F_u16 << shift, u16::from(value) << shift);
        self.0[at] = self.0[at] & !(mask as u8) | value as u8;
        if shift > 2 {
            let next = &mut self.0[at + 1];
            *next = *next & !((mask >> 8) as u8) | (value >> 8) as u8;
        }
    }

    /// Makes it dense.
    pub(super) fn make_dense(&mut self) -> Result<(), Corrupt> {
        if self.is_dense() {
            return Ok(());
        }
        let mut bytes = self.0[..HEADER].to_vec();
        bytes[4] = 0;
        bytes.resize(DENSE, 0);
        let mut dense = Sketch(bytes);
        self.runs(&mut |first, len, value| {
            if value > 0 {
                (first..first + len).for_each(|index| dense.set_dense(index, value));
            }
        })?;
        *self = dense;
        Ok(())
    }

    /// Adds an element; a sparse sketch has at most `sparse_max` bytes. Returns whether a register has changed.
    pub(super) fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<bool, Corrupt> {
        let hash = murmur(element);
        let tail = hash >> 14 | 1 << TAIL;
        let value = tail.trailing_zeros() as u8 + 1;
        self.set(hash as usize % REGISTERS, value, sparse_max)
    }

    /// Raises a register to a value.
    pub(super) fn set(
        &mut self,
        index: usize,
        value: u8,
        sparse_max: usize,
    ) -> Result<bool, Corrupt> {
        if !self.is_dense() {
            if value <= SPARSE_VALUE_MAX
                && let Some(changed) = self.set_sparse(index, value, sparse_max)?
            {
                return Ok(changed);
            }
            self.make_dense()?;
        }
        let raises = value > self.dense(index);
        if raises {
            self.set_dense(index, value);
        }
        Ok(raises)
    }

    /// The same in a sparse sketch; none if there is no room for it. The runs are those that Redis has in the end.
    fn set_sparse(
        &mut self,
        index: usize,
        value: u8,
        sparse_max: usize,
    ) -> Result<Option<bool>, Corrupt> {
        let (mut at, mut first, mut before) = (HEADER, 0, None);
        let run = loop {
            if at >= self.0.len() {
                return Err(Corrupt);
            }
            let run = Run::read(&self.0, at)?;
            if index < first + run.len {
                break run;
            }
            before = Some(at);
            (at, first) = (at + run.bytes, first + run.len);
        };
        if run.value >= value {
            return Ok(Some(false));
        }
        let mut runs = Vec::with_capacity(5);
        Run::push(&mut runs, index - first, run.value);
        Run::push(&mut runs, 1, value);
        Run::push(&mut runs, first + run.len - 1 - index, run.value);
        if runs.len() > run.bytes && self.0.len() + runs.len() - run.bytes > sparse_max {
            return Ok(None);
        }
        self.0.splice(at..at + run.bytes, runs);
        self.merge_runs(before.unwrap_or(HEADER))?;
        self.forget();
        Ok(Some(true))
    }

    /// Makes one run of neighbours of the same value, from a place on.
    fn merge_runs(&mut self, from: usize) -> Result<(), Corrupt> {
        /// Runs that are looked at.
        const NEAR: usize = 5;
        let mut at = from;
        for _ in 0..NEAR {
            if at >= self.0.len() {
                break;
            }
            let run = Run::read(&self.0, at)?;
            if run.is_value() && at + 1 < self.0.len() {
                let next = Run::read(&self.0, at + 1)?;
                let len = run.len + next.len;
                if next.value == run.value && len <= SPARSE_RUN_MAX {
                    let mut both = Vec::with_capacity(1);
                    Run::push(&mut both, len, run.value);
                    self.0.splice(at..at + 2, both);
                    continue;
                }
            }
            at += run.bytes;
        }
        Ok(())
    }

    /// Raises the registers to those of this sketch.
    pub(super) fn merge_into(&self, registers: &mut Registers) -> Result<(), Corrupt> {
        self.runs(&mut |first, len, value| {
            for register in &mut registers[first..first + len] {
                *register = value.max(*register);
            }
        })
    }

    /// Estimates the number of elements.
    pub(super) fn count(&self) -> Result<u64, Corrupt> {
        let mut histogram = [0; 64];
        self.runs(&mut |_, len, value| histogram[usize::from(value)] += len)?;
        Ok(estimate(&histogram))
    }
}

/// Estimates the number of elements from all registers.
pub(super) fn count(registers: &Registers) -> u64 {
    let mut histogram = [0; 64];
    registers.iter().for_each(|&value| histogram[usize::from(value & 0x3F)] += 1);
    estimate(&histogram)
}

/// Ertl's estimator ("New cardinality estimation algorithms for HyperLogLog sketches", 2017), from how many registers
/// have each value.
fn estimate(histogram: &[usize; 64]) -> u64 {
    /// 0.5 / ln 2.
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let m = REGISTERS as f64;
    let mut z = m * tau((m - histogram[TAIL + 1] as f64) / m);
    for value in (1..=TAIL).rev() {
        z = (z + histogram[value] as f64) * 0.5;
    }
    z += m * sigma(histogram[0] as f64 / m);
    (ALPHA * m * m / z).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let last = z;
        z += x * y;
        y += y;
        if z == last {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let last = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == last {
            return z / 3.0;
        }
    }
}

/// MurmurHash64A with Redis's seed.
fn murmur(bytes: &[u8]) -> u64 {
    const M: u64 = 0xC6A4_A793_5BD1_E995;
    const SEED: u64 = 0xADC8_3B19;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sparse and dense sketches of the same elements have the same registers, and estimate well.
    #[test]
    fn both_forms_have_the_same_registers() {
        let (mut sparse, mut dense) = (Sketch::new(), Sketch::new());
        dense.make_dense().unwrap();
        for number in 0..20_000_u32 {
            let element = number.to_string();
            let changed = sparse.add(element.as_bytes(), 3000).unwrap();
            assert_eq!(dense.add(element.as_bytes(), 3000).unwrap(), changed);
            if number % 500 == 0 {
                assert_eq!(sparse.count().unwrap(), dense.count().unwrap());
                let (found, real) = (sparse.count().unwrap() as f64, f64::from(number + 1));
                assert!((found - real).abs() <= 2.0 + real * 0.03, "{found} of {real}");
            }
        }
        assert!(sparse.is_dense(), "it has grown");
        let (mut a, mut b) = (no_registers(), no_registers());
        sparse.merge_into(&mut a).unwrap();
        dense.merge_into(&mut b).unwrap();
        assert!(a == b && count(&a) == sparse.count().unwrap());
    }

    #[test]
    fn bytes_that_are_no_sketch_are_found_out() {
        assert!(Sketch::from_bytes(b"HYLL".to_vec()).is_none());
        let sound = Sketch::new().into_bytes();
        for at in 0..sound.len() {
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                let Some(mut sketch) = Sketch::from_bytes(bytes) else { continue };
                // Whatever the answers are: none of them is a panic.
                let _ = sketch.count();
                for element in 0..50_u8 {
                    let _ = sketch.add(&[element], 3000);
                }
                let _ = sketch.merge_into(&mut no_registers());
                let _ = sketch.make_dense();
            }
        }
        for tail in [b"\xff".as_slice(), b"\x40", b"\x7f\xff\x7f\xff"] {
            let bytes = [sound.as_slice(), tail].concat();
            let mut sketch = Sketch::from_bytes(bytes).unwrap();
            assert_eq!(sketch.count(), Err(Corrupt));
            assert_eq!(sketch.make_dense(), Err(Corrupt));
        }
    }
}
