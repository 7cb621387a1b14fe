//! The tester itself, and what it finds of engines that skip write-backs. One program: its tests share two
//! cores better than three programs that run one after another.

mod own;
mod same;
mod skipping;
