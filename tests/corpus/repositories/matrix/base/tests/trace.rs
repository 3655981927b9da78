use matrix::trace;

#[test]
fn nothing_adds_up_to_nothing() {
    assert_eq!(trace(&[]), 0);
}

#[test]
fn the_diagonal_is_added() {
    assert_eq!(trace(&[vec![1, 2], vec![3, 4]]), 4);
}
