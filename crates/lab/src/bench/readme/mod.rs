//! README's figures: which commands measure them, the file that they are written to, and the tables made of it.
//!
//! Each table is a [`Spec`](spec::Spec): the commands of this same program that measure it, the kept part of their
//! JSON, and how it is rendered. README has the rendering between two marks, the first of which names the table and the
//! file of results/ with the figures.
//!
//! Reading order: [`results`], [`spec`], [`child`], [`render`], [`native`], [`sqlite`], [`simulated`], [`crashes`],
//! [`tables`], [`marks`], [`prose`].

pub(crate) mod child;
pub(crate) mod crashes;
pub(crate) mod marks;
pub(crate) mod native;
pub(crate) mod prose;
pub(crate) mod render;
pub(crate) mod results;
pub(crate) mod simulated;
pub(crate) mod spec;
pub(crate) mod sqlite;
pub(crate) mod tables;
