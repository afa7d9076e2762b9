//! Modules, their kernels, and kernel launches.

use super::context::PrimaryContext;
use super::stream::Stream;
use crate::discovery::discover;
use crate::library::{Driver, SUCCESS};
use assay_runtime::backend::{BackendError, KernelArgument, Launch, Operation, Result};
use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute as Attribute, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchConfig, CUmodule,
};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::Arc;

/// The most parameters of a kernel.
const MAX_PARAMETERS: usize = 64;
/// The most 8-byte words in the parameters of a kernel.
const MAX_WORDS: usize = 128;
/// The share of shared memory that leaves the most to L1: the driver gives what the kernel needs.
const MAX_L1: u32 = 0;
/// Registers of an SM of every GPU since Kepler, and the unit in which a thread gets them.
const SM_REGISTERS: u32 = 65536;
const REGISTER_UNIT: u32 = 8;
/// Bytes of shared memory that the driver keeps of each CTA.
const RESERVED_SHARED_BYTES: u32 = 1024;
/// The first driver that takes a carve-out of shared memory with a launch.
const CARVEOUT_DRIVER: (u32, u32) = (12, 5);
/// Bytes of a word. A longer parameter is a structure, passed as one argument per word.
const WORD: usize = 8;

/// A loaded module.
pub struct Module {
    context: Arc<PrimaryContext>,
    handle: CUmodule,
    shared_bytes: u32,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    pub(super) fn load(
        context: &Arc<PrimaryContext>,
        image: &[u8],
        shared_bytes: u32,
    ) -> Result<Self> {
        let operation = Operation::Launch;
        let driver = context.enter(operation)?;
        let mut handle = ptr::null_mut();
        // SAFETY: NVRTC produced the image; a cubin contains its length, and PTX is zero-terminated.
        let status = unsafe { (driver.cuModuleLoadData)(&raw mut handle, image.as_ptr().cast()) };
        context.check(operation, status)?;
        Ok(Module { context: Arc::clone(context), handle, shared_bytes })
    }

