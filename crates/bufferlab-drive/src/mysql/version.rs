//! The product and version of a server, MySQL or MariaDB, and the properties in which these differ.

/// A product, MySQL or MariaDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// MySQL and servers built from it.
    Mysql,
    /// MariaDB.
    Mariadb,
}

/// A server's product and version, parsed from its answer to `SELECT VERSION()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The server's product.
    pub flavour: Flavour,
    /// Major and minor number.
    pub number: (u32, u32),
    /// The server's whole answer.
    pub text: String,
}

impl Version {
    /// Parses a server's version, such as `5.7.22-log` or `10.11.6-MariaDB-0+deb12u1`.
    pub fn parse(text: &str) -> Self {
        let flavour = if text.contains("MariaDB") { Flavour::Mariadb } else { Flavour::Mysql };
        // MariaDB before 11 may put an old version number of MySQL first, for replicas that do not accept a version 10.
        let plain = text.strip_prefix("5.5.5-").unwrap_or(text);
        let mut parts = plain.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Version { flavour, number, text: text.to_owned() }
    }

    /// Returns true for MariaDB from 10.5 on, which has one buffer pool without instances, and other meanings of some
    /// counters.
    pub fn has_one_pool(&self) -> bool {
        self.flavour == Flavour::Mariadb && self.number >= (10, 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_told_apart_by_what_they_say() {
        let told = |text| {
            let version = Version::parse(text);
            (version.flavour, version.number, version.has_one_pool())
        };
        assert_eq!(told("5.6.24"), (Flavour::Mysql, (5, 6), false));
        assert_eq!(told("8.0.15"), (Flavour::Mysql, (8, 0), false));
        assert_eq!(told("10.2.11-MariaDB"), (Flavour::Mariadb, (10, 2), false));
        assert_eq!(told("5.5.5-10.11.6-MariaDB-0+deb12u1"), (Flavour::Mariadb, (10, 11), true));
        assert_eq!(told("11.4.5-MariaDB"), (Flavour::Mariadb, (11, 4), true));
    }
}
