//! Sums and norms of residual rows against their formulas.

use assay_cpu::ops::*;

#[test]
fn sums_and_norms_match_their_formulas() {
    let context = Context::best();
    let mut x = [3.0, 4.0, 100.0];
    scale(context, &mut x, 0.5, 2.0).unwrap();
    for (got, input) in x.iter().zip([1.5_f32, 2.0, 50.0]) {
        assert!((got - 2.0 * (input / 2.0).tanh()).abs() < 1e-6);
    }
    let mut out = [0.0; 2];
    let norm = Some((&[2.0, 1.0][..], 0.0));
    add_residual(context, &[3.0, 4.0], norm, &[1.0, 1.0], 0.5, &mut out).unwrap();
    // The root mean square of 3 and 4 is the square root of 12.5.
    let root = 12.5_f32.sqrt();
    assert!((out[0] - (1.0 + 3.0 / root)).abs() < 1e-6);
    assert!((out[1] - (1.0 + 2.0 / root)).abs() < 1e-6);
    let mut rows = [9.0, 3.0, 4.0, 9.0];
    norm_columns(context, &mut rows, 4, 1, &[1.0, 1.0], 0.0).unwrap();
    assert!((rows[1] - 3.0 / root).abs() < 1e-6 && rows[0] == 9.0 && rows[3] == 9.0);
    assert!(norm_columns(context, &mut rows, 4, 3, &[1.0, 1.0], 0.0).is_err());
    assert!(scale(context, &mut rows, 1.0, -1.0).is_err());
}
