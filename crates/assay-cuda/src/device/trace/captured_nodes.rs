//! The nodes that a library adds to a graph under capture.

use super::super::cuda_device::CudaDevice;
use super::super::stream::Stream;
use super::super::sync::lock;
use crate::library::{Driver, SUCCESS};
use assay_runtime::backend::{Operation, Result};
use assay_runtime::trace::{LaunchInfo, LaunchKind};
use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraphNode, CUgraphNodeType};
use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;

/// The name of a GEMM of cuBLASLt whose kernel is not known.
const GEMM: &str = "cublasLtMatmul";

/// The nodes of a graph under capture, by the address of their handles.
pub(in super::super) struct CapturedNodes(Vec<CUgraphNode>);

impl CudaDevice {
    /// The nodes captured on a stream so far; none if the stream's launches are not traced.
    pub(in super::super) fn captured_nodes(
        &self,
        stream: &Stream,
    ) -> Result<Option<CapturedNodes>> {
        let is_captured = |stream: &Stream| {
            let region = lock(&stream.region);
            region.as_ref().is_some_and(|region| region.is_captured)
        };
        if !self.tracer.is_on() || !is_captured(stream) {
            return Ok(None);
        }
        let driver = self.context.enter(Operation::Launch)?;
        Ok(Some(CapturedNodes(nodes(driver, stream))))
    }

    /// Notes the launches of a GEMM: those that were added to the graph since, or one.
    pub(in super::super) fn trace_gemm(
        &self,
        stream: &Stream,
        before: Option<CapturedNodes>,
    ) -> Result<()> {
        let Some(CapturedNodes(before)) = before else {
            return self.trace_unstamped(stream, LaunchKind::Kernel, GEMM);
        };
        let driver = self.context.enter(Operation::Launch)?;
        let mut after = nodes(driver, stream);
        after.retain(|node| !before.contains(node));
        for node in after {
            let info = describe(driver, node);
            self.trace_launch(stream, || info)?;
        }
        Ok(())
    }
}

/// The nodes of the graph under capture, in the order in which they were added.
fn nodes(driver: &Driver, stream: &Stream) -> Vec<CUgraphNode> {
    let mut status = 0u32;
    let (mut id, mut graph) = (0, ptr::null_mut());
    // SAFETY: the stream lives; stores a status of 32 bits, a number and a handle, and skips what is
    // null.
    let found = unsafe {
        (driver.cuStreamGetCaptureInfo_v3)(
            stream.handle(),
            (&raw mut status).cast(),
            &raw mut id,
            &raw mut graph,
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
    if found != SUCCESS || graph.is_null() {
        return Vec::new();
    }
    let mut count = 0;
    // SAFETY: the capture owns the graph; stores the number of its nodes.
    let counted = unsafe { (driver.cuGraphGetNodes)(graph, ptr::null_mut(), &raw mut count) };
    if counted != SUCCESS {
        return Vec::new();
    }
    let mut nodes = vec![ptr::null_mut(); count];
    // SAFETY: stores as many handles as there is room for.
    let found = unsafe { (driver.cuGraphGetNodes)(graph, nodes.as_mut_ptr(), &raw mut count) };
    match found {
        SUCCESS => nodes,
        _ => Vec::new(),
    }
}

fn describe(driver: &Driver, node: CUgraphNode) -> LaunchInfo {
    let mut info = LaunchInfo {
        node: 0,
        kind: LaunchKind::Kernel,
        name: Arc::from(GEMM),
        grid: None,
        block: None,
    };
    let mut kind = 0u32;
    // SAFETY: the node lives; stores a type of 32 bits.
    if unsafe { (driver.cuGraphNodeGetType)(node, (&raw mut kind).cast()) } != SUCCESS {
        return info;
    }
    if kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET as u32 {
        info.kind = LaunchKind::Fill;
        info.name = Arc::from("memset");
    } else if kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY as u32 {
        info.kind = LaunchKind::Copy;
        info.name = Arc::from("memcpy");
    } else if kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL as u32 {
        // SAFETY: a plain structure of numbers and pointers, for which zero is valid.
        let mut kernel: CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
        // SAFETY: it is a kernel's node; stores its parameters.
        if unsafe { (driver.cuGraphKernelNodeGetParams_v2)(node, &raw mut kernel) } == SUCCESS {
            info.grid = Some([kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ]);
            info.block = Some([kernel.blockDimX, kernel.blockDimY, kernel.blockDimZ]);
            if let Some(name) = kernel_name(driver, &kernel) {
                info.name = name;
            }
        }
    }
    info
}

fn kernel_name(driver: &Driver, kernel: &CUDA_KERNEL_NODE_PARAMS) -> Option<Arc<str>> {
    let mut name: *const c_char = ptr::null();
    // SAFETY: stores a pointer to a name that lives as long as the kernel's library, which stays
    // loaded.
    unsafe {
        let found = match kernel.func.is_null() {
            false => (driver.cuFuncGetName)(&raw mut name, kernel.func),
            true if kernel.kern.is_null() => return None,
            true => (driver.cuKernelGetName)(&raw mut name, kernel.kern),
        };
        if found != SUCCESS || name.is_null() {
            return None;
        }
        Some(CStr::from_ptr(name).to_string_lossy().into())
    }
}