    /// The kernel of this name in the source, with or without `extern "C"`.
    pub fn function(self: &Arc<Self>, name: &str, options: LaunchOptions) -> Result<Function> {
        let operation = Operation::Launch;
        let driver = self.context.enter(operation)?;
        let handle = match self.find(driver, name) {
            Some(handle) => handle,
            None => {
                return Err(BackendError::Driver {
                    operation,
                    message: format!("the compiled source has no kernel {name}"),
                });
            }
        };
        let mut parameters = Vec::new();
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function lives with its module; stores two numbers until there is no such
        // parameter.
        while unsafe {
            (driver.cuFuncGetParamInfo)(handle, parameters.len(), &raw mut offset, &raw mut size)
        } == SUCCESS
        {
            parameters.push(size);
        }
        let each = parameters
            .iter()
            .flat_map(|size| std::iter::repeat_n((*size).min(WORD), words_of(*size)));
        let words: Vec<usize> = each.collect();
        if parameters.len() > MAX_PARAMETERS || words.len() > MAX_WORDS {
            return Err(BackendError::Driver {
                operation,
                message: format!(
                    "kernel {name} has {} parameters of {} words, expected at most \
                     {MAX_PARAMETERS} of {MAX_WORDS}",
                    parameters.len(),
                    words.len()
                ),
            });
        }
        let attribute = |of| {
            let mut value = 0;
            // SAFETY: stores one number.
            let status = unsafe { (driver.cuFuncGetAttribute)(&raw mut value, of, handle) };
            self.context.check(operation, status).map(|()| value)
        };
        let fixed = attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let registers = attribute(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
        let most = i32::try_from(self.shared_bytes).unwrap_or(i32::MAX) - fixed;
        let limit = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: only raises the limit on dynamic shared memory.
        let status = unsafe { (driver.cuFuncSetAttribute)(handle, limit, most) };
        self.context.check(operation, status)?;
        Ok(Function {
            name: name.into(),
            module: Arc::clone(self),
            handle,
            whole_words: parameters.iter().all(|size| size.is_multiple_of(WORD)),
            parameters,
            words,
            options,
            fixed_shared_bytes: fixed.cast_unsigned(),
            registers: registers.cast_unsigned(),
        })
    }

    fn find(&self, driver: &Driver, name: &str) -> Option<CUfunction> {
        let mut handle = ptr::null_mut();
        let symbol = CString::new(name).ok()?;
        // SAFETY: the name is zero-terminated; stores one handle.
        let status =
            unsafe { (driver.cuModuleGetFunction)(&raw mut handle, self.handle, symbol.as_ptr()) };
        if status == SUCCESS {
            return Some(handle);
        }
        // The mangled name of a C++ function has the length, the name and the parameter types.
        let mangled = format!("_Z{}{name}", name.len());
        self.functions(driver).into_iter().find(|function| {
            let mut name: *const c_char = ptr::null();
            // SAFETY: stores a pointer to a name that lives as long as the module.
            unsafe {
                (driver.cuFuncGetName)(&raw mut name, *function) == SUCCESS
                    && !name.is_null()
                    && CStr::from_ptr(name).to_bytes().starts_with(mangled.as_bytes())
            }
        })
    }

    fn functions(&self, driver: &Driver) -> Vec<CUfunction> {
        let mut count = 0;
        // SAFETY: stores one number.
        if unsafe { (driver.cuModuleGetFunctionCount)(&raw mut count, self.handle) } != SUCCESS {
            return Vec::new();
        }
        let mut found = vec![ptr::null_mut(); count as usize];
        // SAFETY: stores as many handles as there is room for.
        let status =
            unsafe { (driver.cuModuleEnumerateFunctions)(found.as_mut_ptr(), count, self.handle) };
        match status {
            SUCCESS => found,
            _ => Vec::new(),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.enter(Operation::Launch) {
            // SAFETY: no function of it is left; the driver waits for running launches.
            let _ = unsafe { (driver.cuModuleUnload)(self.handle) };
        }
    }
}

/// Options of every launch of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LaunchOptions {
    /// Programmatic dependent launch: the kernel may start before the previous one has finished, and
    /// waits itself (`griddepcontrol.wait`).
    pub programmatic_dependent_launch: bool,
    /// Its last parameter is the slot where it stores when it ran (`TRACE`).
    pub stores_times: bool,
}

/// A kernel of a module.
pub struct Function {
    /// The kernel's name in the source.
    pub name: Arc<str>,
    module: Arc<Module>,
    handle: CUfunction,
    /// The size of each parameter.
    parameters: Vec<usize>,
    /// The size of each argument: one for each word of the parameters.
    words: Vec<usize>,
    /// Whether every argument is a whole word.
    whole_words: bool,
    options: LaunchOptions,
    /// Static shared memory of a CTA, and registers of a thread.
    fixed_shared_bytes: u32,
    registers: u32,
}

// SAFETY: the handle may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Whether the driver takes a carve-out of shared memory with a launch.
fn has_carveout_attribute() -> bool {
    let driver = discover().driver.as_ref();
    driver.is_ok_and(|driver| driver.version >= CARVEOUT_DRIVER)
}

/// Words of a parameter of this size.
fn words_of(size: usize) -> usize {
    size.div_ceil(WORD).max(1)
}

/// The argument's bits and size.
fn bits(argument: KernelArgument) -> (u64, usize) {
    match argument {
        KernelArgument::Pointer(pointer) => (pointer.0, 8),
        KernelArgument::I32(value) => (u64::from(value.cast_unsigned()), 4),
        KernelArgument::U32(value) => (u64::from(value), 4),
        KernelArgument::I64(value) => (value.cast_unsigned(), 8),
        KernelArgument::U64(value) => (value, 8),
        KernelArgument::F32(value) => (u64::from(value.to_bits()), 4),
        KernelArgument::F64(value) => (value.to_bits(), 8),
    }
}

/// The configuration of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchConfig {
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a CTA along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a CTA, in bytes.
    pub shared_bytes: u32,
    /// CTAs along x of a thread block cluster; 1 for none.
    pub cluster: u32,
    /// Whether SMs give it the most L1 that the shared memory of its CTAs leaves, of as many as there
    /// are registers for. Otherwise they keep the split
    /// of the kernel before, where that fits: after a GEMM in much shared memory, L1 has room for few
    /// loads in flight.
    pub prefers_l1: bool,
}

impl From<&Launch> for LaunchConfig {
    fn from(launch: &Launch) -> Self {
        LaunchConfig {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            cluster: 1,
            prefers_l1: false,
        }
    }
}

impl Function {
    /// Whether its last parameter is the slot where it stores when it ran.
    pub fn stores_times(&self) -> bool {
        self.options.stores_times
    }

    /// The size in bytes of each parameter.
    pub fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// The percentage of shared memory that leaves the most to L1 and has room for as many CTAs as
    /// registers: given what one CTA needs, an SM would hold no second one.
    fn most_l1(&self, shape: LaunchConfig) -> u32 {
        let of_thread = self.registers.next_multiple_of(REGISTER_UNIT).max(1);
        let threads = shape.block.iter().product::<u32>().max(1);
        match SM_REGISTERS / of_thread.saturating_mul(threads) {
            0 | 1 => MAX_L1,
            ctas => {
                let of_cta = self.fixed_shared_bytes + shape.shared_bytes + RESERVED_SHARED_BYTES;
                let of_sm = self.module.shared_bytes + RESERVED_SHARED_BYTES;
                (ctas.saturating_mul(of_cta).saturating_mul(100)).div_ceil(of_sm).min(100)
            }
        }
    }

