//! Vectors and byte strings against std's.

use super::{Blocks, Rng, Run, destroy, same, transact};
use crate::collections::{Blob, Vector};
use crate::{Persist, Purpose, Result, Tx};
use std::fmt::Debug;

/// Random operations on a vector, in `transactions` transactions.
///
/// # Errors
/// The first thing that differs from the model; the engine's errors.
pub fn check_vector<E: Persist + PartialEq + Debug>(
    run: &mut Run<'_>,
    seed: u64,
    transactions: u64,
    element: fn(&mut Rng) -> E,
) -> Result<()> {
    let mut rng = Rng(seed);
    let mut vector = Vector::<E>::new(0);
    run(&mut |tx| {
        vector = Vector::create(tx)?;
        Ok(())
    })?;
    let mut model: Vec<E> = Vec::new();
    for turn in 0..transactions {
        transact(run, &mut model, &mut rng, &mut |tx, model, rng| {
            let pushes = if turn / 32 % 3 == 2 { 2 } else { 7 };
            vector_step(tx, vector, model, rng, pushes, element)
        })?;
        if turn % 16 == 0 || turn + 1 == transactions {
            run(&mut |tx| compare(tx, vector, &model))?;
        }
    }
    destroy(run, &mut rng, &mut |tx, budget| {
        vector.check(tx, &mut |_| Ok(()))?;
        vector.destroy_some(tx, 1 + budget / 20)
    })
}

fn vector_step<E: Persist + PartialEq + Debug>(
    tx: &mut dyn Tx,
    vector: Vector<E>,
    model: &mut Vec<E>,
    rng: &mut Rng,
    pushes: u64,
    element: fn(&mut Rng) -> E,
) -> Result<()> {
    let len = model.len() as u64;
    let (index, other) = (rng.below(len + 1), rng.below(len + 1));
    match rng.below(12) {
        0 => same("get", vector.get(tx, index)?, model.get(index as usize).copied()),
        1 if index < len && other < len => {
            model.swap(index as usize, other as usize);
            vector.swap(tx, index, other)
        }
        2 if index < len => {
            model[index as usize] = element(rng);
            vector.set(tx, index, model[index as usize])
        }
        3 if rng.below(40) == 0 => {
            model.truncate(index as usize);
            vector.truncate(tx, index)
        }
        op if op < 3 + pushes => (0..1 + rng.below(5)).try_for_each(|_| {
            model.push(element(rng));
            vector.push(tx, model[model.len() - 1])
        }),
        _ => (0..1 + rng.below(5)).try_for_each(|_| same("pop", vector.pop(tx)?, model.pop())),
    }
}

fn compare<E: Persist + PartialEq + Debug>(
    tx: &mut dyn Tx,
    vector: Vector<E>,
    model: &[E],
) -> Result<()> {
    let mut blocks = Blocks::default();
    vector.check(tx, &mut |at| blocks.visit(at))?;
    same("len", vector.len(tx)?, model.len() as u64)?;
    let mut all = Vec::new();
    vector.for_each(tx, &mut |element| {
        all.push(element);
        Ok(())
    })?;
    same("for_each", all.as_slice(), model)
}

/// Random operations on a byte string, in `transactions` transactions.
///
/// # Errors
/// The first thing that differs from the model; the engine's errors.
pub fn check_blob(run: &mut Run<'_>, seed: u64, transactions: u64) -> Result<()> {
    let mut rng = Rng(seed);
    let mut blob = Blob::new(0);
    run(&mut |tx| {
        blob = Blob::create(tx, Purpose::Value, b"")?;
        Ok(())
    })?;
    let mut model = (blob, Vec::new());
    for _ in 0..transactions {
        transact(run, &mut model, &mut rng, &mut |tx, (blob, bytes), rng| {
            blob_step(tx, blob, bytes, rng)
        })?;
    }
    run(&mut |tx| model.0.free(tx))
}

fn blob_step(tx: &mut dyn Tx, blob: &mut Blob, bytes: &mut Vec<u8>, rng: &mut Rng) -> Result<()> {
    let some = rng.bytes(6000);
    let from = rng.below(bytes.len() as u64 + 1);
    match rng.below(6) {
        0 => {
            bytes.clone_from(&some);
            *blob = blob.set(tx, &some)?;
            // Nearly the same: short strings are overwritten where they differ.
            bytes.truncate(rng.below(1025) as usize);
            for _ in 0..rng.below(3).min(bytes.len() as u64) {
                let place = rng.below(bytes.len() as u64) as usize;
                bytes[place] ^= 1;
            }
            *blob = blob.set(tx, bytes)?;
        }
        1 if bytes.len() < 20_000 => {
            bytes.extend_from_slice(&some);
            *blob = blob.append(tx, &some)?;
        }
        2 if from as usize + some.len() <= bytes.len() => {
            bytes[from as usize..][..some.len()].copy_from_slice(&some);
            blob.write_range(tx, from, &some)?;
        }
        3 => {
            let len = rng.below(bytes.len() as u64 + 50);
            bytes.resize(len as usize, 0);
            *blob = blob.resize(tx, len)?;
        }
        4 => {
            let end = bytes.len().min(from as usize + some.len());
            let range = blob.read_range(tx, from, some.len() as u64)?;
            same("read_range", range.as_slice(), &bytes[from as usize..end])?;
        }
        _ => same("equals", blob.equals(tx, &some)?, *bytes == some)?,
    }
    same("equals", blob.equals(tx, bytes)?, true)?;
    same("len", blob.len(tx)?, bytes.len() as u64)?;
    blob.check(tx, &mut |_| Ok(()))?;
    same("read", &blob.read(tx)?, &*bytes)
}
