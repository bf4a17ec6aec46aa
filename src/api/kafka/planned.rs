//! Requests of which a part can be answered without asking anybody.

/// The outcome for each item of a request, in order: what was known at once, and of the others what those who were asked have answered.
pub fn outcomes<T>(known: Vec<Option<T>>, asked: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let mut asked = asked.into_iter();
    known.into_iter().filter_map(move |known| known.or_else(|| asked.next()))
}

#[cfg(test)]
mod tests {
    use super::outcomes;

    #[test]
    fn answers_go_where_nothing_was_known() {
        assert_eq!(outcomes(vec![None, Some(1), None], [2, 3]).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(outcomes(Vec::<Option<i32>>::new(), []).count(), 0);
    }
}
