//! Capture of queued work into graphs, and their replay.
//!
//! Each stream that takes part in a capture becomes a lane. On replay the first lane runs on the
//! launching stream and the others on streams of the graph's own, ordered among themselves by the
//! events that were recorded and waited for during capture.

use super::command::{Command, Work};
use super::device::{Device, Mark};
use crate::backend::{BackendError, EventId, GraphId, Operation, Result, StreamId, StreamPriority};

#[derive(Clone, Debug)]
pub(super) enum Node {
    Work(Work),
    Record(usize),
    Wait(usize),
}

/// A capture under way.
#[derive(Default)]
pub(super) struct Capture {
    /// Streams that take part; the first one began it.
    lanes: Vec<StreamId>,
    /// What was queued, in order, with its lane.
    nodes: Vec<(usize, Node)>,
    /// How many events were recorded inside.
    locals: usize,
}

/// A finished capture, ready to run.
pub(super) struct Graph {
    nodes: Vec<(usize, Node)>,
    locals: usize,
    /// The graph's own streams, for lanes one and up.
    lane_streams: Vec<StreamId>,
}

impl Capture {
    /// The first stream whose last captured work nobody on the first lane waits for.
    fn unjoined(&self) -> Option<StreamId> {
        let mut joined = vec![false; self.lanes.len()];
        joined[0] = true;
        loop {
            let found = (1..self.lanes.len()).find(|&lane| {
                let last = self.nodes.iter().rev().find(|(of, _)| *of == lane);
                !joined[lane]
                    && match last {
                        Some((_, Node::Record(local))) => self.nodes.iter().any(
                            |(of, node)| matches!(node, Node::Wait(for_) if for_ == local && joined[*of]),
                        ),
                        _ => false,
                    }
            });
            match found {
                Some(lane) => joined[lane] = true,
                None => break,
            }
        }
        let lane = joined.iter().position(|joined| !joined)?;
        Some(self.lanes[lane])
    }
}

impl Device {
    pub fn begin_capture(&mut self, stream: StreamId) -> Result<()> {
        let operation = Operation::BeginCapture;
        let capture = self.fresh_number();
        let found = self.stream(operation, stream)?;
        if found.capture.is_some() {
            return Err(BackendError::Capturing { operation, stream });
        }
        found.capture = Some((capture, 0));
        self.captures.insert(
            capture,
            Capture {
                lanes: vec![stream],
                ..Capture::default()
            },
        );
        Ok(())
    }

    /// Notes the work if the stream is being captured, and says whether it was.
    pub fn capture_work(&mut self, stream: StreamId, work: &Work) -> Result<bool> {
        let Some((capture, lane)) = self.stream(work.operation(), stream)?.capture else {
            return Ok(false);
        };
        if let Some(capture) = self.captures.get_mut(&capture) {
            capture.nodes.push((lane, Node::Work(work.clone())));
        }
        Ok(true)
    }

    /// Records an event inside a capture, and says whether the stream was in one.
    pub fn capture_record(&mut self, event: EventId, stream: StreamId) -> Result<bool> {
        let Some((id, lane)) = self.stream(Operation::RecordEvent, stream)?.capture else {
            return Ok(false);
        };
        if let Some(capture) = self.captures.get_mut(&id) {
            let local = capture.locals;
            capture.locals += 1;
            capture.nodes.push((lane, Node::Record(local)));
            self.events.insert(
                event,
                Mark::Captured {
                    capture: id,
                    local,
                    stream,
                },
            );
        }
        Ok(true)
    }

    /// Waits for an event recorded inside a capture; the waiting stream joins that capture.
    pub fn capture_wait(&mut self, stream: StreamId, id: u64, local: usize) -> Result<()> {
        let operation = Operation::WaitEvent;
        let refused = BackendError::Capturing { operation, stream };
        let current = self.stream(operation, stream)?.capture;
        let Some(capture) = self.captures.get_mut(&id) else {
            return Err(refused);
        };
        let lane = match current {
            Some((other, _)) if other != id => return Err(refused),
            Some((_, lane)) => lane,
            None => {
                capture.lanes.push(stream);
                capture.lanes.len() - 1
            }
        };
        capture.nodes.push((lane, Node::Wait(local)));
        self.stream(operation, stream)?.capture = Some((id, lane));
        Ok(())
    }

    pub fn end_capture(&mut self, stream: StreamId) -> Result<GraphId> {
        let operation = Operation::EndCapture;
        let Some((id, 0)) = self.stream(operation, stream)?.capture else {
            return Err(BackendError::NotCapturing { stream });
        };
        let Some(capture) = self.captures.remove(&id) else {
            return Err(BackendError::NotCapturing { stream });
        };
        for lane in &capture.lanes {
            // A stream destroyed meanwhile has nothing left to release.
            if let Ok(found) = self.stream(operation, *lane) {
                found.capture = None;
            }
        }
        if let Some(left) = capture.unjoined() {
            return Err(BackendError::UnjoinedCapture {
                origin: stream,
                stream: left,
            });
        }
        let lane_streams = (1..capture.lanes.len())
            .map(|_| self.create_stream(StreamPriority::Normal, true))
            .collect();
        let graph = GraphId(self.fresh_number());
        self.graphs.insert(
            graph,
            Graph {
                nodes: capture.nodes,
                locals: capture.locals,
                lane_streams,
            },
        );
        Ok(graph)
    }

    pub fn launch_graph(&mut self, graph: GraphId, stream: StreamId) -> Result<()> {
        let operation = Operation::LaunchGraph;
        if self.stream(operation, stream)?.capture.is_some() {
            return Err(BackendError::Capturing { operation, stream });
        }
        // Taken out while it is queued, because queueing needs the whole device.
        let Some(found) = self.graphs.remove(&graph) else {
            return Err(BackendError::UnknownGraph { operation, graph });
        };
        let tickets: Vec<u64> = (0..found.locals).map(|_| self.fresh_ticket()).collect();
        let start = self.fresh_ticket();
        let event = None;
        self.enqueue(
            stream,
            Command::Record {
                ticket: start,
                event,
            },
        );
        for lane_stream in &found.lane_streams {
            self.enqueue(*lane_stream, Command::Wait { ticket: start });
        }
        let mut pieces = 0..;
        for (lane, node) in &found.nodes {
            let target = match lane.checked_sub(1) {
                Some(index) => found.lane_streams[index],
                None => stream,
            };
            let command = match node {
                Node::Work(work) => Command::Work {
                    work: work.clone(),
                    fails: false,
                    node: pieces.next().map(|piece| (stream, piece)),
                },
                Node::Record(local) => Command::Record {
                    ticket: tickets[*local],
                    event,
                },
                Node::Wait(local) => Command::Wait {
                    ticket: tickets[*local],
                },
            };
            self.enqueue(target, command);
        }
        self.graphs.insert(graph, found);
        Ok(())
    }

    pub fn destroy_graph(&mut self, graph: GraphId) -> Result<()> {
        let operation = Operation::DestroyGraph;
        let found = self
            .graphs
            .remove(&graph)
            .ok_or(BackendError::UnknownGraph { operation, graph })?;
        for stream in found.lane_streams {
            self.close_stream(stream);
        }
        Ok(())
    }
}
