//! Replay of captured graphs.
//!
//! Branch 0 of a graph runs on the launching stream. The other branches run on internal streams of
//! the graph, ordered by the records and waits that were captured.

use super::device::Device;
use super::graph::Graph;
use super::work::QueuedWork;
use crate::backend::{BackendError, GraphId, Operation, Result, StreamId};
use crate::streams::{CapturedCommand, Command};

impl Device {
    pub fn end_capture(&mut self, stream: StreamId) -> Result<GraphId> {
        let captured = self.streams.end_capture(stream)?;
        let branch_streams =
            (1..captured.branches).map(|_| self.streams.create_internal_stream()).collect();
        let graph = GraphId(self.streams.new_id());
        self.graphs.insert(graph, Graph { captured, branch_streams });
        Ok(graph)
    }

    pub fn launch_graph(&mut self, graph: GraphId, stream: StreamId) -> Result<()> {
        let operation = Operation::LaunchGraph;
        self.streams.check_not_capturing(operation, stream)?;
        let Some(found) = self.graphs.get(&graph) else {
            return Err(BackendError::UnknownGraph { operation, graph });
        };
        let streams = &mut self.streams;
        let tickets: Vec<u64> = (0..found.captured.records).map(|_| streams.new_ticket()).collect();
        // The branches start after what the launching stream has queued before the graph.
        let start = streams.new_ticket();
        let record = |ticket| Command::Record { ticket, event: None };
        streams.enqueue(stream, record(start));
        for branch_stream in &found.branch_streams {
            streams.enqueue(*branch_stream, Command::Wait { ticket: start });
        }
        let mut nodes = 0..;
        for (branch, command) in &found.captured.commands {
            let target = match branch.checked_sub(1) {
                Some(index) => found.branch_streams[index],
                None => stream,
            };
            let command = match command {
                CapturedCommand::Work(queued) => Command::Work(QueuedWork {
                    work: queued.work.clone(),
                    injected_failure: false,
                    node: nodes.next().map(|node| (stream, node)),
                }),
                CapturedCommand::Record(index) => record(tickets[*index]),
                CapturedCommand::Wait(index) => Command::Wait { ticket: tickets[*index] },
            };
            streams.enqueue(target, command);
        }
        Ok(())
    }

    pub fn destroy_graph(&mut self, graph: GraphId) -> Result<()> {
        let operation = Operation::DestroyGraph;
        let found =
            self.graphs.remove(&graph).ok_or(BackendError::UnknownGraph { operation, graph })?;
        for stream in found.branch_streams {
            self.streams.close_stream(stream);
        }
        Ok(())
    }
}
