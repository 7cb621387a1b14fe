//! Collections that Redis keeps in one string: ziplists, listpacks, sets of integers, zipmaps.

use super::reader::{Malformed, Reader};

/// Told of an element; its error ends the reading.
pub(crate) type Each<'a, E> = dyn FnMut(&[u8]) -> Result<(), E> + 'a;

/// How a string packs elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Ziplist,
    Listpack,
    Integers,
    Zipmap,
}

/// Calls `each` with every element of a packed string.
pub(crate) fn elements<E: From<Malformed>>(
    packing: Packing,
    bytes: &[u8],
    each: &mut Each<'_, E>,
) -> Result<(), E> {
    let mut reader = Reader::new(bytes);
    match packing {
        Packing::Ziplist => {
            // Its length, the place of its last element, its number of elements.
            let total = u32::from_le_bytes(reader.array()?);
            reader.take(6)?;
            if total as usize != bytes.len() {
                return Err(Malformed.into());
            }
            while ziplist_element(&mut reader, each)? {}
        }
        Packing::Listpack => {
            let total = u32::from_le_bytes(reader.array()?);
            reader.take(2)?;
            if total as usize != bytes.len() {
                return Err(Malformed.into());
            }
            while listpack_element(&mut reader, each)? {}
        }
        Packing::Integers => {
            let (width, count) =
                (u32::from_le_bytes(reader.array()?), u32::from_le_bytes(reader.array()?));
            for _ in 0..count {
                let number = match width {
                    2 => i64::from(i16::from_le_bytes(reader.array()?)),
                    4 => i64::from(i32::from_le_bytes(reader.array()?)),
                    8 => i64::from_le_bytes(reader.array()?),
                    _ => return Err(Malformed.into()),
                };
                each(number.to_string().as_bytes())?;
            }
        }
        Packing::Zipmap => {
            reader.byte()?;
            while let Some(len) = zipmap_len(&mut reader)? {
                each(reader.take(len)?)?;
                let len = zipmap_len(&mut reader)?.ok_or(Malformed)?;
                let free = reader.byte()?;
                each(reader.take(len)?)?;
                reader.take(usize::from(free))?;
            }
        }
    }
    if reader.is_at_end() { Ok(()) } else { Err(Malformed.into()) }
}

fn zipmap_len(reader: &mut Reader<'_>) -> Result<Option<usize>, Malformed> {
    Ok(match reader.byte()? {
        255 => None,
        254 => Some(u32::from_le_bytes(reader.array()?) as usize),
        len => Some(usize::from(len)),
    })
}

fn number<E>(value: i64, each: &mut Each<'_, E>) -> Result<(), E> {
    each(value.to_string().as_bytes())
}

/// An integer of three bytes, the lowest first.
fn three(reader: &mut Reader<'_>) -> Result<i64, Malformed> {
    let [a, b, c] = reader.array()?;
    Ok(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8))
}

/// Tells of the next element of a ziplist. False at its end.
fn ziplist_element<E: From<Malformed>>(
    reader: &mut Reader<'_>,
    each: &mut Each<'_, E>,
) -> Result<bool, E> {
    // The length of the element before, or the end.
    match reader.byte()? {
        255 => return Ok(false),
        254 => drop(reader.take(4)?),
        _ => {}
    }
    let first = reader.byte()?;
    let len = match first >> 6 {
        0 => Some(usize::from(first & 0x3F)),
        1 => Some(usize::from(first & 0x3F) << 8 | usize::from(reader.byte()?)),
        2 => Some(u32::from_be_bytes(reader.array()?) as usize),
        _ => None,
    };
    match (len, first) {
        (Some(len), _) => each(reader.take(len)?)?,
        (None, 0xC0) => number(i64::from(i16::from_le_bytes(reader.array()?)), each)?,
        (None, 0xD0) => number(i64::from(i32::from_le_bytes(reader.array()?)), each)?,
        (None, 0xE0) => number(i64::from_le_bytes(reader.array()?), each)?,
        (None, 0xF0) => number(three(reader)?, each)?,
        (None, 0xFE) => number(i64::from(i8::from_le_bytes(reader.array()?)), each)?,
        (None, 0xF1..=0xFD) => number(i64::from(first & 0xF) - 1, each)?,
        (None, _) => return Err(Malformed.into()),
    }
    Ok(true)
}

