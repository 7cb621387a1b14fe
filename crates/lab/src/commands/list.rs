//! `perdura-lab list`: everything with a name.

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::workload::Choice;
use perdura::EngineKind;
use perdura_crashtest::subjects::{STRUCTURES, SUBJECTS};
use perdura_machine::cache::Policy;
use perdura_machine::mechanism::list::{KINDS, SPECULATING};
use perdura_machine::presets;
use perdura_workloads::list::{Row, WORKLOADS};
use serde_json::{Map, Value, json};

/// The lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum List {
    /// What `bench`, `sim` and experiments run
    Workloads,
    /// What `crash` tests; a workload's name is that workload on a small pool
    Structures,
    /// Replacement policies of caches
    Policies,
    /// Mechanisms in hardware, of simulated machines
    Mechanisms,
    /// Mechanisms for transactions in hardware, of simulated machines
    Transactions,
    /// Simulated machines
    Machines,
    /// Engines
    Engines,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which list [default: all]
    #[arg(value_enum, value_name = "LIST")]
    list: Option<List>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let all = <List as clap::ValueEnum>::value_variants();
    let lists: Vec<List> = arguments.list.map_or(all.to_vec(), |list| vec![list]);
    if arguments.json {
        let lists = lists.iter().map(|list| Ok((list.name(), Value::from(list.as_json()?))));
        return output::print_json(&Value::Object(lists.collect::<Outcome<Map<_, _>>>()?));
    }
    for (index, list) in lists.iter().enumerate() {
        if index > 0 {
            output::print("")?;
        }
        list.show()?;
    }
    Ok(())
}

impl List {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Names and descriptions.
    fn rows(self) -> Outcome<Vec<[String; 2]>> {
        let row = |name: &str, line: &str| [name.to_owned(), line.to_owned()];
        Ok(match self {
            List::Workloads => WORKLOADS.iter().map(|own| row(own.name, own.line)).collect(),
            List::Structures => STRUCTURES.iter().map(|own| row(own.name, own.line)).collect(),
            List::Policies => Policy::NAMED.iter().map(|own| row(own.name, own.line)).collect(),
            List::Mechanisms => KINDS.iter().map(|own| row(own.name, own.title)).collect(),
            List::Transactions => SPECULATING.iter().map(|own| row(own.name, own.title)).collect(),
            List::Engines => {
                EngineKind::ALL.iter().map(|own| row(own.name(), own.line())).collect()
            }
            List::Machines => {
                let machines = presets::names().map(presets::load);
                let machines = machines.map(|machine| machine.map(|own| [own.name, own.title]));
                let machines: Result<_, _> = machines.collect();
                machines.map_err(|error| Failure::new(error.to_string()))?
            }
        })
    }

    fn show(self) -> Outcome {
        let name = self.name();
        if self == List::Workloads {
            let rows = WORKLOADS.iter().map(|own| {
                let tested = if is_tested(own) { "yes" } else { "" };
                [own.name, own.line, &options(own), tested].map(str::to_owned)
            });
            return output::print(output::narrow(
                [&name, "what it is", "options, and their defaults", "crash"],
                rows,
            ));
        }
        output::print(output::narrow([&name, "what it is"], self.rows()?))
    }

    fn as_json(self) -> Outcome<Vec<Value>> {
        if self == List::Workloads {
            return Ok(WORKLOADS.iter().map(workload).collect());
        }
        let rows = self.rows()?.into_iter();
        Ok(rows.map(|[name, line]| json!({ "name": name, "line": line })).collect())
    }
}

/// Whether the crash tester has it on a small pool.
fn is_tested(row: &Row) -> bool {
    SUBJECTS.contains(&row.name)
}

fn options(row: &Row) -> String {
    let options = row.parameters.iter().map(|own| format!("{} {}", own.name, own.usual));
    options.collect::<Vec<_>>().join(", ")
}

fn workload(row: &'static Row) -> Value {
    let parameters = row
        .parameters
        .iter()
        .map(|own| json!({ "name": own.name, "line": own.line, "default": own.usual.to_string() }));
    json!({
        "name": row.name,
        "line": row.line,
        "parameters": parameters.collect::<Vec<_>>(),
        "rolls_back": Choice::of(row).rolls_back(),
        "crash": is_tested(row),
    })
}
