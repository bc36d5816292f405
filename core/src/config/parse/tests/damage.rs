//! Configurations that are none: damaged, deep, or as large as a file may be (I12).

use super::*;

proptest! {
    #[test]
    fn i12_a_damaged_file_is_refused_or_read_back(text in garble::text(&every_key())) {
        match parse(Path::new(FILE), &text) {
            Ok(effective) => prop_assert_eq!(parse_effective(&effective.text).unwrap().config, effective.config),
            Err(error) => prop_assert!(!error.problems.is_empty()),
        }
    }
}

#[test]
fn i12_nesting_and_size_are_answered_in_bounded_time() {
    let size = 1 << 20;
    let mut texts = garble::deep(size);
    let lines = |many: usize, line: fn(usize) -> String| {
        let lines: Vec<String> = (0..many).map(line).collect();
        lines.concat()
    };
    texts.extend([
        "a=1\n".repeat(size / 4),
        lines(size / 9, |n| format!("k{n:06}=1\n")),
        lines(size / 14, |n| format!("[t{n:06}]\nx=1\n")),
        "[[triggers.check]]\n".repeat(size / 19),
        lines(size / 34, |n| {
            format!("[[triggers.check]]\nname=\"c{n:06}\"\n")
        }),
        format!("[triggers]\nsentinels = [{}]", "1,".repeat(size / 2)),
        format!("[drain]\n{} = 1", "k".repeat(size)),
    ]);
    for text in texts {
        let begins: String = text.chars().take(30).collect();
        eprintln!("{begins:?}");
        let said = garble::soon(move || parse(Path::new(FILE), &text).map(drop));
        assert!(said.is_err(), "{begins}");
    }
}

/// The file that documents every key, with every key set to its default.
fn every_key() -> String {
    let text = include_str!("../../../../../packaging/config.toml");
    let line = |line: &'static str| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => key,
        Some(_) => "",
        None => line,
    };
    let lines: Vec<_> = text.lines().map(line).collect();
    lines.join("\n")
}
