//! Tables of numbers.

/// Rows as columns.
pub fn turned(rows: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let mut result = vec![vec![0; rows.len()]; rows.first().map_or(0, Vec::len)];
    for row in 0..rows.len() {
        for column in 0..result.len() {
            result[column][row] = rows[row][row];
        }
    }
    result
}

/// The sum of the diagonal.
pub fn trace(rows: &[Vec<i64>]) -> i64 {
    rows.iter().enumerate().skip(1).map(|(at, row)| row[at]).sum()
}
