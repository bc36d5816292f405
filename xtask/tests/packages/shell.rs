//! The programs that a shell script calls: as much of the shell's grammar as recipes and scripts use.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

/// Of the shell itself.
const BUILTIN: [&str; 27] = [
    ".", ":", "[", "cd", "command", "complete", "echo", "eval", "exit", "export", "false", "jobs",
    "local", "printf", "pwd", "read", "return", "set", "shift", "source", "test", "trap", "true",
    "type", "umask", "unset", "wait",
];
/// After these a command follows.
const BEFORE: [&str; 12] = [
    "!", "{", "do", "elif", "else", "exec", "if", "then", "time", "until", "while", "nohup",
];
/// Ends of something.
const AFTER: [&str; 5] = ["}", "done", "esac", "fi", "]]"];

/// The programs that the text calls by name.
pub(crate) fn commands(text: &str) -> BTreeSet<String> {
    let mut reader = Reader {
        chars: text.chars().peekable(),
        found: BTreeSet::new(),
    };
    reader.list(None);
    let mut found = reader.found;
    found.retain(|name| is_name(name) && !BUILTIN.contains(&name.as_str()));
    found
}

fn is_name(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    !word.is_empty() && word.chars().all(plain)
}

fn is_assignment(word: &str) -> bool {
    let name = word
        .split_once('=')
        .map(|(name, _)| name.trim_end_matches('+'));
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// What the words to come are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Command,
    Argument,
    /// Of a program that runs another: what comes after its options, assignments and this many words.
    Wrapped(u8),
    /// Of `runuser`, whose options have values: after `--`.
    Dashes,
    /// The file of a redirection; then what was expected before.
    File(bool),
    /// The word of `case`, up to `in`.
    Subject,
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    found: BTreeSet<String>,
}

