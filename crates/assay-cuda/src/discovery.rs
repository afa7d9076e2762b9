//! What of CUDA this machine has, looked for once.

use crate::library::{
    Driver, LibraryProblem, NO_DEVICE, Nvrtc, SUCCESS, nvrtc_builtins, nvrtc_candidates, open_first,
};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

/// The oldest compute capability that the kernels are written for, as major times ten plus minor.
pub const OLDEST_CAPABILITY: u32 = 80;

/// Why there is no CUDA here. Each has one sentence, said in the same words everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CudaUnavailable {
    /// No driver could be opened.
    Driver {
        /// What was looked for, or which function an old driver lacks.
        problem: LibraryProblem,
    },
    /// The driver is there and does not start.
    DriverFailed {
        /// What it said.
        message: String,
    },
    /// The driver has no device to offer.
    Devices,
    /// No run-time compiler could be opened.
    Compiler {
        /// What was looked for.
        problem: LibraryProblem,
    },
    /// The device is older than the kernels.
    OldDevice {
        /// Its name.
        name: String,
        /// Its compute capability, as major times ten plus minor.
        capability: u32,
    },
    /// There is no device of this number.
    Ordinal {
        /// The number asked for.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },
}

impl CudaUnavailable {
    /// A stable name, for mapping it in other languages.
    pub const fn code(&self) -> &'static str {
        match self {
            CudaUnavailable::Driver { .. } => "no_driver",
            CudaUnavailable::DriverFailed { .. } => "driver_failed",
            CudaUnavailable::Devices => "no_devices",
            CudaUnavailable::Compiler { .. } => "no_nvrtc",
            CudaUnavailable::OldDevice { .. } => "old_device",
            CudaUnavailable::Ordinal { .. } => "no_such_device",
        }
    }

    /// The sentence, without detail.
    pub fn sentence(&self) -> String {
        match self {
            CudaUnavailable::Driver { .. } => "CUDA driver not detected".to_owned(),
            CudaUnavailable::DriverFailed { .. } => "CUDA driver did not start".to_owned(),
            CudaUnavailable::Devices => "No GPU devices found (cuDeviceGetCount == 0)".to_owned(),
            CudaUnavailable::Compiler { .. } => "NVRTC JIT compiler not available".to_owned(),
            CudaUnavailable::OldDevice { name, capability } => format!(
                "GPU too old: expected compute capability {}.{} or newer, got {}.{} ({name})",
                OLDEST_CAPABILITY / 10,
                OLDEST_CAPABILITY % 10,
                capability / 10,
                capability % 10,
            ),
            CudaUnavailable::Ordinal { ordinal, count } => {
                format!("no GPU number {ordinal}: expected one below {count}")
            }
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            CudaUnavailable::Driver { problem } => {
                format!("install NVIDIA's driver ({problem}), or use the device cpu")
            }
            CudaUnavailable::DriverFailed { message } => {
                format!("see what nvidia-smi says; the driver said: {message}")
            }
            CudaUnavailable::Devices => {
                "see what nvidia-smi and CUDA_VISIBLE_DEVICES say, or use the device cpu".to_owned()
            }
            CudaUnavailable::Compiler { problem } => {
                format!("pip install \"assay[gpu]\", or set CUDA_PATH to a toolkit ({problem})")
            }
            CudaUnavailable::OldDevice { .. } => "use the device cpu".to_owned(),
            CudaUnavailable::Ordinal { .. } => "see what nvidia-smi lists".to_owned(),
        }
    }
}

impl fmt::Display for CudaUnavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\nhint: {}", self.sentence(), self.hint())
    }
}

impl std::error::Error for CudaUnavailable {}

/// What the driver says about a GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its number at the driver.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability, as major times ten plus minor.
    pub capability: u32,
    /// Memory in all.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Second-level cache.
    pub l2_bytes: u64,
    /// Shared memory that one block can have when its kernel asks for it.
    pub shared_bytes: u32,
    /// Whether the driver can allocate in the order of a stream.
    pub memory_pools: bool,
}

impl DeviceInfo {
    /// Refuses a device that the kernels do not run on.
    pub fn check(&self) -> Result<(), CudaUnavailable> {
        if self.capability < OLDEST_CAPABILITY {
            return Err(CudaUnavailable::OldDevice {
                name: self.name.clone(),
                capability: self.capability,
            });
        }
        Ok(())
    }
}

/// A library that was opened, under which name, and its version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryInfo {
    /// The file or name it was opened under.
    pub path: String,
    /// Major and minor version.
    pub version: (u32, u32),
}

/// What was found.
pub struct Installation {
    /// The driver.
    pub driver: Result<LibraryInfo, CudaUnavailable>,
    /// The driver's devices; empty without a driver.
    pub devices: Vec<DeviceInfo>,
    /// The run-time compiler.
    pub compiler: Result<LibraryInfo, CudaUnavailable>,
    pub(crate) driver_functions: Option<Driver>,
    pub(crate) compiler_functions: Option<Nvrtc>,
}

impl Installation {
    /// What keeps the GPU of this number from being used, if anything.
    pub fn missing(&self, ordinal: usize) -> Option<CudaUnavailable> {
        if let Err(missing) = &self.driver {
            return Some(missing.clone());
        }
        let Some(facts) = self.devices.get(ordinal) else {
            return Some(match self.devices.len() {
                0 => CudaUnavailable::Devices,
                count => CudaUnavailable::Ordinal { ordinal, count },
            });
        };
        let old = facts.check().err();
        old.or_else(|| self.compiler.as_ref().err().cloned())
    }
}

