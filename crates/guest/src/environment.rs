//! The environment that guest code sees, and nothing else.

use plimsoll_guest_messages::Variable;

/// The search path of guest code unless its image sets one.
const CONTROL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables in their order; a later one of the same name wins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(Vec<(String, String)>);

impl Environment {
    /// What every guest process sees: path, home, host name, then the image's own variables.
    pub(crate) fn of_image(image: &[Variable]) -> Self {
        let mut environment = Self::default();
        environment.set("PATH", CONTROL_PATH);
        environment.set("HOME", &home());
        environment.set("HOSTNAME", &host_name());
        environment.overlay(image);
        environment
    }

    /// Sets one variable.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), value.to_owned()));
    }

    /// Sets each of these variables.
    pub(crate) fn overlay(&mut self, variables: &[Variable]) {
        for variable in variables {
            self.set(&variable.name, &variable.value);
        }
    }

    /// Adds an entry to a variable that is a list: after what is there, with this separator between them.
    pub(crate) fn append(&mut self, name: &str, separator: char, entry: &str) {
        let value = match self.0.iter().find(|(other, _)| other == name) {
            Some((_, present)) if !present.is_empty() => format!("{present}{separator}{entry}"),
            _ => entry.to_owned(),
        };
        self.set(name, &value);
    }

    /// All variables.
    pub(crate) fn as_slice(&self) -> &[(String, String)] {
        &self.0
    }
}

/// The user's home in `/etc/passwd`, else `/`.
fn home() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let passwd = fs_err::read_to_string("/etc/passwd").unwrap_or_default();
    home_in(&passwd, &uid).unwrap_or("/").to_owned()
}

fn home_in<'a>(passwd: &'a str, uid: &str) -> Option<&'a str> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields
        .filter(|fields| fields.get(2) == Some(&uid))
        .find_map(|fields| fields.get(5).copied())
        .filter(|home| !home.is_empty())
}

fn host_name() -> String {
    let file = fs_err::read_to_string("/etc/hostname").unwrap_or_default();
    match file.trim() {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_variables_win_and_lists_are_appended_to() {
        let mut environment = Environment::default();
        environment.overlay(&[
            Variable::new("A", "1"),
            Variable::new("B", "2"),
            Variable::new("A", "3"),
        ]);
        environment.append("NODE_OPTIONS", ' ', "--x");
        environment.append("NODE_OPTIONS", ' ', "--y");
        environment.append("PYTHONPATH", ':', "/x");
        environment.append("PYTHONPATH", ':', "/y");
        let expected = [
            ("B", "2"),
            ("A", "3"),
            ("NODE_OPTIONS", "--x --y"),
            ("PYTHONPATH", "/x:/y"),
        ];
        assert_eq!(
            environment.as_slice(),
            expected.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
    }

    #[test]
    fn a_user_without_an_entry_lives_at_the_root() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\nodd:x:7\n";
        assert_eq!(home_in(passwd, "1000"), Some("/home/node"));
        assert_eq!(home_in(passwd, "61000"), None);
        assert_eq!(home_in(passwd, "7"), None);
        assert_eq!(home_in("x:x:5:5:::/bin/sh", "5"), None);
    }
}
