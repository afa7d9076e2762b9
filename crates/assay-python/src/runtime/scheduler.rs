//! The scheduler of a device, for Python.

use std::collections::HashMap;
use std::sync::Arc;

use assay_runtime::memory::TenantId;
use assay_runtime::scheduler::{
    Class, Decision, Lane, PartitionId, PartitionLane, PartitionOptions, PerLane, PoolTenant, Rate,
    Scheduler, SchedulerOptions, TaskId, TaskLane, TaskOptions,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::context::PyContext;
use super::device_runtime::DeviceRuntime;
use super::errors;
use super::memory::DeviceClock;
use super::panic_guard::guarded;
use super::reentrancy::refuse_reentry;
use super::task::{PyTask, lane_named, or_raise, task_to_dict};

/// Units per second and the largest burst, by lane name.
type Rates = HashMap<String, (u64, u64)>;

/// Sequence, time, task, name, partition, lane, units, action and reason of a decision.
type DecisionTuple =
    (u64, u64, Option<u64>, String, u32, Option<&'static str>, u64, &'static str, String);

fn per_lane(rates: &Rates) -> PyResult<PerLane<Option<Rate>>> {
    let mut lanes = PerLane::default();
    for (name, (units_per_second, burst_units)) in rates {
        lanes[lane_named(name)?] =
            Some(Rate { units_per_second: *units_per_second, burst_units: *burst_units });
    }
    Ok(lanes)
}

/// Admission, grants and decisions for one device.
#[pyclass(name = "NativeScheduler", module = "assay._native", frozen)]
pub(super) struct PyScheduler {
    runtime: Arc<DeviceRuntime>,
    scheduler: Scheduler,
    /// Options of the lanes, for partitions that span the whole device.
    options: SchedulerOptions,
}

#[pymethods]
impl PyScheduler {
    /// Create a scheduler on the clock of a device, with the capacity of each lane per second.
    #[new]
    #[pyo3(signature = (
        context, *, memory_bytes, units_per_second, window_units, class_weights, decisions,
    ))]
    fn new(
        context: PyRef<'_, PyContext>,
        memory_bytes: u64,
        units_per_second: HashMap<String, u64>,
        window_units: HashMap<String, u64>,
        class_weights: (u32, u32, u32),
        decisions: usize,
    ) -> PyResult<Self> {
        guarded("scheduler", || {
            let runtime = Arc::clone(context.runtime());
            let mut rates = PerLane::from_fn(|_| 0);
            for (name, rate) in &units_per_second {
                rates[lane_named(name)?] = *rate;
            }
            let mut options = SchedulerOptions::new(memory_bytes, rates);
            for (name, units) in &window_units {
                options.lanes[lane_named(name)?].window_units = *units;
            }
            options.decisions = decisions;
            let (guaranteed, burstable, best_effort) = class_weights;
            options.guaranteed.weight = guaranteed;
            options.burstable.weight = burstable;
            options.best_effort.weight = best_effort;
            let clock = Arc::new(DeviceClock(Arc::clone(&runtime.backend)));
            Ok(PyScheduler {
                runtime,
                scheduler: or_raise(Scheduler::new(options.clone(), clock))?,
                options,
            })
        })
    }

    /// Add a partition with a name, memory, reservable rates and a weight.
    ///
    /// Without limits it spans the whole device. With a tenant, the memory pool backs the
    /// reservations of its tasks.
    #[pyo3(signature = (
        name, *, weight, memory_bytes=None, reservable=None, limits=None, tenant=None,
    ))]
    fn add_partition(
        &self,
        name: &str,
        weight: u32,
        memory_bytes: Option<u64>,
        reservable: Option<HashMap<String, u64>>,
        limits: Option<Rates>,
        tenant: Option<u32>,
    ) -> PyResult<u32> {
        guarded("partition", || {
            let mut options: PartitionOptions = self.options.whole_device(name);
            options.weight = weight;
            options.memory_bytes = memory_bytes.unwrap_or(options.memory_bytes);
            if let Some(reservable) = reservable {
                options.lanes = PerLane::default();
                for (lane, rate) in &reservable {
                    options.lanes[lane_named(lane)?].reservable_per_second = *rate;
                }
            }
            let limits = per_lane(&limits.unwrap_or_default())?;
            for lane in Lane::ALL {
                let PartitionLane { limit, .. } = &mut options.lanes[lane];
                *limit = limits[lane];
            }
            if let Some(tenant) = tenant {
                let pool = Arc::clone(&self.runtime.memory.pool);
                options.memory = Some(Arc::new(PoolTenant::new(pool, TenantId(tenant))));
            }
            Ok(or_raise(self.scheduler.add_partition(options))?.0)
        })
    }

    /// Remove a partition without tasks.
    fn remove_partition(&self, partition: u32) -> PyResult<()> {
        guarded("partition", || or_raise(self.scheduler.remove_partition(PartitionId(partition))))
    }

    /// Add a task; it is admitted immediately if its reservation is available.
    #[pyo3(signature = (
        name, *, partition, qos, weight, memory_bytes, reserved, limits, assumed_ns,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn submit(
        &self,
        py: Python<'_>,
        name: &str,
        partition: u32,
        qos: &str,
        weight: u32,
        memory_bytes: u64,
        reserved: Rates,
        limits: Rates,
        assumed_ns: u64,
    ) -> PyResult<PyTask> {
        guarded("task", || {
            refuse_reentry("task")?;
            let mut options = TaskOptions::new(name, PartitionId(partition));
            options.class = Class::of_name(qos).ok_or_else(|| errors::unknown_class(qos))?;
            options.weight = weight;
            options.memory_bytes = memory_bytes;
            let (reserved, limits) = (per_lane(&reserved)?, per_lane(&limits)?);
            options.lanes =
                PerLane::from_fn(|lane| TaskLane { reserved: reserved[lane], limit: limits[lane] });
            let task = py.detach(|| self.scheduler.submit(options));
            Ok(PyTask::new(&self.runtime, or_raise(task)?, assumed_ns))
        })
    }

    /// Process every event that is due.
    fn poll(&self, py: Python<'_>) -> PyResult<()> {
        guarded("poll", || or_raise(py.detach(|| self.scheduler.poll())))
    }

    /// The time of the next timed event, if any; drives virtual time.
    fn next_event_ns(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        guarded("next_event_ns", || or_raise(py.detach(|| self.scheduler.next_event_ns())))
    }

    /// The decisions since the last call, and how many were dropped.
    fn take_decisions(&self, py: Python<'_>) -> PyResult<(Vec<DecisionTuple>, u64)> {
        guarded("take_decisions", || {
            let taken = or_raise(py.detach(|| self.scheduler.take_decisions()))?;
            let rows = taken.records.iter().map(decision).collect();
            Ok((rows, taken.dropped))
        })
    }

    /// A snapshot of tasks, partitions and lanes.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        guarded("snapshot", || {
            let snapshot = or_raise(py.detach(|| self.scheduler.snapshot()))?;
            let found = PyDict::new(py);
            found.set_item("time_ns", snapshot.time_ns)?;
            found.set_item("idle", snapshot.is_idle())?;
            let tasks: PyResult<Vec<_>> =
                snapshot.tasks.iter().map(|one| task_to_dict(py, one)).collect();
            found.set_item("tasks", tasks?)?;
            let mut partitions = Vec::new();
            for partition in &snapshot.partitions {
                let row = PyDict::new(py);
                row.set_item("partition", partition.partition.0)?;
                row.set_item("name", &partition.name)?;
                row.set_item("tasks", partition.tasks)?;
                row.set_item("pending", partition.pending)?;
                row.set_item("reserved_bytes", partition.reserved_bytes)?;
                row.set_item("reserved_per_second", {
                    let rates = PyDict::new(py);
                    for lane in Lane::ALL {
                        rates.set_item(lane.name(), partition.reserved_per_second[lane])?;
                    }
                    rates
                })?;
                partitions.push(row);
            }
            found.set_item("partitions", partitions)?;
            Ok(found)
        })
    }

    /// Cancel a task by its id.
    fn cancel(&self, py: Python<'_>, task: u64) -> PyResult<()> {
        guarded("cancel", || or_raise(py.detach(|| self.scheduler.cancel(TaskId(task)))))
    }
}

fn decision(decision: &Decision) -> DecisionTuple {
    (
        decision.sequence,
        decision.time_ns,
        decision.task.map(|task| task.0),
        decision.name.to_string(),
        decision.partition.0,
        decision.lane.map(Lane::name),
        decision.units,
        decision.action.name(),
        decision.reason.to_string(),
    )
}
