//! The core workloads on a remote store, through clients that wait for each answer, as YCSB's do.
//!
//! A [`Remote`] is one connection; [`Records`] are the records behind all of them, loaded once for
//! any number of runs. An operation is one or more requests: F's read and write are not atomic, nor
//! is a scan. Every byte that is read is verified, and at the end every field must have a version
//! that may have been written last.

mod written;

use super::acknowledged::Acknowledged;
use super::generator::Generator;
use super::layout::{self, Layout};
use super::operation::{Found, Operation};
use super::{Kind, Letter, Name, Options, Order, Shape, identity_of};
use crate::phase::Phase;
use crate::{Failure, Measured, Outcome, Plan, Progress, Recorder, Share, payload};
use perdura::Counters;
use written::Written;

/// Fields with their names, in any order.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A client: one connection to a store that keeps records as YCSB's Redis binding lays them out.
/// Each call returns when the store has answered; without an answer it fails with
/// [`Failure::Remote`] after a while.
pub trait Remote {
    /// Adds a record; false if its key was there already.
    ///
    /// # Errors
    /// `Remote`.
    fn insert(&mut self, key: &[u8], fields: &[(&[u8], &[u8])]) -> Outcome<bool>;

    /// All fields of a record, if it is there.
    ///
    /// # Errors
    /// `Remote`.
    fn read(&mut self, key: &[u8]) -> Outcome<Option<Fields>>;

    /// Writes one field.
    ///
    /// # Errors
    /// `Remote`.
    fn update(&mut self, key: &[u8], field: &[u8], value: &[u8]) -> Outcome;

    /// Keys and fields of up to `limit` records, by [score](super::score) and key, from the score
    /// of `start` on.
    ///
    /// # Errors
    /// `Remote`.
    fn scan(&mut self, start: &[u8], limit: usize) -> Outcome<Vec<(Vec<u8>, Fields)>>;

    /// How many records there are.
    ///
    /// # Errors
    /// `Remote`.
    fn count(&mut self) -> Outcome<u64>;
}

/// The records of one store, and their expected contents.
pub struct Records {
    loaded: u64,
    order: Order,
    layout: Layout,
    inserts: Acknowledged,
    written: Written,
}

