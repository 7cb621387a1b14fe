//! Whole lives drawn from a seed, with a power cut at any event: batches rewritten, chunks of images cleaned.

use super::*;
use perdura_testing::seeds;

/// The known contents: after each commit.
struct Known {
    states: Vec<(Ticket, Vec<[u64; 8]>)>,
    /// Earlier ones than this are not possible any more.
    from: usize,
}

/// The parameters of a life.
struct Habits {
    skip: Skip,
    queue_lines: u64,
    group_bytes: u64,
    lines: u64,
    /// The most stores of a transaction.
    stores: u64,
    /// Transactions before the power may be cut.
    warm: u64,
    /// The number of events after that within which it is cut.
    events: u64,
    wait_every: u64,
    awaited: bool,
    /// One transaction in this many stores to more lines than the log has room for; 0: none.
    too_large: u64,
}

impl Habits {
    fn drawn(random: &mut SplitMix64) -> Self {
        Habits {
            skip: [Skip::Always, Skip::Always, Skip::WhereFewer][random.below(3) as usize],
            group_bytes: [100, 300, 1000, 4096][random.below(4) as usize],
            queue_lines: 1 + random.below(300),
            lines: 100 + random.below(1500),
            stores: 1 + random.below(6),
            warm: random.below(4000),
            events: 3000,
            wait_every: 1 + random.below(80),
            awaited: random.below(2) == 0,
            too_large: [0, 300, 1000][random.below(3) as usize],
        }
    }

    /// Deferred lines are stored to until there is no room for their images: chunks are cleaned at once then, again and
    /// again.
    const CROWDED: Habits = Habits {
        skip: Skip::Always,
        queue_lines: 132,
        group_bytes: 300,
        lines: 1392,
        stores: 6,
        warm: 0,
        events: 50_000,
        wait_every: 35,
        awaited: true,
        too_large: 0,
    };

    /// Few lines, nearly all of them deferred, and transactions that are refused now and then: left-over images of a
    /// refused one were noticed in one of some 200 lives.
    const GREEDY: Habits = Habits {
        skip: Skip::Always,
        queue_lines: 20,
        group_bytes: 300,
        lines: 120,
        stores: 16,
        warm: 100,
        events: 3000,
        wait_every: 9,
        awaited: true,
        too_large: 3,
    };
}

struct Life<E: Engine<Reference>> {
    memory: Arc<Reference>,
    session: E::Session,
    random: SplitMix64,
    habits: Habits,
    values: Vec<[u64; 8]>,
}

impl<E: Engine<Reference>> Life<E> {
    fn new(random: SplitMix64, habits: Habits) -> Self {
        let Habits { queue_lines, group_bytes, skip, lines, .. } = habits;
        let (memory, engine) = tuned::<E>(queue_lines, group_bytes, skip);
        let session = engine.session().unwrap();
        Life { memory, session, random, habits, values: vec![[0; 8]; lines as usize] }
    }

    /// Stores whole lines and words, mostly of the first lines; the caller commits.
    fn store(&mut self) {
        self.session.begin(Mode::Write);
        for _ in 0..1 + self.random.below(self.habits.stores) {
            let most = 1 + self.random.below(self.habits.lines);
            let number = self.random.below(most);
            let (line, value) = (DATA + number * LINE, &mut self.values[number as usize]);
            if self.random.below(5) == 0 {
                *value = std::array::from_fn(|_| self.random.next());
                let bytes = value.map(u64::to_ne_bytes).concat();
                self.session.write_bytes(line, &bytes).unwrap();
            } else {
                let word = self.random.below(8);
                value[word as usize] = self.random.next();
                self.session.write_word(line + word * 8, value[word as usize]).unwrap();
            }
        }
    }

    /// A transaction that is too large, and changes nothing; then its first lines alone.
    fn store_too_much(&mut self) {
        let (random, before) = (self.random.clone(), self.values.clone());
        self.store();
        let last = self.values.iter().zip(&before).rposition(|(value, before)| value != before);
        let rest = last.map_or(0, |last| last as u64 + 1)..self.habits.lines;
        for number in rest.chain(2000..4000) {
            let bytes = [1; LINE as usize];
            self.session.write_bytes(DATA + number * LINE, &bytes).unwrap();
        }
        let refused = self.session.commit();
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
        (self.random, self.values) = (random, before);
        self.store();
    }

    /// Goes on until the power is cut.
    fn live(&mut self) -> Known {
        let Habits { warm, events, wait_every, awaited, too_large, .. } = self.habits;
        let after = self.random.below(events);
        let mut known = Known { states: vec![(Ticket::default(), self.values.clone())], from: 0 };
        for turn in 0.. {
            if turn == warm {
                self.memory.cut_after(after);
            }
            if too_large > 0 && self.random.below(too_large) == 0 {
                self.store_too_much();
            } else {
                self.store();
            }
            let session = &mut self.session;
            let committed = if awaited { session.commit_awaited() } else { session.commit() };
            let ticket = committed.unwrap();
            // A transaction that was being committed when the power was cut may be there.
            known.states.push((ticket, self.values.clone()));
            if turn % wait_every == 0 {
                session.wait_durable(ticket).unwrap();
            }
            if self.memory.was_cut() || turn > warm + 6000 {
                break;
            }
            let durable = |known: &Known| {
                known.states.get(known.from + 1).is_some_and(|next| session.is_durable(next.0))
            };
            while durable(&known) {
                known.states[known.from].1 = Vec::new();
                known.from += 1;
            }
        }
        known
    }

