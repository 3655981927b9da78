//! Counts words.

/// How many words a text has.
pub fn words(text: &str) -> usize {
    text.split(' ').count()
}

/// The longest word, the first of several.
pub fn longest(text: &str) -> &str {
    text.split_whitespace().max_by_key(|word| word.len()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted() {
        assert_eq!(words("one two three"), 3);
    }

    #[test]
    fn blanks_are_no_words() {
        assert_eq!(words("  two   words "), 2);
    }

    #[test]
    fn one_of_the_longest() {
        assert_eq!(longest("an old cat"), "cat");
    }
}
