//! The documents that are built into the program.

use matrix::{Matrix, shipped_documents};

#[test]
fn the_shipped_matrix_loads_without_an_error() {
    if let Err(errors) = Matrix::load(&shipped_documents()) {
        panic!("{errors}");
    }
}

#[test]
fn a_frozen_matrix_reads_back_as_the_same_revision() {
    let shipped = Matrix::shipped();
    let back = Matrix::from_revision(&shipped.revision().text).unwrap();
    assert_eq!(back.revision(), shipped.revision());
    assert_eq!(back.builds(), shipped.builds());
    assert_eq!(back.rows(), shipped.rows());
    assert_eq!(back.products(), shipped.products());
    assert_eq!(back.vendors(), shipped.vendors());
}