impl Records {
    /// This many records of this shape, not loaded yet.
    ///
    /// # Errors
    /// `Parameters`.
    pub fn new(records: u64, shape: Shape) -> Outcome<Self> {
        if records == 0 || !shape.is_valid() {
            let what = "YCSB needs a record, and a field of 8 bytes";
            return Err(Failure::Parameters(what.to_owned()));
        }
        Ok(Records {
            loaded: records,
            order: Order::Hashed,
            layout: Layout::of(shape),
            inserts: Acknowledged::new(records),
            written: Written::new(),
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.inserts.existing()
    }

    /// Inserts all of them into a store that has none, over this many connections at once.
    ///
    /// # Errors
    /// `Remote`; `Wrong` if one was there already; `Stopped`.
    pub fn load<R: Remote>(
        &self,
        connect: impl Fn() -> Outcome<R> + Sync,
        connections: usize,
        progress: &Progress,
    ) -> Outcome {
        self.for_each(self.loaded, connect, connections, progress, |remote, identity, _| {
            let mut payload = Vec::new();
            self.layout.shape.fill_record(identity, &mut payload);
            let name = Name::new(identity);
            match remote.insert(name.as_bytes(), &self.layout.fields(&payload))? {
                true => Ok(()),
                false => Err(Failure::Wrong(format!("record user{identity} was there already"))),
            }
        })
    }

    /// Runs one of the core workloads on them, with a connection for each of the plan's threads.
    /// Runs on the same records should differ in their seeds: writing the value that is there already
    /// cannot be distinguished from no write.
    ///
    /// # Errors
    /// `Remote`; `Wrong` if a read returned something else than was written; `Parameters` if the
    /// plan leaves requests unanswered.
    pub fn run<R: Remote>(
        &self,
        letter: Letter,
        connect: impl Fn() -> Outcome<R> + Sync,
        plan: &Plan,
        progress: &Progress,
    ) -> Outcome<Measured> {
        if plan.window != 1 {
            let what = "a client waits for each answer: choose a window of 1";
            return Err(Failure::Parameters(what.to_owned()));
        }
        let options = Options {
            order: self.order,
            shape: self.layout.shape,
            ..Options::new(letter, self.count(), plan.warm_up.saturating_add(plan.operations))
        };
        let generator = Generator::new(options, options.chooser(options.records), &self.inserts);
        let run = |phase: &Phase<'_>| {
            phase.run(&connect, |remote, share, recorder| {
                self.share(remote, generator.clone(), share, recorder)
            })
        };
        progress.restart();
        if plan.warm_up > 0 {
            run(&Phase::warm_up(plan, Kind::NAMES, progress))?;
        }
        run(&Phase::measured(plan, Kind::NAMES, progress))
    }

    /// Reads every record, over this many connections at once, and compares it with what was
    /// written; no other client may be running.
    ///
    /// # Errors
    /// `Wrong` where they differ; `Remote`; `Stopped`.
    pub fn check<R: Remote>(
        &self,
        connect: impl Fn() -> Outcome<R> + Sync,
        connections: usize,
        progress: &Progress,
    ) -> Outcome {
        let (existing, taken) = (self.count(), self.inserts.taken());
        if existing != taken {
            let what = format!("{taken} records were inserted, {existing} acknowledged");
            return Err(Failure::Wrong(what));
        }
        self.for_each(existing, &connect, connections, progress, |remote, identity, number| {
            self.check_record(remote, identity, number)
        })?;
        match connect()?.count()? {
            count if count == existing => Ok(()),
            count => {
                let what = format!("{existing} records were inserted, the store counts {count}");
                Err(Failure::Wrong(what))
            }
        }
    }

    /// Calls `each` with the identity and the number of each record, over several connections.
    fn for_each<R: Remote>(
        &self,
        records: u64,
        connect: impl Fn() -> Outcome<R> + Sync,
        connections: usize,
        progress: &Progress,
        each: impl Fn(&mut R, u64, u64) -> Outcome + Sync,
    ) -> Outcome {
        let plan = Plan {
            threads: connections,
            operations: records,
            warm_up: 0,
            seed: 0,
            sample_every: 0,
            per_second: None,
            pinned: false,
            window: 1,
        };
        progress.restart();
        let phase = Phase::measured(&plan, Kind::NAMES, progress);
        phase.run(connect, |remote, share, recorder| {
            for number in share.part_of(records) {
                if !recorder.go_on() {
                    return Err(Failure::Stopped);
                }
                let identity = self.order.identity(number);
                recorder.operation(Kind::Read as usize, || each(remote, identity, number))?;
            }
            Ok(Counters::default())
        })?;
        Ok(())
    }

    /// Does one thread's share of the operations.
    fn share<R: Remote>(
        &self,
        remote: &mut R,
        mut generator: Generator<'_>,
        mut share: Share,
        recorder: &mut Recorder<'_>,
    ) -> Outcome<Counters> {
        let (mut operation, mut found) = (Operation::new(), Found::default());
        while recorder.done() < share.operations && recorder.go_on() {
            generator.prepare(&mut operation, &mut share.random);
            found.clear();
            recorder.operation(operation.kind as usize, || {
                self.send(remote, &mut operation, &mut found)
            })?;
            found.verify(self.layout.shape)?;
            if operation.kind == Kind::Insert {
                self.inserts.acknowledge(operation.record);
            }
        }
        Ok(Counters::default())
    }

    /// Sends the operation's requests, and adds the data read to `found`.
    fn send<R: Remote>(
        &self,
        remote: &mut R,
        operation: &mut Operation,
        found: &mut Found,
    ) -> Outcome {
        let name = operation.name;
        match operation.kind {
            Kind::Read => self.read(remote, operation, found).map(drop),
            Kind::Update => self.update(remote, operation),
            Kind::Insert => {
                let fields = self.layout.fields(&operation.payload);
                match remote.insert(name.as_bytes(), &fields)? {
                    true => Ok(()),
                    false => Err(Failure::wrong("a new record's key was there already")),
                }
            }
            Kind::Scan => {
                found.begin_scan(operation.identity, operation.scan);
                for (key, fields) in remote.scan(name.as_bytes(), operation.scan)? {
                    // A name that is not one of ours fails verification as no record's.
                    let identity = identity_of(&key).unwrap_or(u64::MAX);
                    self.take(identity, Some(fields), found)?;
                    found.follows(&key, layout::begins, layout::ascends);
                }
                Ok(())
            }
            Kind::ReadModifyWrite => match self.read(remote, operation, found)? {
                Some(record) => {
                    operation.modify(self.layout.shape, record);
                    self.update(remote, operation)
                }
                None => Ok(()),
            },
        }
    }

    fn read<'f, R: Remote>(
        &self,
        remote: &mut R,
        operation: &Operation,
        found: &'f mut Found,
    ) -> Outcome<Option<&'f [u8]>> {
        let fields = remote.read(operation.name.as_bytes())?;
        self.take(operation.identity, fields, found)
    }

    /// Puts a record together in `found`; `None` if it is not whole, which is noted.
    fn take<'f>(
        &self,
        identity: u64,
        fields: Option<Fields>,
        found: &'f mut Found,
    ) -> Outcome<Option<&'f [u8]>> {
        found.take(identity, self.layout.shape.record_bytes(), |record| {
            Ok(self.assemble(fields, record))
        })
    }

    /// Whether these are all fields of a record, which then are in `record`.
    fn assemble(&self, fields: Option<Fields>, record: &mut [u8]) -> bool {
        let mut assembly = self.layout.assemble(record);
        for (name, value) in fields.iter().flatten() {
            assembly.put(name, value);
        }
        assembly.is_whole()
    }

    fn update<R: Remote>(&self, remote: &mut R, operation: &Operation) -> Outcome {
        let Operation { record, field, name, ref payload, .. } = *operation;
        let write = self.written.begin(record, field, payload::version_of(payload));
        remote.update(name.as_bytes(), self.layout.name(field), payload)?;
        self.written.answered(write);
        Ok(())
    }

    fn check_record<R: Remote>(&self, remote: &mut R, identity: u64, number: u64) -> Outcome {
        let shape = self.layout.shape;
        let mut record = vec![0; shape.record_bytes()];
        let fields = remote.read(Name::new(identity).as_bytes())?;
        if !self.assemble(fields, &mut record) {
            return Err(Failure::Wrong(format!("record user{identity} is gone, or not whole")));
        }
        for (field, value) in record.chunks_exact(shape.field_bytes).enumerate() {
            let version = shape.verify_field(identity, field, value)?;
            if !self.written.allows(number, field, version) {
                let what = "has another version than was written last";
                return Err(Failure::Wrong(format!(
                    "field {field} of record user{identity} {what}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
