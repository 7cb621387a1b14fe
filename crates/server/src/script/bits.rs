//! The library `bit`: operations on numbers of 32 bits.

use super::interpreter::State;
use super::library::{Arguments, Native, Outcome, one};
use mlua::{Lua, MultiValue, Value};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("tobit", |_, _, args| unary(&args, "tobit", |value| value)),
    ("bnot", |_, _, args| unary(&args, "bnot", |value| !value)),
    ("bswap", |_, _, args| unary(&args, "bswap", u32::swap_bytes)),
    ("band", |_, _, args| fold(&args, "band", |a, b| a & b)),
    ("bor", |_, _, args| fold(&args, "bor", |a, b| a | b)),
    ("bxor", |_, _, args| fold(&args, "bxor", |a, b| a ^ b)),
    ("lshift", |_, _, args| shift(&args, "lshift", |value, by| value << by)),
    ("rshift", |_, _, args| shift(&args, "rshift", |value, by| value >> by)),
    ("arshift", |_, _, args| shift(&args, "arshift", |value, by| (value as i32 >> by) as u32)),
    ("rol", |_, _, args| shift(&args, "rol", u32::rotate_left)),
    ("ror", |_, _, args| shift(&args, "ror", u32::rotate_right)),
    ("tohex", hex),
];

/// The low bits of a number, rounded to an integer.
fn bits(args: &Arguments, index: usize, name: &str) -> Outcome<u32> {
    // As adding 2^52 + 2^51 rounds and wraps.
    let number = args.number(index, name)? + 6_755_399_441_055_744.0;
    Ok(number.to_bits() as u32)
}

fn result(value: u32) -> MultiValue {
    one(Value::Number(f64::from(value as i32)))
}

fn unary(args: &Arguments, name: &str, apply: fn(u32) -> u32) -> Outcome<MultiValue> {
    Ok(result(apply(bits(args, 0, name)?)))
}

fn fold(args: &Arguments, name: &str, apply: fn(u32, u32) -> u32) -> Outcome<MultiValue> {
    let mut value = bits(args, 0, name)?;
    for index in 1..args.len() {
        value = apply(value, bits(args, index, name)?);
    }
    Ok(result(value))
}

fn shift(args: &Arguments, name: &str, apply: fn(u32, u32) -> u32) -> Outcome<MultiValue> {
    Ok(result(apply(bits(args, 0, name)?, bits(args, 1, name)? & 31)))
}

fn hex(lua: &Lua, _: &State, args: Arguments) -> Outcome<MultiValue> {
    let value = bits(&args, 0, "tohex")?;
    let digits = if args.get(1).is_nil() { 8 } else { bits(&args, 1, "tohex")? as i32 };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = match digits < 0 {
        true => format!("{value:08X}"),
        false => format!("{value:08x}"),
    };
    Ok(one(Value::String(lua.create_string(&text[8 - count..])?)))
}
