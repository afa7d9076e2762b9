//! Products of cuBLASLt against sums in double precision. Skipped, with the reason printed, where
//! there is no GPU or no cuBLASLt.

use assay_cuda::blas::{self, Element, Epilogue, GemmPointers, GemmProblem, Matrix};
use assay_cuda::device::{CudaDevice, CudaOptions};
use assay_cuda::discovery::discover;
use assay_runtime::backend::*;

const ROWS: usize = 48;
const COLUMNS: usize = 32;
const INNER: usize = 64;

fn device() -> Option<CudaDevice> {
    if let Some(missing) = discover().missing(0) {
        eprintln!("skipped: {missing}");
        return None;
    }
    if let Err(missing) = blas::library_info() {
        eprintln!("skipped: {missing}");
        return None;
    }
    Some(CudaDevice::new(CudaOptions::default()).expect("nothing is missing"))
}

/// Numbers from -1 to 1 that look random.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mixed = |index: usize| {
        let value = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ (seed << 17));
        (value >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(mixed).collect()
}

/// The 8-bit float of 4 exponent bits that these bits are.
fn e4m3(bits: u8) -> f64 {
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    match exponent {
        0 => sign * fraction / 8.0 * 2f64.powi(-6),
        _ => sign * (1.0 + fraction / 8.0) * 2f64.powi(exponent - 7),
    }
}

/// The nearest 8-bit float, by looking at all of them.
fn to_e4m3(value: f32) -> u8 {
    let distance = |bits: &u8| (e4m3(*bits) - f64::from(value)).abs();
    let finite = (0..=255u8).filter(|bits| bits & 0x7F != 0x7F);
    finite.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
}

fn upload(device: &CudaDevice, bytes: &[u8]) -> DevicePointer {
    let length = bytes.len() as u64;
    let there = device.allocate_device(length).expect("memory");
    let host = device.allocate_host(length).expect("memory");
    device.write_host(host, bytes).expect("written");
    device.copy(StreamId(0), host.into(), there.into(), length).expect("copied");
    device.free_host(host).expect("freed");
    there
}

fn upload_floats(device: &CudaDevice, values: &[f32]) -> DevicePointer {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    upload(device, &bytes)
}

fn multiply(device: &CudaDevice, product: GemmProblem, pointers: GemmPointers) -> Vec<f32> {
    let kernel = device.register_operation(
        "product",
        0,
        Box::new(move |queue, _| queue.gemm(&product, &pointers)),
    );
    let launch = Launch { kernel, grid: [1; 3], block: [1; 3], shared_bytes: 0, arguments: vec![] };
    // Twice: the second one takes the plan that the first one made.
    for _ in 0..2 {
        device.launch(StreamId(0), &launch).expect("launched");
    }
    let bytes = ROWS * COLUMNS * 4;
    let host = device.allocate_host(bytes as u64).expect("memory");
    device.copy(StreamId(0), pointers.out.into(), host.into(), bytes as u64).expect("copied");
    device.synchronize_stream(StreamId(0)).expect("finished");
    let mut read = vec![0; bytes];
    device.read_host(host, &mut read).expect("read");
    read.chunks_exact(4)
        .map(|four| f32::from_le_bytes(four.try_into().expect("four bytes")))
        .collect()
}

fn matrix(element: Element, transposed: bool, stride: usize) -> Matrix {
    Matrix { element, transposed, stride: stride as u64, batch_stride: 0, alignment: 256 }
}

fn product(element: Element) -> GemmProblem {
    GemmProblem {
        batch: 1,
        rows: ROWS as u64,
        algorithm_rows: None,
        columns: COLUMNS as u64,
        inner: INNER as u64,
        a: matrix(element, false, INNER),
        b: matrix(element, true, INNER),
        out: matrix(Element::F32, false, COLUMNS),
        has_c: false,
        bias: None,
        epilogue: Epilogue::None,
        tf32: false,
        fast_accumulation: false,
        row_scales: false,
    }
}

/// The largest distance from the sums of products, over the largest sum.
fn error(got: &[f32], a: &[f64], b: &[f64], scale: f64) -> f64 {
    let (mut worst, mut largest) = (0f64, 0f64);
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            let left = &a[row * INNER..][..INNER];
            let right = &b[column * INNER..][..INNER];
            let sum: f64 = left.iter().zip(right).map(|(x, y)| x * y).sum::<f64>() * scale;
            worst = worst.max((f64::from(got[row * COLUMNS + column]) - sum).abs());
            largest = largest.max(sum.abs());
        }
    }
    worst / largest
}

#[test]
fn single_precision_stays_single_unless_tf32_is_asked_for() {
    let Some(device) = device() else { return };
    let (a, b) = (numbers(ROWS * INNER, 1), numbers(COLUMNS * INNER, 2));
    let pointers = GemmPointers {
        a: upload_floats(&device, &a),
        b: upload_floats(&device, &b),
        c: None,
        bias: None,
        scales: None,
        out: upload_floats(&device, &[f32::NAN; ROWS * COLUMNS]),
    };
    let wide = |values: &[f32]| -> Vec<f64> { values.iter().copied().map(f64::from).collect() };
    let exact = multiply(&device, product(Element::F32), pointers);
    let exact = error(&exact, &wide(&a), &wide(&b), 1.0);
    assert!(exact < 1e-6, "{exact}");
    let mut asked = product(Element::F32);
    asked.tf32 = true;
    let rounded = error(&multiply(&device, asked, pointers), &wide(&a), &wide(&b), 1.0);
    assert!(rounded > 1e-5 && rounded < 1e-3, "{rounded}");
}

#[test]
fn fp8_gemm_applies_scales() {
    let Some(device) = device() else { return };
    if device.facts().capability < 89 {
        eprintln!("skipped: no 8-bit floats below compute capability 8.9");
        return;
    }
    let bits = |values: Vec<f32>| -> Vec<u8> { values.into_iter().map(to_e4m3).collect() };
    let a = bits(numbers(ROWS * INNER, 3));
    let b = bits(numbers(COLUMNS * INNER, 4));
    let pointers = GemmPointers {
        a: upload(&device, &a),
        b: upload(&device, &b),
        c: None,
        bias: None,
        scales: Some((upload_floats(&device, &[0.5]), upload_floats(&device, &[3.0]))),
        out: upload_floats(&device, &[f32::NAN; ROWS * COLUMNS]),
    };
    let wide = |bits: &[u8]| -> Vec<f64> { bits.iter().copied().map(e4m3).collect() };
    for fast_accumulation in [false, true] {
        let mut asked = product(Element::E4m3);
        asked.fast_accumulation = fast_accumulation;
        let got = multiply(&device, asked, pointers);
        let error = error(&got, &wide(&a), &wide(&b), 1.5);
        assert!(error < 2e-3, "fast sums {fast_accumulation}: {error}");
    }
}
