//! Model checks of the collections, to be run on every engine.
