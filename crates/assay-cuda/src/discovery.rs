//! Discovery of the CUDA driver, devices and NVRTC, once per process.

use crate::library::{
    Driver, LibraryProblem, NO_DEVICE, Nvrtc, SUCCESS, nvrtc_builtins, nvrtc_candidates, open_first,
};
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

/// The oldest supported compute capability, as major times ten plus minor.
pub const OLDEST_CAPABILITY: u32 = 80;

/// Why CUDA is unavailable. Errors, `assay doctor` and the log use the same message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CudaUnavailable {
    /// No driver could be opened.
    Driver {
        /// The paths tried, or the symbol that an old driver lacks.
        problem: LibraryProblem,
    },
    /// The driver failed to initialize.
    DriverFailed {
        /// The driver's message.
        message: String,
    },
    /// The driver has no devices.
    Devices,
    /// NVRTC could not be opened.
    Compiler {
        /// The paths tried.
        problem: LibraryProblem,
    },
    /// The device is older than the kernels.
    OldDevice {
        /// Its name.
        name: String,
        /// Its compute capability, as major times ten plus minor.
        capability: u32,
    },
    /// There is no device with this ordinal.
    Ordinal {
        /// The requested ordinal.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },
}

impl CudaUnavailable {
    /// A stable error code, for mapping to other languages.
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

    /// The message, without details.
    pub fn message(&self) -> String {
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

    /// The hint.
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
        write!(formatter, "{}\nhint: {}", self.message(), self.hint())
    }
}

impl std::error::Error for CudaUnavailable {}

/// Properties of a GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// The device ordinal.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability, as major times ten plus minor.
    pub capability: u32,
    /// Total memory.
    pub memory_bytes: u64,
    /// Streaming multiprocessors (SMs).
    pub multiprocessors: u32,
    /// L2 cache size.
    pub l2_bytes: u64,
    /// Maximum opt-in shared memory per CTA.
    pub shared_bytes: u32,
    /// Whether the driver supports stream-ordered allocation.
    pub memory_pools: bool,
}

impl DeviceInfo {
    /// Refuses an unsupported device.
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

/// The path and version of an opened library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryInfo {
    /// The file or name it was opened under.
    pub path: String,
    /// Major and minor version.
    pub version: (u32, u32),
}

/// The CUDA installation of this machine.
pub struct Installation {
    /// The driver.
    pub driver: Result<LibraryInfo, CudaUnavailable>,
    /// The driver's devices; empty without a driver.
    pub devices: Vec<DeviceInfo>,
    /// NVRTC.
    pub compiler: Result<LibraryInfo, CudaUnavailable>,
    pub(crate) driver_functions: Option<Driver>,
    pub(crate) compiler_functions: Option<Nvrtc>,
}

impl Installation {
    /// Why the GPU with this ordinal cannot be used, if so.
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
    /// A hint where NVRTC's major is newer than the driver's, which may not load its code.
    pub fn newer_compiler_hint(&self) -> Option<String> {
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

/// The CUDA installation of this machine; the first call searches.
pub fn discover() -> &'static Installation {
    static INSTALLATION: OnceLock<Installation> = OnceLock::new();
    INSTALLATION.get_or_init(search)
}

fn search() -> Installation {
    let (driver, driver_functions, devices) = match find_driver() {
        Ok((finding, functions, devices)) => (Ok(finding), Some(functions), devices),
        Err(missing) => (Err(missing), None, Vec::new()),
    };
    let major = driver.as_ref().ok().map(|finding| finding.version.0);
    let (compiler, compiler_functions) = match find_compiler(major) {
        Ok((finding, functions)) => (Ok(finding), Some(functions)),
        Err(problem) => (Err(CudaUnavailable::Compiler { problem }), None),
    };
    Installation { driver, devices, compiler, driver_functions, compiler_functions }
}

fn find_driver() -> Result<(LibraryInfo, Driver, Vec<DeviceInfo>), CudaUnavailable> {
    let absent = |problem| CudaUnavailable::Driver { problem };
    let opened = open_first(["libcuda.so.1", "libcuda.so"]).map_err(absent)?;
    let driver = Driver::load(&opened).map_err(absent)?;
    let failed = |status| CudaUnavailable::DriverFailed { message: driver.describe(status) };
    // SAFETY: initialization takes no flags.
    match unsafe { (driver.cuInit)(0) } {
        SUCCESS => {}
        NO_DEVICE => return Err(CudaUnavailable::Devices),
        status => return Err(failed(status)),
    }
    let (mut version, mut count): (c_int, c_int) = (0, 0);
    // SAFETY: each call stores one number.
    let statuses = unsafe {
        [(driver.cuDriverGetVersion)(&raw mut version), (driver.cuDeviceGetCount)(&raw mut count)]
    };
    if let Some(status) = statuses.into_iter().find(|status| *status != SUCCESS) {
        return Err(failed(status));
    }
    let facts: Result<Vec<DeviceInfo>, u32> =
        (0..count).map(|number| query_device(&driver, number)).collect();
    let devices = facts.map_err(failed)?;
    let version = u32::try_from(version).unwrap_or(0);
    let finding = LibraryInfo { path: opened.name, version: (version / 1000, version % 1000 / 10) };
    Ok((finding, driver, devices))
}

/// Queries the properties of a device; fails with the driver's status.
fn query_device(driver: &Driver, number: c_int) -> Result<DeviceInfo, u32> {
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
        // NVRTC opens it by name later, and finds the loaded one. If this fails, NVRTC reports it when
        // it compiles.
        let _ = open_first([builtins]);
    }
    let nvrtc = Nvrtc::load(&opened)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: stores two numbers, and cannot fail.
    unsafe { (nvrtc.nvrtcVersion)(&raw mut major, &raw mut minor) };
    let number = |value: c_int| u32::try_from(value).unwrap_or(0);
    let finding = LibraryInfo { path: opened.name, version: (number(major), number(minor)) };
    Ok((finding, nvrtc))
}