    fn check(&self, shape: LaunchConfig, arguments: usize) -> Result<()> {
        if arguments != self.words.len() {
            return Err(BackendError::ArgumentCount {
                kernel: self.name.to_string(),
                expected: self.words.len(),
                got: arguments,
            });
        }
        if shape.grid.contains(&0) || shape.block.contains(&0) {
            return Err(BackendError::EmptyLaunch {
                kernel: self.name.to_string(),
                grid: shape.grid,
                block: shape.block,
            });
        }
        Ok(())
    }

    fn check_sizes(&self, arguments: &[KernelArgument]) -> Result<()> {
        let mut sizes = self.words.iter().zip(arguments).enumerate();
        let wrong = sizes.find(|(_, (size, given))| **size != bits(**given).1);
        if let Some((index, (size, given))) = wrong {
            return Err(BackendError::Driver {
                operation: Operation::Launch,
                message: format!(
                    "kernel {}: expected {size} bytes for argument {index}, got {given:?}",
                    self.name
                ),
            });
        }
        Ok(())
    }

    pub(super) fn launch(
        &self,
        stream: &Stream,
        shape: LaunchConfig,
        arguments: &[KernelArgument],
    ) -> Result<()> {
        self.check(shape, arguments.len())?;
        self.check_sizes(arguments)?;
        let mut words = [0; MAX_WORDS];
        for (word, argument) in words.iter_mut().zip(arguments) {
            *word = bits(*argument).0;
        }
        self.start(stream, shape, &mut words[..arguments.len()], 1)
    }

    /// As [`Function::launch`], for arguments that are whole words.
    pub(super) fn launch_words(
        &self,
        stream: &Stream,
        shape: LaunchConfig,
        words: &mut [u64],
    ) -> Result<()> {
        self.check(shape, words.len())?;
        if !self.whole_words {
            return Err(BackendError::Driver {
                operation: Operation::Launch,
                message: format!("kernel {}: expected parameters of whole words", self.name),
            });
        }
        self.start(stream, shape, words, 1)
    }

    /// Launches the kernel `times` times, with checked arguments.
    pub(super) fn start(
        &self,
        stream: &Stream,
        shape: LaunchConfig,
        words: &mut [u64],
        times: u32,
    ) -> Result<()> {
        let operation = Operation::Launch;
        let driver = self.module.context.enter(operation)?;
        let mut pointers = [ptr::null_mut::<c_void>(); MAX_PARAMETERS];
        let mut first = 0;
        for (pointer, size) in pointers.iter_mut().zip(&self.parameters) {
            *pointer = (&raw mut words[first]).cast();
            first += words_of(*size);
        }
        // SAFETY: plain structures of numbers, for which zero is valid.
        let mut attributes: [CUlaunchAttribute; 3] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        if self.options.programmatic_dependent_launch {
            attributes[count].id =
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes[count].value.programmaticStreamSerializationAllowed = 1;
            count += 1;
        }
        if shape.cluster > 1 {
            attributes[count].id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attributes[count].value.clusterDim.x = shape.cluster;
            attributes[count].value.clusterDim.y = 1;
            attributes[count].value.clusterDim.z = 1;
            count += 1;
        }
        if shape.prefers_l1 && has_carveout_attribute() {
            attributes[count].id =
                CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
            attributes[count].value.sharedMemCarveout = self.most_l1(shape);
            count += 1;
        }
        let config = CUlaunchConfig {
            gridDimX: shape.grid[0],
            gridDimY: shape.grid[1],
            gridDimZ: shape.grid[2],
            blockDimX: shape.block[0],
            blockDimY: shape.block[1],
            blockDimZ: shape.block[2],
            sharedMemBytes: shape.shared_bytes,
            hStream: stream.handle(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: count as u32,
        };
        stream.note_kernel(&self.name);
        for _ in 0..times {
            // SAFETY: function and stream are valid; each parameter has a pointer to its words, which
            // the driver copies.
            let status = unsafe {
                (driver.cuLaunchKernelEx)(
                    &raw const config,
                    self.handle,
                    pointers.as_mut_ptr(),
                    ptr::null_mut(),
                )
            };
            stream.check(operation, status)?;
        }
        Ok(())
    }
}
