//! `perdura-lab crash --mechanism`: the cases of mechanisms in hardware, and their mutants.

use super::choice::{Cases, chosen_structures, policies, several};
use super::explore::{quietly, stopping};
use super::mutants::LONGEST;
use super::{Arguments, within};
use crate::failure::{Failure, Outcome};
use crate::quantity::show_count;
use crate::{interrupt, output};
use perdura::EngineKind;
use perdura_crashtest::case::start_name;
use perdura_crashtest::mechanisms::mutants::{TriedMutant, find, of};
use perdura_crashtest::mechanisms::{self, Maker, Settings, settings};
use perdura_crashtest::{Case, Failure as Found, Runner, STARTS, Watcher};
use perdura_machine::Ps;
use perdura_memory::Domain;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Step between the combinations of settings with which neighbouring structures begin: prime to their number.
const STRIDE: usize = 7;
/// Images checked of each mutant at most, unless given.
const IMAGES_OF_A_MUTANT: u64 = 50_000;
/// A second: no run has longer epochs.
const LONGEST_EPOCH: u64 = 1_000_000;

impl Arguments {
    /// Every structure with every number of cores, each with the next combination of the other settings.
    pub(super) fn mechanism_cases(&self) -> Outcome<Cases> {
        if self.omit.is_some() {
            return Err(Failure::new(
                "--omit is for engines: of a mechanism, --mutant leaves something out",
            ));
        }
        let transient = [Domain::Transient];
        let domains =
            several(&self.domain, "domain of a mechanism", &transient, Domain::to_string)?;
        let makers = self.mechanism.iter().map(|name| Maker::named(name).map_err(Failure::new));
        let makers = makers.collect::<Outcome<Vec<_>>>()?;
        let cores = self.cores(&[1, 2, 3, 4]);
        self.check_numbers(&cores)?;
        let settings = self.settings()?;
        if let (Some(mutant), [maker]) = (&self.mutant, &makers[..]) {
            known(maker, mutant)?;
        } else if self.mutant.is_some() {
            return Err(Failure::new("--mutant needs one --mechanism"));
        }
        let engines = self.engines_under()?;
        let structures = chosen_structures(&self.workload)?;
        let (mut runners, mut round) = (Vec::new(), Vec::new());
        for structure in structures {
            for (maker, engine) in makers.iter().flat_map(|it| engines.iter().map(move |e| (it, e)))
            {
                let runner = mechanisms::find(maker.clone(), *engine, structure);
                runners.push(runner.ok_or_else(|| Failure::new("there is no such engine"))?);
            }
        }
        for cores in cores {
            let mutant = self.mutant.clone();
            let case = Case {
                domain: domains[0],
                cores,
                mutant,
                ..self.case(settings.machines[0].clone())
            };
            for machine in &settings.machines {
                let case = Case { machine: machine.clone(), ..case.clone() };
                makers.iter().try_for_each(|maker| maker.check(&case)).map_err(Failure::new)?;
            }
            round.extend((0..runners.len()).map(|runner| (runner, case.clone())));
        }
        let cases = (0..settings.count()).flat_map(|turn| {
            let numbered = round.iter().enumerate();
            let set = |(number, (runner, case)): (usize, &(usize, Case))| {
                (*runner, settings.set(turn + STRIDE * number, case))
            };
            numbered.map(set).collect::<Vec<_>>()
        });
        let cases = cases.collect();
        Ok(Cases {
            runners,
            cases,
            round: round.len(),
            operations_drawn: self.operations.is_none(),
            schedule_drawn: false,
        })
    }

    /// The named engines, or the one that each structure works with.
    fn engines_under(&self) -> Outcome<Vec<Option<&'static str>>> {
        if self.engine == ["all"] {
            return Ok(vec![None]);
        }
        let engines = several(&self.engine, "engine", &EngineKind::ALL, EngineKind::to_string)?;
        Ok(engines.into_iter().map(|engine| Some(engine.name())).collect())
    }

    fn settings(&self) -> Outcome<Settings> {
        let epochs = match &self.epoch_us[..] {
            [] => settings::EPOCHS_US.to_vec(),
            named => named.to_vec(),
        };
        epochs.iter().try_for_each(|epoch| within("--epoch-us", *epoch, LONGEST_EPOCH))?;
        let starts = match &self.start[..] {
            [all] if all == "all" => settings::STARTS.to_vec(),
            named => several(named, "start", &STARTS, |start| start_name(*start))?,
        };
        Ok(Settings {
            machines: self.machines(&settings::MACHINES)?,
            schedules: self
                .schedule
                .map_or(settings::SCHEDULES.to_vec(), |schedule| vec![schedule.0]),
            starts,
            epochs: epochs.into_iter().map(|us| Ps(us * 1_000_000)).collect(),
            policies: policies(&self.policy)?,
        })
    }
}

