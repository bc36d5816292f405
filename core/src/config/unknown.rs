//! A key that no table has: a slip, or nothing of this program's (I12).

/// A word that differs in more letters is another word, not a slip.
const SLIP: usize = 3;

/// What is wrong with a key that its section does not know, and what to do.
pub(super) fn unknown(key: &str, known: &[&str]) -> String {
    // Long keys are cut: no known one is longer than this.
    let begins: String = key.chars().take(64).collect();
    let near = known
        .iter()
        .map(|word| (strsim::levenshtein(&begins, word), word))
        .min()
        .filter(|(slips, _)| *slips <= SLIP && slips * 2 < key.chars().count());
    match near {
        Some((_, word)) => format!("is unknown; did you mean `{word}`? Else remove it"),
        None => "is unknown; remove it".to_owned(),
    }
}
