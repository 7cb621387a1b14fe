//! Checks the crates that Perdura uses against deny.toml: licences, sources, banned crates. `cargo deny check` checks
//! more, advisories above all, but must be installed.

use cargo_metadata::{Metadata, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The parts of deny.toml that are checked here.
struct Rules {
    licences: BTreeSet<String>,
    exceptions: BTreeMap<String, BTreeSet<String>>,
    banned: BTreeSet<String>,
}

impl Rules {
    fn read() -> Self {
        let text = std::fs::read_to_string(format!("{ROOT}/deny.toml")).expect("deny.toml");
        let table: toml::Table = text.parse().expect("TOML");
        let texts = |value: &toml::Value| -> BTreeSet<String> {
            let texts = value.as_array().expect("an array").iter();
            texts.map(|text| text.as_str().expect("a text").to_owned()).collect()
        };
        let named = |value: &toml::Value| value["crate"].as_str().expect("a name").to_owned();
        let licences = &table["licenses"];
        let exceptions = licences["exceptions"].as_array().expect("an array").iter();
        let banned = table["bans"]["deny"].as_array().expect("an array").iter();
        Rules {
            licences: texts(&licences["allow"]),
            exceptions: exceptions.map(|one| (named(one), texts(&one["allow"]))).collect(),
            banned: banned.map(named).collect(),
        }
    }

    /// The first violation of a crate, if there is one.
    fn problem(&self, package: &Package) -> Option<String> {
        let name = package.name.as_str();
        if self.banned.contains(name) {
            return Some(format!("{name} is banned in deny.toml, which says what to use instead"));
        }
        let source = package.source.as_ref().map(|source| source.repr.as_str());
        if !source
            .is_some_and(|source| source.starts_with("registry+https://github.com/rust-lang/"))
        {
            return Some(format!("{name} comes from {source:?}, not from the registry"));
        }
        let allowed = |licence: &str| {
            let exceptions = self.exceptions.get(name);
            self.licences.contains(licence)
                || exceptions.is_some_and(|allowed| allowed.contains(licence))
        };
        match package.license.as_deref() {
            Some(licence) if satisfied(licence, &allowed) => None,
            Some(licence) => {
                Some(format!("{name} has the licence {licence}, which is not allowed"))
            }
            None => Some(format!("{name} does not say what licence it has")),
        }
    }
}

/// Whether an SPDX expression holds. AND binds more than OR; WITH belongs to the licence before it; an
/// old `/` means OR.
fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let holds = any(&mut rest, allowed);
    holds && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut holds = all(rest, allowed);
    while let [first, after @ ..] = rest
        && *first == "OR"
    {
        *rest = after;
        holds |= all(rest, allowed);
    }
    holds
}

fn all(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut holds = one(rest, allowed);
    while let [first, after @ ..] = rest
        && *first == "AND"
    {
        *rest = after;
        holds &= one(rest, allowed);
    }
    holds
}

fn one(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> bool {
    match **rest {
        ["(", ref after @ ..] => {
            *rest = after;
            let holds = any(rest, allowed);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            holds && closed
        }
        [licence, "WITH", exception, ref after @ ..] => {
            *rest = after;
            allowed(&format!("{licence} WITH {exception}"))
        }
        [licence, ref after @ ..] => {
            *rest = after;
            allowed(licence)
        }
        [] => false,
    }
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(format!("{ROOT}/Cargo.toml"))
        .features(cargo_metadata::CargoOpt::AllFeatures)
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("cargo metadata, which fetches the crates that are not there yet")
}

#[test]
fn every_crate_keeps_the_rules() {
    let (rules, metadata) = (Rules::read(), metadata());
    let own = metadata.workspace_packages();
    let foreign = metadata.packages.iter().filter(|package| !own.contains(package));
    let problems: Vec<String> =
        foreign.clone().filter_map(|package| rules.problem(package)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(foreign.count() > 100, "they were looked at");
}

/// Rules that find no violation would prove nothing.
#[test]
fn violations_are_seen() {
    let (rules, metadata) = (Rules::read(), metadata());
    let find = |name: &str| {
        let package = metadata.packages.iter().find(|package| package.name.as_str() == name);
        package.expect("a crate that is used").clone()
    };
    let good = find("jiff");
    assert_eq!(rules.problem(&good), None);
    let problem = |change: &dyn Fn(&mut Package)| {
        let mut package = good.clone();
        change(&mut package);
        rules.problem(&package).expect("a problem")
    };
    assert!(problem(&|package| package.license = Some("GPL-3.0-only".into())).contains("GPL-3.0"));
    assert!(problem(&|package| package.license = None).contains("does not say"));
    assert!(problem(&|package| package.source = None).contains("registry"));
    assert!(problem(&|package| package.name = "humantime".parse().unwrap()).contains("banned"));
    // An exception applies to one crate.
    let exceptional = find("cbindgen").license;
    assert!(problem(&|package| package.license = exceptional.clone()).contains("MPL-2.0"));

    let allowed = |licence: &str| ["MIT", "Apache-2.0", "X WITH Y"].contains(&licence);
    for (expression, holds) in [
        ("MIT", true),
        ("GPL-2.0 OR MIT", true),
        ("GPL-2.0/MIT", true),
        ("GPL-2.0 AND MIT", false),
        ("(MIT OR GPL-2.0) AND Apache-2.0", true),
        ("MIT OR GPL-2.0 AND BSD", true),
        ("(MIT OR GPL-2.0) AND BSD", false),
        ("X WITH Y", true),
        ("MIT WITH Y", false),
        ("(MIT", false),
        ("MIT Apache-2.0", false),
        ("", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), holds, "{expression}");
    }
}

/// Each dependency listed for the workspace is used by one of its crates.
#[test]
fn no_dependency_is_listed_for_nothing() {
    let text = std::fs::read_to_string(format!("{ROOT}/Cargo.toml")).expect("Cargo.toml");
    let table: toml::Table = text.parse().expect("TOML");
    let listed = table["workspace"]["dependencies"].as_table().expect("a table").keys();
    let metadata = metadata();
    let used: BTreeSet<&str> = metadata
        .workspace_packages()
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|dependency| dependency.name.as_str())
        .collect();
    let unused: Vec<_> = listed.filter(|name| !used.contains(name.as_str())).collect();
    assert!(unused.is_empty(), "no crate uses {unused:?}");
}
