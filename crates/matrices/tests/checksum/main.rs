//! The checksums of Archapt from outside: what they detect, what they correct, and what a power
//! cut can do to them.

mod correcting;
mod cuts;
mod detecting;
mod sums;
