//! The table of kernels.

use assay_cpu::kernels::names;
use assay_operations::find;

#[test]
fn every_body_is_of_an_operation_in_the_table() {
    for name in names() {
        assert!(find(name).is_some(), "{name}");
    }
}
