//! Replies to the host's clients.

use super::api::{RawContext, c_text, host};
use crate::resp::{Item, Items};
use std::ffi::{c_int, c_long};

/// Sends a reply of `perdura-server`.
pub(super) fn send(context: RawContext, reply: &[u8]) {
    for item in Items::new(reply) {
        send_one(context, item);
    }
}

/// Sends an error, which begins with its code.
pub(super) fn error(context: RawContext, text: &str) {
    send_one(context, Item::Error(text.as_bytes()));
}

fn send_one(context: RawContext, item: Item<'_>) -> c_int {
    let len = |count: usize| count as c_long;
    match item {
        Item::Simple(text) => {
            host!(RedisModule_ReplyWithSimpleString(context, c_text(text).as_ptr()))
        }
        Item::Error(text) => host!(RedisModule_ReplyWithError(context, c_text(text).as_ptr())),
        Item::Integer(value) => host!(RedisModule_ReplyWithLongLong(context, value)),
        Item::Bulk(bytes) => {
            host!(RedisModule_ReplyWithStringBuffer(context, bytes.as_ptr().cast(), bytes.len()))
        }
        Item::Null => host!(RedisModule_ReplyWithNull(context)),
        Item::NullArray => host!(RedisModule_ReplyWithNullArray(context)),
        Item::Array(count) => host!(RedisModule_ReplyWithArray(context, len(count))),
        Item::Map(count) => host!(RedisModule_ReplyWithMap(context, len(count))),
        Item::Set(count) => host!(RedisModule_ReplyWithSet(context, len(count))),
        Item::Double(value) => host!(RedisModule_ReplyWithDouble(context, value)),
        Item::Bool(value) => host!(RedisModule_ReplyWithBool(context, value.into())),
        Item::BigNumber(digits) => {
            host!(RedisModule_ReplyWithBigNumber(context, digits.as_ptr().cast(), digits.len()))
        }
        Item::Verbatim(form, text) => host!(RedisModule_ReplyWithVerbatimStringType(
            context,
            text.as_ptr().cast(),
            text.len(),
            c_text(form).as_ptr()
        )),
    }
}
