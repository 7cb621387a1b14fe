//! The Redis wire format: requests are read, replies are written, numbers and patterns are
//! read and printed as Redis does. Knows nothing of commands, sockets or the heap.

pub(crate) mod args;
pub(crate) mod extended;
pub(crate) mod glob;
mod hexadecimal;
pub(crate) mod inline;
pub(crate) mod number;
pub(crate) mod reader;
pub(crate) mod reply;

pub(crate) use args::Args;
pub(crate) use reader::{Limits, ProtocolError, Request, RequestReader};
pub(crate) use reply::{Protocol, Reply};
