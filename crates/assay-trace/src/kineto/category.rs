//! What an event is, by the category and name its source gives.

use crate::schema::Kind;

/// Categories of Kineto, and of the profiler of PyTorch before it, in lower case; frequent ones first.
const CATEGORIES: [(&str, Kind); 30] = [
    ("kernel", Kind::Kernel),
    ("cuda_runtime", Kind::Api),
    ("cpu_op", Kind::Host),
    ("python_function", Kind::Host),
    ("cuda_driver", Kind::Api),
    ("gpu_memcpy", Kind::Memcpy),
    ("user_annotation", Kind::Range),
    ("concurrent_kernel", Kind::Kernel),
    ("memcpy", Kind::Memcpy),
    ("gpu_memset", Kind::Memset),
    ("memset", Kind::Memset),
    ("cuda_sync", Kind::Sync),
    ("synchronization", Kind::Sync),
    ("hip_runtime", Kind::Api),
    ("hip_api", Kind::Api),
    ("xpu_runtime", Kind::Api),
    ("mtia_runtime", Kind::Api),
    ("glow_runtime", Kind::Api),
    ("privateuse1_runtime", Kind::Api),
    ("privateuse1_driver", Kind::Api),
    ("runtime", Kind::Api),
    ("operator", Kind::Host),
    ("cpu_instant_event", Kind::Instant),
    ("gpu_user_annotation", Kind::Range),
    ("cuda_profiler_range", Kind::Range),
    ("nvtx", Kind::Range),
    ("trace", Kind::Range),
    ("async_cpu_to_gpu", Kind::Range),
    ("ac2g", Kind::Range),
    ("overhead", Kind::Overhead),
];

/// The kind of an event with a duration; host code where the category is none of the known ones.
pub(crate) fn kind(category: &str, name: &str) -> Kind {
    // The common ones first; a hit is one comparison of lengths and one of bytes.
    let known = CATEGORIES.iter().find(|(known, _)| *known == category);
    let known = known.or_else(|| {
        let mut all = CATEGORIES.iter();
        all.find(|(known, _)| known.eq_ignore_ascii_case(category))
    });
    match known {
        Some((_, Kind::Api)) if is_synchronization(name) => Kind::Sync,
        Some(&(_, kind)) => kind,
        None => Kind::Host,
    }
}

/// Whether a flow repeats what the correlation of its two events says.
pub(crate) fn is_redundant_flow(category: &str) -> bool {
    category == "ac2g" || category == "async_cpu_to_gpu"
}

/// Whether a call waits: cudaStreamSynchronize, cuCtxSynchronize, cudaStreamWaitEvent, their
/// hip counterparts, and their variants with a suffix (_v2, _ptsz).
fn is_synchronization(name: &str) -> bool {
    let call = name.split_once('_').map_or(name, |(call, _)| call);
    call.ends_with("Synchronize") || call.ends_with("WaitEvent") || call.ends_with("Sync")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_wait_are_told_apart() {
        let cases = [
            ("cuda_runtime", "cudaDeviceSynchronize", Kind::Sync),
            ("cuda_runtime", "cudaStreamWaitEvent", Kind::Sync),
            ("cuda_driver", "cuStreamSynchronize_ptsz", Kind::Sync),
            ("cuda_driver", "cuCtxSynchronize_v2", Kind::Sync),
            ("cuda_runtime", "hipEventSynchronize", Kind::Sync),
            ("cuda_sync", "Stream Wait Event", Kind::Sync),
            ("cuda_sync", "Context Sync", Kind::Sync),
            ("cuda_runtime", "cudaLaunchKernel", Kind::Api),
            ("cuda_runtime", "cudaMemcpyAsync", Kind::Api),
            ("cpu_op", "torch.cuda.synchronize", Kind::Host),
            ("Kernel", "gemm", Kind::Kernel),
            ("Trace", "PyTorch Profiler (0)", Kind::Range),
            ("", "something", Kind::Host),
            ("unheard of", "something", Kind::Host),
        ];
        for (category, name, expected) in cases {
            assert_eq!(kind(category, name), expected, "{category} {name}");
        }
    }
}
