//! The built-in experiments: the files of `experiments/`.

use super::experiment::Experiment;
use crate::failure::{Failure, Outcome};
use std::io::Read;

macro_rules! experiments {
    ($($(#[$cfg:meta])* $name:literal),* $(,)?) => {
        &[$($(#[$cfg])* ($name, include_str!(concat!("../../../../experiments/", $name, ".toml")))),*]
    };
}

/// Names and texts, by name.
pub(super) const EXPERIMENTS: &[(&str, &str)] = experiments![
    "archapt-atlas-fig7",
    "archapt-atlas-fig8",
    "archapt-fig1",
    "archapt-fig10",
    "archapt-fig2",
    "archapt-fig3",
    "archapt-fig6",
    "archapt-fig7",
    "archapt-fig8",
    "archapt-fig9",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-fig1",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-fig10",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-fig3",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-fig7",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-fig8",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-fig9",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-table1",
    #[cfg(feature = "sqlite")]
    "archapt-sqlite-table4",
    "archapt-table1",
    "archapt-table4",
    "dual-page-fig1",
    "dual-page-fig11",
    "dual-page-fig12",
    "dual-page-fig13",
    "dual-page-fig9",
    "dual-page-look-ups",
    "dual-page-scale",
    "dual-page-sizes",
    "dual-page-table5",
    "dual-page-table6",
    "dual-page-thynvm-tables",
    "dual-page-victims",
    "loc-fig10",
    "loc-fig11",
    "loc-fig12",
    "loc-fig13",
    "loc-fig7",
    "loc-fig7-readings",
    "loc-fig8",
    "loc-fig9",
    "loc-overflow",
    "loc-table2",
    "sync-fig2",
    "sync-fig3",
    "sync-fig3-accepted",
    "sync-fig4",
    "sync-fig5",
    "sync-fig6",
    "sync-fig6-accepted",
    "sync-fig7",
];

/// Files larger than this are no experiments.
const LARGEST_FILE: u64 = 1 << 20;

/// All built-in experiments.
pub(crate) fn all() -> Outcome<Vec<Experiment>> {
    EXPERIMENTS.iter().map(|(name, text)| Experiment::parse(name, text)).collect()
}

/// A built-in experiment, or the one in a file: a name that contains `/` or ends in `.toml` is taken as a path.
pub(crate) fn load(name_or_path: &str) -> Outcome<Experiment> {
    if let Some((name, text)) = EXPERIMENTS.iter().find(|(name, _)| *name == name_or_path) {
        return Experiment::parse(name, text);
    }
    if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
        let known = EXPERIMENTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(Failure::new(format!(
            "there is no experiment '{name_or_path}': the experiments are {known}; a path to a TOML file works too"
        )));
    }
    let text = read(name_or_path)
        .map_err(|error| Failure::new(format!("experiment '{name_or_path}': {error}")))?;
    Experiment::parse(name_or_path, &text)
}

fn read(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(LARGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::kind::Kind;
    use crate::reproduce::protocol;
    use crate::reproduce::work::Work;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn names_are_those_of_the_files_and_in_order() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let files: BTreeSet<String> = std::fs::read_dir(&folder)
            .expect("the folder")
            .map(|entry| entry.expect("an entry").path())
            .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
            .collect();
        let names: Vec<&str> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, files.iter().map(String::as_str).collect::<Vec<_>>());
        for name in names {
            let path = folder.join(format!("{name}.toml"));
            let loaded = load(path.to_str().expect("a path")).expect("an experiment");
            assert_eq!(loaded.name, name);
        }
    }

    #[test]
    fn the_one_in_the_documentation_is_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduce.md");
        let text = std::fs::read_to_string(path).expect("the documentation");
        let example = text.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
        Experiment::parse("documented", example.expect("an example")).expect("an experiment");
        for (name, _) in EXPERIMENTS {
            assert!(text.contains(&format!("`{name}`")), "{name} is not in docs/reproduce.md");
        }
    }

    #[test]
    fn named_parts_exist() {
        for experiment in all().expect("experiments") {
            let run = &experiment.run;
            assert_eq!(protocol::missing(&experiment), [""; 0], "{}", experiment.name);
            for workload in &run.workloads {
                let work = Work::named(experiment.kind, &run.sizes, workload);
                assert!(work.is_ok(), "{workload}");
            }
            assert!(experiment.minutes > 0 && !experiment.paper.title.is_empty());
            let quick = &experiment.quick;
            let short = quick.operations.is_some() || experiment.kind == Kind::Checksums;
            assert!(quick.records.is_some() && short, "{}", experiment.name);
        }
    }
}
