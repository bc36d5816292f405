//! The configuration of hosts on which a test waits: what people are given time for by default is left out.

/// Section, key and value. A test that is about one of them, or about the defaults, writes the key itself.
const WAITS: [(&str, &str, &str); 2] = [
    ("triggers", "settle", "\"0s\""),
    // The kernel of the machine is not what these tests are about.
    ("triggers", "builtin", "[]"),
];

/// `config` with no time to settle for files, and no built-in check, but where it says so itself.
#[must_use]
pub fn at_once(config: &str) -> String {
    let mut lines: Vec<String> = config.lines().map(str::to_owned).collect();
    for (section, key, value) in WAITS {
        let header = format!("[{section}]");
        let line = format!("{key} = {value}");
        match lines.iter().position(|line| line.trim() == header) {
            None => lines.extend([header, line]),
            Some(at) => {
                let below = lines[at + 1..]
                    .iter()
                    .take_while(|line| !line.trim().starts_with('['));
                if !below.clone().any(|line| names(line, key)) {
                    // Below what the test wrote, so that errors name the lines that it knows.
                    let end = at + 1 + below.count();
                    lines.insert(end, line);
                }
            }
        }
    }
    lines.join("\n") + "\n"
}

/// Whether this line gives the key a value.
fn names(line: &str, key: &str) -> bool {
    line.split_once('=')
        .is_some_and(|(name, _)| name.trim() == key)
}

#[cfg(test)]
mod tests {
    use super::at_once;

    #[test]
    fn what_a_test_wrote_itself_stays() {
        let text = "mode = \"observe\"\n[triggers]\nsettle = \"3s\"\n[drain]\n";
        assert_eq!(
            at_once(text),
            "mode = \"observe\"\n[triggers]\nsettle = \"3s\"\nbuiltin = []\n[drain]\n"
        );
        assert_eq!(at_once(&at_once(text)), at_once(text));
        let check = "[[triggers.check]]\nname = \"a\"\nsettle = \"0s\"\n";
        assert!(at_once(check).ends_with("[triggers]\nsettle = \"0s\"\nbuiltin = []\n"));
    }
}