impl Reader<'_> {
    /// Commands up to the closing character, or the end.
    #[allow(clippy::match_same_arms)] // a row for each thing that a shell reads
    fn list(&mut self, close: Option<char>) {
        let mut expect = Expect::Command;
        let mut cases = 0_u32;
        while let Some(next) = self.chars.next() {
            match next {
                c if Some(c) == close => return,
                ')' => expect = Expect::Command,
                '\\' if self.chars.peek() == Some(&'\n') => {
                    self.chars.next();
                }
                ' ' | '\t' => {}
                '#' => self.line(),
                ';' if cases > 0 && self.chars.peek() == Some(&';') => {
                    self.chars.next();
                    expect = self.pattern(&mut cases);
                }
                '\n' | ';' | '&' | '|' => expect = Expect::Command,
                '(' => {
                    self.list(Some(')'));
                    expect = Expect::Argument;
                }
                '<' | '>' => {
                    while self.chars.next_if(|c| ['>', '&'].contains(c)).is_some() {}
                    expect = Expect::File(expect == Expect::Command);
                }
                _ => {
                    let word = self.word(next);
                    expect = match expect {
                        Expect::Command => self.command(&word, &mut cases),
                        Expect::Argument => Expect::Argument,
                        Expect::File(true) => Expect::Command,
                        Expect::File(false) => Expect::Argument,
                        Expect::Subject if word == "in" => self.pattern(&mut cases),
                        Expect::Subject => Expect::Subject,
                        Expect::Dashes if word == "--" => Expect::Command,
                        Expect::Dashes => Expect::Dashes,
                        Expect::Wrapped(left) if word.starts_with('-') || is_assignment(&word) => {
                            Expect::Wrapped(left)
                        }
                        Expect::Wrapped(0) => self.command(&word, &mut cases),
                        Expect::Wrapped(left) => Expect::Wrapped(left - 1),
                    };
                }
            }
        }
    }

    /// A word where a command stands.
    fn command(&mut self, word: &str, cases: &mut u32) -> Expect {
        if word == "case" {
            *cases += 1;
            return Expect::Subject;
        }
        if word == "esac" {
            *cases = cases.saturating_sub(1);
        }
        if word == "[[" {
            self.until("]]");
            return Expect::Argument;
        }
        if BEFORE.contains(&word) || is_assignment(word) {
            return Expect::Command;
        }
        if AFTER.contains(&word) || word == "for" {
            return Expect::Argument;
        }
        // A function's name.
        if self.chars.peek() == Some(&'(') {
            self.chars.nth(1);
            return Expect::Command;
        }
        self.found.insert(word.to_owned());
        match word {
            "env" | "xargs" | "nice" => Expect::Wrapped(0),
            "timeout" | "chroot" => Expect::Wrapped(1),
            "runuser" => Expect::Dashes,
            _ => Expect::Argument,
        }
    }

    /// What stands before the `)` of a case, or `esac`.
    fn pattern(&mut self, cases: &mut u32) -> Expect {
        let mut text = String::new();
        for c in self.chars.by_ref() {
            if c == ')' {
                return Expect::Command;
            }
            text.push(c);
            if text.trim() == "esac" {
                *cases -= 1;
                return Expect::Argument;
            }
        }
        Expect::Argument
    }

    /// A word without its quotes; what it substitutes is read as commands.
    fn word(&mut self, first: char) -> String {
        let mut word = String::new();
        let mut next = Some(first);
        while let Some(c) = next {
            match c {
                '\'' => {
                    word.push('\'');
                    while self.chars.next().is_some_and(|c| c != '\'') {}
                }
                '"' => {
                    word.push('"');
                    self.quoted();
                }
                '\\' => word.extend(self.chars.next()),
                '$' => {
                    word.push('$');
                    self.expansion();
                }
                c => word.push(c),
            }
            // An array.
            if word.ends_with('=') && self.chars.peek() == Some(&'(') {
                while self.chars.next().is_some_and(|c| c != ')') {}
            }
            next = self.chars.next_if(|c| !" \t\n;&|()<>".contains(*c));
        }
        // `2>` is a redirection's number.
        if word.chars().all(|c| c.is_ascii_digit()) && matches!(self.chars.peek(), Some('<' | '>'))
        {
            word.clear();
        }
        word
    }

    fn quoted(&mut self) {
        while let Some(c) = self.chars.next() {
            match c {
                '"' => return,
                '\\' => {
                    self.chars.next();
                }
                '$' => self.expansion(),
                _ => {}
            }
        }
    }

    /// After `$`.
    fn expansion(&mut self) {
        match self.chars.peek() {
            Some('(') => {
                self.chars.next();
                self.list(Some(')'));
            }
            Some('{') => while self.chars.next().is_some_and(|c| c != '}') {},
            _ => {}
        }
    }

    fn line(&mut self) {
        while self.chars.next_if(|c| *c != '\n').is_some() {}
    }

    fn until(&mut self, end: &str) {
        let mut text = String::new();
        while !text.ends_with(end) {
            let Some(c) = self.chars.next() else { return };
            text.push(c);
        }
    }
}

#[test]
fn commands_are_found_wherever_the_shell_would_run_them() {
    let cases = [
        ("rpmbuild -bb x.spec", "rpmbuild"),
        ("A=1 B=\"$(stat -c %Y f)\" make x", "make stat"),
        (
            "tar -c $(git ls-files) | gzip -9n >out/x.gz && mv a b; rm c",
            "git gzip mv rm tar",
        ),
        (
            "if [ -x y ] || ! test z; then systemctl stop u; fi # not this",
            "systemctl",
        ),
        (
            "cd x && runuser -u nobody -- env HOME=/x makepkg --nodeps",
            "env makepkg runuser",
        ),
        (
            "timeout 45 kube-rebootd undrain ||\n  echo 'see above; not ls'",
            "kube-rebootd timeout",
        ),
        (
            "case $t in\na/*)\n  cat f\n  ;;\n?*) sort ;;\nesac | uniq",
            "cat sort uniq",
        ),
        (
            "build() {\n  [[ -n $x || -z ls ]] && return\n  cargo build\n}",
            "cargo",
        ),
        ("source=('x' 'y')\nls >/dev/null 2>&1", "ls"),
        (
            "printf '%s\\n' a 2>/dev/null | xargs sha256sum",
            "sha256sum xargs",
        ),
        ("bed up &\nwait $!; exec bed down", "bed"),
    ];
    for (text, wanted) in cases {
        let found: Vec<String> = commands(text).into_iter().collect();
        assert_eq!(found.join(" "), wanted, "{text}");
    }
}
