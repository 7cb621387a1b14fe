//! The vector instructions of the checksums, and their only `unsafe` code.
//!
//! One algorithm ([`column`], [`replace`], [`term`]) over a small trait ([`Vector`]: a block in registers), and for
//! each instruction set one value that exists only if the processor has the instructions. All give the same bits.

use super::mix::{COLUMN_KEYS, MULTIPLY, ROW_KEYS, SHIFT};
use super::{Block, LANES};

/// A block in registers, lane by lane.
///
/// # Safety
/// Every method may be called only where the processor has the implementation's instructions.
trait Vector: Copy {
    unsafe fn load(from: &Block) -> Self;
    unsafe fn store(self, to: &mut Block);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn subtract(self, other: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn multiply(self, by: u64) -> Self;
    unsafe fn shift_right(self, by: u32) -> Self;
}

/// [`mix`](super::mix::mix) of eight words under a key.
///
/// # Safety
/// The processor has `V`'s instructions.
#[inline(always)]
unsafe fn mix<V: Vector>(block: V, key: &Block) -> V {
    // SAFETY: by the caller's contract.
    unsafe {
        let word = block.xor(V::load(key));
        let word = word.xor(word.shift_right(SHIFT[0])).multiply(MULTIPLY[0]);
        let word = word.xor(word.shift_right(SHIFT[1])).multiply(MULTIPLY[1]);
        word.xor(word.shift_right(SHIFT[2]))
    }
}

/// Adds blocks of a column to the column's sum (those in `down`), and each to its row's (those in
/// `across`).
///
/// # Safety
/// The processor has `V`'s instructions.
#[inline(always)]
unsafe fn column<V: Vector>(part: Part<'_>, down: &mut Block, across: &mut [Block]) {
    // SAFETY: by the caller's contract.
    unsafe {
        let mut sum = V::load(down);
        let mut rest = part.down | part.across;
        while rest != 0 {
            let row = rest.trailing_zeros() as usize;
            let block = V::load(&part.blocks[row]);
            if part.down >> row & 1 != 0 {
                sum = sum.add(mix(block, &ROW_KEYS[row]));
            }
            if part.across >> row & 1 != 0 {
                let to = &mut across[row];
                V::load(to).add(mix(block, &COLUMN_KEYS[part.column])).store(to);
            }
            rest &= rest - 1;
        }
        sum.store(down);
    }
}

/// Takes the old contents of a block out of a sum and puts the new ones in.
///
/// # Safety
/// The processor has `V`'s instructions.
#[inline(always)]
unsafe fn replace<V: Vector>(sum: &mut Block, key: &Block, old: &Block, new: &Block) {
    // SAFETY: by the caller's contract.
    unsafe {
        let difference = mix(V::load(new), key).subtract(mix(V::load(old), key));
        V::load(sum).add(difference).store(sum);
    }
}

/// What a block adds to a sum.
///
/// # Safety
/// The processor has `V`'s instructions.
#[inline(always)]
unsafe fn term<V: Vector>(block: &Block, key: &Block, to: &mut Block) {
    // SAFETY: by the caller's contract.
    unsafe { mix(V::load(block), key).store(to) }
}

/// Blocks of one column, and which of them are summed.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    /// The column's number.
    pub(super) column: usize,
    /// Its blocks, by row.
    pub(super) blocks: &'a [Block],
    /// Rows whose blocks go into the column's sum.
    pub(super) down: u64,
    /// Rows whose blocks go into their row's sum.
    pub(super) across: u64,
}

/// The checksum operations of an instruction set.
pub(super) trait Backend: Copy {
    fn column(self, part: Part<'_>, down: &mut Block, across: &mut [Block]);
    fn replace(self, sum: &mut Block, key: &Block, old: &Block, new: &Block);
    fn term(self, block: &Block, key: &Block, to: &mut Block);
}

/// Plain Rust, which the compiler vectorises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portable;

impl Backend for Portable {
    fn column(self, part: Part<'_>, down: &mut Block, across: &mut [Block]) {
        // SAFETY: plain Rust needs no instructions in particular.
        unsafe { column::<Plain>(part, down, across) }
    }