fn known(maker: &Maker, mutant: &str) -> Outcome {
    let names: Vec<_> = of(maker).iter().map(|mutant| mutant.name).collect();
    if names.contains(&mutant) {
        return Ok(());
    }
    let (name, names) = (maker.name(), names.join(", "));
    Err(Failure::new(format!(
        "the mechanism '{name}' has no mutant '{mutant}': its mutants are {names}"
    )))
}

/// The number of a mutant, and its outcome.
type Tried = (usize, Result<TriedMutant, Box<Found>>);

/// Tries the mutants that the mechanisms list.
pub(super) fn mutants(arguments: &Arguments, cases: &Cases, threads: usize) -> Outcome {
    if arguments.points.0.is_replay() || arguments.mutant.is_some() {
        return Err(Failure::new(
            "--mutants goes through all of them, with --points all or random",
        ));
    }
    let progress = interrupt::progress()?;
    let mut all = Vec::new();
    for name in &arguments.mechanism {
        let maker = Maker::named(name).map_err(Failure::new)?;
        all.extend(of(&maker).iter().map(|mutant| (name.as_str(), mutant)));
    }
    let bar = crate::bench::watch::steps("mutants", all.len());
    let (watcher, next) = (Watcher::default(), AtomicUsize::new(0));
    let tried: Mutex<Vec<Tried>> = Mutex::default();
    let work = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some((name, mutant)) = all.get(index) else { return };
        if progress.is_stopped() {
            return;
        }
        let (count, most) = match arguments.images {
            Some(0) => (cases.cases.len() as u64, u64::MAX),
            images => (u64::MAX, images.unwrap_or(IMAGES_OF_A_MUTANT)),
        };
        let numbered = (0..count).map(|number| cases.number(number));
        let of_it = numbered.map(|(runner, case)| (&*cases.runners[runner] as &dyn Runner, case));
        let of_it = of_it.filter(|(runner, _)| runner.mechanism() == Some(name));
        let ended = find(mutant, of_it, arguments.budget(), most, &watcher);
        if matches!(&ended, Ok(tried) if tried.found.is_none()) && watcher.is_stopped() {
            // It has not been tried on all cases.
            return;
        }
        tried.lock().unwrap_or_else(PoisonError::into_inner).push((index, ended));
        bar.inc(1);
    };
    let run = || {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
    };
    stopping(&watcher, &progress, || (), || quietly(run));
    bar.finish_and_clear();
    let mut tried = tried.into_inner().unwrap_or_else(PoisonError::into_inner);
    tried.sort_by_key(|(index, _)| *index);
    let mut rows = Vec::new();
    for (index, ended) in tried {
        let wrong = |failure| Failure::new(format!("with nothing left out: {failure}"));
        rows.push((all[index].0, ended.map_err(wrong)?));
    }
    show(arguments, &rows, all.len())?;
    // The mutants tried so far are shown.
    interrupt::check(&progress)?;
    let missed = rows.iter().filter(|(_, tried)| tried.found.is_none()).count();
    if missed > 0 {
        return Err(Failure::new(format!(
            "{missed} of {} mutants are not found: try more --images, or another --seed",
            all.len()
        )));
    }
    Ok(())
}

fn show(arguments: &Arguments, rows: &[(&str, TriedMutant)], all: usize) -> Outcome {
    let found = rows.iter().filter(|(_, tried)| tried.found.is_some()).count();
    if arguments.json {
        let row = |(mechanism, tried): &(&str, TriedMutant)| {
            let failure = tried.found.as_ref();
            json!({
                "mechanism": mechanism,
                "mutant": tried.mutant.name,
                "what": tried.mutant.what,
                "images": tried.images,
                "seed": failure.map(|failure| failure.case.seed),
                "found": failure.map(|failure| &failure.what),
                "again": failure.map(|failure| failure.replay()),
            })
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let all = json!({ "seed": arguments.seed, "mutants_found": found, "mutants": rows });
        return output::print_json(&all);
    }
    let lines = rows.iter().map(|(mechanism, tried)| {
        let TriedMutant { mutant, images, found } = tried;
        let seed = found.as_ref().map_or_else(|| "-".to_owned(), |it| it.case.seed.to_string());
        let what = found.as_ref().map_or("NOT FOUND", |failure| &failure.what);
        // One line in the table, whatever line breaks the text contains.
        let text: String = what.chars().take(LONGEST).collect();
        let name = format!("{mechanism} {}: {}", mutant.name, mutant.what);
        [name, show_count(*images), seed, text.replace(['\n', '|'], " ")]
    });
    output::print(output::table(["mutant", "images until then", "seed", "found by"], lines))?;
    output::print(format!("{found} of {all} mutants found; first seed {}", arguments.seed))
}
