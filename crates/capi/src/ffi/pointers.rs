//! Pointers from C, checked as far as they can be.

use crate::codes::{PERDURA_ERR_INVALID, PERDURA_ERR_NULL};
use crate::fail::{Fail, Result};
use crate::pools::Wanted;
use crate::types::*;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// More than any structure of a later version has.
const LARGEST: usize = 4096;

fn check<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() {
        let text = format!("the argument {name} is null: pass the address of one");
        return Err(Fail::new(PERDURA_ERR_NULL, text));
    }
    if !pointer.is_aligned() {
        let text = format!("the argument {name} is misaligned: pass the address of one");
        return Err(Fail::new(PERDURA_ERR_INVALID, text));
    }
    Ok(())
}

/// Where a function puts a result.
pub(super) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    /// Checks the pointer before anything is done whose result would be lost, and puts `none`
    /// there for the case of an error.
    ///
    /// # Safety
    /// Unless null or misaligned, it can be written to for as long as this exists.
    pub(super) unsafe fn new(pointer: *mut T, name: &str, none: T) -> Result<Self> {
        check(pointer, name)?;
        let out = Out(pointer);
        out.put(none);
        Ok(out)
    }

    /// As [`new`](Self::new), for a result that the caller may not want.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub(super) unsafe fn optional(pointer: *mut T, name: &str, none: T) -> Result<Option<Self>> {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: as promised.
        unsafe { Self::new(pointer, name, none) }.map(Some)
    }

    /// What is there when the call begins, for what is an argument too; `none` is put there.
    ///
    /// # Safety
    /// As [`new`](Self::new); it can be read, too.
    pub(super) unsafe fn taking(pointer: *mut T, name: &str, none: T) -> Result<(Self, T)> {
        check(pointer, name)?;
        // SAFETY: as promised.
        unsafe { Ok((Out(pointer), pointer.replace(none))) }
    }

    /// Writes the result.
    pub(super) fn put(&self, value: T) {
        // SAFETY: as promised to `new`.
        unsafe { self.0.write(value) };
    }
}

/// A text.
///
/// # Safety
/// Unless null, it ends with a zero byte, and neither moves nor changes meanwhile.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    check(pointer, name)?;
    // SAFETY: as promised.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| {
        let text = format!("the argument {name} is no UTF-8 text: pass one");
        Fail::new(PERDURA_ERR_INVALID, text)
    })
}

/// A path: any bytes.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn path<'a>(pointer: *const c_char) -> Result<&'a Path> {
    check(pointer, "path")?;
    // SAFETY: as promised.
    let text = unsafe { CStr::from_ptr(pointer) };
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// Bytes to read from; the caller has checked that a pool can hold `len`.
///
/// # Safety
/// Unless null, `len` bytes can be read there, and do not change meanwhile.
pub(super) unsafe fn bytes<'a>(pointer: *const c_void, len: usize, name: &str) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    check(pointer.cast::<u8>(), name)?;
    // SAFETY: as promised; no pool has more than `isize::MAX` bytes.
    Ok(unsafe { std::slice::from_raw_parts(pointer.cast(), len) })
}

/// Bytes to write to, and never to read; the caller has checked that a pool can hold `len`.
///
/// # Safety
/// Unless null, `len` bytes can be written there, and nothing else uses them meanwhile.
pub(super) unsafe fn bytes_mut<'a>(pointer: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(pointer.cast_const().cast::<u8>(), "to")?;
    // SAFETY: as promised; no pool has more than `isize::MAX` bytes. What C allocated has bytes
    // in it, whether C has set them or not.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), len) })
}

/// A key or a value, of `limit` bytes at most.
///
/// # Safety
/// As [`bytes`].
pub(super) unsafe fn item<'a>(
    pointer: *const c_void,
    len: usize,
    name: &str,
    limit: u64,
) -> Result<&'a [u8]> {
    if len as u64 > limit {
        let text = format!("a {name} of {len} bytes, more than the pool can have: pass its length");
        return Err(Fail::new(PERDURA_ERR_INVALID, text));
    }
    // SAFETY: as promised; a pool can hold `len` bytes.
    unsafe { bytes(pointer, len, name) }
}

/// An end of a range; null for none.
///
/// # Safety
/// Unless null or misaligned, it can be read, and its key is as [`item`] wants it.
pub(super) unsafe fn bound<'a>(
    pointer: *const perdura_bound,
    name: &str,
    limit: u64,
) -> Result<Bound<&'a [u8]>> {
    if pointer.is_null() {
        return Ok(Bound::Unbounded);
    }
    check(pointer, name)?;
    // SAFETY: as promised.
    let bound = unsafe { pointer.read() };
    // SAFETY: as promised.
    let key = || unsafe { item(bound.key, bound.key_len, "key", limit) };
    match bound.how {
        PERDURA_UNBOUNDED => Ok(Bound::Unbounded),
        PERDURA_INCLUDED => key().map(Bound::Included),
        PERDURA_EXCLUDED => key().map(Bound::Excluded),
        how => Err(Fail::new(
            PERDURA_ERR_INVALID,
            format!(
                "{name}->how is {how}: set PERDURA_UNBOUNDED, PERDURA_INCLUDED or PERDURA_EXCLUDED"
            ),
        )),
    }
}

