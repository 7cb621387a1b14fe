//! One figure of a machine changed, by its path: sweeping a figure that a paper does not give shows what depends on it.

use crate::{ConfigError, MachineConfig};
use toml::{Table, Value};

impl MachineConfig {
    /// One of its figures, as it would be written in the machine's file, without quotes. `path` is as for
    /// [`with`](Self::with).
    ///
    /// # Errors
    /// `Invalid`: there is no such figure.
    pub fn figure(&self, path: &str) -> Result<String, ConfigError> {
        let invalid = |what: String| ConfigError::Invalid { name: self.name.clone(), what };
        let mut table = Table::try_from(self).map_err(|error| invalid(error.to_string()))?;
        match find(&mut table, path) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(figure) => Ok(figure.to_string()),
            None => Err(invalid(format!("it has no figure '{path}'"))),
        }
    }

    /// The same machine with another value for one of its figures. `path` is that of the figure in the machine's file,
    /// as `memory.controller.static_write_ns`, or `caches.L1.latency_cycles` with a cache's name; `value` is as it
    /// would be written there, without quotes.
    ///
    /// # Errors
    /// `Invalid`: there is no such figure, or it cannot have this value.
    pub fn with(&self, path: &str, value: &str) -> Result<MachineConfig, ConfigError> {
        let invalid = |what: String| ConfigError::Invalid { name: self.name.clone(), what };
        let mut table = Table::try_from(self).map_err(|error| invalid(error.to_string()))?;
        let unknown = || {
            invalid(format!(
                "it has no figure '{path}'; give the path in its file, as cores.fence_cycles or caches.L1.ways"
            ))
        };
        let absent = match find(&mut table, path) {
            Some(figure) => {
                *figure = like(figure, value).ok_or_else(|| {
                    let kind = figure.type_str();
                    invalid(format!("{path} has type {kind}, and '{value}' is not of it"))
                })?;
                false
            }
            // Perhaps one that a machine need not have.
            None => add(&mut table, path, value).then_some(true).ok_or_else(unknown)?,
        };
        let changed: MachineConfig = table.try_into().map_err(|error: toml::de::Error| {
            let what = error.message().trim();
            if absent { unknown() } else { invalid(format!("{path}: {what}")) }
        })?;
        changed.validate()?;
        Ok(changed)
    }
}

/// Adds a whole number to the table that is to have it. Returns whether there is that table.
fn add(table: &mut Table, path: &str, value: &str) -> bool {
    let (keys, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut inner = Some(table);
    for key in keys.split('.').filter(|key| !key.is_empty()) {
        inner = inner.and_then(|table| table.get_mut(key)).and_then(Value::as_table_mut);
    }
    match (inner, value.parse()) {
        (Some(table), Ok(number)) if !table.contains_key(last) => {
            table.insert(last.to_owned(), Value::Integer(number));
            true
        }
        _ => false,
    }
}

/// The figure at a path; a list's elements are found by name.
fn find<'t>(table: &'t mut Table, path: &str) -> Option<&'t mut Value> {
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let value = table.get_mut(key)?;
    let Some(rest) = rest else { return (!value.is_table() && !value.is_array()).then_some(value) };
    match value {
        Value::Table(inner) => find(inner, rest),
        Value::Array(all) => {
            let (name, rest) = rest.split_once('.')?;
            let named =
                |element: &&mut Value| element.get("name").and_then(Value::as_str) == Some(name);
            find(all.iter_mut().find(named)?.as_table_mut()?, rest)
        }
        _ => None,
    }
}

/// `text` as a value of the same type.
fn like(value: &Value, text: &str) -> Option<Value> {
    Some(match value {
        Value::Integer(_) => Value::Integer(text.parse().ok()?),
        Value::Float(_) => Value::Float(text.parse().ok()?),
        Value::Boolean(_) => Value::Boolean(text.parse().ok()?),
        Value::String(_) => Value::String(text.to_owned()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::presets;

    #[test]
    fn a_figure_is_changed_and_nothing_else() {
        for name in presets::names() {
            let machine = presets::load(name).expect("a preset");
            let changed =
                machine.with("memory.controller.static_write_ns", "77.5").expect("it has it");
            assert_eq!(changed.memory.controller.static_write_ns, 77.5, "{name}");
            let before = machine.memory.controller.static_write_ns.to_string();
            let back =
                changed.with("memory.controller.static_write_ns", &before).expect("it had it");
            assert_eq!(back, machine, "{name}");
            assert_ne!(changed.hash(), machine.hash());
        }
        let machine = presets::load("tiny").expect("a preset");
        let changed = |path, value| machine.with(path, value).expect("it has it");
        let cached = presets::load("tiny-dram").expect("a preset");
        let bounded = cached.with("memory.dram_cache.victim_blocks", "3").expect("it can have it");
        assert_eq!(bounded.memory.dram_cache.and_then(|cache| cache.victim_blocks), Some(3));
        for (machine, path) in
            [(&cached, "memory.dram_cache.victims"), (&machine, "memory.dram_cache.victim_blocks")]
        {
            let error = machine.with(path, "3").expect_err("no such figure").to_string();
            assert!(error.contains(&format!("no figure '{path}'")), "{error}");
        }
        assert_eq!(changed("caches.L1.latency_cycles", "9").caches[0].latency_cycles, 9);
        assert_eq!(changed("caches.L1.policy", "random").caches[0].policy.to_string(), "random");
        assert!(!changed("cores.write_back_keeps", "false").cores.write_back_keeps);
        let durable = changed("memory.controller.durable_at", "media").memory.controller.durable_at;
        assert_eq!(durable, crate::config::DurableAt::Media);
    }

    #[test]
    fn impossible_figures_are_reported() {
        let machine = presets::load("tiny").expect("a preset");
        let refused = |path: &str, value: &str, what: &str| {
            let error = machine.with(path, value).expect_err(path).to_string();
            assert!(error.contains(what), "{path}={value}: {error}");
        };
        for path in
            ["", "cores", "caches", "caches.L1", "caches.L9.ways", "cores.x", "cores.ghz.x", "."]
        {
            refused(path, "1", "has no figure");
        }
        refused("cores.fence_cycles", "fast", "integer");
        refused("cores.fence_cycles", "-1", "fence_cycles");
        refused("caches.L1.ways", "3", "cache L1");
        refused("memory.controller.durable_at", "here", "durable_at");
        refused("caches.L1.policy", "worst", "replacement policy");
    }
}
