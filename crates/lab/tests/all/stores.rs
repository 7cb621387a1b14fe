//! `perdura-lab bench versus --only stores`, in a program built without the stores, and in one with them.

#[cfg(not(feature = "stores"))]
#[test]
fn a_program_without_stores_says_how_to_build_one_with() {
    for json in [&["--json"][..], &[]] {
        let asked = [&["bench", "versus", "--only", "stores", "--puts", "10"][..], json].concat();
        let output = crate::common::run(&asked);
        assert!(!output.status.success());
        let complaint = crate::common::text(&output.stderr);
        let command =
            "cargo run --release -p perdura-lab --features stores -- bench versus --only stores";
        assert!(complaint.contains(command), "{complaint}");
        // As JSON, why there is none.
        let printed = crate::common::text(&output.stdout);
        let reason = !json.is_empty() && printed.contains("--features stores");
        assert!(printed.is_empty() || reason, "figures of nothing: {printed}");
    }
}

#[cfg(feature = "stores")]
mod with_stores {
    use serde_json::Value;

    fn versus(more: &[&str]) -> std::process::Output {
        let asked = ["bench", "versus", "--only", "stores", "--puts", "300", "--keys", "100"];
        crate::common::run(&[&asked[..], &["--repeat", "1"], more].concat())
    }

    #[test]
    fn four_stores_and_two_engines_put_alike() {
        let output = versus(&["--json", "--batch", "3", "--shared-keys"]);
        assert!(output.status.success(), "{}", crate::common::text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let stores = &report["stores"];
        assert_eq!(stores["entrants"].as_array().map(Vec::len), Some(6));
        let rounds = stores["rounds"].as_array().expect("rounds");
        assert_eq!(rounds.len(), 2, "one thread, and two");
        for round in rounds {
            let figures = round["stores"].as_array().expect("figures");
            assert_eq!(figures.len(), 6);
            assert!(figures.iter().all(|one| one["per_second"]["median"].as_f64() > Some(0.0)));
        }
    }

    #[test]
    fn engines_are_chosen_and_one_that_keeps_nothing_is_refused() {
        let output = versus(&["--engine", "undo", "--threads", "1"]);
        let text = crate::common::text(&output.stdout);
        assert!(text.contains("perdura undo") && !text.contains("perdura redo"), "{text}");
        let output = versus(&["--engine", "volatile"]);
        let complaint = crate::common::text(&output.stderr);
        assert!(complaint.contains("volatile make no put durable"), "{complaint}");
    }
}