impl Installation {
    /// What to do where NVRTC is of a newer major than the driver, which may not load its code.
    pub fn newer_compiler(&self) -> Option<String> {
        let (Ok(driver), Ok(compiler)) = (&self.driver, &self.compiler) else {
            return None;
        };
        let ((driver, minor), (compiler, _)) = (driver.version, compiler.version);
        (compiler > driver).then(|| {
            format!(
                "the driver is of CUDA {driver}.{minor} and NVRTC of {compiler}: pip install \
                 nvidia-cuda-nvrtc-cu{driver} nvidia-cublas-cu{driver}, or a newer driver"
            )
        })
    }
}

/// What this machine has; the first call looks.
pub fn discover() -> &'static Installation {
    static PROBE: OnceLock<Installation> = OnceLock::new();
    PROBE.get_or_init(look)
}

fn look() -> Installation {
    let (driver, driver_functions, devices) = match find_driver() {
        Ok((finding, functions, devices)) => (Ok(finding), Some(functions), devices),
        Err(missing) => (Err(missing), None, Vec::new()),
    };
    let major = driver.as_ref().ok().map(|finding| finding.version.0);
    let (compiler, compiler_functions) = match find_compiler(major) {
        Ok((finding, functions)) => (Ok(finding), Some(functions)),
        Err(problem) => (Err(CudaUnavailable::Compiler { problem }), None),
    };
    Installation {
        driver,
        devices,
        compiler,
        driver_functions,
        compiler_functions,
    }
}

fn find_driver() -> Result<(LibraryInfo, Driver, Vec<DeviceInfo>), CudaUnavailable> {
    let absent = |problem| CudaUnavailable::Driver { problem };
    let opened = open_first(["libcuda.so.1", "libcuda.so"]).map_err(absent)?;
    let driver = Driver::load(&opened).map_err(absent)?;
    let failed = |status| CudaUnavailable::DriverFailed {
        message: driver.describe(status),
    };
    // SAFETY: the driver's start takes no flags.
    match unsafe { (driver.cuInit)(0) } {
        SUCCESS => {}
        NO_DEVICE => return Err(CudaUnavailable::Devices),
        status => return Err(failed(status)),
    }
    let (mut version, mut count): (c_int, c_int) = (0, 0);
    // SAFETY: each call stores one number.
    let statuses = unsafe {
        [
            (driver.cuDriverGetVersion)(&raw mut version),
            (driver.cuDeviceGetCount)(&raw mut count),
        ]
    };
    if let Some(status) = statuses.into_iter().find(|status| *status != SUCCESS) {
        return Err(failed(status));
    }
    let facts: Result<Vec<DeviceInfo>, u32> =
        (0..count).map(|number| ask(&driver, number)).collect();
    let devices = facts.map_err(failed)?;
    let version = u32::try_from(version).unwrap_or(0);
    let finding = LibraryInfo {
        path: opened.name,
        version: (version / 1000, version % 1000 / 10),
    };
    Ok((finding, driver, devices))
}

/// What the driver says about its device of this number, or the status it refused with.
fn ask(driver: &Driver, number: c_int) -> Result<DeviceInfo, u32> {
    let succeed = |status| match status {
        SUCCESS => Ok(()),
        status => Err(status),
    };
    let mut device = 0;
    // SAFETY: stores a handle, a number.
    succeed(unsafe { (driver.cuDeviceGet)(&raw mut device, number) })?;
    let attribute = |attribute: Attribute| -> Result<u32, u32> {
        let mut value = 0;
        // SAFETY: stores one number.
        succeed(unsafe { (driver.cuDeviceGetAttribute)(&raw mut value, attribute, device) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0 as c_char; 256];
    // SAFETY: writes at most this many bytes, the last one zero.
    succeed(unsafe { (driver.cuDeviceGetName)(name.as_mut_ptr(), 255, device) })?;
    // SAFETY: the last byte is zero whatever was written before it.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    let mut memory = 0;
    // SAFETY: stores one number.
    succeed(unsafe { (driver.cuDeviceTotalMem_v2)(&raw mut memory, device) })?;
    Ok(DeviceInfo {
        ordinal: number as usize,
        name: name.to_string_lossy().into_owned(),
        capability: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
            + attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        memory_bytes: memory as u64,
        multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: u64::from(attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        memory_pools: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 1,
    })
}

fn find_compiler(driver_major: Option<u32>) -> Result<(LibraryInfo, Nvrtc), LibraryProblem> {
    let opened = open_first(nvrtc_candidates(driver_major))?;
    if let Some(builtins) = nvrtc_builtins(Path::new(&opened.name)) {
        // NVRTC opens it by name later, and finds the one that is open already. Where this fails,
        // NVRTC itself says so when it compiles.
        let _ = open_first([builtins]);
    }
    let nvrtc = Nvrtc::load(&opened)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: stores two numbers, and cannot fail with places to store them.
    unsafe { (nvrtc.nvrtcVersion)(&raw mut major, &raw mut minor) };
    let number = |value: c_int| u32::try_from(value).unwrap_or(0);
    let finding = LibraryInfo {
        path: opened.name,
        version: (number(major), number(minor)),
    };
    Ok((finding, nvrtc))
}