/// A buffer of the caller's.
pub(super) struct Buffer {
    at: *mut perdura_buffer,
    to: *mut u8,
    room: usize,
}

impl Buffer {
    /// Checks the buffer, and says in it that nothing is there.
    ///
    /// # Safety
    /// Unless null or misaligned, it can be read and written to for as long as this exists, and so
    /// can `room` bytes at `to`.
    pub(super) unsafe fn new(at: *mut perdura_buffer, name: &str) -> Result<Self> {
        check(at, name)?;
        // SAFETY: as promised. What is in `len` is not read: C need not have set it.
        let (to, room) = unsafe { ((&raw const (*at).to).read(), (&raw const (*at).room).read()) };
        if room > 0 {
            check(to.cast_const().cast::<u8>(), &format!("{name}->to"))?;
        }
        let buffer = Buffer { at, to: to.cast(), room };
        buffer.say(0);
        Ok(buffer)
    }

    fn say(&self, len: usize) {
        // SAFETY: as promised to `new`.
        unsafe { (&raw mut (*self.at).len).write(len) };
    }

    /// Copies as many of the bytes as there is room for, and says how many there are.
    pub(super) fn fill(&self, bytes: &[u8]) {
        let fits = bytes.len().min(self.room);
        // SAFETY: as promised to `new`; `bytes` are the library's own, and none of the caller's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.to, fits) };
        self.say(bytes.len());
    }
}

/// The options; null for the defaults.
///
/// # Safety
/// Unless null or misaligned, `struct_size` can be read, and the number of bytes that it says, and
/// the texts are as [`text`] wants them.
pub(super) unsafe fn wanted(options: *const perdura_options) -> Result<Wanted> {
    if options.is_null() {
        return Ok(Wanted::default());
    }
    check(options, "options")?;
    // SAFETY: as promised.
    let options = unsafe { known_part(options) }?;
    let named = |pointer: *const c_char, name| {
        if pointer.is_null() {
            return Ok(None);
        }
        // SAFETY: as promised.
        unsafe { text(pointer, name) }.map(|text| Some(text.to_owned()))
    };
    Ok(Wanted {
        size: options.size,
        log_size: options.log_size,
        engine: named(options.engine, "options->engine")?,
        domain: named(options.domain, "options->domain")?,
        flags: options.flags,
        must_outlive: options.must_outlive,
    })
}

/// The part of the structure that this version knows; the rest must be zero, as are the fields
/// that an earlier version did not have.
///
/// # Safety
/// `options` is neither null nor misaligned, and as [`wanted`] wants it.
unsafe fn known_part(options: *const perdura_options) -> Result<perdura_options> {
    // SAFETY: as promised.
    let size = unsafe { (&raw const (*options).struct_size).read() };
    if !(size_of::<usize>()..=LARGEST).contains(&size) {
        let text = format!(
            "options->struct_size is {size}: fill the options with perdura_options_init first"
        );
        return Err(Fail::new(PERDURA_ERR_INVALID, text));
    }
    let known = size.min(size_of::<perdura_options>());
    // SAFETY: as promised: there are `size` bytes.
    let all = unsafe { std::slice::from_raw_parts(options.cast::<u8>(), size) };
    if all[known..].iter().any(|&byte| byte != 0) {
        let text = "the options have fields that this library does not know: use a later version \
                    of it, or leave them zero";
        return Err(Fail::new(PERDURA_ERR_INVALID, text));
    }
    let mut mine = MaybeUninit::<perdura_options>::zeroed();
    // SAFETY: `known` bytes are there on both sides; zero is good in every field, and so is
    // whatever C has set.
    unsafe {
        std::ptr::copy_nonoverlapping(all.as_ptr(), mine.as_mut_ptr().cast(), known);
        Ok(mine.assume_init())
    }
}

/// Fills in a structure of `size` bytes, of which this version knows those of `value`; zero
/// beyond.
///
/// # Safety
/// Unless null or misaligned, `size` bytes can be written there.
pub(super) unsafe fn put_sized<T: Copy>(
    to: *mut T,
    name: &str,
    size: usize,
    value: &T,
) -> Result<()> {
    check(to, name)?;
    if !(size_of::<usize>()..=LARGEST).contains(&size) {
        let text = format!("the size given for {name} is {size}: pass its sizeof");
        return Err(Fail::new(PERDURA_ERR_INVALID, text));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: as promised; `value` has `known` bytes.
    unsafe {
        std::ptr::write_bytes(to.cast::<u8>(), 0, size);
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(value).cast::<u8>(), to.cast(), known);
    }
    Ok(())
}