    /// Images that may be left: all of it, nothing, something; and nearly all, with few lines of the data lost.
    fn images(&mut self) -> Vec<(Vec<u8>, bool)> {
        let [all, none] = [Cut::All, Cut::None].map(|cut| self.memory.power_cut(cut));
        let mut images = vec![(all.clone(), true), (none.clone(), false)];
        for _ in 0..2 {
            images.push((self.memory.power_cut(Cut::Seed(self.random.next())), false));
        }
        for _ in 0..4 {
            let mut image = all.clone();
            for _ in 0..5 {
                let line = (DATA + self.random.below(self.habits.lines) * LINE) as usize;
                image[line..line + 64].copy_from_slice(&none[line..line + 64]);
            }
            images.push((image, true));
        }
        images
    }
}

/// Lives a life, and counts the restored lines. To reproduce a failure give its seed to `PERDURA_TEST_SEED`.
fn life<E: Engine<Reference>>(seed: u64, habits: impl FnOnce(&mut SplitMix64) -> Habits) -> u64 {
    let mut random = SplitMix64::new(seed);
    let habits = habits(&mut random);
    let mut life = Life::<E>::new(random, habits);
    let known = life.live();
    let mut corrected = 0;
    for (number, (image, few)) in life.images().into_iter().enumerate() {
        let after = Reference::from_image(&image, Domain::Transient);
        let what = format!("{}, seed {seed}, image {number}", E::NAME);
        match E::recover(&after, LOG) {
            Ok(recovery) => {
                let word = |number, word| after.load(DATA + number * LINE + word as u64 * 8);
                let found: Vec<[u64; 8]> = (0..life.habits.lines)
                    .map(|number| std::array::from_fn(|index| word(number, index)))
                    .collect();
                let possible = &known.states[known.from..];
                assert!(possible.iter().any(|state| state.1 == found), "{what}: wrong contents");
                assert!(number > 0 || recovery.corrected == 0, "{what}: nothing was lost");
                corrected += recovery.corrected;
            }
            Err(Error::Lost { lines, .. }) => assert!(!few, "{what}: {lines} lines are refused"),
            Err(error) => panic!("{what}: {error}"),
        }
    }
    corrected
}

#[test]
fn lives_end_with_what_was_committed() {
    let (seeds, mut corrected) = (seeds(1, 30), [0, 0]);
    for seed in seeds.clone() {
        corrected[0] += life::<SkippingUndoEngine<Reference>>(seed, Habits::drawn);
        corrected[1] += life::<SkippingRedoEngine<Reference>>(seed, Habits::drawn);
    }
    println!("seeds {seeds:?}: {corrected:?} lines restored");
    assert!(seeds.count() < 10 || corrected.iter().all(|lines| *lines > 0), "{corrected:?}");
}

/// Without the fence after chunks are cleaned, one of the two whose absence no crash test has shown, this fails with
/// some 400 lives.
#[test]
fn crowded_lives_end_with_what_was_committed() {
    for seed in seeds(1, 30) {
        life::<SkippingRedoEngine<Reference>>(seed, |_| Habits::CROWDED);
    }
}

#[test]
fn greedy_lives_end_with_what_was_committed() {
    for seed in seeds(1, 30) {
        life::<SkippingUndoEngine<Reference>>(seed, |_| Habits::GREEDY);
        life::<SkippingRedoEngine<Reference>>(seed, |_| Habits::GREEDY);
    }
}

/// Lives of the undo engine with a planted bug reach contents that were never committed: long ones in which hardly
/// anything is waited for.
#[cfg(feature = "planted")]
#[test]
fn batches_void_too_early_are_noticed() {
    use perdura_engine::planted::{self, Bug};
    let waiting = |random: &mut SplitMix64| Habits {
        skip: Skip::Always,
        queue_lines: 64,
        group_bytes: 1_000,
        lines: 400,
        stores: 6,
        warm: random.below(1_000),
        events: 3_000,
        wait_every: 1_000,
        awaited: false,
        too_large: 0,
    };
    let noticed = |seed: &u64| {
        let lived = std::panic::catch_unwind(|| {
            planted::with(Bug::TakenBackTooEarly, || {
                life::<SkippingUndoEngine<Reference>>(*seed, waiting)
            })
        });
        lived.is_err()
    };
    let seed = seeds(1, 100).find(noticed).expect("it is noticed");
    println!("noticed in the life of seed {seed}");
    life::<SkippingUndoEngine<Reference>>(seed, waiting);
}
