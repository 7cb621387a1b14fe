//! Sessions of the engines without a log tell the memory's hardware where transactions begin and end, and obey its
//! answers.

use perdura::{Engine, Error, Format, Heap, PlainEngine, Purpose, TxExt, Volatile};
use perdura_machine::mechanism::{Accessed, Effect, Moments};
use perdura_machine::{Design, Hardware, Machine, Mechanism, Options, presets};
use perdura_memory::image::LineWords;
use perdura_memory::{HardwareAbort, HardwareTicket};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Aborts every third transaction, and refuses to begin every fifth, except for the first ones, which create the heap.
#[derive(Clone, Default)]
struct Moody {
    begun: u64,
    before: Option<HashMap<u64, LineWords>>,
}

/// Transactions that it leaves alone.
const CALM: u64 = 20;

impl Design for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn build(&self, _: &mut Hardware, _: Range<u64>) -> Box<dyn Mechanism> {
        Box::new(self.clone())
    }
}

impl Mechanism for Moody {
    fn moments(&self) -> Moments {
        Moments::ACCESS
    }

    fn accessed(&mut self, _: &mut Hardware, access: &Accessed<'_>) -> Effect {
        if let Some(before) = &mut self.before
            && !access.stores.is_empty()
        {
            before.entry(access.line).or_insert(access.before);
        }
        Effect::Happens
    }

    fn begin(&mut self, _: &mut Hardware, _: usize) -> Result<(), HardwareAbort> {
        self.begun += 1;
        if self.begun > CALM && self.begun.is_multiple_of(5) {
            return Err(HardwareAbort::Capacity);
        }
        self.before = Some(HashMap::new());
        Ok(())
    }

    fn commit(
        &mut self,
        hardware: &mut Hardware,
        core: usize,
    ) -> Result<HardwareTicket, HardwareAbort> {
        if self.begun > CALM && self.begun.is_multiple_of(3) {
            self.abort(hardware, core);
            return Err(HardwareAbort::Conflict);
        }
        self.before = None;
        Ok(HardwareTicket(self.begun))
    }

    fn abort(&mut self, hardware: &mut Hardware, _: usize) -> bool {
        let Some(before) = self.before.take() else { return false };
        before.into_iter().for_each(|(line, words)| hardware.restore_line(line, words));
        true
    }

    fn durable(&mut self, _: &mut Hardware) -> HardwareTicket {
        HardwareTicket(self.begun.saturating_sub(1))
    }
}

/// A transaction that the hardware aborts has changed nothing, and its error says why; a program's own rollback is done
/// by the hardware, so that even the engine that keeps no old words can roll a transaction back.
fn takes_answers<E: Engine<Machine>>() {
    let options = Options {
        cores: Some(1),
        limit: 32 << 20,
        mechanism: Box::new(Moody::default()),
        ..Options::default()
    };
    let config = presets::load("tiny").expect("a preset");
    let machine = Arc::new(Machine::new(config, &[0; 64], options));
    let format = Format { limit: 32 << 20, log: Some(0), id: 7, requires: None, checksums: false };
    let heap = Heap::<Machine, E>::create(machine, format).expect("a heap");
    let mut session = heap.session().expect("a session");
    let make = session.transaction(|tx| tx.new_object(Purpose::General, 0_u64));
    let place = make.expect("an object");
    let (mut counted, mut conflicts, mut refused) = (0, 0, 0);
    for round in 0..90 {
        let result = session.transaction(|tx| {
            let value = tx.read(place)?;
            tx.write(place, value + 1)?;
            if round % 7 == 0 { Err(Error::Aborted("enough".into())) } else { Ok(()) }
        });
        match result {
            Ok(()) => counted += 1,
            Err(Error::Hardware(HardwareAbort::Conflict)) => conflicts += 1,
            Err(Error::Hardware(HardwareAbort::Capacity)) => refused += 1,
            Err(Error::Aborted(_)) => {}
            Err(error) => panic!("{}: {error}", E::NAME),
        }
        let seen = session.read(|tx| tx.read(place)).expect("a read");
        assert_eq!(seen, counted, "{}, round {round}", E::NAME);
    }
    assert!(counted > 10 && conflicts > 5 && refused > 2, "{counted} {conflicts} {refused}");
}

#[test]
fn sessions_take_the_hardwares_answers() {
    takes_answers::<Volatile<Machine>>();
    takes_answers::<PlainEngine<Machine>>();
}
