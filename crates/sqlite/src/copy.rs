//! Moves databases between pools and ordinary files.
