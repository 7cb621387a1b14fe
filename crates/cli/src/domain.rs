//! A persistence domain on the command line.

use perdura::Domain;
use std::str::FromStr;

/// `auto`, or a persistence domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainChoice(pub Option<Domain>);

impl FromStr for DomainChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "auto" {
            return Ok(DomainChoice(None));
        }
        let domain = name.parse().map_err(|error| format!("{error}, or auto"))?;
        Ok(DomainChoice(Some(domain)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_chosen_by_name() {
        assert_eq!("auto".parse(), Ok(DomainChoice(None)));
        assert_eq!("media".parse(), Ok(DomainChoice(Some(Domain::Media))));
        assert!("disk".parse::<DomainChoice>().unwrap_err().contains("auto"));
    }
}
