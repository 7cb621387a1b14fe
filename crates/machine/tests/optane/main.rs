//! The machine `optane` compared with measurements of real modules. The example `optane_curves`
//! prints the same figures; docs/machine-validation.md keeps them.

mod curves;

/// How far off a figure may be, %: what was reached, rounded up. Where it is more than 10,
/// docs/machine-validation.md says why.
fn bound(group: &str, name: &str) -> f64 {
    match (group.split(&[' ', ','][..]).next(), name) {
        (Some("dependent"), _) => 4.0,
        (Some("non-temporal"), _) => 6.0,
        (Some("idle"), name) if name.starts_with("DRAM") => 8.0,
        (Some("idle"), _) => 1.0,
        (Some("flush"), name) if name.starts_with("ntstore") => 3.0,
        (Some("flush"), "clwb 1024 B") => 15.0,
        (Some("flush"), _) => 9.0,
        (Some("bandwidth"), "clwb, 8 threads") => 20.0,
        (Some("bandwidth"), _) => 9.0,
        (Some("the"), "read, 24 threads") => 46.0,
        (Some("the"), "ntstore, 24 threads") => 135.0,
        (Some("the"), _) => 85.0,
        (Some("write"), _) => 8.0,
        (Some("wear"), _) => 4.0,
        _ => 0.0,
    }
}

#[test]
fn the_curves_are_those_of_real_modules() {
    let mut wrong = Vec::new();
    for figure in curves::figures() {
        let (error, bound) = (figure.error(), bound(figure.group, &figure.name));
        if error.is_nan() || error.abs() > bound {
            let curves::Figure { group, name, ours, theirs, unit } = figure;
            wrong.push(format!(
                "{group}, {name}: {ours:.2}, not {theirs:.2} {unit}: {error:+.1} %, more than {bound} %"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