    fn replace(self, sum: &mut Block, key: &Block, old: &Block, new: &Block) {
        // SAFETY: as above.
        unsafe { replace::<Plain>(sum, key, old, new) }
    }

    fn term(self, block: &Block, key: &Block, to: &mut Block) {
        // SAFETY: as above.
        unsafe { term::<Plain>(block, key, to) }
    }
}

#[derive(Clone, Copy)]
struct Plain(Block);

impl Plain {
    #[inline(always)]
    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Plain(std::array::from_fn(|lane: usize| with(self.0[lane], other.0[lane])))
    }
}

impl Vector for Plain {
    #[inline(always)]
    unsafe fn load(from: &Block) -> Self {
        Plain(*from)
    }

    #[inline(always)]
    unsafe fn store(self, to: &mut Block) {
        *to = self.0;
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }

    #[inline(always)]
    unsafe fn subtract(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_sub)
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        self.zip(other, |left, right| left ^ right)
    }

    #[inline(always)]
    unsafe fn multiply(self, by: u64) -> Self {
        self.zip(Plain([by; LANES]), u64::wrapping_mul)
    }

    #[inline(always)]
    unsafe fn shift_right(self, by: u32) -> Self {
        self.zip(self, |word, _| word >> by)
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Backend, Block, Part, Vector, column, replace, term};
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_cvtsi32_si128, _mm256_add_epi64, _mm256_loadu_si256,
        _mm256_mul_epu32, _mm256_set1_epi64x, _mm256_slli_epi64, _mm256_srl_epi64,
        _mm256_srli_epi64, _mm256_storeu_si256, _mm256_sub_epi64, _mm256_xor_si256,
        _mm512_add_epi64, _mm512_loadu_si512, _mm512_mullo_epi64, _mm512_set1_epi64,
        _mm512_srl_epi64, _mm512_storeu_si512, _mm512_sub_epi64, _mm512_xor_si512,
    };

    /// One register per block, and an instruction for 64-bit products (AVX-512DQ).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Avx512(());

    /// Two registers per block; products are put together from 32-bit ones.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Avx2(());

    impl Avx512 {
        /// The proof that this processor and the operating system support them.
        pub(crate) fn new() -> Option<Self> {
            (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq"))
                .then_some(Avx512(()))
        }
    }

    impl Avx2 {
        /// The proof that this processor and the operating system support them.
        pub(crate) fn new() -> Option<Self> {
            is_x86_feature_detected!("avx2").then_some(Avx2(()))
        }
    }

    /// The same functions for each instruction set, compiled with it.
    macro_rules! backend {
        ($backend:ident, $vector:ty, $features:literal) => {
            impl Backend for $backend {
                #[inline]
                fn column(self, part: Part<'_>, down: &mut Block, across: &mut [Block]) {
                    #[target_feature(enable = $features)]
                    fn inside(part: Part<'_>, down: &mut Block, across: &mut [Block]) {
                        // SAFETY: this function is compiled with the instructions of the vector.
                        unsafe { column::<$vector>(part, down, across) }
                    }
                    // SAFETY: `self` exists only where `new` has found the features.
                    unsafe { inside(part, down, across) }
                }

                #[inline]
                fn replace(self, sum: &mut Block, key: &Block, old: &Block, new: &Block) {
                    #[target_feature(enable = $features)]
                    fn inside(sum: &mut Block, key: &Block, old: &Block, new: &Block) {
                        // SAFETY: this function is compiled with the instructions of the vector.
                        unsafe { replace::<$vector>(sum, key, old, new) }
                    }
                    // SAFETY: `self` exists only where `new` has found the features.
                    unsafe { inside(sum, key, old, new) }
                }

                #[inline]
                fn term(self, block: &Block, key: &Block, to: &mut Block) {
                    #[target_feature(enable = $features)]
                    fn inside(block: &Block, key: &Block, to: &mut Block) {
                        // SAFETY: this function is compiled with the instructions of the vector.
                        unsafe { term::<$vector>(block, key, to) }
                    }
                    // SAFETY: `self` exists only where `new` has found the features.
                    unsafe { inside(block, key, to) }
                }
            }
        };
    }

    backend!(Avx512, __m512i, "avx512f,avx512dq");
    backend!(Avx2, Two, "avx2");

    impl Vector for __m512i {
        #[inline(always)]
        unsafe fn load(from: &Block) -> Self {
            // SAFETY: the features by the caller's contract; a block is 64 bytes.
            unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
        }

        #[inline(always)]
        unsafe fn store(self, to: &mut Block) {
            // SAFETY: the features by the caller's contract; a block is 64 bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), self) }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { _mm512_add_epi64(self, other) }
        }

        #[inline(always)]
        unsafe fn subtract(self, other: Self) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { _mm512_sub_epi64(self, other) }
        }

        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { _mm512_xor_si512(self, other) }
        }

        #[inline(always)]
        unsafe fn multiply(self, by: u64) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { _mm512_mullo_epi64(self, _mm512_set1_epi64(by as i64)) }
        }

        #[inline(always)]
        unsafe fn shift_right(self, by: u32) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { _mm512_srl_epi64(self, _mm_cvtsi32_si128(by as i32)) }
        }
    }

    /// A block in two registers of four lanes.
    #[derive(Clone, Copy)]
    struct Two(__m256i, __m256i);

    impl Vector for Two {
        #[inline(always)]
        unsafe fn load(from: &Block) -> Self {
            let from: *const __m256i = from.as_ptr().cast();
            // SAFETY: the features by the caller's contract; a block is two registers long.
            unsafe { Two(_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))) }
        }

        #[inline(always)]
        unsafe fn store(self, to: &mut Block) {
            let to: *mut __m256i = to.as_mut_ptr().cast();
            // SAFETY: the features by the caller's contract; a block is two registers long.
            unsafe {
                _mm256_storeu_si256(to, self.0);
                _mm256_storeu_si256(to.add(1), self.1);
            }
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { Two(_mm256_add_epi64(self.0, other.0), _mm256_add_epi64(self.1, other.1)) }
        }

        #[inline(always)]
        unsafe fn subtract(self, other: Self) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { Two(_mm256_sub_epi64(self.0, other.0), _mm256_sub_epi64(self.1, other.1)) }
        }

        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { Two(_mm256_xor_si256(self.0, other.0), _mm256_xor_si256(self.1, other.1)) }
        }

        #[inline(always)]
        unsafe fn multiply(self, by: u64) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe { Two(product(self.0, by), product(self.1, by)) }
        }

        #[inline(always)]
        unsafe fn shift_right(self, by: u32) -> Self {
            // SAFETY: the features by the caller's contract.
            unsafe {
                let by = _mm_cvtsi32_si128(by as i32);
                Two(_mm256_srl_epi64(self.0, by), _mm256_srl_epi64(self.1, by))
            }
        }
    }

    /// Products mod 2^64 from 32-bit halves: low·low, and both mixed ones shifted; high·high is
    /// beyond the word.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn product(words: __m256i, by: u64) -> __m256i {
        // SAFETY: by the caller's contract.
        unsafe {
            let low = _mm256_set1_epi64x(by as i64);
            let high = _mm256_set1_epi64x((by >> 32) as i64);
            let mixed = _mm256_add_epi64(
                _mm256_mul_epu32(_mm256_srli_epi64::<32>(words), low),
                _mm256_mul_epu32(words, high),
            );
            _mm256_add_epi64(_mm256_mul_epu32(words, low), _mm256_slli_epi64::<32>(mixed))
        }
    }
}
