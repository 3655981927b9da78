use matrix::turned;

#[test]
fn a_single_number_stays() {
    assert_eq!(turned(&[vec![7]]), vec![vec![7]]);
}

#[test]
fn rows_become_columns() {
    assert_eq!(turned(&vec![vec![1, 2], vec![3, 4]]), vec![vec![1, 3], vec![2, 4]]);
}