/// Tells of the next element of a listpack. False at its end.
fn listpack_element<E: From<Malformed>>(
    reader: &mut Reader<'_>,
    each: &mut Each<'_, E>,
) -> Result<bool, E> {
    let first = reader.byte()?;
    // Bytes of the element, without those of its length after it.
    let mut size = 1;
    let mut text = |reader: &mut Reader<'_>, header: usize, len: usize| {
        size = header + len;
        each(reader.take(len)?)
    };
    match first {
        0xFF => return Ok(false),
        0x80..0xC0 => text(reader, 1, usize::from(first & 0x3F))?,
        0xE0..0xF0 => {
            let len = usize::from(first & 0xF) << 8 | usize::from(reader.byte()?);
            text(reader, 2, len)?;
        }
        0xF0 => {
            let len = u32::from_le_bytes(reader.array()?) as usize;
            text(reader, 5, len)?;
        }
        _ => {
            let (value, bytes) = match first {
                0..0x80 => (i64::from(first), 1),
                0xC0..0xE0 => {
                    let value = i64::from(first & 0x1F) << 8 | i64::from(reader.byte()?);
                    (if value >= 1 << 12 { value - (1 << 13) } else { value }, 2)
                }
                0xF1 => (i64::from(i16::from_le_bytes(reader.array()?)), 3),
                0xF2 => (three(reader)?, 4),
                0xF3 => (i64::from(i32::from_le_bytes(reader.array()?)), 5),
                0xF4 => (i64::from_le_bytes(reader.array()?), 9),
                _ => return Err(Malformed.into()),
            };
            size = bytes;
            number(value, each)?;
        }
    }
    // The length once more, for those who go backwards.
    reader.take(backwards_len(size))?;
    Ok(true)
}

/// Bytes that a listpack has for an element's length after the element: of seven bits each, but the greatest number of
/// two, three or four bytes takes one more.
pub(super) fn backwards_len(size: usize) -> usize {
    match size {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listpack of a long string, and of a short one after it; the string's length takes `after` bytes at its end.
    fn listpack(len: usize, after: usize) -> Vec<u8> {
        let mut bytes = vec![0; 6];
        bytes.push(0xF0);
        bytes.extend_from_slice(&(len as u32).to_le_bytes());
        bytes.resize(bytes.len() + len, b'x');
        bytes.resize(bytes.len() + after, 1);
        bytes.extend_from_slice(b"\x81y\x02\xFF");
        let total = bytes.len() as u32;
        bytes[..4].copy_from_slice(&total.to_le_bytes());
        bytes
    }

    fn lengths(bytes: &[u8]) -> Result<Vec<usize>, Malformed> {
        let mut all = Vec::new();
        elements(Packing::Listpack, bytes, &mut |text| {
            all.push(text.len());
            Ok::<(), Malformed>(())
        })?;
        Ok(all)
    }

    #[test]
    fn an_element_s_length_ends_where_redis_has_it_end() {
        for (size, after) in [
            (127, 1),
            (128, 2),
            (16_382, 2),
            (16_383, 3),
            (16_384, 3),
            (2_097_150, 3),
            (2_097_151, 4),
            (2_097_152, 4),
        ] {
            // The string's own length takes five bytes.
            let len = size - 5;
            assert_eq!(lengths(&listpack(len, after)), Ok(vec![len, 1]), "{size}");
            assert_ne!(lengths(&listpack(len, after - 1)), Ok(vec![len, 1]), "{size}");
        }
        assert_eq!([268_435_454, 268_435_455].map(backwards_len), [4, 5]);
    }
}
