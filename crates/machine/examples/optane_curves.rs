//! The machine `optane` compared with measurements of real modules, as a table in Markdown:
//! `cargo run --release -p perdura-machine --example optane_curves`.

#[path = "../tests/optane/curves.rs"]
mod curves;

fn main() {
    let mut group = "";
    for figure in curves::figures() {
        if figure.group != group {
            group = figure.group;
            println!("\n| {group} | ours | theirs | error |\n|---|---:|---:|---:|");
        }
        let curves::Figure { name, unit, ours, theirs, .. } = &figure;
        let digits = if *theirs < 10.0 { 2 } else { 0 };
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        let error = figure.error();
        println!("| {name} | {ours:.digits$}{unit} | {theirs:.digits$}{unit} | {error:+.0} % |");
    }
}
