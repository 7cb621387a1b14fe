//! The tester itself, and its findings in engines that skip write-backs. One program: its tests use two cores better
//! than three programs that run one after another.

mod limits;
mod own;
mod same;
mod skipping;
