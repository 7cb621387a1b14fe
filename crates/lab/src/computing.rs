//! Programs' own computation, on a simulated machine: before each access of a transaction's body, and never before one
//! that an engine makes for itself; and for the steps of private computation that a workload reports; and the accesses to
//! its private buffers.

use perdura::{
    Access, AnyTx, Counters, Extent, Fresh, Mode, Moment, Purpose, Result, Root, Savepoint, Tx,
};
use perdura_machine::Machine;
use perdura_machine::config::Cores;
use perdura_memory::{Memory, Touch, lines_in};
use perdura_workloads::answers::Answers;
use perdura_workloads::{Computation, PrivateAccess, PrivateBuffer, Session};
use std::sync::Arc;

/// A session whose program computes, as long as the machine's configuration says.
pub(crate) struct ComputingSession<S> {
    inner: S,
    machine: Arc<Machine>,
    /// Before each access of a transaction's body.
    cycles: u32,
    computation: Computation,
}

impl<S> ComputingSession<S> {
    /// `inner`, whose memory is this machine, with these cores.
    pub(crate) fn new(inner: S, machine: &Arc<Machine>, cores: &Cores) -> Self {
        let (machine, cycles) = (machine.clone(), cores.program_cycles);
        let computation = match cores.step_cycles {
            0 => Computation::default(),
            each => charged_to(machine.clone(), each),
        };
        ComputingSession { inner, machine, cycles, computation }
    }
}

/// Each step takes the running core this many cycles.
fn charged_to(machine: Arc<Machine>, step_cycles: u32) -> Computation {
    Computation::charged_by(move |steps| work(&machine, u64::from(step_cycles), steps))
}

/// The running core computes `times` for some cycles.
fn work(machine: &Machine, cycles: u64, times: u64) {
    machine.work(u32::try_from(cycles.saturating_mul(times)).unwrap_or(u32::MAX));
}

impl<S: for<'t> Session<Tx<'t> = AnyTx<'t>>> Session for ComputingSession<S> {
    type Tx<'t> = AnyTx<'t>;

    fn transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>,
    ) -> Result<R> {
        let (machine, cycles) = (&*self.machine, self.cycles);
        self.inner.transaction(|tx| computing(tx, machine, cycles, &mut body))
    }

    fn read<R>(&mut self, mut body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        let (machine, cycles) = (&*self.machine, self.cycles);
        self.inner.read(|tx| computing(tx, machine, cycles, &mut body))
    }

    fn read_part<R>(&mut self, mut body: impl FnMut(&mut Self::Tx<'_>) -> Result<R>) -> Result<R> {
        let (machine, cycles) = (&*self.machine, self.cycles);
        self.inner.read_part(|tx| computing(tx, machine, cycles, &mut body))
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn pause(&self, turn: u32) {
        self.inner.pause(turn);
    }

    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }

    fn answers(&self) -> Option<Answers> {
        self.inner.answers()
    }

    fn computation(&self) -> Computation {
        self.computation.clone()
    }

    fn private_buffer(&self, bytes: u64) -> PrivateBuffer {
        let (machine, object) = (self.machine.clone(), self.machine.object(bytes));
        PrivateBuffer::accessed_by(move |at, len, access| {
            let touch = match access {
                PrivateAccess::Read => Touch::Read,
                PrivateAccess::Value => Touch::Value,
                PrivateAccess::Write => Touch::Write,
            };
            machine.touch(object, at, len, touch);
        })
    }
}

fn computing<R>(
    tx: &mut AnyTx<'_>,
    machine: &Machine,
    cycles: u32,
    body: &mut impl FnMut(&mut AnyTx<'_>) -> Result<R>,
) -> Result<R> {
    if cycles == 0 {
        return body(tx);
    }
    let mut tx = Computing { inner: tx, machine, cycles };
    body(&mut AnyTx::new(&mut tx))
}

/// A transaction whose body computes before each of its accesses.
struct Computing<'a> {
    inner: &'a mut dyn Tx,
    machine: &'a Machine,
    cycles: u32,
}

impl Computing<'_> {
    /// Computes for the accesses to these bytes, one for each line: as the machine counts accesses.
    fn compute(&self, at: u64, len: u64) {
        let accesses = if len == 0 { 0 } else { lines_in(at, len) };
        work(self.machine, u64::from(self.cycles), accesses);
    }
}

impl Access for Computing<'_> {
    fn read_word(&mut self, at: u64) -> Result<u64> {
        self.compute(at, 1);
        self.inner.read_word(at)
    }

    fn write_word(&mut self, at: u64, value: u64) -> Result<()> {
        self.compute(at, 1);
        self.inner.write_word(at, value)
    }

    fn read_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.compute(at, to.len() as u64);
        self.inner.read_bytes(at, to)
    }

    fn peek_bytes(&mut self, at: u64, to: &mut [u8]) -> Result<()> {
        self.compute(at, to.len() as u64);
        self.inner.peek_bytes(at, to)
    }

    fn write_bytes(&mut self, at: u64, from: &[u8]) -> Result<()> {
        self.compute(at, from.len() as u64);
        self.inner.write_bytes(at, from)
    }

    fn mode(&self) -> Mode {
        self.inner.mode()
    }

    fn lane(&self) -> u32 {
        self.inner.lane()
    }
}

impl Tx for Computing<'_> {
    fn allocate(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.inner.allocate(purpose, len)
    }

    fn write_fresh(&mut self, fresh: Fresh, from: u64, bytes: &[u8]) -> Result<()> {
        self.compute(fresh.at() + from, bytes.len() as u64);
        self.inner.write_fresh(fresh, from, bytes)
    }

    fn allocate_now(&mut self, purpose: Purpose, len: u64) -> Result<Option<Fresh>> {
        self.inner.allocate_now(purpose, len)
    }

    fn allocate_some(&mut self, purpose: Purpose, len: u64) -> Result<Fresh> {
        self.inner.allocate_some(purpose, len)
    }

    fn is_sparse(&mut self, at: u64) -> bool {
        self.inner.is_sparse(at)
    }

    fn free(&mut self, at: u64) -> Result<()> {
        self.inner.free(at)
    }

    fn usable(&mut self, at: u64) -> Result<u64> {
        self.inner.usable(at)
    }

    fn extent(&mut self, at: u64) -> Result<Option<Extent>> {
        self.inner.extent(at)
    }

    fn undo_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.undo_to(savepoint)
    }

    fn point(&mut self) -> Savepoint {
        self.inner.point()
    }

    fn moment(&self) -> Moment {
        self.inner.moment()
    }

    fn root(&mut self, name: &str) -> Result<Option<Root>> {
        self.inner.root(name)
    }

    fn set_root(&mut self, name: &str, root: Root) -> Result<()> {
        self.inner.set_root(name, root)
    }
}
