//! Programs in C: the examples, and one with the library as a system has it.

mod common;
mod examples;
mod installed;
mod maps;
